"""The live path through a session's lines, and what of it lies before its last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from sessioncompress.model import Line, Role, Shape

_NOT_ENTRIES = frozenset({Role.BLANK, Role.OPAQUE})


def shape(lines: Sequence[Line]) -> Shape:
    """Return the shape of a session whose entries name their parent, or follow each other.

    They do where the header says so, or none has an id.
    """
    header = next((line for line in lines if line.role is Role.HEADER), None)
    listed = header is not None and header.facts.listed
    live = _list(lines) if listed or not any(line.id for line in lines) else _tree(lines)
    return Shape(live=tuple(live), dead=frozenset(_dead(lines, live)))


def _list(lines: Sequence[Line]) -> list[int]:
    """Return the lines that the agent reads as entries, also where we do not (those are sealed)."""
    return [number for number, line in enumerate(lines) if line.role not in _NOT_ENTRIES or line.facts.sealed]


def _tree(lines: Sequence[Line]) -> list[int]:
    """Walk from the last entry to the root; a parent that is missing (or walked before) ends the walk."""
    numbers = {line.id: number for number, line in enumerate(lines) if line.id}
    step: int | None = max(numbers.values(), default=None)
    path: list[int] = []
    seen: set[int] = set()
    while step is not None and step not in seen:
        seen.add(step)
        path.append(step)
        step = numbers.get(lines[step].parent)
    path.reverse()
    return path


def _dead(lines: Sequence[Line], live: Sequence[int]) -> set[int]:
    """Return the lines before the first entry that the last checkpoint kept; without one, before the checkpoint."""
    for position in range(len(live) - 1, -1, -1):
        checkpoint = lines[live[position]]
        if checkpoint.role is Role.CHECKPOINT:
            return _before(lines, live[:position], checkpoint.facts.keeps)
    return set()


def _before(lines: Sequence[Line], earlier: Sequence[int], keeps: str | int) -> set[int]:
    dead: set[int] = set()
    if isinstance(keeps, int):
        entries = _list(lines)
        first = entries[keeps] if 0 <= keeps < len(entries) else None
        return {number for number in earlier if first is not None and number < first}
    for number in earlier:
        if keeps and lines[number].id == keeps:
            break
        dead.add(number)
    return dead
