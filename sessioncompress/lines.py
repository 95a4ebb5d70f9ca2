"""The lines of a session in columns: as one object each they would take four times the memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, overload

from sessioncompress.columns import Table, columns
from sessioncompress.model import NO_PREFIX, Block, Call, Facts, Line, Prefix, Role, Shape

NO_LINE = 0xFFFFFFFF
"""Stands for the line of a block that is no more."""


class _Head(NamedTuple):
    """A line without its blocks and calls: these are rows of their own, so many from the first one on."""

    role: Role
    size: int
    digest: int
    id: str
    parent: str
    answers: str
    io: int
    reads: int
    facts: Facts
    response: str
    time: int
    first_block: int
    blocks: int
    first_call: int
    calls: int


class Lines(Sequence[Line]):
    """The lines of a session. What looks at all of them reads the columns; what needs a whole line asks for it.

    `blocks` and `calls` hold those of all lines, `block_lines` and `call_lines` say of which line each is.
    """

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self._heads: Table[_Head] = Table(_Head, columns("OQQTTOIIOOQIIII"))
        self.blocks: Table[Block] = Table(Block, columns("OOIIOODb"))
        self.calls: Table[Call] = Table(Call, columns("OOOOOO"))
        self.block_lines, self.call_lines = columns("II")
        self._name_columns()
        for line in lines:
            self.append(line)

    def _name_columns(self) -> None:
        self.roles: Sequence[Role]
        self.sizes: Sequence[int]
        self.digests: Sequence[int]
        self.ids: Sequence[str]
        self.parents: Sequence[str]
        self.answers: Sequence[str]
        self.io: Sequence[int]
        self.reads: Sequence[int]
        self.facts: Sequence[Facts]
        self.responses: Sequence[str]
        self.times: Sequence[int]
        heads = self._heads.columns
        self.roles, self.sizes, self.digests, self.ids, self.parents, self.answers, *_ = heads
        self.io, self.reads, self.facts, self.responses, self.times = heads[6:11]
        self._first_blocks, self._block_counts, self._first_calls, self.call_counts = heads[11:]

    def __len__(self) -> int:
        return len(self.roles)

    @overload
    def __getitem__(self, number: int) -> Line: ...

    @overload
    def __getitem__(self, number: slice) -> list[Line]: ...

    def __getitem__(self, number: int | slice) -> Line | list[Line]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        if number < 0:
            number += len(self)
        role, size, digest, name, parent, answers, io, reads, facts, response, time, *_ = self._heads[number]
        calls = tuple(self.calls.rows(self.call_span(number)))
        blocks = self.blocks_of(number)
        return Line(role, size, digest, name, parent, blocks, calls, answers, io, reads, facts, response, time)

    def not_understood(self, first: int | None = None) -> int:
        """Return how many lines, or of the `first` ones, our parser does not read."""
        lines = islice(zip(self.roles, self.facts, strict=True), first)
        return sum(role is Role.OPAQUE or facts.foreign for role, facts in lines)

    def block_span(self, number: int) -> range:
        """Return which of all blocks are those of a line."""
        first = self._first_blocks[number]
        return range(first, first + self._block_counts[number])

    def call_span(self, number: int) -> range:
        """Return which of all calls are those of a line."""
        first = self._first_calls[number]
        return range(first, first + self.call_counts[number])

    def blocks_of(self, number: int) -> tuple[Block, ...]:
        """Return the blocks of a line."""
        return tuple(self.blocks.rows(self.block_span(number)))

    def append(self, line: Line) -> None:
        """Add a line."""
        number = len(self.roles)
        role, size, digest, name, parent, blocks, calls, *rest = line
        spans = (len(self.block_lines), len(blocks), len(self.call_lines), len(calls))
        self._heads.add((role, size, digest, name, parent, *rest, *spans))
        if self.roles is not self._heads.columns[0]:
            self._name_columns()
        for block in blocks:
            self.blocks.add(block)
            self.block_lines.append(number)
        for call in calls:
            self.calls.add(call)
            self.call_lines.append(number)

    def put(self, number: int, line: Line) -> None:
        """Put a line in the place of another."""
        role, size, digest, name, parent, blocks, calls, *rest = line
        block_span, call_span = self.block_span(number), self.call_span(number)
        first_block = block_span.start if len(blocks) <= len(block_span) else len(self.block_lines)
        first_call = call_span.start if len(calls) <= len(call_span) else len(self.call_lines)
        spans = (first_block, len(blocks), first_call, len(calls))
        self._heads.put(number, (role, size, digest, name, parent, *rest, *spans))
        self._name_columns()
        for index in block_span:
            self.block_lines[index] = NO_LINE
        for index, block in enumerate(blocks, first_block):
            self.blocks.put(index, block)
            self.block_lines[index : index + 1] = array("I", (number,))
        for index, call in enumerate(calls, first_call):
            self.calls.put(index, call)
            self.call_lines[index : index + 1] = array("I", (number,))

    def copy(self) -> Lines:
        """Return the same lines, to be changed apart from these."""
        new = Lines()
        new._heads, new.blocks, new.calls = self._heads.copy(), self.blocks.copy(), self.calls.copy()
        new.block_lines, new.call_lines = self.block_lines[:], self.call_lines[:]
        new._name_columns()
        return new


@dataclass(frozen=True, slots=True)
class Survey:
    """One reading of a session: its lines, their shape, and its size in bytes.

    Of a session that an earlier run finished up to somewhere, `before` says what was not read; `size` counts it.
    """

    lines: Lines
    shape: Shape
    size: int
    before: Prefix = NO_PREFIX
