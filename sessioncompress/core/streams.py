"""What becomes of the output when its reader goes away: the work goes on, and what it says is dropped."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Raw(io.FileIO):
    """A stream of the process that takes for written what nobody reads any more."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write the bytes, or drop them where the reader has gone."""
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def outlive_their_readers() -> None:
    """Let stdout and stderr drop what nobody reads: `compress ARCHIVE | head` must not end half-way."""
    if sys.platform == "win32":  # has no such error, and consoles that are no files
        return
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)


def _outliving(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):  # one that was closed from the start is None
        return stream
    raw = io.BufferedWriter(_Raw(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
