"""Where the user turns on a path through a session begin."""

from __future__ import annotations

from collections.abc import Sequence

from sessioncompress.lines import Lines
from sessioncompress.model import Role


def turns_on(lines: Lines, path: Sequence[int]) -> list[int]:
    """Return the positions on the path at which its turns begin: at the user lines, or the prompts before them.

    Where there are no user lines, each run of prompts begins one.
    """
    roles, facts = lines.roles, lines.facts
    turns = [position for position, number in enumerate(path) if roles[number] is Role.USER]
    if turns:
        return [_first_prompt(lines, path, position) for position in turns]
    prompts = [position for position, number in enumerate(path) if facts[number].prompt]
    return [position for position in prompts if _first_prompt(lines, path, position) == position]


def tasks_on(lines: Lines, path: Sequence[int]) -> list[int]:
    """Return the positions on the path at which the tasks of its user lines begin; without tasks, its turns."""
    roles, facts = lines.roles, lines.facts
    task = -1
    found: list[int] = []
    for position, number in enumerate(path):
        if facts[number].task:
            task = position
        elif roles[number] is Role.USER and task >= 0 and task not in found[-1:]:
            found.append(task)
    return found or turns_on(lines, path)


def _first_prompt(lines: Lines, path: Sequence[int], position: int) -> int:
    while position and lines.facts[path[position - 1]].prompt:
        position -= 1
    return position
