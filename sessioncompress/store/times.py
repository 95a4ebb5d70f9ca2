"""Times as the files beside a session say them: UTC, to the second."""

from __future__ import annotations

import calendar
import time

_FORM = "%Y-%m-%dT%H:%M:%SZ"


def written(seconds: float) -> str:
    """Return seconds since 1970 as a text."""
    return time.strftime(_FORM, time.gmtime(seconds))


def read(text: str) -> float | None:
    """Return the seconds since 1970 that a text says; None where it says no time, or one that is still to come."""
    seconds = said(text)
    return seconds if seconds is not None and seconds <= time.time() else None


def said(text: str) -> float | None:
    """Return the same also of a time to come: a clock may have been wrong, then or now."""
    try:
        return calendar.timegm(time.strptime(text, _FORM))
    except ValueError:
        return None
