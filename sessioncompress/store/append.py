"""Lines added to the end of a file that others may add to at the same time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sessioncompress.store import durable


@contextmanager
def appending(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Open a file, created 0600 if it is not there; give what adds a line to its end as it is then. Raises OSError."""
    with suppress(FileExistsError):
        os.close(durable.create(path))
    fd = durable.open_existing(path, append=True)
    try:
        yield lambda line: durable.write_all(fd, line)
    finally:
        os.close(fd)
