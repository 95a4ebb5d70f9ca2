"""A session's relatives (its fork parents and predecessors), and markers whose originals only a relative may hold."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from sessioncompress.core.jsonl import holds, parse, parse_any
from sessioncompress.core.marker import PREFIX_BYTES, adds_up, references, stands_in
from sessioncompress.core.model import Kind, OurKey
from sessioncompress.core.references import FEWEST_DIGITS
from sessioncompress.core.text import counted, quote, restoring
from sessioncompress.errors import Damaged, Refused, SessionCompressError
from sessioncompress.formats import table
from sessioncompress.formats.base import Name
from sessioncompress.pipeline import reading, rollouts
from sessioncompress.pipeline.discover import handed
from sessioncompress.pipeline.rewrite import recorded, value_at
from sessioncompress.policy.model import Policy
from sessioncompress.store import journal as journals
from sessioncompress.store import layout
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Store, backups_of, hidden_in, last_line, size_of, store_at, stores_in
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.machine import folder_name
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.packing import Packed, packed_around
from sessioncompress.store.records import RunRecord, decode

_MOST = 16
"""Maximum number of relatives examined per session; each may name more."""
_HEADER_SECONDS = 1.0
"""Seconds for which cached headers of a folder's sessions stay valid."""
_MARKER_SECONDS = 30.0
"""The same for their markers: an index of thousands of sessions takes a part of a second."""

State: TypeAlias = tuple[int, int, int, int] | None
_Read = TypeVar("_Read")


def state_of(path: Path) -> State:
    """Return a file's identity, size and times, which reveal a change; None if it doesn't exist."""
    with suppress(OSError):
        there = path.lstat()
        return there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns
    return None


def _once(most: int) -> Callable[[Callable[..., _Read]], Callable[..., _Read]]:
    """Cache a function that reads files until one of them changes."""

    def remembering(read: Callable[..., _Read]) -> Callable[..., _Read]:
        known = lru_cache(maxsize=most)(lambda paths, _: read(*paths))
        return lambda *paths: known(paths, tuple(map(state_of, paths)))

    return remembering


@_once(1 << 14)
def name_of(path: Path) -> Name:
    """Read a file's header, if it may be a session."""
    with suppress(SessionCompressError):
        if path.name.endswith(rollouts.ENDING):
            return rollouts.whose(path)[1]
        return reading.whose(path)[1] if any(handed([path])) else Name()
    return Name()


@_once(1 << 14)
def _noted_id(journal: Path) -> str:
    """Return the session id in the newest run's record, or empty if the journal doesn't end with a valid one."""
    with suppress(OSError, ValueError, KeyError, TypeError, SessionCompressError):
        refuse_linked(journal)
        run = decode(last_line(journal))
        return run.session_id if isinstance(run, RunRecord) else ""
    return ""


_journal = _once(2 * _MOST)(journals.load)
"""Cached, because many sessions may share relatives."""


class Relative(NamedTuple):
    """A session, which may be missing, and its store."""

    session: Path
    store: Store
    journal: Journal


def relatives_of(session: OpenSession, policy: Policy) -> tuple[list[Relative], list[Damaged]]:
    """Find the relatives of a session that have a store, nearest first, and the errors of damaged journals.

    A relative has the session's id, or is named as a parent by the header of the session or of a relative. A header is
    untrusted and must not choose where originals are read from. So a relative must be in the session's folder, or both
    must be where one of this user's agents keeps its sessions. Raises Refused if the session has no known format, and
    FileFailed if a relative's journal can't be opened.
    """
    found, damaged = list[Relative](), list[Damaged]()
    for path in _named_by(_named_in(session), session.path, policy):
        for each in _stores_of(path, policy) if path != session.path else ():
            # A damaged journal must not keep this session from the others.
            try:
                found.append(Relative(path, each, _journal(each.journal)))
            except Damaged as error:
                damaged.append(error)
    return [each for each in found if each.journal.runs], damaged


def _stores_of(path: Path, policy: Policy) -> Iterable[Store]:
    """Return the session's active store plus this user's, else all: one branch's store may lack what a fork needs."""
    backups = backups_of(path, policy)
    # Without the machine key, the store folder's name is unknown too.
    ours = [each for name in [folder_name()] if name and layout.holds(each := hidden_in(path, name, backups))]
    return dict.fromkeys((store_at(path, policy), *(ours or layout.all_stores(path, backups))))


def _named_in(session: OpenSession) -> Name:
    head = reading.head_in(session)
    return reading.format_of(session, head).named(head)


def packed_kin(session: OpenSession) -> list[Packed]:
    """Find packed sessions with a store that a session's header names, or that were packed from its path.

    Reads only packs in its folder and in parent folders. Raises Refused if the session has no known format.
    """
    name = _named_in(session)
    ids, files = {name.id, *name.parents} - {""}, set(map(_last_of, name.parents))
    found = []
    for each in packed_around(session.path.parent):
        is_beside = each.place.name in files and each.place.parent == session.path.parent
        is_kin = each.place == session.path or each.entry.id in ids or is_beside
        if each.is_packed and len(each.entry.members) > 1 and is_kin:
            found.append(each)
    return found


def _named_by(name: Name, session: Path, policy: Policy) -> list[Path]:
    """Find the sessions that a session's header names, and those that their headers name, nearest first.

    The session itself may be included: another session in the folder with the same header has the same relatives.
    """
    near = _near(session)
    stores = cache(lambda folder: _stores(folder, policy))
    names, found = [name], dict[Path, None]()
    for each in names:
        for path in _named(each, near, stores):
            if path not in found and len(found) <= _MOST:
                found[path] = None
                names += {name_of(path)}.difference(names)
    return list(found)


def _near(session: Path) -> list[Path]:
    """List the session's folder and, if an agent keeps its sessions there, all folders of that agent."""
    of_agents = (list(map(_real, table.named_roots(agent))) for agent in table.NAMES)
    roots = [root for each in of_agents if any(map(session.is_relative_to, each)) for root in each]
    folders = (each for each in map(_real, table.agent_folders()) if any(map(each.is_relative_to, roots)))
    return [*dict.fromkeys([session.parent, *(folders if roots else ())])]


def _stores(folder: Path, policy: Policy) -> list[tuple[Path, Store]]:
    with suppress(OSError):
        return stores_in(folder, backups_of(folder / "session.jsonl", policy))
    return []


def _named(name: Name, near: Sequence[Path], stores: Callable[[Path], Sequence[tuple[Path, Store]]]) -> Iterator[Path]:
    """Yield the sessions that a header names: by path, and by id in the stores near the session."""
    # A header names a parent by file or by id.
    for parent in [each for each in name.parents if not {"/", "\\"}.isdisjoint(each) and "\0" not in each]:
        path = _real(parent)
        # Both may have been moved or cloned since.
        yield path if path.parent in near else near[0] / _last_of(parent)
    ids = {name.id, *name.parents} - {""}
    for folder in near if ids else ():
        for owner, store in stores(folder):
            # In other folders, open only stores whose name ends with an id.
            is_likely = folder == near[0] or owner.stem.endswith(tuple(ids))
            if is_likely and _noted_id(store.journal) in ids:
                yield owner


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _last_of(parent: str) -> str:
    return parent.replace("\\", "/").rpartition("/")[2]


def kin_of(session: Path, ids: Collection[str]) -> list[Path]:
    """Find the sessions that share one of a session's ids, or that name it or one of the found sessions as a parent.

    Searches its folder and, if an agent keeps its sessions there, all of that agent's folders, but not the whole disk.
    """
    # Cache headers across sessions. Read them again if a file appeared or vanished, or after a second: the user may
    # have taken time to answer a question, and an agent may not have written a new session's header yet.
    now = time.monotonic() // _HEADER_SECONDS
    near = [_by_name(folder, state_of(folder), now) for folder in _near(session)]
    found, asked, waiting = {session}, {""}, [session.name, *ids]
    while waiting:
        key = waiting.pop()
        more = set() if key in asked else set[Path]().union(*(each.get(key, ()) for each in near)) - found
        asked.add(key)
        found |= more
        waiting += [each for path in more for each in (path.name, name_of(path).id)]
    return sorted(found - {session})


@lru_cache(maxsize=1 << 10)
def _by_name(folder: Path, *_: object) -> Mapping[str, set[Path]]:
    """Index the sessions in a folder by id, and by their parents' ids and file names."""
    named = defaultdict[str, set[Path]](set)
    with suppress(OSError):
        for path in map(folder.joinpath, os.listdir(folder)):
            name = name_of(path)
            for key in (name.id, *map(_last_of, name.parents)):
                named[key].add(path)
    return named


class Stranger(NamedTuple):
    """A text with a marker that the session's own journal does not know: its reference, if any, and its identity."""

    reference: str
    key: OurKey


def strangers_of(session: OpenSession, journal: Journal) -> list[Stranger]:
    """Find texts with a valid marker in lines that the session's own journal does not know.

    If the journal knows a line, a marker in it was there before our run and is content. Otherwise the line may belong
    to another session or another branch of this one, or a tool printed such a text; nothing proves which. So they are
    counted, and no command fails because of them. If a text can't be read, none are counted; exact restore and
    verification use only digests. A session without a journal has only such texts.
    """
    found = []
    try:
        reader = rollouts.read(session)[0].reader()
        for _, raw, whole in rollouts.pieces(session):
            digest = sha256(raw).digest() if whole and PREFIX_BYTES in raw else b""
            is_known = not digest or journal.rewriting(digest) is not None or journal.original(digest) is not None
            entry = {} if is_known else parse(raw) or {}
            for block in reader.line(raw, entry).blocks if entry else ():
                text = value_at(entry, block.path) if block.marked else ""
                named = references(text)
                is_ours = stands_in(text, in_arguments=block.kind is Kind.ARGUMENT)
                if is_ours and (not journal.runs or (named and adds_up(text))):
                    found.append(Stranger(next(iter(named), ""), (block.digest, block.kind, block.call)))
    except (Refused, ValueError, TypeError, LookupError, RecursionError):
        return []
    return found


def believed(journal: Journal) -> Journal:
    """Return the journal if all its runs are this user's, else an empty one, which is trusted to know no line."""
    return journal if journal.is_ours else Journal()


def unknown_to(strangers: Sequence[Stranger], *known_by: Relative) -> list[Stranger]:
    """Keep the texts whose originals no store has.

    Another user's journal, or a damaged store, may name missing originals, so there only readable ones count.
    """
    for each in known_by if strangers else ():
        is_whole = each.journal.is_ours and (size_of(each.store.originals) or 0) >= each.journal.store_size
        with OriginalsReader(each.store.originals) as originals:
            strangers = unnamed_in(each.journal, strangers, cache(partial(_is_kept, each, originals, is_whole)))
    return list(strangers)


def _knowing(session: Path, strangers: Sequence[Stranger], policy: Policy) -> Path | None:
    """Find a session in the same folder whose store wrote one of these texts, and was made by this user here."""
    ours = [each for each in _stores(session.parent, policy) if each[1].is_ours]
    return next((owner for owner, store in ours if _is_writer(store.journal, strangers)), None)


def _of_another_folder(session: Path, strangers: Sequence[Stranger], policy: Policy) -> Path | None:
    """Find a journal in the backup folder that this user wrote here for a session of this name, in another folder."""
    if (backups := backups_of(session, policy)) is None:
        return None
    ending = f"-{session.name}{layout.HISTORY}"
    named = (each for each in layout.journals_in(backups) if each.name.endswith(ending))
    ours = islice((each for each in named if each.parent.name == folder_name()), _MOST)
    return next((each for each in ours if _is_writer(each, strangers)), None)


def _is_writer(journal: Path, strangers: Sequence[Stranger]) -> bool:
    """True if a journal's runs wrote one of these texts."""
    with suppress(SessionCompressError, OSError):
        refuse_linked(journal)
        # Load only journals that name the first reference: a folder may have many stores.
        with journal.open("rb") as file:
            is_likely = holds(file, next(each.reference for each in strangers if each.reference).encode())
        return is_likely and any(each.key in _journal(journal) for each in strangers)
    return False


def _is_kept(relative: Relative, originals: OriginalsReader, is_whole: bool, row: int) -> bool:
    line, block = relative.journal.block(row)
    if line.place is None or is_whole:
        return line.place is not None
    with suppress(SessionCompressError):
        recorded(parse_any(originals.line(line.place, line.sha256)), block, relative.store.journal)
        return True
    return False


def unnamed_in(
    journal: Journal, strangers: Sequence[Stranger], counts: Callable[[int], bool] = lambda _: True
) -> list[Stranger]:
    """Keep the texts without a counting record in the journal, looked up by reference and by identity."""
    rows, wanted = defaultdict[str, list[int]](list), {each.reference[:FEWEST_DIGITS] for each in strangers}
    for row, (_, digest) in enumerate(journal.references if strangers else ()):
        if digest[:FEWEST_DIGITS] in wanted:
            rows[digest[:FEWEST_DIGITS]].append(row)

    def records(stranger: Stranger) -> Iterator[int]:
        named = stranger.reference[:FEWEST_DIGITS]
        for row in journal.replaced(stranger.key):
            # Another user's record may map a text to different content than the text's marker names.
            if not named or journal.block(row)[1].digest.startswith(named):
                yield row
        yield from rows[named]

    # Bound the lookups: an untrusted journal may have any number of records for one text.
    return [each for each in strangers if not any(map(counts, islice(records(each), _MOST)))]


def may_know(journal: Journal | None, strangers: Sequence[Stranger]) -> bool:
    """True if a journal may know one of the texts. None means that it can't be read, so it may."""
    return bool(strangers) and (journal is None or len(unnamed_in(journal, strangers)) < len(strangers))


def refuse_if_marked(stored: reading.Stored, policy: Policy) -> None:
    """Raise Refused if a session without a journal has markers: it was moved, copied or forked.

    Raises Damaged if a relative's journal is damaged, and no other relative has all the originals.
    """
    session, store = stored.session, stored.store
    strangers = strangers_of(session, Journal())
    if not strangers:
        return
    family, damaged = relatives_of(session, policy)
    relatives = [each for each in family if len(unknown_to(strangers, each)) < len(strangers)]
    unknown = unknown_to(strangers, *relatives)
    if unknown and damaged:
        raise damaged[0]
    nameless = sum(not each.reference for each in unknown)
    # The error starts with the full path, so later paths in the same folder are shortened.
    here, backups = f"{session.path.parent}/", backups_of(session.path, policy)
    again = restoring(backups, "--from-markers", quote(str(session.path)))
    files = f"{store.journal} and {store.originals.name}".removeprefix(here)
    # A branch that knew the folder's name could bring files there.
    names = files.replace(store.folder.name, "local-*") if store.is_hidden else files
    why = ""
    ways = []
    if relatives:
        why = ": it is a fork, copy or continuation of another session, or was renamed"
        known = f"{len(strangers) - len(unknown):,}" if unknown else "all"
        places = " and of ".join(str(each.session).removeprefix(here) for each in relatives)
        ways.append(f"The originals of {known} are in the store of {places}: {again} puts them back.")
        if not all(os.path.lexists(each.session) for each in relatives):
            ways.append(f"If it was renamed, rename its two files too, to {files}; then a restore is exact.")
    for place in [each.place for each in packed_kin(session)] if nameless < len(unknown) else ():
        why = ": the session that it is a fork, copy or continuation of is packed"
        back = f"'sessioncompress unpack {quote(str(place))}' brings it back with its originals"
        ways.append(f"Move this one away; {back}." if place == session.path else f"{back}; then run this again.")
    if nameless < len(unknown):
        the = "the other originals" if relatives else "the originals"
        if other := _knowing(session.path, unknown, policy):
            names_of = [quote(str(layout.as_named(each))) for each in (other, session.path)]
            takes = restoring(backups, "--from-markers --originals", *names_of)
            ways.append(f"Another session's store has originals of it: {takes} puts them back.")
        elif left := _of_another_folder(session.path, unknown, policy):
            ways.append(
                f"The store of a session of this name in another folder has {the}. If the folder was renamed, rename "
                f"its two files too, {left} and {layout.originals_of(left).name}, to {files}; then a restore is exact."
            )
        else:
            ways.append(
                f"No store here has {the}. If it was moved, move its store after it; if somebody else made it, ask for "
                f"that: {names}. If 'forget' deleted them, they are lost."
            )
    if nameless:
        ways.append(
            f"{counted(nameless, 'marker names', 'markers name')} no original, since none was kept (keepBackup: "
            "false). Only a copy of the session can bring back what they stand for."
        )
    raise Refused(
        f"it has {counted(len(strangers), 'marker', 'markers')}, but its store is missing{why}",
        where=session.path,
        remedy=" ".join(ways),
    )


def referring(
    session: Path,
    ids: Collection[str],
    store: Store,
    journal: Journal | None,
    policy: Policy,
    around: Sequence[Path] = (),
) -> list[str]:
    """List the sessions whose markers only this store can expand, with their folder if that is another one.

    These are relatives, and any session in its folder or the folders `around` with a text that the store's runs wrote:
    not every copy or fork has an id or names its parent. If `journal` is None (unreadable), assume so for every marker
    of a relative that no other store knows.
    """
    relatives = cache(lambda name: _named_by(name, session, policy))
    # A copy next to it may have any name, as one that was put aside.
    places = (((session.parent,), ""), (tuple(around), (".json", ".jsonl", rollouts.ENDING)))
    now = time.monotonic() // _MARKER_SECONDS
    left_in = [_left_in(each, ending, policy, now, *map(state_of, each)) for each, ending in places]
    texts = [*journal.texts] if journal else []
    needy = set[Path]().union(*(index.get(each, ()) for index in left_in for each in texts))
    found = []
    for path in sorted(needy.union(kin_of(session, ids)) - {session}):
        own = store_at(path, policy)
        lacks = _left_at(path, own.originals, own.journal)
        # Look for relatives only if they matter.
        for relative in relatives(name_of(path)) if may_know(journal, lacks) else ():
            if relative != path and (other := store_at(relative, policy)) != store:
                with suppress(SessionCompressError):
                    lacks = unknown_to(lacks, Relative(relative, other, _journal(other.journal)))
        if may_know(journal, lacks):
            found.append(path.name if path.parent == session.parent else str(path))
    return found


@lru_cache(maxsize=1 << 4)
def _left_in(
    folders: tuple[Path, ...], ending: str | tuple[str, ...], policy: Policy, *_: object
) -> Mapping[OurKey, set[Path]]:
    """Index the sessions in folders by their texts whose marker names an original that their own store lacks."""
    found = defaultdict[OurKey, set[Path]](set)
    for folder in folders:
        # List the stores once, not once per session.
        owners = {owner for owner, _ in _stores(folder, policy)}
        with suppress(OSError):
            named = [folder / name for name in os.listdir(folder) if name.endswith(ending)]
            for path in filter(_is_marked, named):
                own = store_at(path, policy) if path in owners else layout.plain_in(path)
                for each in _left_at(path, own.originals, own.journal):
                    found[each.key].add(path)
    return found


@_once(1 << 14)
def _is_marked(path: Path) -> bool:
    """True if a file may be a session with our markers, whatever its name. This reads it, but parses nothing."""
    if path.name.endswith(rollouts.ENDING):
        return True
    with suppress(SessionCompressError, OSError), open_session(path, writing=False) as session:
        return holds(session.reader(), PREFIX_BYTES)
    return False


@_once(1 << 14)
def _left_at(path: Path, originals: Path, journal: Path) -> list[Stranger]:
    with suppress(SessionCompressError), open_session(path, writing=False) as session:
        return left_to_others(session, Store(journal.parent, originals, journal, path.parent))
    return []


def left_to_others(session: OpenSession, store: Store) -> list[Stranger]:
    """Find a session's texts whose marker names an original that its own store lacks.

    A journal that can't be read, or that another user wrote, is not trusted to know a line. If a file system is wrong
    about a hole in it, the session seems to lack more.
    """
    journal = Journal()
    with suppress(SessionCompressError):
        journal = journals.load(store.journal, to_hole=True)
    own = Relative(session.path, store, journal)
    found = strangers_of(session, believed(journal))
    return [each for each in unknown_to(found, own) if each.reference]
