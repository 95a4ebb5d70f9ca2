"""Which call each result answers. Some providers begin to count their ids anew in every message."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from sessioncompress.lines import Lines

NO_CALL = -1


def asked(lines: Lines, order: Sequence[int]) -> Sequence[int]:
    """Return for each line of `order` which of all calls it answers: the nearest before it with that id, or NO_CALL."""
    found = array("q")
    made: dict[str, int] = {}
    ids = lines.calls.columns[0]
    answers, counts = lines.answers, lines.call_counts
    for number in order:
        if counts[number]:
            for index in lines.call_span(number):
                made[ids[index]] = index
        name = answers[number]
        found.append(made.get(name, NO_CALL) if name else NO_CALL)
    return found


def callers(lines: Lines) -> Sequence[int]:
    """Return for each line the line with the call that it answers, or NO_CALL."""
    return array("q", [call if call == NO_CALL else lines.call_lines[call] for call in asked(lines, range(len(lines)))])
