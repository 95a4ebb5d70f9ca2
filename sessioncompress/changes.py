"""The changes of a plan in columns, as the lines are, by the line that they change."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sessioncompress.columns import Table, columns
from sessioncompress.lines import Lines
from sessioncompress.model import Change, Path

_NO_BLOCK = -1


class Proposals:
    """What compressors have proposed: changes in any order, each with what it is worth."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._rows: Table[Change] = Table(Change, columns("IOOqqOOIb"))
        self.gains: array[int] = array("q")
        self._line = -1
        self._places: dict[Path, int] = {}
        """Of the line of the change that was added last: which of all blocks stands at a path."""

    def __len__(self) -> int:
        return len(self.gains)

    def add(self, change: Change, gain: int) -> None:
        """Add a change and what it is worth."""
        line, path, treatment, saves, _, *rest = change
        self._rows.add((line, path, treatment, saves, self._index(change), *rest))
        self.gains.append(gain)

    @property
    def numbers(self) -> Sequence[int]:
        """The lines that the changes are for."""
        numbers: Sequence[int] = self._rows.columns[0]
        return numbers

    @property
    def saves(self) -> Sequence[int]:
        """The bytes that the changes should save."""
        saves: Sequence[int] = self._rows.columns[3]
        return saves

    @property
    def groups(self) -> Sequence[int]:
        """The groups of the changes."""
        groups: Sequence[int] = self._rows.columns[7]
        return groups

    def change(self, index: int) -> Change:
        """Return a change."""
        line, path, treatment, saves, block, *rest = (column[index] for column in self._rows.columns)
        return Change(line, path, treatment, saves, None if block == _NO_BLOCK else self._lines.blocks[block], *rest)

    def _index(self, change: Change) -> int:
        """Return which of all blocks a change is about, or -1."""
        if change.block is None:
            return _NO_BLOCK
        if change.line != self._line:
            paths = self._lines.blocks.columns[1]
            self._line = change.line
            self._places = {paths[index]: index for index in reversed(self._lines.block_span(change.line))}
        return self._places[change.block.path]


class Changes(Mapping[int, tuple[Change, ...]]):
    """What is to change, line by line, in document order."""

    def __init__(self, proposals: Proposals, chosen: Iterable[int]) -> None:
        self._proposals = proposals
        numbers = proposals.numbers
        self._chosen = array("I", sorted(chosen, key=numbers.__getitem__))
        self._numbers = array("I", (numbers[index] for index in self._chosen))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return bool(self._chosen)

    def __iter__(self) -> Iterator[int]:
        before = -1
        for number in self._numbers:
            if number != before:
                yield number
            before = number

    def __getitem__(self, number: int) -> tuple[Change, ...]:
        first = bisect_left(self._numbers, number)
        last = bisect_right(self._numbers, number, first)
        if first == last:
            raise KeyError(number)
        return tuple(self._proposals.change(self._chosen[index]) for index in range(first, last))

    @property
    def saves(self) -> int:
        """Return the bytes that all changes should save."""
        return sum(self._proposals.saves[index] for index in self._chosen)
