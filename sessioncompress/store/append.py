"""Lines added to the end of a file that others may add to at the same time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sessioncompress.store import disk


def _anything(fd: int) -> None:
    del fd


@contextmanager
def appending(path: Path, check: Callable[[int], None] = _anything) -> Iterator[Callable[[bytes], None]]:
    """Open a file, created 0600 if it is not there; give what adds a line to its end as it is then.

    `check` sees the open file and raises where nothing is to be added. Raises OSError, for a symbolic link too.
    """
    with suppress(FileExistsError):
        os.close(disk.create(path))
    fd = disk.open_existing(path, append=True)
    try:
        check(fd)
        yield lambda line: disk.write_all(fd, line)
    finally:
        os.close(fd)
