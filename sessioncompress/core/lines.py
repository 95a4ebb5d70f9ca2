"""The lines of a session in one list, its turns, and totals over its messages and calls."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from sessioncompress.core.model import PLAIN, Answer, Call, Facts, Line, Role, Shape
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, estimate


class Lines(list[Line]):
    """The lines of a session, immutable once they are read.

    Code that looks up one field of a few lines uses its column, which is built on first use.
    """

    @cached_property
    def roles(self) -> Sequence[Role]:
        """The role of each line."""
        return [line.role for line in self]

    @cached_property
    def ids(self) -> Sequence[str]:
        """The id of each entry."""
        return [line.id for line in self]

    @cached_property
    def parents(self) -> Sequence[str]:
        """The id of each entry's parent."""
        return [line.parent for line in self]

    @cached_property
    def facts(self) -> Sequence[Facts]:
        """The rare facts of each line."""
        return [line.facts for line in self]

    @cached_property
    def responses(self) -> Sequence[str]:
        """The id of the assistant message that each line is part of."""
        return [line.response for line in self]

    @cached_property
    def times(self) -> Sequence[int]:
        """The time of each line in milliseconds."""
        return [line.time for line in self]

    def opaque(self) -> list[int]:
        """Return the numbers (from 0) of the lines that our parser does not read."""
        return [number for number, line in enumerate(self) if line.role is Role.OPAQUE or line.facts.foreign]


class Survey(NamedTuple):
    """One reading of a session: its lines, their shape, its size in bytes, and the answers to model requests.

    `answers` maps line numbers to answers. They are recorded in lines of the live path, or around a document's
    messages.
    """

    lines: Lines
    shape: Shape
    size: int
    answers: Mapping[int, Answer] = MappingProxyType({})


def turns_on(lines: Lines, path: Sequence[int]) -> list[int]:
    """Return the positions on the path where turns begin: at user lines, or at the prompts before them.

    Without user lines, each run of prompts begins a turn.
    """
    roles, facts, user = lines.roles, lines.facts, Role.USER
    turns = [position for position, number in enumerate(path) if roles[number] is user]
    if turns:
        return [_first_prompt(lines, path, position) for position in turns]
    prompts = [facts[number].prompt for number in path]
    return [position for position, prompt in enumerate(prompts) if prompt and not (position and prompts[position - 1])]


class GrowingPath:
    """A path from which turns can be taken back as it grows; it tracks where they begin."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.path: list[int] = []
        self._tasks: list[int] = []
        self._begun: list[int] = []
        """The tasks that have a user line."""
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
        """Take back `most` tasks that have user lines; without tasks, turns. If there are fewer, take back all."""
        turns = self._begun or self._users or self._prompts
        start = turns[-most] if most <= len(turns) else 0
        del self.path[start:]
        for positions in (self._tasks, self._begun, self._users, self._prompts):
            del positions[bisect_left(positions, start) :]


def without_taken_back(lines: Lines, numbers: list[int]) -> list[int]:
    """Return the lines without the turns that later lines take back."""
    if not any(facts.back for facts in lines.facts if facts is not PLAIN):
        return numbers
    growing = GrowingPath(lines)
    for number in numbers:
        if back := lines.facts[number].back:
            growing.take_back(back)
        growing.add(number)
    return growing.path


def _first_prompt(lines: Lines, path: Sequence[int], position: int) -> int:
    while position and lines.facts[path[position - 1]].prompt:
        position -= 1
    return position


Asked = tuple[int, Call]
"""The number of the line that makes a call, and the call."""

NO_CALL = -1


def asked(lines: Lines) -> Sequence[Asked | None]:
    """Return for each line the call that it answers (the nearest earlier one with that id), or None."""
    found: list[Asked | None] = []
    made: dict[str, Asked] = {}
    for number, line in enumerate(lines):
        for call in line.calls:
            made[call.id] = (number, call)
        found.append(made.get(line.answers) if line.answers else None)
    return found


def callers(lines: Lines) -> Sequence[int]:
    """Return for each line the number of the line with the call that it answers, or NO_CALL."""
    return [NO_CALL if call is None else call[0] for call in asked(lines)]


EVERY = range(1 << 62)
"""All lines of a session."""

SPOKEN = frozenset({Role.USER, Role.ASSISTANT, Role.RESULT})
"""The roles of lines that are messages."""


def gap(lines: Lines, path: Sequence[int]) -> int | None:
    """Return the first line of a path that starts after a gap: messages precede it, but its parent is missing.

    None if the path is whole. An agent resumes from there, and the user does not notice the gap.
    """
    first = lines[path[0]] if path else None
    if first is None or first.role is Role.CHECKPOINT or not first.parent or first.parent in lines.ids:
        return None
    return path[0] if any(role in SPOKEN for role in lines.roles[: path[0]]) else None


def tokens_of(read: Survey, per_token: float = CHARACTERS_PER_TOKEN, among: Container[int] = EVERY) -> int:
    """Estimate the tokens that the model reads on the live path (or in `among`), at `per_token` characters a token."""
    numbers = (number for number in read.shape.live if number not in read.shape.dead and number in among)
    return estimate(sum(read.lines[number].reads for number in numbers), per_token)


def turns_of(read: Survey) -> int:
    """Count the user turns on the live path."""
    return len(turns_on(read.lines, read.shape.live))


def messages_of(read: Survey, among: Container[int] = EVERY) -> int:
    """Count the messages on the live path (or in `among`); a message in several lines counts once."""
    roles, responses = read.lines.roles, read.lines.responses
    numbers = [number for number in read.shape.live if roles[number] in SPOKEN and number in among]
    return len({responses[number] or number for number in numbers})
