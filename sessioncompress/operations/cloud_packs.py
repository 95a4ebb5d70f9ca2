"""Packs in object stores: made and read by the same code in a temporary folder, of which a part is there at a time.

The order of the puts is that of the writes on a disk: archive, read back; index; and only then each session, if it is
still the one that was read. No store deletes on a condition by our library, so what is packed becomes an empty object,
which is as atomic as any put. What it was stands in the index.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from sessioncompress.errors import FileFailed, InUse, Refused, SessionCompressError, UsageError
from sessioncompress.operations import cloud, objects, packed
from sessioncompress.operations.batch import Outcome, outcome_of
from sessioncompress.operations.cloud import Copy, Places
from sessioncompress.operations.objects import MB, NOTHING, Object
from sessioncompress.operations.pack import PackStats, pack_sessions
from sessioncompress.operations.packed import Packed, UnpackStats
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, Remote
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk, packing
from sessioncompress.store.layout import FOLDER, store_in
from sessioncompress.store.pack import ARCHIVE, INDEX, Entry, State, read_index
from sessioncompress.store.packing import PACKS, Pack

T = TypeVar("T")

BATCH = 1024 * MB
"""Bytes of sessions and stores behind which a pack ends: what is fetched lies in a temporary folder until then."""
_LONGEST_INDEX = 64 * MB
_AT_ONCE = 8
_TRIES = 5
_IN_PACK = "It is in the pack."
_NOT_TAKEN = "No session is taken from its place."


class _Fetched(NamedTuple):
    """A session in the temporary folder. `copy` is None for one that is gone, and of which only a store is left."""

    found: Found
    path: Path
    copy: Copy | None
    store: tuple[Object, ...]

    @property
    def size(self) -> int:
        return sum(each.size for each in (*([self.copy.session] if self.copy else []), *self.store))


def pack(
    found: Iterable[Found], places: Places, policy: Policy, *, dry_run: bool = False
) -> Iterator[Outcome[PackStats]]:
    """Pack sessions: those of one project, below one of the URLs, together; yield what became of each.

    A session that was named is packed in what is above it. With `dry_run` nothing is changed.
    """
    prefixes = [_normal(url) for url in places.urls]
    by_root: dict[str, list[Found]] = {}
    for each in found:
        url = each.shown
        root = next((prefix for prefix in prefixes if url.startswith(f"{prefix}/")), url.rpartition("/")[0])
        by_root.setdefault(root, []).append(each)
    for root, these in by_root.items():
        known: dict[str, set[str]] = {}
        try:
            for name in _names_in(root):
                with _opened(root, name) as (old, _):
                    for entry in old.index.entries:
                        if entry.state is State.PACKED:
                            known.setdefault(f"{root}/{entry.path}", set()).add(name)
        except SessionCompressError as error:
            yield Outcome(_at(root), error=error)
            continue
        # One that is gone and in no pack is no matter of this command.
        left = iter([each for each in these if each.error is None or each.shown in known])
        while rest := list(islice(left, 1)):
            try:
                yield from _packed(root, _first(rest[0], left), known, policy, dry_run=dry_run)
            except SessionCompressError as error:
                yield Outcome(_at(root), error=error)


def _first(one: Found, others: Iterator[Found]) -> Iterator[Found]:
    yield one
    yield from others


def _packed(
    root: str, left: Iterator[Found], known: dict[str, set[str]], policy: Policy, *, dry_run: bool
) -> Iterator[Outcome[PackStats]]:
    """Pack as many sessions as there is room for."""
    with cloud.temporary(root) as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        fetched: dict[Path, _Fetched] = {}
        size = 0
        while size < BATCH and (some := list(islice(left, _AT_ONCE))):
            for outcome in pool.map(lambda each: outcome_of(_there(each), lambda: _fetch(root, folder, each)), some):
                if outcome.result is None:
                    yield Outcome(outcome.found, error=outcome.error, passed_over=outcome.passed_over)
                else:
                    fetched[outcome.result.path] = outcome.result
                    size += outcome.result.size
        olds = {name for each in fetched.values() for name in known.get(each.found.shown, ())} if not dry_run else ()
        indexes = {name: _fetch_whole(root, folder, name) for name in olds}
        sessions = [Found(each.path, named=each.found.named) for each in fetched.values() if each.copy]
        outcomes = list(pack_sessions(sessions, [folder], lambda _: policy, dry_run=dry_run))
        archives: dict[str, str] = {}
        if not dry_run:
            archives = _put_packs(root, folder, indexes)
        yield from _taken_out(root, folder, fetched, outcomes, archives, pool)


def _there(found: Found) -> Found:
    return Found(found.path, named=found.named, remote=found.remote)


def _fetch(root: str, folder: Path, found: Found) -> _Fetched:
    """Fetch a session with its store to its place below the folder. Raises SessionCompressError."""
    assert found.remote is not None
    url = found.remote.url
    *above, name = url.removeprefix(f"{root}/").split("/")
    cloud.refuse_unless_file(url, *above, name)
    path = folder.joinpath(*above, name)
    disk.make_folder(path.parent)
    if found.error is None:
        copy = cloud.copied(found.remote, path.parent, writes=True)
        return _Fetched(found, path, copy, tuple(each for each in (copy.originals, copy.journal) if each.found))
    store, where = store_in(path), url.rpartition("/")[0]
    left = (objects.fetched(f"{where}/{FOLDER}/{each.name}", each) for each in (store.originals, store.journal))
    return _Fetched(found, path, None, tuple(each for each in left if each.found))


def _put_packs(root: str, folder: Path, indexes: dict[str, Object]) -> dict[str, str]:
    """Put the packs that were made, and what was noted in older ones; return their names there by those here."""
    names = {name: name for name in indexes}
    for made in packing.packs_in(folder):
        if isinstance(made, Pack) and made.name not in indexes:
            # No other run has the name: an archive is put in parts, for which there is no condition.
            names[made.name] = f"{made.name.rpartition('-')[0]}-{os.urandom(8).hex()}"
            url = _url(root, names[made.name])
            objects.put_new(url + ARCHIVE, made.archive, _NOT_TAKEN)
            index = Object(url + INDEX, made.archive.with_name(made.name + INDEX))
            _refuse_unless_holds(url + ARCHIVE, made.archive)
            index.put(state=_NOT_TAKEN)
            _refuse_unless_holds(index.url, index.path)
    for index in indexes.values():
        if not index.path.exists():
            _drop(index)
        elif index.is_changed:
            index.put(state=_NOT_TAKEN)
    return names


def _refuse_unless_holds(url: str, path: Path, state: str = _NOT_TAKEN) -> None:
    if not objects.holds(url, path, state):
        raise FileFailed("it does not read back as it was put", where=url, state=state, remedy="Run again.")


def _taken_out(
    root: str,
    folder: Path,
    fetched: dict[Path, _Fetched],
    outcomes: Iterable[Outcome[PackStats]],
    archives: dict[str, str],
    pool: ThreadPoolExecutor,
) -> Iterator[Outcome[PackStats]]:
    """Empty the objects of what the packs have; yield what became of each session."""
    left: dict[str, dict[str, State]] = {}

    def take(outcome: Outcome[PackStats]) -> Outcome[PackStats]:
        here = fetched.get(outcome.found.path)
        if here is None or outcome.result is None:
            if outcome.error:
                objects.tell(outcome.error, root, folder)
            return outcome._replace(found=_there(here.found) if here else _at(root))
        name = Path(outcome.result.archive).name.removesuffix(ARCHIVE)
        result = replace(outcome.result, archive=_url(root, archives[name]) + ARCHIVE) if archives else outcome.result
        became = outcome_of(_there(here.found), lambda: _empty(here, result) if archives else result)
        if isinstance(became.error, InUse):
            left.setdefault(archives[name], {})[str(here.path.relative_to(folder))] = State.LEFT
        return became

    yield from pool.map(take, outcomes)
    # What a killed run had left of a store: here it is gone, since its pack reads back.
    for here in fetched.values():
        if here.copy is None and archives:
            _empty_store([each for each in here.store if not each.path.exists()])
    for name, states in left.items():
        _mark(root, name, states)


def _empty(here: _Fetched, result: PackStats) -> PackStats:
    assert here.copy is not None
    here.copy.session.put(empty=True)
    _empty_store(here.store)
    return result


def _empty_store(store: Iterable[Object]) -> None:
    for each in store:
        # A run that wrote it meanwhile adds to it, and fails at the session. What it began with is in the pack.
        with suppress(InUse):
            each.put(empty=True, state="Its session is packed; the next 'pack' takes what is left of its store.")


def unpack(urls: Sequence[str], *, dry_run: bool = False) -> Iterator[Outcome[UnpackStats]]:
    """Bring the packed sessions back that URLs mean, byte for byte: of sessions, prefixes or archives.

    Raises UsageError where there are none.
    """
    places = Places(urls)
    chosen: dict[tuple[str, str], set[str]] = {}
    for each, wrong in _meant(places):
        if wrong is not None:
            yield Outcome(_at(each.root), error=wrong)
        else:
            chosen.setdefault((each.root, each.name), set()).add(each.path)
    if not chosen:
        raise UsageError("no packed session is meant by it", where=urls[0], state=NOTHING)
    for (root, name), paths in chosen.items():
        try:
            yield from _unpacked(root, name, paths, dry_run=dry_run)
        except SessionCompressError as error:
            yield Outcome(_at(root), error=error)


def _unpacked(root: str, name: str, paths: set[str], *, dry_run: bool) -> Iterator[Outcome[UnpackStats]]:
    with _opened(root, name) as (old, _):
        folder = old.root
        wanted = [each for each in old.index.entries if each.path in paths and each.state is State.PACKED]
        for entries in _batches(wanted):
            done: dict[str, State] = {}
            by_place = {folder / entry.path: entry for entry in entries}
            if not dry_run:
                _fetch_frames(old, entries, root)
            for outcome in packed.unpack_sessions([Packed(old, entry) for entry in entries], dry_run=dry_run):
                entry = by_place.get(outcome.found.path)
                if entry is None or outcome.result is None:
                    if outcome.error is not None:
                        objects.tell(outcome.error, root, folder)
                    yield outcome._replace(found=_at(f"{root}/{entry.path}" if entry else root))
                    continue
                became = outcome._replace(found=_at(f"{root}/{entry.path}"))
                if not dry_run:
                    put_back = partial(_put_back, root, folder, entry, outcome.result)
                    became = outcome_of(became.found, put_back)
                if became.error is None:
                    done[entry.path] = State.UNPACKED
                yield became
            if done and not dry_run:
                _mark(root, name, done)
            for path in by_place:
                disk.remove(path)


def _put_back(root: str, folder: Path, entry: Entry, result: T) -> T:
    """Put the objects of a session, where nothing is overwritten; the session comes last."""
    first, *others = entry.members
    if first.size > cloud.LARGEST:
        what = f"it has more than {cloud.LARGEST // MB:,} MB, the most that is put into an object store"
        raise Refused(what, where=f"{root}/{first.path}", state=_IN_PACK, remedy="Unpack a copy of the pack on a disk.")
    places = [objects.met(f"{root}/{each.path}", folder / each.path) for each in (*others, first)]
    missing: list[Object] = []
    for member, there in zip((*others, first), places, strict=True):
        if there.size == 0:
            missing.append(there)
        # A store may have been added to by a run that failed at the session.
        elif not objects.begins(there.url, there.path, whole=member is first):
            what = "another object is in its place"
            state = "It is not changed; the packed one is in the pack."
            raise Refused(what, where=there.url, state=state, remedy="Move it away, and run again.")
    for there in missing:
        there.put(state=_IN_PACK)
    for there in missing:
        _refuse_unless_holds(there.url, there.path, _IN_PACK)
    return result


def each_packed(
    places: Places, globs: Globs, older_than: int | None, work: Callable[[Path, Path], T]
) -> Iterator[Outcome[T]]:
    """Do some work on the packed sessions that URLs mean: on a place in a temporary folder, and a copy."""
    chosen: dict[tuple[str, str], set[str]] = {}
    for each, wrong in _meant(places, globs, older_than):
        if wrong is not None:
            yield Outcome(_at(each.root), error=wrong)
        elif not each.is_there:
            chosen.setdefault((each.root, each.name), set()).add(each.path)
    for (root, name), paths in chosen.items():
        try:
            with _opened(root, name) as (old, _):
                for entries in _batches([each for each in old.index.entries if each.path in paths]):
                    _fetch_frames(old, entries, root)
                    for outcome in packed.each_packed([Packed(old, entry) for entry in entries], work):
                        if outcome.error is not None:
                            objects.tell(outcome.error, root, old.root)
                        url = f"{root}/{outcome.found.path.relative_to(old.root).as_posix()}"
                        yield outcome._replace(found=_at(url))
                    disk.remove(old.archive)
        except SessionCompressError as error:
            yield Outcome(_at(root), error=error)


class _Meant(NamedTuple):
    """A packed session: the folder that was packed, the pack, and its path. `is_there`: at its place, too."""

    root: str
    name: str = ""
    path: str = ""
    changed_ns: int = 0
    is_there: bool = False


def _meant(
    places: Places, globs: Globs = EVERYTHING, older_than: int | None = None
) -> Iterator[tuple[_Meant, SessionCompressError | None]]:
    """Find the packed sessions that URLs mean, each once, and what is wrong with a pack.

    Where two packs have one, as two runs at once may leave it, the newest counts.
    """
    newest: dict[str, _Meant] = {}
    for url in places.urls:
        normal = _normal(url)
        for root, name in _packs_of(places, url):
            try:
                with _opened(root, name) as (old, _):
                    for entry in old.index.entries:
                        at = f"{root}/{entry.path}"
                        below = at.removeprefix(f"{normal}/") if at.startswith(f"{normal}/") else entry.path
                        is_meant = (
                            at == normal
                            or below != entry.path
                            or root == normal
                            or _url(root, name) + ARCHIVE == normal
                        )
                        changed = entry.members[0].mtime_ns
                        if not (entry.state is State.PACKED and is_meant and globs.takes(below)):
                            continue
                        if older_than is not None and time.time() - changed / 1e9 < older_than:
                            continue
                        if at not in newest or newest[at].changed_ns < changed:
                            newest[at] = _Meant(root, name, entry.path, changed, _is_there(places, url, at))
            except SessionCompressError as error:
                yield _Meant(root), error
    yield from ((each, None) for each in newest.values())


def _is_there(places: Places, url: str, at: str) -> bool:
    """Tell whether an object that is not empty is at a place."""
    listing = places.listing(url)
    if listing is not None and at.startswith(listing.root + listing.begins):
        there = listing.present.get(at.removeprefix(listing.root))
        return there is not None and there.size > 0
    found = objects.looked_up(at)
    return found is not None and found["size"] > 0


def _packs_of(places: Places, url: str) -> Iterator[tuple[str, str]]:
    """Find the packs below a URL, and those that lie above it: each has what was packed, and its name."""
    listing = places.listing(url)
    if listing is not None:
        for key, each in listing.packs.items():
            if key.endswith(INDEX) and each.size:
                folder, _, name = (listing.root + key).rpartition("/")
                yield folder.removesuffix(f"/{FOLDER}/{PACKS}"), name.removesuffix(INDEX)
    bucket, above = objects.root_of(url).rstrip("/"), _normal(url)
    while above != bucket:
        above = above.rpartition("/")[0]
        yield from ((above, name) for name in _names_in(above))


def _names_in(root: str) -> list[str]:
    """List the packs of a folder. Raises UsageError, FileFailed."""
    found = [each for each in objects.listed(f"{root}/{FOLDER}/{PACKS}") if each["size"]]
    names = [each["path"].rpartition("/")[2] for each in found]
    return [name.removesuffix(INDEX) for name in names if name.endswith(INDEX)]


@contextmanager
def _opened(root: str, name: str) -> Iterator[tuple[Pack, Object]]:
    """Fetch an index into a temporary folder that stands for what was packed. Raises Damaged, FileFailed."""
    with cloud.temporary(root) as folder:
        index = _fetch_index(root, folder, name)
        yield Pack(folder, name, read_index(index.path)), index


def _fetch_index(root: str, folder: Path, name: str) -> Object:
    path = packing.packs_of(folder) / f"{name}{INDEX}"
    index = objects.fetched(f"{_url(root, name)}{INDEX}", path, _LONGEST_INDEX)
    if index.found is None:
        raise InUse("another run has just removed it", where=index.url, state=NOTHING, remedy="Run again.")
    return index


def _fetch_whole(root: str, folder: Path, name: str) -> Object:
    index = _fetch_index(root, folder, name)
    archive = packing.packs_of(folder) / f"{name}{ARCHIVE}"
    objects.fetched(_url(root, name) + ARCHIVE, archive)
    return index


def _fetch_frames(old: Pack, entries: Iterable[Entry], root: str) -> None:
    """Fetch of an archive what holds some sessions; the rest of the file is a hole."""
    starts = sorted({each.frame for each in old.index.entries} | {old.index.size})
    disk.remove(old.archive)
    with disk.closing(disk.create(old.archive)) as fd:
        for frame in sorted({each.frame for each in entries}):
            end = next((each for each in starts if each > frame), old.index.size)
            os.lseek(fd, frame, os.SEEK_SET)
            for piece in objects.ranged(_url(root, old.name) + ARCHIVE, frame, end):
                disk.write_all(fd, piece)


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Divide sessions, in the order of their archive, into parts that there is room for."""
    part: list[Entry] = []
    size = 0
    for entry in sorted(entries, key=lambda entry: (entry.frame, entry.members[0].start)):
        if part and size + entry.size > BATCH:
            yield part
            part, size = [], 0
        part.append(entry)
        size += entry.size
    if part:
        yield part


def _mark(root: str, name: str, states: dict[str, State]) -> None:
    """Note in an index what became of sessions, whoever else notes something; remove a pack that holds none."""
    for number in range(_TRIES):
        with _opened(root, name) as (old, index):
            old.mark(states)
            try:
                index.put(state="The sessions are at their places, and in the pack too.")
            except InUse:
                if number == _TRIES - 1:
                    raise
                continue
            if all(each.state is not State.PACKED for each in old.index.entries):
                _drop(index)
            return


def _drop(index: Object) -> None:
    """Empty a pack all of whose sessions are at their places, the index first."""
    with suppress(InUse):
        index.put(empty=True)
        objects.met(index.url.removesuffix(INDEX) + ARCHIVE, index.path).put(empty=True)


def _normal(url: str) -> str:
    """Write a URL without a slash at its end."""
    root = objects.root_of(url)
    return (root + url[len(root) :]).rstrip("/")


def _url(root: str, name: str) -> str:
    return f"{root}/{FOLDER}/{PACKS}/{name}"


def _at(url: str) -> Found:
    return Found(Path(url), named=True, remote=Remote(url, 0, 0))
