"""What an interrupt does: while the program starts and ends it goes quietly, while it works the work is told."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

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
def deferred(several: bool) -> Iterator[Callable[[], bool]]:
    """Let the first interrupt of a block only be noted, where it works on several files; the next one is raised.

    Gives a function that says whether there was one.
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

    if not several or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
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
