"""The names of late links: second names of replaced files, kept while another program may still append to them.

A name tells the next run how to treat the file, and a cloned repository or an unpacked archive may contain any name. So
each name ends with a seal, made with a key that never leaves this machine. A name counts only with its seal and on the
very file that it was given to.
"""

from __future__ import annotations

import hmac
import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from sessioncompress.store import disk
from sessioncompress.store.layout import FOLDER
from sessioncompress.store.machine import make_key

_NUMBERS = "-".join(rf"([0-9]{{1,{digits}}})" for digits in (20, 18, 18, 18, 20))
_SEALED = re.compile(rf"({_NUMBERS}-([0-9a-f]{{8}})-([0-9a-f]{{16}}))-([0-9a-f]+)")
_LATE = re.compile(r"[0-9a-f-]+")
_DRAFT = re.compile(r"[0-9a-f]{8}")
NO_DRAFT = "0" * 8
"""Means "no draft" in the state of a file that was moved out when the old one was restored."""
_SEAL_BYTES = 6
PREFIX_BYTES = 8


class LateLink(NamedTuple):
    """A late link and its state, which its name encodes so that no crash can separate the two.

    The replaced session keeps this name; `inode` is its own number. Its first `drained` bytes, whose digest is
    `prefix`, are in the file with inode number `successor`; the bytes after them belong there at byte `base`. `since`
    is when it was replaced, in seconds since 1970. `draft` was the ending of the name of the successor's temp file.
    While a successor is being put in place, both states have a name; the inode at the session's path decides which one
    counts.
    """

    inode: int
    since: int
    drained: int
    base: int
    successor: int
    draft: str
    prefix: str

    def moved(self, fd: int, drained: int, base: int) -> LateLink:
        """Return the state after more of the file with descriptor `fd` was carried over."""
        prefix = self.prefix if drained == self.drained else prefix_of(fd, drained)
        return self._replace(drained=drained, base=base, prefix=prefix)

    def path(self, session: Path) -> Path:
        """Return the path of the link."""
        # The seal covers exactly these fields.
        fields = "-".join(map(str, self))
        return session.parent / FOLDER / f"{session.name}.late-{fields}-{_seal(session.name, fields)}"


def prefix_of(fd: int, size: int) -> str:
    """Return the digest of a file's first `size` bytes, cut to the digits in a name; all 0 if the file is shorter."""
    return (disk.digest(fd, 0, size) or bytes(PREFIX_BYTES))[:PREFIX_BYTES].hex()


def now() -> int:
    """Return the time in seconds since 1970, limited to the digits in a name."""
    return min(max(int(time.time()), 0), 10**18 - 1)


def longest_name(session: Path, inode: int, size: int) -> int:
    """Return the length in bytes of the longest name, a late link's, that a run needs for a session of `size` bytes."""
    longest = LateLink(inode, now(), size, size, inode, NO_DRAFT, "0" * 2 * PREFIX_BYTES)
    return len(os.fsencode(longest.path(session).name))


class LeftOver:
    """The files that earlier runs left of a session in our folder, listed once. Raises OSError.

    While the session is locked, no other sessioncompress run adds to them, and name() and drop() keep the list current.
    `foreign` are files that are named like late links but were not made by this user's runs here. `drafts` are temp
    files; if the session is locked, killed runs left them.
    """

    def __init__(self, session: Path) -> None:
        self._session = session
        self._states: list[LateLink] = []
        self.foreign: list[Path] = []
        self.drafts: list[Path] = []
        folder, late, draft = session.parent / FOLDER, f"{session.name}.late-", f"{session.name}.temp-"
        try:
            names = [name for name in os.listdir(folder) if name.startswith((late, draft))]
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in sorted(names):
            path = folder / name
            if name.startswith(draft):
                if _DRAFT.fullmatch(name, len(draft)) and stat.S_ISREG(path.lstat().st_mode):
                    self.drafts.append(path)
            elif state := _state_in(path, session):
                self._states.append(state)
            elif _LATE.fullmatch(name, len(late)):
                self.foreign.append(path)

    def __bool__(self) -> bool:
        return bool(self._states or self.foreign or self.drafts)

    @property
    def late(self) -> dict[int, list[LateLink]]:
        """The states of each replaced file, by its inode number."""
        found: dict[int, list[LateLink]] = {}
        for state in self._states:
            found.setdefault(state.inode, []).append(state)
        return found

    def replaced(self, session: int) -> dict[int, list[LateLink]]:
        """The states of each replaced file, without the session itself, which has that inode number.

        After a run that was killed before its swap, the linked file is still the session.
        """
        return {inode: states for inode, states in self.late.items() if inode != session}

    @property
    def links(self) -> list[Path]:
        """All files that are named like late links."""
        return [*(state.path(self._session) for state in self._states), *self.foreign]

    def names_of(self, inode: int) -> list[Path]:
        """List the names in our folder of the session itself, which has that inode number.

        A run that is killed before its swap leaves one, and so does one killed while a session is unpacked. No matter
        who made it, it holds nothing that the session lacks.
        """
        return [path for path in (*self.links, *self.drafts) if path.lstat().st_ino == inode]

    def name(self, state: LateLink) -> Path:
        """Record that a state gets a name, and return the path."""
        self._states.append(state)
        return state.path(self._session)

    def drop(self, states: Iterable[LateLink]) -> None:
        """Remove late links."""
        for state in states:
            disk.remove(state.path(self._session))
            self._states = [each for each in self._states if each != state]


def _state_in(path: Path, session: Path) -> LateLink | None:
    """Return the state in the name of a late link, or None.

    It counts only with its seal, on the file that it was given to, and only if that file belongs to root, this user or
    the session's owner.
    """
    name = _SEALED.fullmatch(path.name, len(f"{session.name}.late-"))
    if name is None:
        return None
    fields, *numbers, draft, prefix, seal = name.groups()
    if not hmac.compare_digest(seal, _seal(session.name, fields)):
        return None
    there, owners = path.lstat(), {0, os.geteuid()}
    with suppress(FileNotFoundError):
        owners.add(session.lstat().st_uid)
    inode, since, drained, base, successor = map(int, numbers)
    if stat.S_ISREG(there.st_mode) and there.st_ino == inode and there.st_uid in owners:
        return LateLink(inode, since, drained, base, successor, draft, prefix)
    return None


def holding_state(states: Sequence[LateLink], inode: int) -> LateLink:
    """Return the state of a replaced file that counts while the session is the file with that inode number.

    If none names it, the agent has put its own file there. Then take the least drained state: duplicate lines are
    better than lost ones.
    """
    named = [state for state in states if state.successor == inode]
    return named[0] if named else min(states, key=lambda state: state.drained)


def current_state(states: Sequence[LateLink], inode: int, size: int) -> LateLink:
    """Return the counting state, placed in a session of `size` bytes: at its end if the state names another file."""
    state = holding_state(states, inode)
    return state._replace(base=min(state.base, size) if state.successor == inode else size, successor=inode)


def _seal(session: str, fields: str) -> str:
    return blake2b(os.fsencode(f"{session}/{fields}"), key=make_key(), digest_size=_SEAL_BYTES).hexdigest()
