"""The journal's records of a run that is under way, in few bytes each, until every original has its place."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterator, Sequence

from sessioncompress.store import zstd
from sessioncompress.store.originals import Place
from sessioncompress.store.records import BlockRecord, LineRecord, decode_block, encode_line

_CHUNK = 256 * 1024
_FAST = 1
_DIGEST = 32


class PendingRecords:
    """Line records whose originals have an index but no place yet, each with its encoded block records."""

    def __init__(self) -> None:
        self._numbers = array("I")
        self._indexes = array("q")
        self._lengths = array("I")
        self._digests = bytearray()
        self._known: dict[int, Place] = {}
        self._chunks: list[bytes] = []
        self._tail = bytearray()
        self.blocks = 0
        """How many block records there are."""

    def __len__(self) -> int:
        return len(self._indexes)

    def add(
        self, number: int, sha256: bytes, rewritten: bytes, index: int | None, known: Place | None, blocks: bytes
    ) -> None:
        """Add a rewritten line by its number, which is greater than those before it.

        `index` is that of its original in this run, `known` the original's place from an earlier one.

        Neither is given where no originals are kept.
        """
        if known is not None:
            self._known[len(self)] = known
        self._numbers.append(number)
        self.blocks += blocks.count(b"\n")
        self._indexes.append(-1 if index is None else index)
        self._digests += sha256 + rewritten
        self._lengths.append(len(blocks))
        self._tail += blocks
        if len(self._tail) >= _CHUNK:
            self._chunks.append(zstd.compress(self._tail, _FAST))
            self._tail = bytearray()

    def encode(self, places: Sequence[Place]) -> Iterator[bytes]:
        """Yield the records, line by line, as the journal takes them."""
        blocks = self._blocks()
        for row in range(len(self)):
            yield encode_line(*self._line(row, self._place(row, places))) + next(blocks)

    def size(self, places: Sequence[Place]) -> int:
        """Return how many bytes encode() yields; only a place's digits differ from line to line."""
        sized = sum(len(encode_line("", self._place(row, places), "")) for row in range(len(self)))
        return sized + 4 * _DIGEST * len(self) + sum(self._lengths)

    def of(self, numbers: Container[int]) -> Iterator[LineRecord | BlockRecord]:
        """Yield the records of some lines, without places."""
        for row, (number, blocks) in enumerate(zip(self._numbers, self._blocks(), strict=True)):
            if number in numbers:
                yield LineRecord(*self._line(row, None))
                yield from (decode_block(raw) for raw in blocks.splitlines())

    def original_of(self, number: int) -> bytes:
        """Return the SHA-256 of a line's original. Raises KeyError where the line was not added."""
        row = bisect_left(self._numbers, number)
        if self._numbers[row : row + 1] != array("I", [number]):
            raise KeyError(number)
        return bytes(self._digests[row * 2 * _DIGEST : (row * 2 + 1) * _DIGEST])

    def _place(self, row: int, places: Sequence[Place]) -> Place | None:
        index = self._indexes[row]
        return places[index] if index >= 0 else self._known.get(row)

    def _line(self, row: int, place: Place | None) -> tuple[str, Place | None, str]:
        start = row * 2 * _DIGEST
        sha256, rewritten = self._digests[start : start + _DIGEST], self._digests[start + _DIGEST : start + 2 * _DIGEST]
        return sha256.hex(), place, rewritten.hex()

    def _blocks(self) -> Iterator[bytes]:
        """Yield the block records of each line; a chunk may end anywhere between two lines."""
        chunks = iter([*self._chunks, None])
        content, position = b"", 0
        for length in self._lengths:
            if position == len(content) and length:
                chunk = next(chunks)
                content, position = bytes(self._tail) if chunk is None else zstd.decompress(chunk), 0
            yield content[position : position + length]
            position += length
