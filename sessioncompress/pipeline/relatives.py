"""A session's relatives, from which it was forked or goes on, and its markers whose originals only they may hold."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import NamedTuple, TypeAlias

from sessioncompress.core.jsonl import parse, pieces_of
from sessioncompress.core.marker import PREFIX_BYTES, adds_up, references, stands_in
from sessioncompress.core.model import Block, Kind, OurKey
from sessioncompress.core.references import FEWEST_DIGITS
from sessioncompress.core.text import counted
from sessioncompress.errors import NOT_CHANGED, Refused, SessionCompressError
from sessioncompress.formats import table
from sessioncompress.formats.base import Name
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.discover import handed
from sessioncompress.pipeline.rewrite import value_at
from sessioncompress.policy.model import Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import JOURNAL, Store, last_line, owners, store_at
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.pack import Entry
from sessioncompress.store.packing import Pack, readable_packs
from sessioncompress.store.records import RunRecord, decode

_MOST = 16
"""Relatives of one session that are looked at: each may name others."""
_MOST_FILES = 1 << 14
"""Files of which a command knows what they say as long as they are the same: a folder may have thousands."""
_HEADER_SECONDS = 1.0
"""How long a command takes the headers of a folder's sessions for what they are."""

State: TypeAlias = tuple[int, int, int, int] | None


class Relative(NamedTuple):
    """A session, which itself may be gone, and its store."""

    session: Path
    store: Store
    journal: Journal


def relatives_of(session: OpenSession, policy: Policy, form: str | None = None) -> list[Relative]:
    """Find the relatives of a session that have a store, nearest first.

    A relative has the session's id, or is what the header of the session, or of a relative, names as its parent. A
    header is data, perhaps a stranger's, and must not choose where originals are read: a relative lies in the same
    folder as the session, or both lie where one agent of this user keeps its sessions. Raises Refused where the session
    is of no format, and what reading a relative's journal raises.
    """
    head = reading.head_in(session)
    name = reading.format_of(session, form, head).named(head)
    stores = (stored(path, policy) for path in named_by(name, session.path, policy) if path != session.path)
    return [each for each in stores if each.journal.runs]


def packed_kin(session: OpenSession, form: str | None = None) -> list[tuple[Pack, Entry]]:
    """Find the packed sessions with a store that a session's header names, or that were at its place.

    Only packs of its folder and of those above are read. Raises Refused where the session is of no format.
    """
    head = reading.head_in(session)
    name = reading.format_of(session, form, head).named(head)
    ids, files = {name.id, *name.parents} - {""}, set(map(_last_of, name.parents))
    found = []
    for pack in readable_packs(session.path.parents):
        for entry in pack.packed():
            place = pack.place(entry)
            is_beside = place.name in files and place.parent == session.path.parent
            if len(entry.members) > 1 and (place == session.path or entry.id in ids or is_beside):
                found.append((pack, entry))
    return found


def named_by(name: Name, session: Path, policy: Policy) -> list[Path]:
    """Find the sessions that the header of a session names, and the headers of those, nearest first.

    The session itself may be among them: another one of its folder with the same header has the same relatives.
    """
    names = [name]
    found: dict[Path, None] = {}
    for each in names:
        for path in _named(each, session, policy):
            if path not in found and len(found) <= _MOST:
                found[path] = None
                if (other := name_of(path)) not in names:
                    names.append(other)
    return list(found)


class _Headers:
    """What the headers of the sessions in a folder said at one moment, to be found by what they say."""

    def __init__(self, folder: Path) -> None:
        self.since = time.monotonic()
        self.state = state_of(folder)
        self.ids: dict[Path, str] = {}
        self.with_id: defaultdict[str, list[Path]] = defaultdict(list)
        self.of_file: defaultdict[str, list[Path]] = defaultdict(list)
        with suppress(OSError):
            for path in map(folder.joinpath, os.listdir(folder)):
                name = name_of(path)
                self.ids[path] = name.id
                self.with_id[name.id].append(path)
                for parent in name.parents:
                    self.with_id[parent].append(path)
                    self.of_file[_last_of(parent)].append(path)


class Kin:
    """Who in a folder goes on from whom, for a command that asks it of each session there.

    The headers are read once and not for each session; again where a file came or went, or after a second: a user may
    have been asked meanwhile, and an agent that has just begun a session may not have written its header before.
    """

    def __init__(self) -> None:
        self._folders: dict[Path, _Headers] = {}

    def of(self, session: Path, ids: Collection[str]) -> list[Path]:
        """Find the sessions in a session's folder that have one of its ids, or name it as a parent, or one of those.

        A fork in another folder is not looked for: that would be the whole disk.
        """
        folder = session.parent
        headers = self._folders.get(folder)
        if headers is None or time.monotonic() - headers.since >= _HEADER_SECONDS or headers.state != state_of(folder):
            headers = self._folders[folder] = _Headers(folder)
        found = {session}
        known, called = list(set(ids) - {""}), [session.name]
        asked = set(known)
        while known or called:
            more = headers.with_id.get(known.pop(), ()) if known else headers.of_file.get(called.pop(), ())
            for path in more:
                if path not in found:
                    found.add(path)
                    called.append(path.name)
                    if (own := headers.ids[path]) and own not in asked:
                        asked.add(own)
                        known.append(own)
        return sorted(found - {session})


def state_of(path: Path) -> State:
    """What tells a file from what it was before it changed; None if there is none."""
    with suppress(OSError):
        there = path.lstat()
        return there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns
    return None


def name_of(path: Path) -> Name:
    """Read what the header of a file says, if it may be a session; of a file that was not changed it is known."""
    return _header(path, state_of(path))


@lru_cache(maxsize=_MOST_FILES)
def _header(path: Path, state: State) -> Name:
    if state is not None and any(handed([path])):
        with suppress(SessionCompressError):
            return reading.whose(path)[1]
    return Name()


def _named(name: Name, session: Path, policy: Policy) -> Iterator[Path]:
    """Yield the sessions that a header names: by their paths, and by their ids in the stores near the session."""
    # Near are the session's folder, and if it is one of an agent's all folders in which that one keeps sessions.
    roots = [Path(os.path.realpath(root)) for root in table.agent_roots()]
    around = [root for root in roots if session.is_relative_to(root)]
    folders = (Path(os.path.realpath(folder)) for folder in table.agent_folders()) if around else ()
    near = dict.fromkeys([session.parent, *(folder for folder in folders if any(map(folder.is_relative_to, around)))])
    for parent in name.parents:
        # A parent is named by its file or by its id.
        if not {"/", "\\"}.isdisjoint(parent) and "\0" not in parent:
            path = Path(os.path.realpath(parent))
            # Both may have been moved or cloned since.
            yield path if path.parent in near else session.parent / _last_of(parent)
    ids = {name.id, *name.parents} - {""}
    for folder in near if ids else ():
        there = store_at(folder / "session.jsonl", policy)
        names: list[str] = []
        with suppress(OSError):
            names = sorted(os.listdir(there.folder))
        for file, owner in owners(there, (each for each in names if each.endswith(JOURNAL))):
            journal = there.folder / file
            # In other folders only what ends with an id is opened.
            opened = folder == session.parent or Path(owner).stem.endswith(tuple(ids))
            if opened and _noted_id(journal, state_of(journal)) in ids:
                yield folder / owner


def _last_of(parent: str) -> str:
    return parent.replace("\\", "/").rpartition("/")[2]


@lru_cache(maxsize=_MOST_FILES)
def _noted_id(journal: Path, state: State) -> str:
    """Read the id that the newest run noted; empty if the journal does not end with a whole record of one."""
    del state
    with suppress(OSError, ValueError, KeyError, TypeError, SessionCompressError):
        refuse_linked(journal)
        run = decode(last_line(journal))
        return run.session_id if isinstance(run, RunRecord) else ""
    return ""


def stored(path: Path, policy: Policy) -> Relative:
    """Find a session's store. Raises what reading the journal raises."""
    store = store_at(path, policy)
    return Relative(path, store, _journal(store.journal, state_of(store.journal)))


@lru_cache(maxsize=2 * _MOST)
def _journal(path: Path, state: State) -> Journal:
    """Read a journal: many sessions may have the same relatives."""
    del state
    return journals.load(path)


class Markers(NamedTuple):
    """In how many texts of a session a marker stands as we write it; how many in calls, and how many name nothing."""

    texts: int = 0
    in_calls: int = 0
    nameless: int = 0


class Stranger(NamedTuple):
    """A text with a marker that a session's own journal does not know: what it names, if anything, and its identity."""

    reference: str
    key: OurKey


def markers_of(session: OpenSession, form: str | None = None) -> Markers:
    """Count a session's markers; none in what is no session. `form` names its format where it is known."""
    found = [(block.kind, references(text)) for block, text in _marked(session, form)]
    kinds = [kind for kind, _ in found]
    return Markers(len(found), kinds.count(Kind.ARGUMENT), sum(not named for _, named in found))


def strangers_of(session: OpenSession, journal: Journal, form: str | None = None) -> list[Stranger]:
    """Find the texts with a marker as we write it that names what the session's own journal does not know."""
    return unknown_to(journal, not_in_place(session, journal, form))


def not_in_place(session: OpenSession, journal: Journal, form: str | None = None) -> list[Stranger]:
    """Find the texts with a marker as we write it in lines that the session's own journal does not know.

    What stands in a line that the journal knows stood there before our run, and is content. Of the others nothing
    tells for certain whether another session, or another side of this one, was rewritten there, or a tool printed all
    of such a text: they are counted, and no command fails for them. Not even where a text cannot be read: then none
    is counted, since an exact restore and a check go by digests alone. A session without a journal has strangers alone.
    """
    try:
        return [
            Stranger(next(iter(references(text)), ""), (block.digest, block.kind, block.call))
            for block, text in _marked(session, form, journal)
            if not journal.runs or (references(text) and adds_up(text))
        ]
    except (ValueError, TypeError, LookupError, RecursionError):
        return []


def unknown_to(journal: Journal, strangers: Sequence[Stranger]) -> list[Stranger]:
    """Keep those of the texts that a journal does not know, by what they name or by what they are."""
    known = {xxh3[:FEWEST_DIGITS] for _, xxh3 in journal.references} if strangers else set()
    return [each for each in strangers if each.reference[:FEWEST_DIGITS] not in known and each.key not in journal]


def unknown_to_all(relatives: Iterable[Relative], strangers: Sequence[Stranger]) -> list[Stranger]:
    """Keep those of the texts that no journal of a session's relatives knows."""
    for each in relatives:
        strangers = unknown_to(each.journal, strangers)
    return list(strangers)


def refuse_if_marked(session: OpenSession, store: Store, policy: Policy, form: str | None = None) -> None:
    """Raise Refused where a session without a journal has markers: it was moved, copied or forked."""
    strangers = strangers_of(session, Journal(), form)
    if not strangers:
        return
    relatives = [each for each in relatives_of(session, policy, form) if may_know(each.journal, strangers)]
    unknown = unknown_to_all(relatives, strangers)
    known, nameless = len(strangers) - len(unknown), sum(not each.reference for each in unknown)
    # The error begins with the whole path: the rest names what lies beside the session without it.
    again, here = "'sessioncompress restore --from-markers", session.path.parent
    files = f"{_seen_from(here, store.journal)} and {store.originals.name}"
    why = "its originals were not committed or copied with it, or it was renamed without them, or they were deleted"
    ways = []
    if known:
        why = "it is a fork, copy or continuation of another session, or was renamed"
        lie = f"The originals of {f'{known:,}' if unknown else 'all'} are in the store of "
        lie += " and of ".join(_seen_from(here, each.session) for each in relatives)
        ways.append(f"{lie}: {again}' with its path puts them back.")
        if not all(os.path.lexists(each.session) for each in relatives):
            ways.append(f"If it was renamed, rename its two files too, to {files}; then a restore is exact.")
    for pack, entry in packed_kin(session, form) if nameless < len(unknown) else ():
        place = pack.place(entry)
        why = "the session that it is a fork, copy or continuation of is packed"
        back = f"'sessioncompress unpack {quote(str(place))}' brings it back with its originals"
        is_here = place == session.path
        ways.append(f"{f'Move this one away; {back}' if is_here else f'{back}; then run this again'}.")
    if nameless < len(unknown):
        who = "another session has the others" if known else "the session it was, or is a copy of, still has them"
        ways.append(
            f"If {who}, {again} --originals OTHER PATH' puts them back; OTHER is the path of that session. If its two "
            f"files are elsewhere, put them here as {files}, or name their folder with --backup-dir. What 'clean' or "
            "'forget' deleted is gone."
        )
    if nameless:
        ways.append(
            f"{counted(nameless, 'marker names', 'markers name')} no original, since none was kept (keepBackup: "
            "false). Only a copy of the session can bring back what they stand for."
        )
    raise Refused(
        f"it has {counted(len(strangers), 'marker', 'markers')}, but its store is missing: {why}",
        where=session.path,
        state=NOT_CHANGED,
        remedy=" ".join(ways),
    )


def _seen_from(folder: Path, path: Path) -> str:
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def referring(
    session: Path, ids: Collection[str], store: Store, journal: Journal | None, policy: Policy, kin: Kin
) -> list[str]:
    """Name the sessions in a session's folder with markers that its originals alone can expand.

    `journal` is None where it cannot be read: then every marker of its kin that nobody else knows may be one.
    """
    relatives = cache(lambda name: named_by(name, session, policy))
    found = []
    for path in kin.of(session, ids):
        own = store_at(path, policy).journal
        left = _nameable(path, state_of(path), own, state_of(own))
        # Relatives are looked for only where they count.
        for relative in relatives(name_of(path)) if may_know(journal, left) else ():
            if relative != path and store_at(relative, policy) != store:
                with suppress(SessionCompressError):
                    left = unknown_to(stored(relative, policy).journal, left)
            if not left:
                break
        if may_know(journal, left):
            found.append(path.name)
    return found


@lru_cache(maxsize=1 << 10)
def _nameable(kin: Path, state: State, own: Path, of_own: State) -> Sequence[Stranger]:
    """Find the texts of a session with a marker that names what its own journal does not know; read once."""
    del state, of_own
    with suppress(SessionCompressError), open_session(kin, writing=False) as session:
        return [each for each in strangers_of(session, journals.load(own)) if each.reference]
    return []


def may_know(journal: Journal | None, strangers: Sequence[Stranger]) -> bool:
    """Tell whether a journal, None if it cannot be read, may know one of the texts."""
    return bool(strangers) and (journal is None or len(unknown_to(journal, strangers)) < len(strangers))


def _marked(session: OpenSession, form: str | None, journal: Journal | None = None) -> Iterator[tuple[Block, str]]:
    """Yield the texts in which a marker stands as we write it, but for lines that a journal knows; with the blocks."""
    try:
        reader = reading.format_of(session, form).reader()
    except Refused:
        return
    for _, raw, whole in pieces_of(session.reader, session.size):
        if not whole or PREFIX_BYTES not in raw:
            continue
        digest = sha256(raw).digest()
        if journal and (journal.rewriting(digest) is not None or journal.original(digest) is not None):
            continue
        entry = parse(raw)
        for block in reader.line(raw, entry).blocks if entry is not None else ():
            text = value_at(entry or {}, block.path) if block.marked else ""
            if stands_in(text, in_arguments=block.kind is Kind.ARGUMENT):
                yield block, text
