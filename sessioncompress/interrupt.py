"""What an interrupt does: while the program starts and ends it goes quietly, while it works the work is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

EXIT_CODE: Final = 130


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


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    os._exit(EXIT_CODE)
