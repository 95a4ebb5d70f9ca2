"""The lines of a session in one list."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from sessioncompress.core.model import NO_PREFIX, Facts, Line, Prefix, Role, Shape


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

    def not_understood(self, first: int | None = None) -> int:
        """Count the lines, or among the `first` ones, that our parser does not read."""
        return sum(line.role is Role.OPAQUE or line.facts.foreign for line in self[:first])


class Survey(NamedTuple):
    """One reading of a session: its lines, their shape, and its size in bytes.

    Of a session that an earlier run finished up to somewhere, `before` says what was not read; `size` counts it.
    """

    lines: Lines
    shape: Shape
    size: int
    before: Prefix = NO_PREFIX
