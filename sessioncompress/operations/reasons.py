"""Reasons about a session's store: which originals a command leaves, or cannot use, and how to use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessioncompress.core.text import counted, listed, printable

_MOST_REFS = 8
"""Maximum references listed in a text; `--json` has all."""
ALREADY = "no line in it is rewritten"
ALREADY_BUT = "no line that its journal knows is rewritten"
NONE_STORED = "no originals are stored"
_FROM_MARKERS = ": if you trust that one, 'restore --from-markers' uses it, too"
CHANGED_SINCE = "it was changed since the last run, not only appended to"


def changed_lines(numbers: Sequence[int], refs: Iterable[str]) -> str:
    """Write which rewritten lines were changed, and how to see their originals; "" if none were."""
    if not numbers:
        return ""
    one = len(numbers) == 1
    which = f"line {listed(numbers)} was" if one else f"lines {listed(numbers)} were"
    found = listed(list(dict.fromkeys(refs)), _MOST_REFS)
    shown = f" ('sessioncompress show REF PATH' prints what was in it: {found})" if found else ""
    return f"the rewritten {which} changed since by another program, and {'stays' if one else 'stay'}{shown}"


def older(number: int) -> str:
    """Write that a run that is not in the store wrote the markers in `number` lines; "" if there are none."""
    lines = counted(number, "rewritten line has a marker", "rewritten lines have markers")
    why = "its store is older than the session (the branch or machine that ran last may have the whole one)"
    return f"{lines} of no run in its store: {why}, or somebody edited the marker" if number else ""


def elsewhere(lines: Mapping[Any, int], way: str = _FROM_MARKERS) -> str:
    """Write which other stores know lines that the one in use does not, and how to use them; "" if there are none."""
    return "; ".join(
        f"{counted(number, 'line is', 'lines are')} known only to its other store, {printable(str(journal))}{way}"
        for journal, number in lines.items()
        if number
    )


def not_there(number: int) -> str:
    """Write that a session holds fewer lines than its store knows; "" if none are missing."""
    lines = counted(number, "line that its store knows is", "lines that its store knows are")
    return f"an older state of the session: {lines} missing" if number else ""


def staying(number: int, which: str) -> str:
    """Write that markers stay although their originals exist; "" if there are none."""
    why = f"{which}: 'restore --from-markers' puts back what they stand for"
    return f"{counted(number, 'marker stays', 'markers stay')} {why}" if number else ""


def strangers(number: int) -> str:
    """Write that markers unknown to the session's journal stay; "" if there are none."""
    why = "that no store found here knows: quoted, or from another session, merge side or newer store"
    return f"{counted(number, 'marker stays', 'markers stay')} {why}" if number else ""


def unreadable(numbers: Iterable[int]) -> str:
    """Write which lines (counted from 0) have unreadable originals; "" if there are none."""
    lines = [number + 1 for number in sorted(numbers)]
    which = "original of line" if len(lines) == 1 else "originals of lines"
    return f"the {which} {listed(lines)} cannot be read" if lines else ""
