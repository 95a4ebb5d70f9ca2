"""Times as the files beside a session say them: UTC, to the second."""

from __future__ import annotations

import calendar
import time

_FORM = "%Y-%m-%dT%H:%M:%SZ"
_WRITTEN = "%04d-%02d-%02dT%02d:%02d:%02dZ"
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999: a file or a clock may be set to others, which nothing reads."""


def written(seconds: float) -> str:
    """Return seconds since 1970 as a text; those of another year than 1 to 9999 as the first or the last of these."""
    return _WRITTEN % time.gmtime(min(max(seconds, _FIRST), _LAST))[:6]


def said(text: str) -> float | None:
    """Return the seconds since 1970 that a text says, also of a time to come; None where it says no time."""
    try:
        return calendar.timegm(time.strptime(text, _FORM))
    except ValueError:
        return None
