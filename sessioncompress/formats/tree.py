"""The live path through a session's lines, and what of it lies before its last checkpoint."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import takewhile

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Role, Shape

_NOT_ENTRIES = frozenset({Role.BLANK, Role.OPAQUE})


def shape(lines: Lines) -> Shape:
    """Find the shape of a session whose entries name their parent, or follow each other.

    They do where the header says so, or none has an id.
    """
    header = next((number for number, role in enumerate(lines.roles) if role is Role.HEADER), None)
    listed_by_header = header is not None and lines.facts[header].listed
    if listed_by_header or not any(lines.ids):
        return listed(lines)
    # Walk from the last entry to the root; a parent that is missing (or walked before) ends the walk.
    numbers = {name: number for number, name in enumerate(lines.ids) if name}
    step: int | None = max(numbers.values())
    path: list[int] = []
    seen = bytearray(len(lines))
    while step is not None and not seen[step]:
        seen[step] = True
        path.append(step)
        step = numbers.get(lines.parents[step])
    path.reverse()
    return Shape(array("I", path), frozenset(dead(lines, path)))


def listed(lines: Lines) -> Shape:
    """Find the shape of a session whose entries follow each other, whatever their ids."""
    live = entries(lines)
    return Shape(array("I", live), frozenset(dead(lines, live)))


def entries(lines: Lines) -> list[int]:
    """Find the lines that the agent reads as entries, also where we do not (those are sealed)."""
    return [number for number, role in enumerate(lines.roles) if role not in _NOT_ENTRIES or lines.facts[number].sealed]


def dead(lines: Lines, live: Sequence[int]) -> set[int]:
    """Find the lines before the first entry that the last checkpoint kept; without one, before the checkpoint."""
    last = next((at for at in range(len(live) - 1, -1, -1) if lines.roles[live[at]] is Role.CHECKPOINT), None)
    if last is None:
        return set()
    earlier, keeps = live[:last], lines.facts[live[last]].keeps
    if isinstance(keeps, int):
        every = entries(lines)
        return {number for number in earlier if 0 <= keeps < len(every) and number < every[keeps]}
    return set(takewhile(lambda number: not keeps or lines.ids[number] != keeps, earlier))
