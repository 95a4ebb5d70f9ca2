"""What becomes of one file, whatever happens: a result, or the error that ended it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from sessioncompress.core.version import VERSION
from sessioncompress.errors import FileFailed, IsALink, NotASession, SessionCompressError, failed
from sessioncompress.pipeline.discover import Found

T = TypeVar("T")

_STATE = "The session is as it was or as it will be, nothing in between."


class Outcome(NamedTuple, Generic[T]):
    """What became of one file: a result, or the error that ended it. `passed_over`: met in a folder, not ours."""

    found: Found
    result: T | None = None
    error: SessionCompressError | None = None
    passed_over: bool = False

    @property
    def exit_code(self) -> int:
        """Return the code this file alone would end with."""
        return 0 if self.error is None or self.passed_over else self.error.exit_code


def of(found: Found, work: Callable[[], T]) -> Outcome[T]:
    """Do the work on a file; an error that ends it, ours or the system's, is what became of it."""
    if found.error is not None:
        return Outcome(found, error=found.error)
    try:
        return Outcome(found, work())
    except SessionCompressError as error:
        _name_as_typed(error, found.path)
        passed_over = not found.named and isinstance(error, NotASession | IsALink)
        return Outcome(found, error=error, passed_over=passed_over)
    except OSError as error:
        return Outcome(found, error=failed(error, found.path, _STATE))
    except Exception as error:  # noqa: BLE001 - an error of ours in one file must not cost the others their turn
        return Outcome(found, error=_unexpected(found, error))


def died(found: Found, how: str) -> Outcome[T]:
    """Return what became of a file when the process that worked on it came to an end of its own."""
    what = f"the process that worked on it ended ({how})"
    remedy = "Run again; where memory is short, with --jobs 1."
    return Outcome(found, error=FileFailed(what, where=found.path, state=_STATE, remedy=remedy))


def _name_as_typed(error: SessionCompressError, path: Path) -> None:
    """Let an error of the file itself name it as its other lines do."""
    if error.where == os.path.join(os.path.realpath(path.parent), path.name):  # noqa: PTH118 - must not resolve the name
        error.where = str(path)


def _unexpected(found: Found, error: Exception) -> FileFailed:
    """Make the error for what should not happen; what Python says of it may hold text of the session, and stays out."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    at = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    return FileFailed(
        f"an error in sessioncompress {VERSION} ({type(error).__name__}{at})",
        where=found.path,
        state=_STATE,
        remedy="Please report this line, without the session.",
    )
