"""Where the user turns on a path through a session begin."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Role


def turns_on(lines: Lines, path: Sequence[int]) -> list[int]:
    """Return the positions on the path at which its turns begin: at the user lines, or the prompts before them.

    Where there are no user lines, each run of prompts begins one.
    """
    roles, facts = lines.roles, lines.facts
    turns = [position for position, number in enumerate(path) if roles[number] is Role.USER]
    if turns:
        return [_first_prompt(lines, path, position) for position in turns]
    prompts = [facts[number].prompt for number in path]
    return [position for position, prompt in enumerate(prompts) if prompt and not (position and prompts[position - 1])]


class GrowingPath:
    """A path from which turns are taken back as it grows, and where on it they begin: kept as it grows."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.path: list[int] = []
        self._tasks: list[int] = []
        self._begun: list[int] = []
        """The tasks in which a user line came."""
        self._users: list[int] = []
        self._prompts: list[int] = []

    def add(self, number: int) -> None:
        """Add a line."""
        position, facts, role = len(self.path), self._lines.facts[number], self._lines.roles[number]
        if facts.task:
            self._tasks.append(position)
        elif role is Role.USER and self._tasks and self._tasks[-1:] != self._begun[-1:]:
            self._begun.append(self._tasks[-1])
        self.path.append(number)
        if role is Role.USER:
            self._users.append(_first_prompt(self._lines, self.path, position))
        if facts.prompt and not (position and self._lines.facts[self.path[position - 1]].prompt):
            self._prompts.append(position)

    def take_back(self, most: int) -> None:
        """Take off so many tasks of user lines, or without tasks turns, or all there are."""
        turns = self._begun or self._users or self._prompts
        start = turns[-most] if most <= len(turns) else 0
        del self.path[start:]
        for positions in (self._tasks, self._begun, self._users, self._prompts):
            del positions[bisect_left(positions, start) :]


def _first_prompt(lines: Lines, path: Sequence[int], position: int) -> int:
    while position and lines.facts[path[position - 1]].prompt:
        position -= 1
    return position
