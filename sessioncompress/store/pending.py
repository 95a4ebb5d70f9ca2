"""The journal's records of a run that is under way, in few bytes each, until every original has its place."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from sessioncompress.store import zstd
from sessioncompress.store.journal import LineRecord
from sessioncompress.store.originals import Place

_CHUNK = 256 * 1024
_FAST = 1
_DIGEST = 32


class PendingRecords:
    """Line records whose originals have an index but no place yet, each with its encoded block records."""

    def __init__(self) -> None:
        self._indexes = array("q")
        self._lengths = array("I")
        self._digests = bytearray()
        self._known: dict[int, Place] = {}
        self._chunks: list[bytes] = []
        self._tail = bytearray()

    def __len__(self) -> int:
        return len(self._indexes)

    def add(self, sha256: bytes, rewritten: bytes, index: int | None, known: Place | None, blocks: bytes) -> None:
        """Add a rewritten line: `index` is that of its original in this run, `known` its place from an earlier one.

        Neither is given where no originals are kept.
        """
        if known is not None:
            self._known[len(self)] = known
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
        for row, index in enumerate(self._indexes):
            place = places[index] if index >= 0 else self._known.get(row)
            start = row * 2 * _DIGEST
            sha256 = self._digests[start : start + _DIGEST].hex()
            rewritten = self._digests[start + _DIGEST : start + 2 * _DIGEST].hex()
            yield LineRecord(sha256, place, rewritten).encode() + next(blocks)

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
