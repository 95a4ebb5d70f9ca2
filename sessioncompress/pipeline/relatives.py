"""A session's relatives: the sessions that it was forked from, or goes on from, whose originals its markers name."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from sessioncompress.errors import SessionCompressError
from sessioncompress.formats import locations
from sessioncompress.formats.base import Name
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.discover import handed
from sessioncompress.policy.model import Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import JOURNAL, Beside, beside_of, last_line, owners
from sessioncompress.store.lock import OpenSession
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
    beside: Beside
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
    roots = [Path(os.path.realpath(root)) for root in locations.agent_roots()]
    around = [root for root in roots if session.is_relative_to(root)]
    folders = (Path(os.path.realpath(folder)) for folder in locations.agent_folders()) if around else ()
    near = dict.fromkeys([session.parent, *(folder for folder in folders if any(map(folder.is_relative_to, around)))])
    for parent in name.parents:
        # A parent is named by its file or by its id.
        if not {"/", "\\"}.isdisjoint(parent) and "\0" not in parent:
            path = Path(os.path.realpath(parent))
            # Both may have been moved or cloned since.
            yield path if path.parent in near else session.parent / _last_of(parent)
    ids = {name.id, *name.parents} - {""}
    for folder in near if ids else ():
        there = beside_of(folder / "session.jsonl", policy)
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
    """The name of a file in the path that a header names."""
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
    beside = beside_of(path, policy)
    return Relative(path, beside, _journal(beside.journal, state_of(beside.journal)))


@lru_cache(maxsize=2 * _MOST)
def _journal(path: Path, state: State) -> Journal:
    """Read a journal: many sessions may have the same relatives."""
    del state
    return journals.load(path)
