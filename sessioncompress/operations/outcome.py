"""What became of one file: a result, or the error that ended it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from sessioncompress.core import VERSION
from sessioncompress.errors import FileFailed, IsALink, NotASession, SessionCompressError, failed
from sessioncompress.pipeline.discover import Found

T = TypeVar("T")

STATE = "The session is as it was or as it will be, nothing in between."


class Outcome(NamedTuple, Generic[T]):
    """The result for one file, or the error that ended it. `passed_over`: found in a folder, and no session."""

    found: Found
    result: T | None = None
    error: SessionCompressError | None = None
    passed_over: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code if this were the only file."""
        return 0 if self.error is None or self.passed_over else self.error.exit_code


def outcome_of(found: Found, work: Callable[[], T]) -> Outcome[T]:
    """Do the work on a file. Every error but an interrupt becomes the outcome."""
    if found.error is not None:
        return Outcome(found, error=found.error)
    try:
        return Outcome(found, work())
    except SessionCompressError as error:
        path = found.path
        if error.where == os.path.join(os.path.realpath(path.parent), path.name):  # noqa: PTH118 - must not resolve the name
            # As the user typed it, like all other lines about the file.
            error.where = str(path)
        return Outcome(found, error=error, passed_over=not found.named and isinstance(error, NotASession | IsALink))
    except OSError as error:
        return Outcome(found, error=failed(error, found.path, STATE))
    except Exception as error:  # noqa: BLE001 - a bug that one file triggers must not cost the others their turn
        return Outcome(found, error=_bug(found, error))


def _bug(found: Found, error: Exception) -> FileFailed:
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    at = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    # Without Python's own message, which may quote the session.
    return FileFailed(
        f"an error in sessioncompress {VERSION} ({type(error).__name__}{at})",
        where=found.path,
        state=STATE,
        remedy="Please report this line, without the session.",
    )
