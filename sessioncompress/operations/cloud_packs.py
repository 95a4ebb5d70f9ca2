"""Pack sessions in object stores, by the same code: a part of them is at a time in a temporary folder.

The order of the puts is that of the writes on a disk: archive, read back; index; and only then each session, if it is
still the one that was read. No store deletes on a condition by our library, so what is packed becomes an empty object,
which is as atomic as any put. What it was stands in the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from sessioncompress.errors import InUse, SessionCompressError
from sessioncompress.operations import cloud
from sessioncompress.operations.batch import Outcome, outcome_of
from sessioncompress.operations.cloud import Copy, Places
from sessioncompress.operations.cloud_packed import without_slash
from sessioncompress.operations.pack import Head, PackStats, by_family, pack_project, read_head, stats_of
from sessioncompress.operations.packed import found_at
from sessioncompress.pipeline.discover import Found
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk, objects, packing
from sessioncompress.store.layout import FOLDER, plain_in
from sessioncompress.store.objects import MB, Object
from sessioncompress.store.pack import Entry, is_same
from sessioncompress.store.packing import Pack
from sessioncompress.store.places import Bucket, refuse_unless_file
from sessioncompress.store.recover_packs import reads_back

BATCH = 1024 * MB
"""Bytes of sessions and stores behind which a pack ends: what is fetched lies in a temporary folder until then."""
AT_ONCE = 8


class _Fetched(NamedTuple):
    """A session in the temporary folder. `copy` is None for one that is gone, and of which only a store is left."""

    found: Found
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
        at, packs = Bucket(root), list[Pack]()
        for old in packing.packs_in(at):
            if isinstance(old, Pack):
                packs.append(old)
            else:
                yield Outcome(found_at(at, at.root), error=old)
        known = {at.shown(old.place(entry)) for old in packs for entry in old.packed()}
        # One that is gone and in no pack is no matter of this command.
        left = iter([each for each in these if each.error is None or each.shown in known])
        while rest := list(islice(left, 1)):
            try:
                yield from _packed(root, at, chain(rest, left), packs, policy, dry_run=dry_run)
            except SessionCompressError as error:
                yield Outcome(found_at(at, at.root), error=error)


def _packed(
    root: str, at: Bucket, left: Iterator[Found], packs: Sequence[Pack], policy: Policy, *, dry_run: bool
) -> Iterator[Outcome[PackStats]]:
    """Pack as many sessions as there is room for."""
    with cloud.temporary(root) as folder, ThreadPoolExecutor(AT_ONCE) as pool:

        def told(outcome: Outcome[PackStats]) -> Outcome[PackStats]:
            if outcome.error:
                objects.tell(outcome.error, root, folder)
            return outcome

        fetched: dict[Path, _Fetched] = {}
        projects: dict[str, list[Head]] = {}
        size = 0
        while size < BATCH and (some := list(_some(left))):
            for outcome in pool.map(lambda each: outcome_of(_there(each), lambda: _fetch(root, folder, each)), some):
                if (here := outcome.result) is None:
                    yield told(Outcome(outcome.found, error=outcome.error, passed_over=outcome.passed_over))
                    continue
                size += here.size
                fetched[here.found.path] = here
                if here.copy is None:
                    continue
                read = outcome_of(here.found, partial(read_head, here.found, [folder], policy))
                if (head := read.result) is not None:
                    projects.setdefault(head.project, []).append(head)
                else:
                    yield told(Outcome(read.found, error=read.error, passed_over=read.passed_over))

        def take(pack: Pack, entry: Entry, head: Head) -> None:
            del pack, entry
            here = fetched[head.found.path]
            assert here.copy is not None
            here.copy.session.put(b"")
            _empty_store(here.store)

        for heads in map(by_family, projects.values()):
            if dry_run:
                yield from (Outcome(head.found, stats_of(head, "", "would pack")) for head in heads)
            else:
                yield from map(told, pack_project(at, folder, heads, packs, take, pool))
        # What a killed run had left of a store goes where its pack reads back.
        for here in fetched.values() if not dry_run else ():
            for pack in packs if here.copy is None else ():
                for entry in pack.packed():
                    if folder / entry.path == here.found.path and reads_back(pack, entry):
                        members = {folder / each.path: each for each in entry.members}
                        of_it = (each for each in here.store if each.path in members)
                        _empty_store([each for each in of_it if is_same(each.path, members[each.path])])


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
    here = Found(path, named=found.named, remote=found.remote)
    if found.error is None:
        copy = cloud.copied(found.remote, path.parent, writes=True)
        return _Fetched(here, copy, tuple(each for each in (copy.originals, copy.journal) if each.found))
    store, where = plain_in(path), url.rpartition("/")[0]
    left = (objects.fetched(f"{where}/{FOLDER}/{each.name}", each) for each in (store.originals, store.journal))
    return _Fetched(here, None, tuple(each for each in left if each.found))


def _empty_store(store: Iterable[Object]) -> None:
    for each in store:
        # A run that wrote it meanwhile adds to it, and fails at the session. What it began with is in the pack.
        with suppress(InUse):
            each.put(b"", state="Its session is packed; the next 'pack' takes the rest of its store.")
