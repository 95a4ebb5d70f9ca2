"""The lines of a session in one list, where its turns begin, and what its messages and calls come to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from sessioncompress.core.model import PLAIN, Answer, Call, Facts, Line, Role, Shape
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, estimate


class Lines(list[Line]):
    """The lines of a session, which nothing changes once they are read.

    What looks here and there at one field takes its column; that is made when it is first asked for.
    """

    @cached_property
    def roles(self) -> Sequence[Role]:
        """What each line is to the plan."""
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
        """What only some lines have."""
        return [line.facts for line in self]

    @cached_property
    def responses(self) -> Sequence[str]:
        """The assistant message that each line is a part of."""
        return [line.response for line in self]

    @cached_property
    def times(self) -> Sequence[int]:
        """When each line was written, in milliseconds."""
        return [line.time for line in self]

    def opaque(self) -> list[int]:
        """List the numbers of the lines that our parser does not read, counted from 0."""
        return [number for number, line in enumerate(self) if line.role is Role.OPAQUE or line.facts.foreign]


class Survey(NamedTuple):
    """One reading of a session: its lines, their shape, its size in bytes, and what it says of requests to models.

    That is said by lines of the live path, or around the messages of a document: `answers` has it by their numbers.
    """

    lines: Lines
    shape: Shape
    size: int
    answers: Mapping[int, Answer] = MappingProxyType({})


def turns_on(lines: Lines, path: Sequence[int]) -> list[int]:
    """Find the positions on the path at which its turns begin: at the user lines, or the prompts before them.

    Where there are no user lines, each run of prompts begins one.
    """
    roles, facts, user = lines.roles, lines.facts, Role.USER
    turns = [position for position, number in enumerate(path) if roles[number] is user]
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


def without_taken_back(lines: Lines, numbers: list[int]) -> list[int]:
    """Follow lines in their order; leave out the turns that some of them take back."""
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
"""A call, behind the number of the line that makes it."""

NO_CALL = -1


def asked(lines: Lines) -> Sequence[Asked | None]:
    """Find for each line which call it answers: the nearest before it with that id, or None."""
    found: list[Asked | None] = []
    made: dict[str, Asked] = {}
    for number, line in enumerate(lines):
        for call in line.calls:
            made[call.id] = (number, call)
        found.append(made.get(line.answers) if line.answers else None)
    return found


def callers(lines: Lines) -> Sequence[int]:
    """Find for each line the line with the call that it answers, or NO_CALL."""
    return [NO_CALL if call is None else call[0] for call in asked(lines)]


EVERY = range(1 << 62)
"""The lines of a session, however many there are."""

SPOKEN = frozenset({Role.USER, Role.ASSISTANT, Role.RESULT})
"""What the lines of messages are."""


def gap(lines: Lines, path: Sequence[int]) -> int | None:
    """Find where a path begins though messages stand before it, since the parent that its first line names is missing.

    An agent goes on from there; its user knows of no gap. None if the path is whole.
    """
    first = lines[path[0]] if path else None
    if first is None or first.role is Role.CHECKPOINT or not first.parent or first.parent in lines.ids:
        return None
    return path[0] if any(role in SPOKEN for role in lines.roles[: path[0]]) else None


def tokens_of(read: Survey, each: float = CHARACTERS_PER_TOKEN, among: Container[int] = EVERY) -> int:
    """Estimate what the model reads of the live path, or of some lines on it, in tokens of so many characters."""
    numbers = (number for number in read.shape.live if number not in read.shape.dead and number in among)
    return estimate(sum(read.lines[number].reads for number in numbers), each)


def turns_of(read: Survey) -> int:
    """Count the user turns on the live path."""
    return len(turns_on(read.lines, read.shape.live))


def messages_of(read: Survey, among: Container[int] = EVERY) -> int:
    """Count the messages on the live path, or those in some lines; what an agent writes in several lines is one."""
    roles, responses = read.lines.roles, read.lines.responses
    numbers = [number for number in read.shape.live if roles[number] in SPOKEN and number in among]
    return len({responses[number] or number for number in numbers})
