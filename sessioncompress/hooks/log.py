"""One line a thing worth knowing of the hooks, for an agent shows nothing of them: bounded, and for its owner alone."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from sessioncompress.core.text import printable
from sessioncompress.errors import FileFailed
from sessioncompress.store import disk, layout
from sessioncompress.store.disk import appending

LARGEST = 256 * 1024
"""Bytes of the log, and of the one before it, which it takes the place of."""

_LONGEST = 2000


def file() -> Path:
    """Return where the log is."""
    return layout.state_folder() / "hook.log"


def note(hook: str, text: str) -> None:
    """Add a line. Where that cannot be done nothing happens: a hook never fails."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = printable(f"{at} {hook}: {text}")[:_LONGEST] + "\n"
    with suppress(OSError, FileFailed):
        _make_room(file())
        with appending(file()) as add:
            add(line.encode())


def _make_room(path: Path) -> None:
    disk.make_folder(path.parent)
    with suppress(FileNotFoundError):
        if path.lstat().st_size >= LARGEST:
            disk.replace(path, path.with_name(f"{path.name}.1"))
