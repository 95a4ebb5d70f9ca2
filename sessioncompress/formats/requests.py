"""What the formats share of reading the answers that a session records: times, windows, and where none stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from sessioncompress.core.model import Answer, tokens
from sessioncompress.formats import values

_LATEST = 1 << 53
"""Milliseconds: what JavaScript counts exactly."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MINUTE = len("2026-01-31T12:34")
_SECONDS = re.compile(r":([0-5]\d)\.(\d{3})Z", re.ASCII)
"""What agents write behind the minute."""


class InEntries:
    """A format whose answers all stand in its entries."""

    def noted(self, document: Any) -> Mapping[int, Answer]:
        """Return none: nothing around a document's messages tells of requests."""
        del document
        return {}


def moment(value: Any) -> int:
    """Return a time in milliseconds, of such a number or of a text that names it; 0 where it is neither."""
    if isinstance(value, int):
        return int(value) if 0 <= value <= _LATEST else 0
    written = values.text(value)
    try:
        if (seconds := _SECONDS.fullmatch(written, _MINUTE)) is None:
            found = _milliseconds(written)
        else:
            found = _milliseconds_of_minute(written[:_MINUTE]) + int(seconds[1] + seconds[2])
    except (ValueError, OverflowError):
        return 0
    return max(0, found)


@lru_cache(maxsize=64)
def _milliseconds_of_minute(minute: str) -> int:
    """Return when a minute begins. Lines that follow each other are of few, and datetime takes ten times as long."""
    return _milliseconds(f"{minute}:00Z")


def _milliseconds(written: str) -> int:
    return (datetime.fromisoformat(written).astimezone(UTC) - _EPOCH) // _MILLISECOND


def window(value: Any) -> int:
    """Return a context window in tokens, 0 where there is none."""
    return tokens(value) or 0
