"""Pack sessions that are no longer in use, one project together, and unpack them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.core import jsonl
from sessioncompress.core.checkpoint import Say
from sessioncompress.core.text import MB, utf8, written_time
from sessioncompress.errors import NOT_CHANGED, InUse, Refused, SessionCompressError, failing
from sessioncompress.formats.base import Format, Name
from sessioncompress.operations import cloud, packed
from sessioncompress.operations.batch import Outcome, outcome_of
from sessioncompress.operations.sessions import PROMPT_LINES, first_prompt, folder_of, given_title, part_of
from sessioncompress.pipeline import reading, rollouts
from sessioncompress.pipeline.discover import Found
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk, moves, objects, packing
from sessioncompress.store import journal as journals
from sessioncompress.store.folder import tidy
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import (
    ARCHIVE,
    Store,
    all_stores,
    holds,
    real_place,
    store_in,
    store_of,
)
from sessioncompress.store.lock import OpenSession, open_file, open_session
from sessioncompress.store.machine import make_key
from sessioncompress.store.objects import Object
from sessioncompress.store.pack import MOST, Entry, State, is_same, may_name, source_of
from sessioncompress.store.packing import Pack, Packed
from sessioncompress.store.places import Bucket, Disk, Place, packs_of, refuse_unless_file
from sessioncompress.store.recover import recover

BATCH = 1024 * MB
"""Bytes of sessions and stores after which a pack ends. Until then, fetched ones take space in a temporary folder."""
AT_ONCE = 8


class PackStats(Struct, frozen=True, rename="camel"):
    """The result for one session. Sizes are bytes; `size` includes the store's `store_size`.

    `other_stores` are the journals of stores that stay in place, because a pack holds only the active one.
    """

    path: str
    agent: str
    project: str
    title: str
    size: int
    archive: str
    status: str
    store_size: int = 0
    other_stores: tuple[str, ...] = ()


Take = Callable[[Packed, "ToPack"], None]
"""Removes a session from its place."""


class ToPack(NamedTuple):
    """A session to be packed, with the data from its header and first lines."""

    found: Found
    path: Path
    root: Path
    policy: Policy
    form: Format
    name: Name
    title: str
    family: str
    size: int
    modified: float
    others: tuple[Path, ...]
    """The journals of its inactive stores."""


def pack_sessions(
    found: Iterable[Found], roots: Sequence[Path], policy_of: Callable[[Path], Policy], *, dry_run: bool = False
) -> Iterator[Outcome[PackStats]]:
    """Pack sessions, one pack per project and root, and yield the results.

    A session in none of the roots is packed in its own folder. With `dry_run` nothing is changed.
    """
    real = [Path(os.path.realpath(root)) for root in roots]
    projects_in: dict[Path, dict[str, list[ToPack]]] = {}
    if not dry_run:
        # The machine key is part of the name of the packs' folder.
        make_key()
    for each in found:
        outcome = outcome_of(each, lambda: read_head(each, real, policy_of(each.path)))  # noqa: B023 - called at once
        if outcome.result is None:
            yield Outcome(each, error=outcome.error, passed_over=outcome.passed_over)
        else:
            head = outcome.result
            projects_in.setdefault(head.root, {}).setdefault(head.name.project, []).append(head)
    # Repair what a killed run left, even if nothing is left to pack.
    for root in sorted(root for root in real if Disk(root).folders()):
        projects_in.setdefault(root, {})
    # A continuation starts later than its parent, so it must be removed before that.
    for root, projects in sorted(projects_in.items(), reverse=True):
        latest_first = sorted(projects.values(), key=lambda each: min(head.path for head in each), reverse=True)
        if dry_run:
            yield from packed.failures(packing.packs_in(Disk(root)))
            names: list[str] = []
            for heads in map(by_family, latest_first):
                names.append(Disk(root).free_name(_name_of(heads[0]), names))
                archive = str(packs_of(root) / f"{names[-1]}{ARCHIVE}")
                for head in heads:
                    yield outcome_of(head.found, lambda: _would_pack(head, archive))  # noqa: B023 - called at once
            continue
        try:
            with moves.alone(at := Disk(root)) as found_here:
                yield from packed.failures(found_here)
                # Only a pack that no git checkout can remove may replace a session.
                packs = [each for each in found_here if isinstance(each, Pack) and each.is_certain]
                for heads in latest_first:
                    yield from pack_project(at, root, by_family(heads), packs, _take_out)
        except SessionCompressError as error:
            yield Outcome(Found(root, named=True), error=error)


def read_head(found: Found, roots: Sequence[Path], policy: Policy) -> ToPack:
    """Read the data that decides how a session is grouped. Raises SessionCompressError."""
    path = real_place(found.path)
    root = next((each for each in roots if path.is_relative_to(each)), path.parent)
    if utf8(place := str(path.relative_to(root))) != place:
        remedy = "Rename it."
        raise Refused("its name is not UTF-8, which an index needs", where=path, remedy=remedy)
    if not may_name(place):
        what, remedy = "no session can be unpacked into a folder with that name", "Name its own folder alone."
        raise Refused(what, where=path, remedy=remedy)
    with open_session(path, writing=False) as session:
        form, head = rollouts.read(session)
        if not rollouts.is_zipped(session):
            if not found.named:
                reading.refuse_nameless(session, form)
            reading.refuse_in_merge(session)
            if part := part_of(session, form):
                what = f"a part of it is in another file ({part if '://' in part else PureWindowsPath(part).name})"
                remedy = f"A pack would lack it, and {form.name} delete it. Run 'sessioncompress compress' instead."
                raise Refused(what, where=path, remedy=remedy)
        remedy = "Rename it, or name its own folder alone."
        packed.refuse_strange(root, place, str(path), NOT_CHANGED, remedy)
        prompt, written = first_prompt(session, form, head)
        title = given_title(session, form, head) or prompt
        family, modified, counts = f"{written} {prompt}", session.stat.st_mtime, store_in(path)
        others = tuple(each.journal for each in all_stores(path) if each != counts)
        return ToPack(found, path, root, policy, form, form.named(head), title, family, session.size, modified, others)


def by_family(heads: Iterable[ToPack]) -> list[ToPack]:
    """Order sessions by time, but with forks directly after their parent."""
    ordered = sorted(heads, key=lambda head: (head.modified, head.path))
    family_of = {head.name.id: head.family for head in reversed(ordered) if head.name.id}
    families: dict[str, list[ToPack]] = {}
    for head in ordered:
        family = next((family_of[each] for each in head.name.parents if each in family_of), head.family)
        families.setdefault(family, []).append(head._replace(family=family))
    return [head for family in families.values() for head in family]


def pack_project(
    at: Place,
    root: Path,
    heads: Sequence[ToPack],
    packs: Sequence[Pack],
    take: Take,
    pool: ThreadPoolExecutor | None = None,
) -> Iterator[Outcome[PackStats]]:
    """Pack the sessions of one project. The caller must hold the packs of the place.

    `root` is the folder with the sessions: the place itself, or a folder with copies. `take` removes a packed session
    from its place; with a `pool`, it is called in parallel.
    """
    all_heads = {str(head.path.relative_to(root)): head for head in heads}
    by_path = dict(all_heads)
    taking: list[Packed] = []
    for pack in packs:
        with failing(pack.shown):
            pack.write_index()
        yield from _packed_before(pack, root, by_path, taking)
    if by_path:
        first = next(iter(by_path.values()))
        content = sum(head.size for head in by_path.values())
        with packing.NewPack(at, root, _name_of(first), content) as new, ThreadPoolExecutor(1) as adding:
            entries = []
            for head in by_path.values():
                outcome = outcome_of(head.found, lambda: _added(new, head, adding))  # noqa: B023 - called at once
                if outcome.result is not None:
                    entries.append(outcome.result)
                    continue
                if new.is_broken and outcome.error is not None:
                    raise outcome.error
                yield Outcome(head.found, error=outcome.error)
            if entries:
                taking += new.commit(entries).packed()
    yield from _taken_out(take, taking, all_heads, pool)


def _packed_before(
    pack: Pack, root: Path, by_path: dict[str, ToPack], taking: list[Packed]
) -> Iterator[Outcome[PackStats]]:
    """Handle sessions that a pack already holds, because a run was killed or because they changed since."""
    changed: dict[str, State] = {}
    for each in pack.packed():
        path = each.entry.path
        if (head := by_path.get(path)) is None:
            continue
        outcome = outcome_of(head.found, lambda: _found_again(each, root))  # noqa: B023 - called at once
        if outcome.error is not None:
            by_path.pop(path)
            yield Outcome(head.found, error=outcome.error)
        elif outcome.result is State.PACKED:
            by_path.pop(path)
            taking.append(each)
        elif outcome.result is State.LEFT:
            changed[path] = State.LEFT
    if changed:
        with failing(pack.shown):
            pack.mark(changed)


def _found_again(each: Packed, root: Path) -> State | None:
    """Compare a session with its packed copy: PACKED if equal (still to be removed), LEFT if it was continued.

    Return None if a different session is in its place; then the packed one stays packed. A session rewritten since
    counts as different. Raises SessionCompressError, OSError.
    """
    path = root / each.entry.path
    if not os.path.lexists(path):
        raise InUse("another run has packed it", where=path, state=f"It is in {each.pack.shown}.")
    if moves.is_as_packed(each, root):
        return State.PACKED if each.reads_back() else State.LEFT
    # A branch may have brought it, with another store than the packed one, or none.
    is_begun = all(is_same(copy, member, begun=True) for copy, member in each.files(root).items())
    return State.LEFT if is_begun else None


def _taken_out(
    take: Take, taking: Sequence[Packed], heads: dict[str, ToPack], pool: ThreadPoolExecutor | None
) -> Iterator[Outcome[PackStats]]:
    """Remove packed sessions from their places; yield the result of each."""
    left: dict[str, list[Packed]] = {}
    works = {store_in(each.place).work for each in taking if isinstance(each.pack.at, Disk)}
    ordered = sorted(taking, key=lambda each: each.entry.path, reverse=True)

    def taken(each: Packed, head: ToPack) -> PackStats:
        take(each, head)
        stats, size = stats_of(head, each.pack.shown, "packed"), each.entry.size
        return replace(stats, size=size, store_size=size - each.entry.members[0].size)

    def tried(each: Packed) -> Outcome[PackStats]:
        head = heads[each.entry.path]
        return outcome_of(head.found, lambda: taken(each, head))

    try:
        for each, outcome in zip(ordered, (pool.map if pool else map)(tried, ordered), strict=True):
            if outcome.error is not None:
                left.setdefault(each.pack.name, []).append(each)
            yield outcome
    finally:
        # Once at the end: removing and recreating our folder for each session would take longer than packing it.
        for work in works:
            with failing(work):
                tidy(work)
                for folder in filter(Path.is_dir, (work, work.parent)):
                    disk.flush_folder(folder)
    for these in left.values():
        pack = these[0].pack
        with failing(pack.shown):
            pack.mark({each.entry.path: State.LEFT for each in these if not each.is_waiting})


def _take_out(each: Packed, head: ToPack) -> None:
    with reading.opened(head.path, writing=True, quiet_seconds=head.policy.quiet_seconds) as session:
        store = store_of(session.path, head.policy)
        # If it was packed before a kill, leftovers may be next to it.
        if session.left_over:
            _refuse_unless_whole(session, store)
        moves.take_out(each, session)


def stats_of(head: ToPack, archive: str, status: str) -> PackStats:
    """Return the statistics of a session that is, or would be, in an archive."""
    store = store_in(head.path).size
    shown, others = str(head.found.path), tuple(map(str, head.others))
    return PackStats(
        shown, head.form.name, head.name.project, head.title, head.size + store, archive, status, store, others
    )


def _name_of(head: ToPack) -> str:
    """Name a pack after its sessions' project, using only characters that are safe in a shell."""
    named = folder_of(head.name.project)[:40]
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in named)
    return plain.strip(".-") or head.form.name


def _added(new: packing.NewPack, head: ToPack, pool: ThreadPoolExecutor) -> Entry:
    """Add a session and its store to a pack, and meanwhile read the index data. Raises SessionCompressError."""
    with (
        reading.opened(head.path, writing=True, quiet_seconds=head.policy.quiet_seconds) as session,
        ExitStack() as stack,
    ):
        store = store_of(session.path, head.policy)
        _refuse_unless_whole(session, store)
        sources = [source_of(str(session.path.relative_to(head.root)), session.fd, session.size)]
        for path in (store.originals, store.journal):
            with suppress(FileNotFoundError):
                fd = stack.enter_context(disk.closing(open_file(path)))
                sources.append(source_of(str(path.relative_to(head.root)), fd))
        if any(abs(each.mtime_ns) > MOST for each in sources):
            what = "it or its store changed after the year 2262 or before 1677, which an index cannot hold"
            raise Refused(what, where=session.path, remedy="Set the time of change with 'touch'.")
        adding = pool.submit(new.add, sources, head.family)
        # Its files must stay open until then, even after an error.
        stack.callback(wait, [adding])
        turns, begun = _turns(session, head.form)
        added = adding.result()
    if added is None:
        raise session.in_use("a program shortened it")
    modified, project = written_time(session.stat.st_mtime), utf8(head.name.project)
    frame, members = added
    return Entry(
        state=State.PACKED,
        id=head.name.id,
        agent=head.form.name,
        project=project,
        title=head.title,
        begun=begun,
        modified=modified,
        turns=turns,
        frame=frame,
        members=members,
        packed_ns=time.time_ns(),
    )


def _would_pack(head: ToPack, archive: str) -> PackStats:
    """Return the statistics of a session that would be packed. Raises SessionCompressError if it would not."""
    _journal_beside(head.path, store_of(head.path, head.policy))
    return stats_of(head, archive, "would-pack")


def _refuse_unless_whole(session: OpenSession, store: Store) -> None:
    """Bring a session to the state of its last run. Raises Refused if its store isn't next to it."""
    recover(session, store, _journal_beside(session.path, store).lengths)
    if session.left_over:
        raise session.in_use("a run just replaced it")


def _journal_beside(session: Path, store: Store) -> Journal:
    """Load a session's journal. Raises Refused if it names originals that aren't next to the session."""
    journal = journals.load(store.journal)
    where = "in commits" if journal.blobs else ""
    if not store.is_beside and holds(store):
        # A pack may be moved with its folder, and a backup folder also holds other sessions' originals.
        where = f"in the backup folder {store.folder}"
    if where:
        what = f"its originals are {where}, and a pack holds only what is next to sessions"
        remedy = "Run 'sessioncompress restore' and then 'sessioncompress forget' on it first."
        raise Refused(what, where=session, remedy=remedy)
    return journal


def _turns(session: OpenSession, form: Format) -> tuple[int, str]:
    """Count a session's prompts, and find when its first entry was written."""
    reader = form.reader()
    turns, begun = 0, 0
    for number, raw, whole in rollouts.pieces(session):
        dated = begun or number >= PROMPT_LINES
        if not whole or (dated and not reader.may_prompt(raw)):
            continue
        if (entry := jsonl.parse(raw)) is not None:
            turns += sum(said.say is Say.PROMPT for said in reader.said(entry))
            if not dated:
                begun = form.written_at(entry)
    return turns, written_time(begun / 1000) if begun else ""


def pack_objects(
    found: Iterable[Found], urls: Sequence[str], policy: Policy, *, dry_run: bool = False
) -> Iterator[Outcome[PackStats]]:
    """Pack sessions in object stores with the same code, in batches that are copied to a temporary folder.

    Uploads follow the order of writes on a disk: archive, which is read back; index; and only then each session, if it
    is still the one that was read. Our library can't delete conditionally, so a packed session becomes an empty object,
    which is as atomic as any upload; its index entry holds its data. A session that was named is packed in its parent
    prefix.
    """
    prefixes = [objects.without_slash(url) for url in urls]
    by_root: dict[str, list[Found]] = {}
    for each in found:
        url = each.shown
        root = next((prefix for prefix in prefixes if url.startswith(f"{prefix}/")), url.rpartition("/")[0])
        by_root.setdefault(root, []).append(each)
    for root, these in by_root.items():
        with moves.alone(at := Bucket(root)) as found_here:
            yield from packed.failures(found_here)
            packs = [each for each in found_here if isinstance(each, Pack)]
            known = {each.shown for pack in packs for each in pack.packed()}
            # A missing session that is in no pack doesn't concern this command.
            for batch in _batches(each for each in these if each.error is None or each.shown in known):
                try:
                    yield from _packed_objects(root, at, batch, packs, policy, dry_run=dry_run)
                except SessionCompressError as error:
                    yield Outcome(packed.found_at(at, at.root), error=error)


def _batches(found: Iterable[Found]) -> Iterator[list[Found]]:
    """Split sessions into batches that fit the space, by their listed sizes."""
    batch: list[Found] = []
    size = 0
    for each in found:
        batch.append(each)
        size += each.remote.size if each.remote else 0
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _packed_objects(
    root: str, at: Bucket, batch: Sequence[Found], packs: Sequence[Pack], policy: Policy, *, dry_run: bool
) -> Iterator[Outcome[PackStats]]:
    with cloud.temporary(root) as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        copies: dict[Path, cloud.Copy] = {}

        def told(outcome: Outcome[PackStats]) -> Outcome[PackStats]:
            if outcome.error:
                objects.tell(outcome.error, root, folder)
            return outcome

        def fetched(each: Found) -> ToPack | None:
            copy = _fetch(root, folder, each)
            copies[copy.session.path] = copy
            here = Found(copy.session.path, named=each.named, remote=each.remote)
            return None if each.error else read_head(here, [folder], policy)

        projects: dict[str, list[ToPack]] = {}
        for read in pool.map(lambda each: outcome_of(replace(each, error=None), lambda: fetched(each)), batch):
            if read.error is not None:
                yield told(Outcome(read.found, error=read.error, passed_over=read.passed_over))
            elif (head := read.result) is not None:
                projects.setdefault(head.name.project, []).append(head)

        def take(each: Packed, head: ToPack) -> None:
            del each
            copy = copies[head.found.path]
            copy.session.put(b"")
            _empty(copy.store)

        for heads in map(by_family, projects.values()):
            if dry_run:
                yield from (outcome_of(head.found, partial(_would_pack, head, "")) for head in heads)
            else:
                yield from map(told, pack_project(at, folder, heads, packs, take, pool))
        if not dry_run:
            for copy in copies.values():
                if copy.session.found is None:
                    _drop_left(copy, folder, packs)


def _drop_left(copy: cloud.Copy, folder: Path, packs: Sequence[Pack]) -> None:
    """Empty what a killed run left of a store, if its pack can be read back."""
    for each in chain.from_iterable(pack.packed() for pack in packs):
        if folder / each.entry.path == copy.session.path and each.reads_back():
            files = each.files(folder)
            _empty(one for one in copy.store if one.path in files and is_same(one.path, files[one.path]))


def _fetch(root: str, folder: Path, found: Found) -> cloud.Copy:
    """Fetch a session and its store to their place below the folder. Raises SessionCompressError."""
    assert found.remote is not None
    url = found.remote.url
    *above, name = url.removeprefix(f"{root}/").split("/")
    refuse_unless_file(url, *above, name)
    place = folder.joinpath(*above)
    disk.make_folder(place)
    return cloud.copied(found.remote, place, writes=True, is_gone=found.error is not None)


def _empty(store: Iterable[Object]) -> None:
    for each in store:
        # A run that wrote to it meanwhile will fail at the session. The store that it started with is in the pack.
        with suppress(InUse):
            each.put(b"", state="Its session is packed; the next 'pack' takes the rest of its store.")
