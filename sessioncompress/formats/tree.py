"""The live path through a session's lines, and what of it lies before its last checkpoint."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Role, Shape

_NOT_ENTRIES = frozenset({Role.BLANK, Role.OPAQUE})


def shape(lines: Lines) -> Shape:
    """Return the shape of a session whose entries name their parent, or follow each other.

    They do where the header says so, or none has an id.
    """
    header = next((number for number, role in enumerate(lines.roles) if role is Role.HEADER), None)
    listed = header is not None and lines.facts[header].listed
    live = entries(lines) if listed or not any(lines.ids) else _tree(lines)
    return Shape(array("I", live), frozenset(dead(lines, live)))


def listed(lines: Lines) -> Shape:
    """Return the shape of a session whose entries follow each other, whatever their ids."""
    live = entries(lines)
    return Shape(array("I", live), frozenset(dead(lines, live)))


def entries(lines: Lines) -> list[int]:
    """Return the lines that the agent reads as entries, also where we do not (those are sealed)."""
    return [number for number, role in enumerate(lines.roles) if role not in _NOT_ENTRIES or lines.facts[number].sealed]


def _tree(lines: Lines) -> list[int]:
    """Walk from the last entry to the root; a parent that is missing (or walked before) ends the walk."""
    numbers = {name: number for number, name in enumerate(lines.ids) if name}
    step: int | None = max(numbers.values(), default=None)
    path: list[int] = []
    seen = bytearray(len(lines))
    while step is not None and not seen[step]:
        seen[step] = True
        path.append(step)
        step = numbers.get(lines.parents[step])
    path.reverse()
    return path


def dead(lines: Lines, live: Sequence[int]) -> set[int]:
    """Return the lines before the first entry that the last checkpoint kept; without one, before the checkpoint."""
    for position in range(len(live) - 1, -1, -1):
        if lines.roles[live[position]] is Role.CHECKPOINT:
            return _before(lines, live[:position], lines.facts[live[position]].keeps)
    return set()


def _before(lines: Lines, earlier: Sequence[int], keeps: str | int) -> set[int]:
    found: set[int] = set()
    if isinstance(keeps, int):
        listed = entries(lines)
        first = listed[keeps] if 0 <= keeps < len(listed) else None
        return {number for number in earlier if first is not None and number < first}
    for number in earlier:
        if keeps and lines.ids[number] == keeps:
            break
        found.add(number)
    return found
