"""Read packs in object stores, and bring sessions back from them: of an archive only the frames that it takes come."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from sessioncompress.errors import Damaged, FileFailed, InUse, Refused, SessionCompressError, UsageError
from sessioncompress.operations import cloud, objects, packed
from sessioncompress.operations.batch import Outcome, outcome_of
from sessioncompress.operations.cloud import Places
from sessioncompress.operations.objects import MB, NOTHING, Object
from sessioncompress.operations.packed import Packed, UnpackStats
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, Remote
from sessioncompress.store import disk, packing
from sessioncompress.store.layout import ARCHIVE, FOLDER, PACKS
from sessioncompress.store.pack import INDEX, Entry, State, read_index
from sessioncompress.store.packing import Pack

T = TypeVar("T")

BATCH = 1024 * MB
"""Bytes of sessions and stores behind which a pack ends: what is fetched lies in a temporary folder until then."""
_LONGEST_INDEX = 64 * MB
_LARGEST_ARCHIVE = 4 * BATCH
"""Bytes. None of ours has as many: its last session, and that one's store, may come on top of a batch."""
AT_ONCE = 8
_TRIES = 5
_IN_PACK = "It is in the pack."


def unpack(urls: Sequence[str], *, dry_run: bool = False) -> Iterator[Outcome[UnpackStats]]:
    """Bring the packed sessions back that URLs mean, byte for byte: of sessions, prefixes or archives.

    Raises UsageError where there are none.
    """
    places = Places(urls)
    chosen: dict[tuple[str, str], set[str]] = {}
    for each, wrong in _meant(places):
        if wrong is not None:
            yield Outcome(found_at(each.root), error=wrong)
        else:
            chosen.setdefault((each.root, each.name), set()).add(each.path)
    if not chosen:
        raise UsageError("no packed session matches it", where=urls[0], state=NOTHING)
    for (root, name), paths in chosen.items():
        try:
            yield from _unpacked(root, name, paths, dry_run=dry_run)
        except SessionCompressError as error:
            yield Outcome(found_at(root), error=error)


def _unpacked(root: str, name: str, paths: set[str], *, dry_run: bool) -> Iterator[Outcome[UnpackStats]]:
    with opened(root, name) as (old, _), ThreadPoolExecutor(AT_ONCE) as pool:
        wanted: list[Entry] = []
        for entry in old.index.entries:
            if entry.path in paths and entry.state is State.PACKED:
                checked = outcome_of(found_at(f"{root}/{entry.path}"), partial(_refuse_if_large, root, entry))
                if checked.error is None:
                    wanted.append(entry)
                else:
                    yield Outcome(checked.found, error=checked.error)
        for entries in _batches(wanted):
            by_place = {old.root / entry.path: entry for entry in entries}
            if not dry_run:
                _fetch_frames(old, entries, root)

            def put_back(outcome: Outcome[UnpackStats]) -> Outcome[UnpackStats]:
                entry = by_place.get(outcome.found.path)  # noqa: B023 - called before the next ones
                found = found_at(f"{root}/{entry.path}" if entry else root)
                if entry is None or outcome.result is None or dry_run:
                    if outcome.error is not None:
                        objects.tell(outcome.error, root, old.root)
                    return outcome._replace(found=found)
                return outcome_of(found, partial(_put_back, root, old.root, entry, outcome.result))

            became = packed.unpack_sessions([Packed(old, entry) for entry in entries], dry_run=dry_run)
            done: dict[str, State] = {}
            for outcome in pool.map(put_back, list(became)):
                if outcome.result is not None:
                    done[outcome.found.shown.removeprefix(f"{root}/")] = State.UNPACKED
                yield outcome
            if done and not dry_run:
                mark(root, name, done)
            for path in by_place:
                disk.remove(path)


def refuse_unless_holds(url: str, path: Path, state: str) -> None:
    """Read an object back. Raises FileFailed where it is not as the file."""
    if not objects.holds(url, path, state):
        raise FileFailed("it does not read back as it was uploaded", where=url, state=state, remedy="Run again.")


def _put_back(root: str, folder: Path, entry: Entry, result: T) -> T:
    """Put the objects of a session, where nothing is overwritten; the session comes last."""
    first, *others = entry.members
    places = [objects.met(f"{root}/{each.path}", folder / each.path) for each in (*others, first)]
    missing: list[Object] = []
    for member, there in zip((*others, first), places, strict=True):
        if there.size == 0:
            missing.append(there)
        # A store may have been added to by a run that failed at the session.
        elif not objects.begins(there.url, there.path, whole=member is first):
            what = "there is another object in its place"
            state = "It was not changed; the packed one is in the pack."
            raise Refused(what, where=there.url, state=state, remedy="Move it away, and run again.")
    for there in missing:
        there.put(state=_IN_PACK)
    for there in missing:
        try:
            refuse_unless_holds(there.url, there.path, _IN_PACK)
        except FileFailed as error:
            if not there.is_overwritten():
                raise
            what = "somebody else wrote it as soon as it was back"
            state = "What they wrote is there; the packed one is in the pack, too."
            raise InUse(what, where=there.url, state=state, remedy="Check that they began with it.") from error
    return result


def each_packed(
    places: Places, globs: Globs, older_than: int | None, work: Callable[[Path, Path], T]
) -> Iterator[Outcome[T]]:
    """Do some work on the packed sessions that URLs mean: on a place in a temporary folder, and a copy."""
    chosen: dict[tuple[str, str], set[str]] = {}
    for each, wrong in _meant(places, globs, older_than):
        if wrong is not None:
            yield Outcome(found_at(each.root), error=wrong)
        elif not each.is_there:
            chosen.setdefault((each.root, each.name), set()).add(each.path)
    for (root, name), paths in chosen.items():
        try:
            with opened(root, name) as (old, _):
                wanted = [each for each in old.index.entries if each.path in paths]
                for entry in wanted:
                    _refuse_if_large(root, entry)
                for entries in _batches(wanted):
                    _fetch_frames(old, entries, root)
                    for outcome in packed.each_packed([Packed(old, entry) for entry in entries], work):
                        if outcome.error is not None:
                            objects.tell(outcome.error, root, old.root)
                        url = f"{root}/{outcome.found.path.relative_to(old.root).as_posix()}"
                        yield outcome._replace(found=found_at(url))
                    disk.remove(old.archive)
        except SessionCompressError as error:
            yield Outcome(found_at(root), error=error)


class _Meant(NamedTuple):
    """A packed session: the folder that was packed, the pack, and its path. `is_there`: at its place, too."""

    root: str
    name: str = ""
    path: str = ""
    age: tuple[int, int] = (0, 0)
    is_there: bool = False


def _meant(
    places: Places, globs: Globs = EVERYTHING, older_than: int | None = None
) -> Iterator[tuple[_Meant, SessionCompressError | None]]:
    """Find the packed sessions that URLs mean, each once, and what is wrong with a pack.

    Where two packs have one, as two runs at once may leave it, the newest counts.
    """
    newest: dict[str, _Meant] = {}
    for url in places.urls:
        meant = without_slash(url)
        for root, name in _packs_of(places, url):
            try:
                with opened(root, name) as (old, _):
                    for entry in old.index.entries:
                        there = f"{root}/{entry.path}"
                        below = there.removeprefix(f"{meant}/") if there.startswith(f"{meant}/") else entry.path
                        is_meant = (
                            there == meant
                            or below != entry.path
                            or root == meant
                            or pack_url(root, name) + ARCHIVE == meant
                        )
                        if not (entry.state is State.PACKED and is_meant and globs.takes(below)):
                            continue
                        if older_than is not None and time.time() - entry.members[0].mtime_ns / 1e9 < older_than:
                            continue
                        if there not in newest or newest[there].age < entry.age:
                            newest[there] = _Meant(root, name, entry.path, entry.age, _is_there(places, url, there))
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
    bucket, above = objects.root_of(url).rstrip("/"), without_slash(url)
    while above != bucket:
        above = above.rpartition("/")[0]
        yield from ((above, name) for name in names_in(above))


def names_in(root: str) -> list[str]:
    """List the packs of a folder. Raises UsageError, FileFailed."""
    found = [each for each in objects.listed(f"{root}/{FOLDER}/{PACKS}") if each["size"]]
    names = [each["path"].rpartition("/")[2] for each in found]
    return [name.removesuffix(INDEX) for name in names if name.endswith(INDEX)]


@contextmanager
def opened(root: str, name: str) -> Iterator[tuple[Pack, Object]]:
    """Fetch an index into a temporary folder that stands for what was packed. Raises Damaged, FileFailed."""
    with cloud.temporary(root) as folder:
        index = _fetch_index(root, folder, name)
        yield Pack(folder, name, read_index(index.path)), index


def _fetch_index(root: str, folder: Path, name: str) -> Object:
    cloud.refuse_unless_file(pack_url(root, name), name + INDEX, name + ARCHIVE)
    path = packing.packs_of(folder) / f"{name}{INDEX}"
    index = objects.fetched(f"{pack_url(root, name)}{INDEX}", path, _LONGEST_INDEX)
    if not index.size:
        # It was not empty as it was listed.
        raise InUse("another run just removed it", where=index.url, state=NOTHING, remedy="Run again.")
    return index


def fetch_whole(root: str, folder: Path, name: str) -> Object:
    """Fetch a pack into the folder that stands for what was packed. Raises Damaged, FileFailed."""
    index = _fetch_index(root, folder, name)
    archive = packing.packs_of(folder) / f"{name}{ARCHIVE}"
    objects.fetched(pack_url(root, name) + ARCHIVE, archive, _LARGEST_ARCHIVE)
    return index


def _fetch_frames(old: Pack, entries: Iterable[Entry], root: str) -> None:
    """Fetch of an archive what holds some sessions; the rest of the file is a hole."""
    starts = sorted({each.frame for each in old.index.entries} | {old.index.size})
    disk.remove(old.archive)
    with disk.closing(disk.create(old.archive)) as fd:
        for frame in sorted({each.frame for each in entries}):
            end = next((each for each in starts if each > frame), old.index.size)
            if end - frame > _LARGEST_ARCHIVE:
                what = "one of its frames is larger than any we write"
                raise Damaged(
                    what, where=pack_url(root, old.name) + INDEX, state=NOTHING, remedy="Find out who wrote it."
                )
            os.lseek(fd, frame, os.SEEK_SET)
            for piece in objects.ranged(pack_url(root, old.name) + ARCHIVE, frame, end):
                disk.write_all(fd, piece)


def _refuse_if_large(root: str, entry: Entry) -> None:
    """Raise Refused for a session that cannot be put, or that a stranger's pack would fill the disk with."""
    if max(each.size for each in entry.members) > cloud.LARGEST:
        what = f"it has more than {cloud.LARGEST // MB:,} MB, more than any session in an object store may have"
        remedy = "Unpack a local copy of the pack."
        raise Refused(what, where=f"{root}/{entry.path}", state=_IN_PACK, remedy=remedy)


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


def mark(root: str, name: str, states: dict[str, State]) -> None:
    """Note in an index what became of sessions, whoever else notes something; remove a pack that holds none."""
    for number in range(_TRIES):
        with opened(root, name) as (old, index):
            old.mark(states)
            try:
                index.put(state="The sessions are in their places, and in the pack too.")
            except InUse:
                if number == _TRIES - 1:
                    raise
                continue
            if all(each.state is not State.PACKED for each in old.index.entries):
                drop(index)
            return


def drop(index: Object) -> None:
    """Empty a pack all of whose sessions are at their places, the index first."""
    with suppress(InUse):
        index.put(empty=True)
        objects.met(index.url.removesuffix(INDEX) + ARCHIVE, index.path).put(empty=True)


def without_slash(url: str) -> str:
    """Write a URL without a slash at its end."""
    root = objects.root_of(url)
    return (root + url[len(root) :]).rstrip("/")


def pack_url(root: str, name: str) -> str:
    """Make what the URLs of a pack begin with."""
    return f"{root}/{FOLDER}/{PACKS}/{name}"


def found_at(url: str) -> Found:
    """Make what stands for a session at a URL that was not listed."""
    return Found(Path(url), named=True, remote=Remote(url, 0, 0))
