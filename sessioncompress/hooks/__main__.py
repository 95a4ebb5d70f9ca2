"""Hooks that agents call: `python -m sessioncompress.hooks guard|ended`. They always exit 0, within a time limit."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import BinaryIO

SECONDS = {"guard": 5, "ended": 5, "compress": 660}
"""Time limit of each hook in seconds. The agent waits for the first two."""


class _TimeUpError(BaseException):
    """Not an Exception, so that no handler in between catches it."""


def main(arguments: Sequence[str], stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Run the hook named by the first argument. Every error is logged instead of raised."""
    what = arguments[0] if arguments else ""
    try:
        if what not in SECONDS:
            raise ValueError(f"there is no hook {what!r}")  # noqa: TRY301 - logged below like all errors
        signal.signal(signal.SIGALRM, _time_up)
        signal.alarm(SECONDS[what])
        # Each branch imports only what it needs. A guard that allows a call imports almost nothing.
        if what == "guard":
            from sessioncompress.hooks.guard import answer

            stdout.write(answer(stdin.read()))
            stdout.flush()
        else:
            from pathlib import Path

            from sessioncompress.hooks.base import Ending
            from sessioncompress.hooks.ended import compress, start

            if what == "ended":
                start(stdin.read(), Ending.of(arguments[1:]))
            else:
                compress(Path(arguments[1]), Ending.of(arguments[2:]))
        signal.alarm(0)
    except (_TimeUpError, Exception) as error:  # noqa: BLE001 - the agent must continue after any error
        # Without this, an alarm after this point would end in a traceback.
        signal.alarm(0)
        from sessioncompress.hooks.base import note_in_log

        text = f"{type(error).__name__}: {error}"
        if isinstance(error, _TimeUpError):
            text = f"given up after {SECONDS[what]} seconds: {' '.join(arguments[1:])}"
        note_in_log(what, text)


def _time_up(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _TimeUpError


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer)
    # No thread or exit handler may keep the agent waiting or change the exit code.
    os._exit(0)
