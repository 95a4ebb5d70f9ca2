"""Delete a store: because it holds a secret, or because restoring is no longer wanted."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache, cached_property, lru_cache, partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.core.jsonl import pieces_of
from sessioncompress.errors import (
    Damaged,
    FileFailed,
    NotASession,
    Refused,
    SessionCompressError,
    UsageError,
    failed,
    failing,
)
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.discover import Found, discover, is_missing
from sessioncompress.pipeline.relatives import (
    State,
    Stranger,
    left_to_others,
    may_know,
    referring,
    state_of,
    strangers_of,
    unnamed_in,
)
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import damage, disk, folder, git, moves, packing, recover
from sessioncompress.store import journal as journals
from sessioncompress.store.late_links import LeftOver
from sessioncompress.store.layout import (
    Store,
    all_stores,
    backups_of,
    has_leftovers,
    real_place,
    size_of,
    status_of,
    store_in,
    store_of,
    stores_in,
    with_drafts,
    writers,
)
from sessioncompress.store.lock import OpenSession, held, open_file, open_session
from sessioncompress.store.originals import InBlob
from sessioncompress.store.packing import Pack, Packed
from sessioncompress.store.places import Disk
from sessioncompress.store.swap import is_done


class ForgetStats(Struct, frozen=True, rename="camel"):
    """What `forget` deletes of one store: bytes, originals, and originals that exist nowhere else.

    `dropped` counts, in both numbers, old lines that were moved out of the session for a summary. Git
    has the commits with `in_commits` originals here; only their places are deleted.

    `gone` is set if the session no longer exists. `links_kept` late links stay because they are open for writing, hold
    lines that exist nowhere else, or were not made by this user's runs on this machine. `markers` in the session are
    unknown to every journal here: their store is elsewhere, or was deleted. `referring` names other sessions in the
    folders searched, including packed ones, with markers that only these originals can expand. `outputs` counts the
    agent's files with all of an output of which the original has a piece. `packs` counts archives that still held the
    session and its store after they were unpacked; they are rewritten without them. `packs_kept` stay and may still
    hold them: others may have made them, they can't be read, or what they hold was not unpacked. `emptied` names the
    agent's databases whose copies of replaced texts were emptied, but may still be in free bytes, until a VACUUM.
    `kept` is the reason if nothing is deleted.
    """

    path: str
    bytes_deleted: int = 0
    originals: int = 0
    originals_lost: int = 0
    dropped: int = 0
    in_commits: int = 0
    gone: bool = False
    links_kept: int = 0
    markers: int = 0
    outputs: int = 0
    referring: tuple[str, ...] = ()
    packs: int = 0
    packs_kept: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    kept: str = ""


_MISSING = "the session is missing"
_MOVED = f"{_MISSING}, but may have been moved; --gone deletes its store"
_IS_THERE = "the session is there"
_ANYWAY = "'forget' without --gone and --unneeded deletes it anyway"


class Only(NamedTuple):
    """Selects the stores to delete: for missing sessions (`gone`), `unneeded` ones, or any.

    `since` is set if a limit chose the sessions: the time of that choice. A session that changed later keeps its store.
    """

    gone: bool = False
    unneeded: bool = False
    since: float = math.inf


ANY = Only()
Marked: TypeAlias = tuple[str, list[Stranger] | None]
"""A session, and its markers whose originals its own stores lack; None if it can't be read."""
_Known: TypeAlias = Sequence[tuple[Store, journals.Journal | None]]
_Refers: TypeAlias = Callable[[Path, _Known], tuple[str, ...]]
"""Lists the sessions that need the originals in the stores of a session."""
_TICK_NS = 1_000_000_000
"""Longer than a clock tick of any file system."""


def kept_of(
    sessions: Iterable[Path],
    policy_of: Callable[[Path], Policy],
    only: Only,
    max_size: int | None,
    named: Sequence[Path] = (),
) -> dict[Path, str]:
    """Find which sessions keep their stores, without reading the sessions, and why.

    A missing session need not be gone: it may have been moved, or be on another branch. It is also searched for in the
    files and folders that the user `named`. With `max_size`, delete the
    stores of the sessions that changed longest ago until the rest fits.
    """
    sessions = list(sessions)
    missing = [each for each in sessions if not os.path.lexists(each)]
    if not only.gone:
        kept = dict.fromkeys(missing, _MOVED)
    else:
        kept = dict.fromkeys(set(sessions).difference(missing), _IS_THERE) | _withheld(missing, policy_of, named)
    if max_size is None:
        return kept
    weights = {each: _weight(each, policy_of(each)) for each in sessions}
    total = sum(size for _, size in weights.values())
    for each in sorted(set(sessions) - set(kept), key=weights.__getitem__):
        if total <= max_size and weights[each][1]:
            kept[each] = "the stores are not over --max-size without it"
        total -= weights[each][1]
    return kept


def kept_rows(rows: Collection[Path], named: Sequence[Path]) -> dict[Path, str]:
    """Find which sessions that are missing from their databases keep their stores, and why; see kept_of()."""
    from sessioncompress.operations.database import moved

    databases = {real_place(each.parent): each.parent for each in rows if is_missing(each.parent)}
    in_git = _in_git(databases)
    kept = {each: in_git[each.parent] for each in rows if each.parent in in_git}
    return kept | {each: f"{_MISSING}, and {where}; {_ANYWAY}" for each, where in moved(rows, named).items()}


def _weight(session: Path, policy: Policy) -> tuple[float, int]:
    """Return when a session changed (if missing: its last run), and the size of its stores."""
    place = real_place(session)
    # Unreadable files are reported when the session is processed.
    with suppress(OSError):
        found = all_stores(place, backups_of(place, policy))
        files = [place] if os.path.lexists(place) else [each.journal for each in found]
        changed = max((status.st_mtime for status in map(status_of, files) if status), default=0)
        return changed, sum(each.size for each in found)
    return 0, 0


def _withheld(missing: Iterable[Path], policy_of: Callable[[Path], Policy], named: Sequence[Path]) -> dict[Path, str]:
    """Find missing sessions that might return, with the reason."""
    places = {real_place(each): each for each in missing}
    found = _in_git(places)
    for around in {each.parent for each in places}:
        # A run that unpacks a session first puts its store there.
        for packed in packing.packed_around(around):
            if packed.place in places and packed.is_waiting:
                found[places[packed.place]] = f"{_MISSING}, but packed; 'sessioncompress unpack' brings it back"
    found |= _moved({place: path for place, path in places.items() if path not in found}, policy_of, named)
    for session in places.values():
        try:
            # Read only one name: the folder may hold thousands of files, with as many orphaned stores.
            with os.scandir(session.parent) as entries:
                is_empty = next(entries, None) is None
        except OSError:
            is_empty = True
        if is_empty:
            what = "so is everything else in its folder, as when a disk is not mounted"
            found[session] = f"{_MISSING}, and {what}; {_ANYWAY}"
    return found


def _in_git(places: Mapping[Path, Path]) -> dict[Path, str]:
    """Find the missing files that git has, by place, with the reason."""
    found: dict[Path, str] = {}
    for place, error in git.known(places).items():
        what = "git still has it in a commit, a stash or the index"
        if error is not None:
            what = f"git may have it, but did not answer ({error.what})"
        found[places[place]] = f"{_MISSING}, and {what}; {_ANYWAY}"
    return found


def _moved(places: Mapping[Path, Path], policy_of: Callable[[Path], Policy], named: Sequence[Path]) -> dict[Path, str]:
    """Find sessions that are elsewhere: in their own folder, in `named` paths, in a pack, or in an agent's folder."""
    from sessioncompress.operations.packed import packed_anywhere
    from sessioncompress.operations.sessions import Selection, Session, sessions

    around = {each.parent: path for each, path in places.items()}
    ids = set[tuple[str, Path]]()
    for folder_of, path in around.items():
        with suppress(OSError):
            for owner, store in stores_in(folder_of, backups_of(folder_of / path.name, policy_of(path))):
                with suppress(SessionCompressError):
                    if owner in places:
                        ids |= {(name, places[owner]) for name in journals.load(store.journal).session_ids}
    if not ids:
        return {}
    there: dict[str, str] = {}
    packed: list[Packed] = []
    files = [each.path for each in discover(named)]
    for folder_of in around:
        with suppress(OSError):
            files += (Path(each.path) for each in os.scandir(folder_of) if each.is_file(follow_symlinks=False))
        packed += packing.packed_around(folder_of)
    for each in files:
        with suppress(SessionCompressError):
            there[reading.whose(each)[1].id] = str(each)
    there |= {each.id: each.shown for each in sessions(Selection()) if isinstance(each, Session)}
    packed += (each for each in packed_anywhere() if isinstance(each, Packed))
    there |= {each.entry.id: f"{each.shown}, which is packed," for each in packed if each.is_packed}
    return {path: f"{_MISSING}, and {there[name]} has its id; {_ANYWAY}" for name, path in ids if name in there}


def forget_found(
    found: Found,
    path: Path,
    policy: Policy,
    among: Mapping[str, set[str]],
    *,
    only: Only,
    around: Sequence[Path],
    dry_run: bool,
) -> ForgetStats:
    """Do as forget_session(), and delete what else a session in a database has: its events and its outputs.

    `path` is where its lines are, and `among` what named_in() found in its database.
    """
    remote, size, number, outputs = found.remote, 0, 0, 0
    forgetting = partial(forget_session, path, policy, only=only, around=around)
    if remote is not None:
        from sessioncompress.operations.database import forks_of

        forgetting = partial(forgetting, others=partial(forks_of, remote, among))
    try:
        stats = forgetting(dry_run=True)
    except UsageError:
        # A session missing from its database may have left only events.
        if remote is None:
            raise
        stats = ForgetStats(str(path), gone=True)
    if remote is not None and not stats.kept:
        from sessioncompress.operations.database import forget_events, forget_outputs, will_forget

        size, number = forget_events(remote, unneeded=only.unneeded, dry_run=True)
        if not dry_run and (size or stats.bytes_deleted):
            will_forget(remote)
            forget_events(remote, unneeded=only.unneeded, dry_run=False)
        whole, outputs = forget_outputs(remote, among, dry_run=dry_run)
        size += whole
    if stats.bytes_deleted and not dry_run:
        stats = forgetting()
    lost = 0 if only.unneeded else number
    sums = {"bytes_deleted": size, "originals": number, "originals_lost": lost, "outputs": outputs}
    return replace(stats, **{key: getattr(stats, key) + more for key, more in sums.items()})


def forget_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    dry_run: bool = False,
    only: Only = ANY,
    others: Callable[[], Sequence[Marked]] = tuple,
    around: Sequence[Path] = (),
) -> ForgetStats:
    """Delete a session's store; with `dry_run` only report what would be lost.

    The session stays unchanged, with markers whose originals are gone. An unreadable journal is deleted too. The
    session may be missing if it has a store. `others` finds other sessions in its database with foreign markers;
    sessions that need the originals are also searched for in the folders `around`. Raises SessionCompressError,
    including NotASession for a file that isn't a session and has no store.
    """
    path = Path(path)
    place = real_place(path)
    # A session chosen by options may still need its copy in a pack.
    packs = _packs_above(place.parent) if only == ANY else _Packs(())
    there = packs.by_place.get(place, ())
    # Rewriting a pack of others would make it this user's, along with all that others put in.
    copies = [each for each in there if each.pack.is_certain and (not each.is_packed or moves.is_as_packed(each))]
    kept = *(each.pack.shown for each in there if each not in copies), *packs.unreadable
    refers = partial(_referring, policy=policy, others=others, around=around)
    try:
        done = _forget_store(path, policy, refers, dry_run=dry_run, only=only)
    except UsageError:
        if all(each.is_waiting for each in there) or os.path.lexists(path):
            raise
        done = ForgetStats(str(path), gone=True)
    if done.kept:
        return done
    contents = {each.entry.content for each in copies}
    for root in {each.pack.root for each in copies} if not dry_run else ():
        # Another run may have changed the packs since they were read.
        with moves.alone(Disk(root)) as found:
            for pack in found:
                for each in pack.sessions() if isinstance(pack, Pack) and pack.is_certain else ():
                    if each.entry.content in contents and not each.is_waiting:
                        packing.write_anew(each)
    size = sum(each.archived_size for each in copies)
    return replace(done, bytes_deleted=done.bytes_deleted + size, packs=len(copies), packs_kept=kept)


class _Packs:
    """Packs, read once for many sessions."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self._packs = [pack for root in roots for pack in packing.packs_in(Disk(root))]
        self.unreadable = [str(each.where) for each in self._packs if isinstance(each, SessionCompressError)]

    @cached_property
    def by_place(self) -> Mapping[Path, Sequence[Packed]]:
        """Everything that is or was packed, by original path."""
        found: dict[Path, list[Packed]] = {}
        for pack in self._packs:
            for each in pack.sessions() if isinstance(pack, Pack) else ():
                found.setdefault(each.place, []).append(each)
        return found

    @cached_property
    def marked(self) -> Sequence[Marked]:
        """The packed sessions with the markers that their own journals don't know."""
        from sessioncompress.operations.packed import each_packed

        def left(each: Packed, copy: Path) -> tuple[str, list[Stranger]]:
            with open_session(copy, writing=False) as session:
                return f"{each.place.name} (packed)", left_to_others(session, store_in(copy))

        found: list[Marked]
        found = [(f"{where}, which cannot be read,", None) for where in self.unreadable]
        among = chain.from_iterable(pack.waiting() for pack in self._packs if isinstance(pack, Pack))
        for outcome in each_packed(among, left):
            if outcome.result is not None:
                found.append(outcome.result)
            elif not isinstance(outcome.error, NotASession):
                found.append((f"{outcome.found.path.name} (packed), which cannot be read,", None))
        return found


def _packs_above(folder: Path) -> _Packs:
    """Read the packs of a folder and its parents, again if one has changed."""
    states = tuple((root, state_of(packs)) for root in (folder, *folder.parents) for packs in Disk(root).folders())
    # A change within one clock tick doesn't show in a folder's times, so don't cache what has just changed.
    is_settled = all(state and time.time_ns() - max(state[2:]) > _TICK_NS for _, state in states)
    return (_read_packs if is_settled else _read_packs.__wrapped__)(states)


@lru_cache(maxsize=1)
def _read_packs(states: tuple[tuple[Path, State], ...]) -> _Packs:
    return _Packs(dict.fromkeys(root for root, _ in states))


def _forget_store(path: Path, policy: Policy, refers: _Refers, *, dry_run: bool, only: Only) -> ForgetStats:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        if only != ANY and not only.gone:
            return ForgetStats(str(path), gone=True, kept=_MOVED)
        return _forget_gone(path, policy, refers, dry_run=dry_run, only=only)
    except OSError as error:
        raise failed(error, path) from error
    if only.gone:
        return ForgetStats(str(path), kept=_IS_THERE)
    with reading.opened(path, writing=not dry_run) as session:
        store = store_of(session.path, policy)
        journal = _journal(store, only)
        if journal and only != ANY:
            recover.check(session, store, journal.lengths)
        done = _forget_open(session, store, journal, policy, refers, dry_run=dry_run, only=only)
        if done.kept:
            return done
        if not (done.bytes_deleted or done.links_kept):
            reading.refuse_unless_session(session)
        # Without a readable journal, the owner of the markers is unknown. Options choose only sessions with a store.
        strangers = strangers_of(session, journals.Journal()) if journal and only == ANY else []
        unknown = unnamed_in(journal, strangers) if journal else []
        return replace(done, markers=len(unknown))


def _forget_open(
    session: OpenSession,
    store: Store,
    journal: journals.Journal | None,
    policy: Policy,
    refers: _Refers,
    *,
    dry_run: bool,
    only: Only,
) -> ForgetStats:
    """Forget an open session, which is locked unless this is a dry run."""
    if session.stat.st_mtime > only.since:
        return ForgetStats(str(session.path), kept="the session has changed since we looked at it")
    # Stores from another branch or machine hold the same secrets.
    there, torn = with_drafts(session.path, backups_of(session.path, policy))
    known = [(store, journal), *((each, _journal(each, only)) for each in there if each != store)]
    stored = set[bytes]().union(*(_stored(*each) for each in known))
    lost = set(stored)
    refer: tuple[str, ...] = ()
    if stored:
        # In a merge it is undecided which lines will remain, and so which originals exist elsewhere.
        reading.refuse_in_merge(session)
        refer = refers(session.path, known)
        for _, raw, whole in pieces_of(session.reader, session.size):
            if whole:
                lost.discard(sha256(raw).digest())
    left = sum(noted.left for _, noted in known if noted)
    if only.unneeded and (why := _needed(session, there, len(lost) + left, refer)):
        return ForgetStats(str(session.path), kept=why)
    going = recover.removable(session)
    emptied: Sequence[Path] = ()
    kept = [each for each in session.left_over.links if each not in going]
    size = reading.size_of_names([*going, *torn]) + sum(one.size for one, _ in known)
    if not dry_run:
        with failing(session.path):
            recover.refuse_unless_deletable(one for one, _ in known)
        emptied = session.pointers.forget(_forgotten(session, known, lost))
        for path in torn:
            disk.remove(path)
        for one, _ in reversed(known):
            kept = recover.forget(session, one)
    committed = _in_git_objects(session.path, (noted for _, noted in known))
    stats = ForgetStats(str(session.path), size, len(stored) + left, len(lost) + left, left, committed, referring=refer)
    return replace(stats, links_kept=len(kept), emptied=tuple(map(str, emptied)))


def _forgotten(session: OpenSession, known: _Known, lost: Container[bytes]) -> Iterator[bytes]:
    """Yield the rewritten lines of a session, then the readable originals that will be lost with its stores."""
    for _, raw, whole in pieces_of(session.reader, session.size):
        digest = sha256(raw).digest()
        if whole and any(journal and journal.rewriting(digest) is not None for _, journal in known):
            yield raw
    for store, _ in known:
        yield from (line for line in damage.readable_lines(store.originals, 0) if sha256(line).digest() in lost)


def _needed(session: OpenSession, there: Sequence[Store], originals: int, refer: Sequence[str]) -> str:
    """Return why a session's stores are needed, or empty."""
    if originals:
        return f"the session needs {originals:,} of its originals"
    if refer:
        return "others need it"
    # A summary has no original. The runs that wrote it can still remove it, whatever happened on other branches.
    if any(writers(each.journal, session.path) for each in there):
        return "the session has lines that runs wrote"
    if there and git.known([session.path]):
        return f"git has a state of the session that may need it; {_ANYWAY}"
    return ""


def _forget_gone(path: Path, policy: Policy, refers: _Refers, *, dry_run: bool, only: Only) -> ForgetStats:
    """Delete a missing session's store, but not late links that may be needed. Raises SessionCompressError."""
    path = real_place(path)
    store = store_of(path, policy)
    with failing(path, state=""):
        remains, needed = _remains(path)
        there, torn = with_drafts(path, backups_of(path, policy))
        left = [*torn, *remains]
        places = [*(each for each in there if each != store), store]
        size = sum(each.size for each in places) + sum(each.lstat().st_size for each in left)
    from sessioncompress.operations.packed import way_back

    back = way_back(path)
    if not size and not needed:
        raise UsageError("it does not exist, and it has no store", where=path, state="", remedy=back)
    if way_back(path, own=True):
        # A pack has one store: the one next to the session.
        what, state = "it may need its originals when it comes back", "Nothing was deleted."
        raise Refused(what, where=path, state=state, remedy=back)
    known = [(each, _journal(each, only)) for each in reversed(places)]
    for place, journal in known:
        if only.gone and journal:
            damage.refuse_unless_whole(place, journal)
    first = known[0][1]
    dropped = first.left if first else 0
    number = sum(len(_stored(each, journal)) + (journal.left if journal else 0) for each, journal in known)
    refer = refers(path, known) if number else ()
    if only.gone and refer:
        # It may have been moved within its folder.
        return ForgetStats(str(path), gone=True, kept=f"{_MISSING}, and {refer[0]} refers to its originals; {_ANYWAY}")
    if not dry_run:
        for place in places:
            folder.refuse_linked_store(place)
        with failing(path, state=""):
            recover.refuse_unless_deletable(places)
            # A writer may have appeared meanwhile.
            _, needed_now = _remains(path)
            left = [each for each in left if each not in needed_now]
            # Delete originals and journal last, so that a later run can continue after a kill.
            for each in (*left, *(file for place in places for file in (place.originals, place.journal))):
                disk.remove(each)
            for each in filter(Path.is_dir, {store.work, *(place.folder for place in places)}):
                disk.flush_folder(each)
            for place in places:
                folder.tidy_after(place)
    committed = _in_git_objects(path, (journal for _, journal in known))
    stats = ForgetStats(str(path), size, number, number, dropped, committed, gone=True, referring=refer)
    return replace(stats, links_kept=len(needed))


def _remains(session: Path) -> tuple[list[Path], list[Path]]:
    """List temp files and late links that may be deleted, and late links whose lines may exist nowhere else.

    The latter are open for writing, or have a tail that was not picked up; without the session nothing can be compared.
    Files that are merely named like late links also stay.
    """
    if not has_leftovers(session):
        return [], []
    left_over = LeftOver(session)
    needed = list(left_over.foreign)
    for states in left_over.late.values():
        paths = [state.path(session) for state in states]
        # No one appends lines to a file that isn't regular.
        with suppress(FileNotFoundError, Refused), disk.closing(open_file(paths[0])) as fd:
            # Check before reading the size: a finished file doesn't grow.
            may_come = not is_done(fd, held(fd), states[0])
            if may_come or os.fstat(fd).st_size > min(state.drained for state in states):
                needed += paths
    return [path for path in (*left_over.drafts, *left_over.links) if path not in needed], needed


def _journal(store: Store, only: Only = ANY) -> journals.Journal | None:
    """Load the journal; None if it can't be read, or is a link or pipe, which is then deleted itself.

    Raises Refused if a folder is in a file's place, or if our folder is a link. If options chose the store, also raises
    Damaged, because an unreadable journal may still be repaired.
    """
    folder.refuse_linked_store(store)
    try:
        journal = journals.load(store.journal, to_hole=only == ANY)
        if only != ANY and size_of(store.originals) not in (None, journal.store_size):
            damage.refuse_if_of_another(store, journal)
    except (Damaged, Refused):
        if only != ANY:
            raise
        return None
    return journal


def _referring(
    session: Path,
    known: _Known,
    policy: Policy,
    others: Callable[[], Sequence[Marked]],
    around: Sequence[Path],
) -> tuple[str, ...]:
    """List the sessions, also packed ones and those in its database, with markers that refer to these originals."""
    own, found = set[str](), list[str]()
    marked = [*_packs_above(session.parent).marked, *others()]
    with suppress(SessionCompressError):
        own.add(reading.whose(session)[1].id)
    for store, journal in known:
        ids = own.union(journal.session_ids if journal else ())
        found += referring(session, ids, store, journal, policy, around)
        # An unreadable session may have some.
        found += [name for name, left in marked if left is None or may_know(journal, left)]
    return tuple(found)


def _stored(store: Store, journal: journals.Journal | None) -> set[bytes]:
    """Return the SHA-256 of the stored originals: by the journal, or else of all that can be read."""
    if journal is None or not journal.runs:
        found: set[bytes] = set()
        with suppress(Refused):
            found.update(sha256(line).digest() for line in damage.readable_lines(store.originals, 0))
        return found
    size = size_of(store.originals) or 0
    records = ((row, journal.line(row).place) for row in journal.kept)
    there = (row for row, place in records if isinstance(place, InBlob) or (place and place.frame < size))
    return set(map(journal.original_of, there))


def _in_git_objects(session: Path, noted: Iterable[journals.Journal | None]) -> int:
    """Count the originals whose blobs git has here, in a commit or not yet deleted; all, if it can't be asked."""
    found = set[bytes]()
    with closing(git.Blobs(session.parent)) as blobs:
        has = cache(partial(_has, blobs))
        for journal in filter(None, noted):
            places = ((row, journal.line(row).place) for row in journal.kept)
            found |= {journal.original_of(row) for row, at in places if isinstance(at, InBlob) and has(at.blob)}
    return len(found)


def _has(blobs: git.Blobs, name: str) -> bool:
    try:
        return blobs.read(name) is not None
    except FileFailed:
        return True
