"""The names of late links: second names of replaced files, kept while someone may still append to them."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

from sessioncompress.store.beside import ENDINGS

_INODE = r"(\d{1,20})"
_SIZE = r"(\d{1,18})"
"""No file has more bytes; a longer number is no position that the system takes, and the name none of ours."""
_LEFT_OVER = r"(.+)\.(?:late-\d+-\d+-\d+-\d+-\d+|temp-[0-9a-f]{8})"


@dataclass(frozen=True, slots=True)
class Late:
    """A late link and the state that its name keeps, so that no crash can part the two.

    A session that was replaced stays under this name. Its first `drained` bytes live on in the file with inode
    number `successor`; what comes behind them belongs there at byte `base`. `since` is when it was replaced, in
    seconds since 1970. While a successor is being put in place both states have a name, and the inode at the
    session's path tells which of them holds. `inode` is the file's own number, so that no two names are the same.
    """

    inode: int
    since: int
    drained: int
    base: int
    successor: int

    def path(self, work: Path, session: Path) -> Path:
        """Name the link, in the folder for such links."""
        return work / f"{session.name}.late-{self.inode}-{self.since}-{self.drained}-{self.base}-{self.successor}"


def longest_name(session: Path, inode: int, size: int) -> str:
    """Return a name as long as any that a run needs for a session of so many bytes: that of its late link."""
    return Late(inode, int(time.time()), size, size, inode).path(session.parent, session).name


def late_links(work: Path, session: Path) -> dict[int, list[Late]]:
    """Find a session's late links: the states of each replaced file, by its inode number."""
    found: dict[int, list[Late]] = {}
    for name in _matching(work, rf"{re.escape(session.name)}\.late-{_INODE}-{_SIZE}-{_SIZE}-{_SIZE}-{_INODE}"):
        inode = (work / name[0]).lstat().st_ino
        found.setdefault(inode, []).append(Late(*map(int, name.groups())))
    return found


def holding_state(states: list[Late], inode: int) -> Late:
    """Return the one of a replaced file's states that holds while the session is the file with that inode number.

    If none names it, the agent has put a file of its own there: then rather bring lines twice than not at all.
    """
    named = [state for state in states if state.successor == inode]
    return named[0] if named else min(states, key=lambda state: state.drained)


def current(states: list[Late], inode: int, size: int) -> Late:
    """Return that state with its place in the session, which is of `size` bytes: the end, if it names another file."""
    state = holding_state(states, inode)
    return replace(state, base=min(state.base, size) if state.successor == inode else size, successor=inode)


def stale_drafts(work: Path, session: Path) -> list[Path]:
    """Find the temp files that killed runs on this session left; valid under the session's lock alone."""
    return [work / name[0] for name in _matching(work, rf"{re.escape(session.name)}\.temp-[0-9a-f]{{8}}")]


def sessions_named(work: Path) -> set[str]:
    """Return the names of the sessions whose late links and temp files lie in a folder."""
    return {name[1] for name in _matching(work, _LEFT_OVER)}


def is_ours(name: str) -> bool:
    """Say whether a file in our folder is one that we write, by its name."""
    return name.endswith(ENDINGS) or re.fullmatch(_LEFT_OVER, name, re.DOTALL) is not None


def draft_path(work: Path, session: Path) -> Path:
    """Name a new temp file for a session."""
    return work / f"{session.name}.temp-{os.urandom(4).hex()}"


def _matching(folder: Path, pattern: str) -> list[re.Match[str]]:
    """Match the names in a folder, in order; none if there is no such folder."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [match for name in names if (match := re.fullmatch(pattern, name, re.DOTALL))]
