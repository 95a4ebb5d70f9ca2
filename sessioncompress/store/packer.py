"""Pack the originals of replaced lines into zstd frames."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Final, overload

from sessioncompress.errors import NOT_CHANGED, Damaged
from sessioncompress.store import zstd
from sessioncompress.store.originals import FRAME_BYTES, LONGEST_LINE, Place

_PIECE: Final = 1 << 18
_OPTIONS: Final = {int(zstd.CompressionParameter.compression_level): 3, int(zstd.CompressionParameter.checksum_flag): 1}


class Places(Sequence[Place]):
    """The places of many lines in few bytes each: `lines` holds frame number, offset and length, one after another."""

    def __init__(self, lines: array[int], ends: list[int]) -> None:
        self._lines = lines
        self._ends = ends

    def __len__(self) -> int:
        return len(self._lines) // 3

    @overload
    def __getitem__(self, index: int) -> Place: ...

    @overload
    def __getitem__(self, index: slice) -> list[Place]: ...

    def __getitem__(self, index: int | slice) -> Place | list[Place]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        frame, offset, size = self._lines[3 * index : 3 * index + 3]
        return Place(self._ends[frame], offset, size)


class OriginalsPacker:
    """Packs lines into frames and hands them to `sink` in order.

    `start` is the offset of the first frame in the file. A frame reaches the sink only if it decompresses to what went
    in.
    """

    def __init__(self, start: int, sink: Callable[[bytes], None]) -> None:
        self._sink = sink
        self._ends = [start]
        # It grows with the first frame: most sessions do not fill one. Then it is used again, since new memory costs as
        # much as the packing.
        self._content = bytearray()
        self._filled = 0
        self._lines = array("Q")

    def add(self, line: bytes) -> int:
        """Keep a line; return its index in what finish() returns. Raises ValueError if it is over LONGEST_LINE."""
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a line of {len(line)} bytes is not kept")
        self._lines.extend((len(self._ends) - 1, self._filled, len(line)))
        start = 0
        while start < len(line):
            part = line[start : start + FRAME_BYTES - self._filled]
            self._content[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            start += len(part)
            if self._filled == FRAME_BYTES:
                self._pack()
        return len(self._lines) // 3 - 1

    def finish(self) -> Places:
        """Pack what is left, and return the place of every line, in the order of adding."""
        if self._filled:
            del self._content[self._filled :]
            self._pack()
        self._content = bytearray()
        return Places(self._lines, self._ends)

    def _pack(self) -> None:
        frame = _compressed(self._content)
        if not _decompresses_to(frame, self._content):
            raise Damaged("zstd does not give back what it was given", state=NOT_CHANGED, remedy="Check the memory.")
        self._sink(frame)
        self._ends.append(self._ends[-1] + len(frame))
        self._filled = 0


def _compressed(content: bytearray) -> bytes:
    """Return the content as one frame. It is fed in pieces: at once would take as much memory again as the content."""
    compressor = zstd.ZstdCompressor(options=_OPTIONS)
    compressor.set_pledged_input_size(len(content))
    with memoryview(content) as view:
        pieces = [compressor.compress(view[start : start + _PIECE]) for start in range(0, len(content), _PIECE)]
    return b"".join([*pieces, compressor.flush()])


def _decompresses_to(frame: bytes, content: bytearray) -> bool:
    decompressor = zstd.ZstdDecompressor()
    position = 0
    data = frame
    while not decompressor.eof:
        piece = decompressor.decompress(data, max_length=_PIECE)
        if not piece and decompressor.needs_input:
            return False
        if content[position : position + len(piece)] != piece:
            return False
        position += len(piece)
        data = b""
    return position == len(content)
