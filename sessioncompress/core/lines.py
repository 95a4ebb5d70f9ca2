"""The lines of a session in one list, and the columns in which a store's journal is held."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from sessioncompress.core.model import NO_PREFIX, Facts, Line, Prefix, Role, Shape

Column = Any
"""An array of numbers, a list of objects, or one of the columns here."""

Row = TypeVar("Row", bound=tuple[Any, ...])

_DIGEST = 16
_WHOLE_DIGEST = 32
_NUMBER_BYTES = 8


def columns(kinds: str) -> list[Column]:
    """Make empty columns, one for each letter: O objects, T texts, any other as in `array`.

    D are digests of 16 bytes, W whole ones of 32.
    """
    made: dict[str, Callable[[], Column]] = {
        "O": list,
        "T": Texts,
        "D": lambda: Digests(_DIGEST),
        "W": lambda: Digests(_WHOLE_DIGEST),
    }
    return [made[kind]() if kind in made else array(kind) for kind in kinds]


class Table(Generic[Row]):
    """Rows of one kind of named tuple, each made again when it is asked for."""

    def __init__(self, kind: type[Row], columns: list[Column]) -> None:
        self._kind = kind
        self.columns = columns
        self._adders = [column.append for column in self.columns]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: int) -> Row:
        return tuple.__new__(self._kind, [column[index] for column in self.columns])

    def rows(self, indexes: Iterable[int]) -> Iterator[Row]:
        """Make some rows."""
        return (self[index] for index in indexes)

    def add(self, row: Iterable[Any]) -> None:
        """Add a row."""
        for add, value in zip(self._adders, row, strict=False):
            add(value)


class Texts:
    """Texts, one behind the other."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("Q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> str:
        return self._data[self._ends[index] : self._ends[index + 1]].decode(errors="surrogatepass")

    def append(self, text: str) -> None:
        """Add a text."""
        self._data += text.encode(errors="surrogatepass")
        self._ends.append(len(self._data))


class Digests:
    """Digests of some bytes each, or none."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._none = bytes(size)
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data) // self._size

    def __iter__(self) -> Iterator[bytes]:
        size, data, none = self._size, self._data, self._none
        each = (bytes(data[start : start + size]) for start in range(0, len(data), size))
        return (b"" if digest == none else digest for digest in each)

    def __getitem__(self, index: int) -> bytes:
        digest = bytes(self._data[self._size * index : self._size * (index + 1)])
        return b"" if digest == self._none else digest

    def append(self, digest: bytes) -> None:
        """Add a digest."""
        self._data += digest or self._none


class Index:
    """Finds the rows of numbers of 64 bits, in twelve bytes a row."""

    def __init__(self, numbers: Iterable[int]) -> None:
        unsorted = array("Q", numbers)
        self._rows = array("I", sorted(range(len(unsorted)), key=unsorted.__getitem__))
        self._numbers = array("Q", map(unsorted.__getitem__, self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self._numbers, number)
        return at < len(self._numbers) and self._numbers[at] == number

    def rows(self, number: int) -> Sequence[int]:
        """Find the rows with that number, in their order."""
        first = bisect_left(self._numbers, number)
        return self._rows[first : bisect_right(self._numbers, number, first)]

    def newest(self, number: int) -> Iterator[int]:
        """Find the rows with that number, the last one first."""
        first = bisect_left(self._numbers, number)
        behind = bisect_right(self._numbers, number, first)
        return (self._rows[at] for at in range(behind - 1, first - 1, -1))


class DigestIndex:
    """Finds the rows of a column of digests, by the first eight bytes of each."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._index = Index(map(_number, digests))

    def rows(self, digest: bytes) -> list[int]:
        """Find the rows with that digest, in their order."""
        return [row for row in self._index.rows(_number(digest)) if self._digests[row] == digest]

    def newest(self, digest: bytes) -> Iterator[int]:
        """Find the rows with that digest, the last one first."""
        return (row for row in self._index.newest(_number(digest)) if self._digests[row] == digest)


def _number(digest: bytes) -> int:
    return int.from_bytes(digest[:_NUMBER_BYTES], "big")


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
