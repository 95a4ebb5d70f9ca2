"""The lines of a session: plain rows in one list, which nothing changes once they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, overload

from sessioncompress.core.model import NO_PREFIX, Facts, Line, Prefix, Role, Shape


class Lines(Sequence[Line]):
    """The lines of a session. What walks through all of them takes `rows`; what looks here and there takes a column.

    A column is one field of every line; it is made when it is first asked for.
    """

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self.rows = list(lines)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.rows)

    @overload
    def __getitem__(self, number: int) -> Line: ...

    @overload
    def __getitem__(self, number: slice) -> list[Line]: ...

    def __getitem__(self, number: int | slice) -> Line | list[Line]:
        return self.rows[number]

    @cached_property
    def roles(self) -> Sequence[Role]:
        """What each line is to the plan."""
        return [line.role for line in self.rows]

    @cached_property
    def ids(self) -> Sequence[str]:
        """The id of each entry."""
        return [line.id for line in self.rows]

    @cached_property
    def parents(self) -> Sequence[str]:
        """The id of each entry's parent."""
        return [line.parent for line in self.rows]

    @cached_property
    def facts(self) -> Sequence[Facts]:
        """What only some lines have."""
        return [line.facts for line in self.rows]

    @cached_property
    def responses(self) -> Sequence[str]:
        """The assistant message that each line is a part of."""
        return [line.response for line in self.rows]

    @cached_property
    def times(self) -> Sequence[int]:
        """When each line was written, in milliseconds."""
        return [line.time for line in self.rows]

    def not_understood(self, first: int | None = None) -> int:
        """Return how many lines, or of the `first` ones, our parser does not read."""
        return sum(line.role is Role.OPAQUE or line.facts.foreign for line in self.rows[:first])


class Survey(NamedTuple):
    """One reading of a session: its lines, their shape, and its size in bytes.

    Of a session that an earlier run finished up to somewhere, `before` says what was not read; `size` counts it.
    """

    lines: Lines
    shape: Shape
    size: int
    before: Prefix = NO_PREFIX
