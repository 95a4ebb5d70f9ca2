"""Times as the files beside a session say them: UTC, to the second."""

from __future__ import annotations

import calendar
import time

_FORM = "%Y-%m-%dT%H:%M:%SZ"


def written(seconds: float) -> str:
    """Return seconds since 1970 as a text."""
    return time.strftime(_FORM, time.gmtime(seconds))


def said(text: str) -> float | None:
    """Return the seconds since 1970 that a text says, also of a time to come; None where it says no time."""
    try:
        return calendar.timegm(time.strptime(text, _FORM))
    except ValueError:
        return None
