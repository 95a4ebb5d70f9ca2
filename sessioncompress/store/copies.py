"""Folders for copies of sessions that are only read: they go with the block, at a signal, and after a kill later."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

from sessioncompress.core.process import emptied_at_a_signal
from sessioncompress.store import disk
from sessioncompress.store.lock import lock

_PREFIX: Final = "sessioncompress-copy-"
_LEFT_SECONDS: Final = 3600


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder that nobody else may enter. Raises OSError."""
    _sweep()
    with TemporaryDirectory(prefix=_PREFIX) as made, disk.closing(disk.open_folder(Path(made))) as fd:
        # What is locked is in use.
        lock(fd)
        with emptied_at_a_signal(made):
            yield Path(os.path.realpath(made))


@cache
def _sweep() -> None:
    """Remove what killed runs left: it holds what sessions hold."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            if found.st_uid != os.getuid() or time.time() - found.st_mtime < _LEFT_SECONDS:
                continue
            with disk.closing(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)) as fd:
                if lock(fd):
                    rmtree(folder, ignore_errors=True)
