"""The originals of replaced lines, one stream of lines in zstd frames: where a line is, and how it is read back."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from sessioncompress.errors import NOT_CHANGED, Unreadable, failing
from sessioncompress.store.lock import open_file

if TYPE_CHECKING:
    from sessioncompress.store import zstd

FRAME_MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""How every zstd frame begins."""
FRAME_BYTES: Final = 2 << 20
"""The content of every frame but the last one of a run."""
LONGEST_LINE: Final = 64 << 20
"""Bytes. Longer lines are not kept, so that no record can make the reader use more memory."""

_WINDOW_LOG: Final = FRAME_BYTES.bit_length() - 1
"""A frame that asks for a larger window than our own content is none of ours."""
READ_BYTES: Final = 1 << 16
"""Bytes of a frame that are read at once."""
_LONGEST_FRAME: Final = FRAME_BYTES + (1 << 16)
"""Bytes on disk: zstd adds at most a few thousand to what it cannot compress."""


class Place(NamedTuple):
    """Where a line is: the byte offset of a frame in the file, the offset in that frame's content, the line's length.

    A line that does not end in its frame goes on at the start of the next one.
    """

    frame: int
    offset: int
    bytes: int


class OriginalsReader:
    """Reads lines back from an originals file. Sizes that the file or a record declare are never trusted.

    Opening raises Unreadable if there is no such file. The frame read last is kept, since lines are read in order.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with failing(path):
            try:
                self._fd = open_file(path)
            except FileNotFoundError as error:
                raise _missing(path) from error
        self._cached = (-1, b"", -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def line(self, place: Place, sha256_hex: str) -> bytes:
        """Read the line at a place. Raises Unreadable unless all of it is there and has that SHA-256."""
        if not 0 <= place.bytes <= LONGEST_LINE or not 0 <= place.offset < FRAME_BYTES or place.frame < 0:
            raise self._unreadable(place, "this is no place of a line")
        frame, offset, left = place.frame, place.offset, place.bytes
        parts = []
        while left:
            content, following = self._frame(frame, place)
            part = content[offset : offset + left]
            if not part:
                raise self._unreadable(place, "the line ends too early")
            parts.append(part)
            left -= len(part)
            frame, offset = following, 0
        line = b"".join(parts)
        if sha256(line).hexdigest() != sha256_hex:
            raise self._unreadable(place, "the line has another SHA-256 than its record")
        return line

    def _frame(self, start: int, place: Place) -> tuple[bytes, int]:
        """Return the content of the frame at that byte, and where the next one begins."""
        if self._cached[0] != start:
            with failing(self._path):
                self._cached = (start, *self._decode(start, place))
        return self._cached[1], self._cached[2]

    def _decode(self, start: int, place: Place) -> tuple[bytes, int]:
        from sessioncompress.store import zstd

        decoder = new_decoder()
        content = bytearray()
        position = start
        while not decoder.eof:
            data = os.pread(self._fd, READ_BYTES, position) if decoder.needs_input else b""
            if decoder.needs_input and not data:
                raise self._unreadable(place, "the frame is cut off")
            position += len(data)
            try:
                content += decoder.decompress(data, max_length=FRAME_BYTES + 1 - len(content))
            except zstd.ZstdError as error:
                raise self._unreadable(place, "the frame cannot be decompressed") from error
            if len(content) > FRAME_BYTES or position - start > _LONGEST_FRAME + READ_BYTES:
                raise self._unreadable(place, "the frame is larger than any that is written there")
        return bytes(content), position - len(decoder.unused_data)

    def _unreadable(self, place: Place, what: str) -> Unreadable:
        where = f"frame at byte {place.frame}, offset {place.offset}, {place.bytes} bytes"
        return Unreadable(
            f"{what} ({where})",
            where=self._path,
            state=NOT_CHANGED,
            remedy="Put a copy of this file back from a backup. Without one, 'sessioncompress restore --from-markers' "
            "puts back all lines that can still be read.",
        )


def _missing(path: Path) -> Unreadable:
    return Unreadable(
        "the originals that the journal names are missing",
        where=path,
        state=NOT_CHANGED,
        remedy="Put a copy of this file back from a backup. Without one they are lost.",
    )


def new_decoder() -> zstd.ZstdDecompressor:
    """Make a decoder that rejects frames with a larger window than ours."""
    # Imported here because most runs read a journal, with its places, but no original.
    from sessioncompress.store import zstd

    return zstd.ZstdDecompressor(options={int(zstd.DecompressionParameter.window_log_max): _WINDOW_LOG})
