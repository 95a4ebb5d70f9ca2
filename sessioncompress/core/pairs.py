"""Which call each result answers. Some providers begin to count their ids anew in every message."""

from __future__ import annotations

from collections.abc import Sequence

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Call

Asked = tuple[int, Call]
"""A call, behind the number of the line that makes it."""

NO_CALL = -1


def asked(lines: Lines) -> Sequence[Asked | None]:
    """Return for each line which call it answers: the nearest before it with that id, or None."""
    found: list[Asked | None] = []
    made: dict[str, Asked] = {}
    for number, line in enumerate(lines.rows):
        for call in line.calls:
            made[call.id] = (number, call)
        found.append(made.get(line.answers) if line.answers else None)
    return found


def callers(lines: Lines) -> Sequence[int]:
    """Return for each line the line with the call that it answers, or NO_CALL."""
    return [NO_CALL if call is None else call[0] for call in asked(lines)]
