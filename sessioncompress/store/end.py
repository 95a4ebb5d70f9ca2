"""What is asked of a store before anything is opened: the last line of its journal, and whether a run left anything."""

from __future__ import annotations

import os
import re
import time
from functools import lru_cache
from pathlib import Path

from sessioncompress.store.layout import named, work_folder

_LEFT_OVER = re.compile(r"(.+)\.(?:late-[0-9a-f-]+|temp-[0-9a-f]{8})", re.DOTALL)
LONGEST = 1 << 20
"""Bytes. No record that a run writes of itself is longer."""
_TICK = 2_000_000_000
"""Nanoseconds. A file system may give two changes that are no further apart the same time."""


def last_line(journal: Path) -> bytes:
    """Return the last line, with its LF; empty where the file does not end with a whole one. Raises OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    fd = os.open(journal, flags)
    try:
        size = os.fstat(fd).st_size
        step = 1 << 12
        while True:
            data = os.pread(fd, step, max(size - step, 0))
            lines = data.splitlines(keepends=True)
            if len(lines) > 1 or step >= min(size, LONGEST):
                return lines[-1] if lines and lines[-1].endswith(b"\n") and step < LONGEST else b""
            step *= 16
    finally:
        os.close(fd)


def sessions_named(work: Path) -> frozenset[str]:
    """Return the names of the sessions whose late links and temp files lie in a folder. Raises OSError."""
    try:
        names = os.listdir(work)
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    return frozenset(named(found[1]) for found in map(_LEFT_OVER.fullmatch, names) if found) - {""}


def has_leftovers(session: Path) -> bool:
    """Say whether a run left something of a session that the next one looks after before all else. Raises OSError.

    Asked before the session is locked. The folder of thousands is listed once and not once for each, until its time
    says that it has changed.
    """
    work = work_folder(session)
    try:
        changed = work.stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return False
    is_settled = time.time_ns() - changed > _TICK
    return session.name in (_listed(work, changed) if is_settled else sessions_named(work))


@lru_cache(maxsize=1)
def _listed(work: Path, _changed: int) -> frozenset[str]:
    return sessions_named(work)
