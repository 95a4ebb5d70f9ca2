"""Which call each result answers. Some providers begin to count their ids anew in every message."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from sessioncompress.model import Line

NO_CALL = -1


def callers(lines: Sequence[Line]) -> Sequence[int]:
    """Return for each line the line with the call that it answers: the nearest before it with that id, or NO_CALL."""
    found = array("q")
    made: dict[str, int] = {}
    for number, line in enumerate(lines):
        for call in line.calls:
            made[call.id] = number
        found.append(made.get(line.answers, NO_CALL) if line.answers else NO_CALL)
    return found
