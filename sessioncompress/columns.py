"""Columns that hold short texts and digests without an object for each; used as lists are, as far as is needed."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

Column = Any
"""An array of numbers, a list of objects, or one of the columns here."""

_DIGEST = 16
_NO_DIGEST = bytes(_DIGEST)


def columns(kinds: str) -> list[Column]:
    """Return empty columns, one for each letter: O objects, T texts, D digests, any other as in `array`."""
    others = {"O": list, "T": Texts, "D": Digests}
    return [others[kind]() if kind in others else array(kind) for kind in kinds]


class Texts:
    """Texts that hardly ever change, one behind the other."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("Q", [0])
        self._others: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> str:
        if index in self._others:
            return self._others[index]
        return self._data[self._ends[index] : self._ends[index + 1]].decode(errors="surrogatepass")

    def __setitem__(self, index: int, text: str) -> None:
        self._others[index] = text

    def append(self, text: str) -> None:
        """Add a text."""
        self._data += text.encode(errors="surrogatepass")
        self._ends.append(len(self._data))

    def __copy__(self) -> Texts:
        new = Texts()
        new._data, new._ends, new._others = self._data[:], self._ends[:], dict(self._others)
        return new


class Digests:
    """Digests of 16 bytes, or none."""

    def __init__(self, data: bytes | bytearray = b"") -> None:
        self._data = bytearray(data)

    def __len__(self) -> int:
        return len(self._data) // _DIGEST

    def __iter__(self) -> Iterator[bytes]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> bytes:
        digest = bytes(self._data[_DIGEST * index : _DIGEST * (index + 1)])
        return b"" if digest == _NO_DIGEST else digest

    def __setitem__(self, index: int, digest: bytes) -> None:
        self._data[_DIGEST * index : _DIGEST * (index + 1)] = digest or _NO_DIGEST

    def __copy__(self) -> Digests:
        return Digests(self._data)

    def append(self, digest: bytes) -> None:
        """Add a digest."""
        self._data += digest or _NO_DIGEST
