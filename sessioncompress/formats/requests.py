"""What the formats share of reading the answers that a session records: times, windows, and where none stand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sessioncompress.formats import values
from sessioncompress.usage import Answer, tokens

_LATEST = 1 << 53
"""Milliseconds: what JavaScript counts exactly."""


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
    try:
        return max(int(datetime.fromisoformat(values.text(value)).timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        return 0


def window(value: Any) -> int:
    """Return a context window in tokens, 0 where there is none."""
    return tokens(value) or 0
