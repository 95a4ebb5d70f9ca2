"""The last line of a journal, without the rest of it."""

from __future__ import annotations

import os
from pathlib import Path

from sessioncompress.store.layout import Beside

LONGEST = 1 << 20
"""Bytes. No record that a run writes of itself is longer."""


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


def has_leftovers(files: Beside, name: str) -> bool:
    """Say whether something lies beside a session, by its name, that a run looks after before all else."""
    try:
        names = os.listdir(files.work)
    except FileNotFoundError:
        return False
    return any(found.startswith((f"{name}.late-", f"{name}.temp-")) for found in names)
