"""Pack sessions in object stores, by the same code in a temporary folder, in which a part of them is at a time.

The order of the puts is that of the writes on a disk: archive, read back; index; and only then each session, if it is
still the one that was read. No store deletes on a condition by our library, so what is packed becomes an empty object,
which is as atomic as any put. What it was stands in the index.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from sessioncompress.errors import FileFailed, InUse, SessionCompressError
from sessioncompress.operations import cloud
from sessioncompress.operations.batch import Outcome, outcome_of
from sessioncompress.operations.cloud import Copy, Places
from sessioncompress.operations.cloud_packed import without_slash
from sessioncompress.operations.pack import PackStats, pack_sessions
from sessioncompress.pipeline.discover import Found, Remote
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk, objects, packing
from sessioncompress.store.layout import ARCHIVE, FOLDER, PACKS, plain_in
from sessioncompress.store.objects import MB, Object
from sessioncompress.store.pack import INDEX, LONGEST_INDEX, State
from sessioncompress.store.packing import Pack
from sessioncompress.store.places import Bucket, Disk, refuse_unless_file

BATCH = 1024 * MB
"""Bytes of sessions and stores behind which a pack ends: what is fetched lies in a temporary folder until then."""
_LARGEST_ARCHIVE = 4 * BATCH
"""Bytes. None of ours has as many: its last session, and that one's store, may come on top of a batch."""
AT_ONCE = 8
_NOT_TAKEN = "No session was moved."


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
    prefixes = [without_slash(url) for url in places.urls]
    by_root: dict[str, list[Found]] = {}
    for each in found:
        url = each.shown
        root = next((prefix for prefix in prefixes if url.startswith(f"{prefix}/")), url.rpartition("/")[0])
        by_root.setdefault(root, []).append(each)
    for root, these in by_root.items():
        known: dict[str, dict[str, Pack]] = {}
        at = Bucket(root)
        for old in packing.packs_in(at):
            if isinstance(old, Pack):
                for entry in old.packed():
                    known.setdefault(at.shown(old.place(entry)), {})[old.name] = old
            else:
                yield Outcome(_found_at(root), error=old)
        # One that is gone and in no pack is no matter of this command.
        left = iter([each for each in these if each.error is None or each.shown in known])
        while rest := list(islice(left, 1)):
            try:
                yield from _packed(root, chain(rest, left), known, policy, dry_run=dry_run)
            except SessionCompressError as error:
                yield Outcome(_found_at(root), error=error)


def _found_at(url: str) -> Found:
    return Found(Path(url), named=True, remote=Remote(url, 0, 0))


def _packed(
    root: str, left: Iterator[Found], known: dict[str, dict[str, Pack]], policy: Policy, *, dry_run: bool
) -> Iterator[Outcome[PackStats]]:
    """Pack as many sessions as there is room for."""
    with cloud.temporary(root) as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        fetched: dict[Path, _Fetched] = {}
        size = 0
        while size < BATCH and (some := list(_some(left))):
            for outcome in pool.map(lambda each: outcome_of(_there(each), lambda: _fetch(root, folder, each)), some):
                if outcome.result is None:
                    if outcome.error:
                        objects.tell(outcome.error, root, folder)
                    yield Outcome(outcome.found, error=outcome.error, passed_over=outcome.passed_over)
                else:
                    fetched[outcome.result.path] = outcome.result
                    size += outcome.result.size
        olds: dict[str, Pack] = {}
        for each in fetched.values() if not dry_run else ():
            olds |= known.get(each.found.shown, {})
        indexes = {name: _fetch_whole(root, folder, name) for name in olds}
        sessions = [Found(each.path, named=each.found.named) for each in fetched.values() if each.copy]
        outcomes = list(pack_sessions(sessions, [folder], lambda _: policy, dry_run=dry_run))
        archives: dict[str, str] = {}
        if not dry_run:
            archives = _put_packs(root, folder, indexes)
        yield from _taken_out(root, folder, fetched, outcomes, archives, pool)


def _some(left: Iterator[Found]) -> Iterator[Found]:
    """Take as many as are fetched at once, and no more than there is room for, by their sizes as listed."""
    size = 0
    for each in islice(left, AT_ONCE):
        yield each
        size += each.remote.size if each.remote else 0
        if size >= BATCH:
            return


def _there(found: Found) -> Found:
    return Found(found.path, named=found.named, remote=found.remote)


def _fetch(root: str, folder: Path, found: Found) -> _Fetched:
    """Fetch a session with its store to its place below the folder. Raises SessionCompressError."""
    assert found.remote is not None
    url = found.remote.url
    *above, name = url.removeprefix(f"{root}/").split("/")
    refuse_unless_file(url, *above, name)
    path = folder.joinpath(*above, name)
    disk.make_folder(path.parent)
    if found.error is None:
        copy = cloud.copied(found.remote, path.parent, writes=True)
        return _Fetched(found, path, copy, tuple(each for each in (copy.originals, copy.journal) if each.found))
    store, where = plain_in(path), url.rpartition("/")[0]
    left = (objects.fetched(f"{where}/{FOLDER}/{each.name}", each) for each in (store.originals, store.journal))
    return _Fetched(found, path, None, tuple(each for each in left if each.found))


def _put_packs(root: str, folder: Path, indexes: dict[str, Object]) -> dict[str, str]:
    """Put the packs that were made, and what was noted in older ones; return their names there by those here."""
    names = {name: name for name in indexes}
    for made in packing.packs_in(Disk(folder)):
        if isinstance(made, Pack) and made.name not in indexes:
            # No other run has the name: an archive is put in parts, for which there is no condition.
            names[made.name] = f"{made.name.rpartition('-')[0]}-{os.urandom(8).hex()}"
            url = pack_url(root, names[made.name])
            objects.put_new(url + ARCHIVE, made.archive, _NOT_TAKEN)
            index = Object(url + INDEX, made.archive.with_name(made.name + INDEX))
            _refuse_unless_holds(url + ARCHIVE, made.archive)
            index.put(state=_NOT_TAKEN)
            _refuse_unless_holds(index.url, index.path)
    for index in indexes.values():
        if not index.path.exists():
            with suppress(InUse):
                index.put(b"")
                objects.met(index.url.removesuffix(INDEX) + ARCHIVE, index.path).put(b"")
        elif index.is_changed:
            index.put(state=_NOT_TAKEN)
    return names


def _fetch_whole(root: str, folder: Path, name: str) -> Object:
    """Fetch a pack into the folder that stands for what was packed. Raises Damaged, FileFailed."""
    here = packing.packs_of(folder) / name
    index = objects.fetched(pack_url(root, name) + INDEX, here.with_name(name + INDEX), LONGEST_INDEX)
    objects.fetched(pack_url(root, name) + ARCHIVE, here.with_name(name + ARCHIVE), _LARGEST_ARCHIVE)
    return index


def _refuse_unless_holds(url: str, path: Path) -> None:
    """Read an object back. Raises FileFailed where it is not as the file."""
    if not objects.holds(url, path, _NOT_TAKEN):
        raise FileFailed("it does not read back as it was uploaded", where=url, state=_NOT_TAKEN, remedy="Run again.")


def pack_url(root: str, name: str) -> str:
    """Make what the URLs of a pack begin with."""
    return f"{root}/{FOLDER}/{PACKS}/{name}"


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
            return outcome._replace(found=_there(here.found) if here else _found_at(root))
        name = Path(outcome.result.archive).name.removesuffix(ARCHIVE)
        result = replace(outcome.result, archive=pack_url(root, archives[name]) + ARCHIVE if archives else "")
        became = outcome_of(_there(here.found), lambda: _empty(here, result) if archives else result)
        if isinstance(became.error, InUse):
            left.setdefault(archives[name], {})[str(here.path.relative_to(folder))] = State.LEFT
        return became

    yield from pool.map(take, outcomes)
    # What a killed run had left of a store: here it is gone, since its pack reads back.
    for here in fetched.values():
        if here.copy is None and archives:
            _empty_store([each for each in here.store if not each.path.exists()])
    for made in packing.packs_in(Bucket(root)) if left else ():
        if isinstance(made, Pack) and made.name in left:
            made.mark(left[made.name])
            made.drop_if_done()


def _empty(here: _Fetched, result: PackStats) -> PackStats:
    assert here.copy is not None
    here.copy.session.put(b"")
    _empty_store(here.store)
    return result


def _empty_store(store: Iterable[Object]) -> None:
    for each in store:
        # A run that wrote it meanwhile adds to it, and fails at the session. What it began with is in the pack.
        with suppress(InUse):
            each.put(b"", state="Its session is packed; the next 'pack' takes the rest of its store.")
