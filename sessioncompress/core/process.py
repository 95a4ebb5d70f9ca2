"""What an interrupt does: while the program starts and ends it goes quietly, while it works the work is told."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

EXIT_CODE: Final = 130
_SAID = "\nInterrupted: the files at work are finished, no other is begun. Once more ends it at once.\n"


def ends_it() -> None:
    """Let an interrupt end the program from here on: nothing of a session is open, and a traceback says nothing.

    Where interrupts are ignored, as in the background of a shell, they stay ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def raised() -> Iterator[None]:
    """Let an interrupt raise KeyboardInterrupt for a block, as it does anyway unless ends_it() was called."""
    if signal.getsignal(signal.SIGINT) is not _end:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """Only note the first interrupt in a block that works on several files; raise the next one.

    Yields a function that says whether there was one.
    """
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if asked:
            signal.default_int_handler(number, frame)
        asked.append(number)
        # In the middle of a write to the stream there can be no other.
        with suppress(RuntimeError):
            if sys.stderr is not None:
                sys.stderr.write(_SAID)
                sys.stderr.flush()

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    os._exit(EXIT_CODE)


class _Raw(io.FileIO):
    """A stream of the process that takes for written what nobody reads any more, unless the work ends then."""

    ends_with_its_reader = False
    """Whether what cannot be written is an error."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write the bytes, or drop them where the reader has gone."""
        try:
            return super().write(data)
        except BrokenPipeError:
            if self.ends_with_its_reader:
                raise
            return memoryview(data).nbytes


@contextmanager
def ending_with_its_reader() -> Iterator[None]:
    """Raise BrokenPipeError in a block that only reads sessions, as soon as nobody reads stdout."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, _Raw):
        yield
        return
    raw.ends_with_its_reader = True
    try:
        yield
    finally:
        # What is left in a buffer is dropped.
        raw.ends_with_its_reader = False


def outlive_their_readers() -> None:
    """Let stdout and stderr drop what nobody reads: `compress ARCHIVE | head` must not end half-way."""
    if sys.platform == "win32":  # has no such error, and consoles that are no files
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # one that was closed from the start is None
            raw = io.BufferedWriter(_Raw(stream.fileno(), "w", closefd=False))
            kept = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
            setattr(sys, name, kept)
