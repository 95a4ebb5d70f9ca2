"""A small file that is no session, written whole in one step: who opens it gets the old one or the new one."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sessioncompress.store import disk
from sessioncompress.store.metadata import copy_metadata


def put(path: Path, data: bytes) -> None:
    """Write a file; one that is there keeps its mode, owner and attributes, a new one is 0600. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{time.time_ns():x}")
    fd = disk.create(temporary)
    try:
        disk.write_all(fd, data)
        _like(path, fd)
        disk.flush(fd)
        disk.replace(temporary, path)
    except BaseException:
        disk.remove(temporary)
        raise
    finally:
        os.close(fd)
    disk.flush_folder(path.parent)


def _like(path: Path, fd: int) -> None:
    try:
        old = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        copy_metadata(old, fd, newest=time.time_ns())
    finally:
        os.close(old)
