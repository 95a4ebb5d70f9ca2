"""The originals of replaced lines, one stream of lines in zstd frames: how they are packed, and read back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Mapping
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple, Self

from xxhash import xxh3_64_intdigest

from sessioncompress.errors import NOT_CHANGED, Damaged, FileFailed, Unreadable, failing
from sessioncompress.store import git
from sessioncompress.store.layout import session_of
from sessioncompress.store.lock import open_file

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]  # others take it from here, whichever it is

FRAME_MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""How every zstd frame begins."""
FRAME_BYTES: Final = 2 << 20
"""The content of every frame but the last one of a run."""
LONGEST_LINE: Final = 64 << 20
"""Bytes. Longer lines are not kept, so that no record can make the reader use more memory."""
FROM_MARKERS: Final = "'sessioncompress restore --from-markers' puts back all lines that can still be read"
"""What is left to do where no copy of a file, or no clone, has what cannot be read."""
READ_BYTES: Final = 1 << 16
"""Bytes of a frame that are read at once."""

_LONGEST_FRAME: Final = FRAME_BYTES + (1 << 16)
"""Bytes on disk: zstd adds at most a few thousand to what it cannot compress."""
_FLAGS: Final = len(FRAME_MAGIC)
"""Where the byte stands that says what a frame's head holds."""
_CHECKSUM: Final = 0x04
_WINDOW: Final = {int(zstd.DecompressionParameter.window_log_max): FRAME_BYTES.bit_length() - 1}
"""A frame that asks for a larger window than our own content is none of ours."""
_OPTIONS: Final = {int(zstd.CompressionParameter.compression_level): 3, int(zstd.CompressionParameter.checksum_flag): 1}
_PIECE: Final = 1 << 18
_MOST_HELD: Final = 8 * FRAME_BYTES
"""Bytes of frames that a reader holds."""
_BESIDE: Final = 1 << 10
"""Bytes that a frame takes besides, and more: many runs write few."""


class Place(NamedTuple):
    """Where a line is: the byte offset of a frame in the file, the offset in that frame's content, the line's length.

    A line that does not end in its frame goes on at the start of the next one.
    """

    frame: int
    offset: int
    bytes: int


class InBlob(NamedTuple):
    """Where a line is that a commit has: the id of a git blob, the offset in it, the line's length."""

    blob: str
    offset: int
    bytes: int


class Committed:
    """Finds lines of a session that HEAD has, in the repository of the work tree around `store`.

    `wanted` are the XXH3-64 of the lines, and `first` that of the session's first one. What does not begin with that,
    such as a pointer of LFS, is no version of the session. `waits`: a line that HEAD does not have is left for a later
    run, else it is stored.
    """

    def __init__(self, session: Path, store: Path, first: int, wanted: Container[int], *, waits: bool) -> None:
        self._session, self._store, self._first, self._wanted, self.waits = session, store, first, wanted, waits

    @cached_property
    def lines(self) -> Mapping[bytes, InBlob] | None:
        """The wanted lines that HEAD has, by their SHA-256; None where it has no version of the session at hand."""
        try:
            with git.Blobs(self._store) as blobs:
                found = blobs.version(self._session)
        except FileFailed:
            return None
        if found is None:
            return None
        lines: dict[bytes, InBlob] = {}
        blob, content = found
        offset = 0
        for line in BytesIO(content):
            digest = xxh3_64_intdigest(line)
            if offset == 0 and digest != self._first:
                return None
            if digest in self._wanted:
                lines[sha256(line).digest()] = InBlob(blob, offset, len(line))
            offset += len(line)
        return lines


class OriginalsPacker:
    """Packs lines into frames and hands them to `sink` in order.

    `start` is the offset of the first frame in the file. A frame reaches the sink only if it decompresses to what went
    in.
    """

    def __init__(self, start: int, sink: Callable[[bytes], None]) -> None:
        self._sink = sink
        self.end = start
        """Where what was packed ends in the file, and the frame that is being filled begins."""
        # It grows with the first frame: most sessions do not fill one. Then it is used again, since new memory costs as
        # much as the packing.
        self._content = bytearray()
        self._filled = 0

    def add(self, line: bytes) -> Place:
        """Keep a line; return where it will be read. Raises ValueError if it is over LONGEST_LINE.

        Behind a message of a document, which is no line of its own, a line ends that is no part of it: whoever reads
        them without a record can tell one from the next.
        """
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a line of {len(line)} bytes is not kept")
        place = Place(self.end, self._filled, len(line))
        for data in (line,) if line.endswith(b"\n") else (line, b"\n"):
            start = 0
            while start < len(data):
                part = data[start : start + FRAME_BYTES - self._filled]
                self._content[self._filled : self._filled + len(part)] = part
                self._filled += len(part)
                start += len(part)
                if self._filled == FRAME_BYTES:
                    self._pack()
        return place

    def finish(self) -> None:
        """Pack what is left."""
        if self._filled:
            del self._content[self._filled :]
            self._pack()
        self._content = bytearray()

    def _pack(self) -> None:
        content = self._content
        # Fed in pieces, as it is read back: at once would take as much memory again as the content.
        compressor = zstd.ZstdCompressor(options=_OPTIONS)
        compressor.set_pledged_input_size(len(content))
        with memoryview(content) as view:
            pieces = [compressor.compress(view[start : start + _PIECE]) for start in range(0, len(content), _PIECE)]
        frame = b"".join([*pieces, compressor.flush()])
        decompressor = zstd.ZstdDecompressor()
        same, position, data = True, 0, frame
        while same and not decompressor.eof:
            piece = decompressor.decompress(data, max_length=_PIECE)
            same = bool(piece or not decompressor.needs_input) and content[position : position + len(piece)] == piece
            position += len(piece)
            data = b""
        if not same or position != len(content):
            raise Damaged("zstd did not give back what it was given", state=NOT_CHANGED, remedy="Check the memory.")
        self._sink(frame)
        self.end += len(frame)
        self._filled = 0


class OriginalsReader:
    """Reads lines back from an originals file. Sizes that the file or a record declare are never trusted.

    The file is opened for the first line that is read: a journal may name none. The frames read last are held: lines
    are read in the order of the session, in which those that several runs kept, each in frames of its own, take turns.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._held: dict[int, tuple[bytes, int]] = {}
        """What a frame holds and where the next one begins, by where it begins; the one asked for last is last."""
        self._size = 0
        self._blobs: git.Blobs | None = None
        self._lacking: dict[str, tuple[str, str]] = {}
        """Why a blob cannot be read and what to do, by its id: git is asked once."""
        self.way = ""
        """What to do about the first original that was to be read from a commit, and was not; empty if all were."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._blobs is not None:
            self._blobs.close()

    def line(self, place: Place | InBlob, sha256_hex: str) -> bytes:
        """Read the line at a place. Raises Unreadable unless all of it is there and has that SHA-256."""
        if isinstance(place, InBlob):
            return self._committed(place, sha256_hex)
        if not 0 <= place.bytes <= LONGEST_LINE or not 0 <= place.offset < FRAME_BYTES or place.frame < 0:
            raise self._unreadable(place, "there is no line at this place")
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
            raise self._unreadable(place, "the line's SHA-256 does not match its record")
        return line

    def _committed(self, place: InBlob, sha256_hex: str) -> bytes:
        self._blobs = self._blobs or git.Blobs(self._path.parent)
        lacking = self._lacking.get(place.blob)
        if lacking is None:
            try:
                if found := self._blobs.read(place.blob):
                    line = found[1][place.offset : place.offset + place.bytes]
                    if sha256(line).hexdigest() == sha256_hex:
                        return line
                    lacking = "the line's SHA-256 does not match its record", git.BRING_BACK
                else:
                    lacking = self._lacking[place.blob] = _why(self._blobs)
            except FileFailed as error:
                lacking = self._lacking[place.blob] = f"its original is in a commit, but {error.what}", error.remedy
        what, remedy = lacking
        self.way = self.way or remedy
        if remedy == git.BRING_BACK:
            remedy += f" Without one these originals are lost; {FROM_MARKERS}."
        where = session_of(self._path)
        raise Unreadable(f"{what} (git blob {place.blob})", where=where, state=NOT_CHANGED, remedy=remedy)

    def _frame(self, start: int, place: Place) -> tuple[bytes, int]:
        found = self._held.pop(start, None)
        if found is None:
            while self._held and self._size > _MOST_HELD - FRAME_BYTES:
                content, _ = self._held.pop(next(iter(self._held)))
                self._size -= len(content) + _BESIDE
            with failing(self._path):
                if self._fd < 0:
                    try:
                        self._fd = open_file(self._path)
                    except FileNotFoundError as error:
                        what = "the originals that the journal lists are missing"
                        remedy = "Put a copy of this file back from a backup. Without one they are lost."
                        raise Unreadable(what, where=self._path, state=NOT_CHANGED, remedy=remedy) from error
                found = self._decode(start, place)
            self._size += len(found[0]) + _BESIDE
        self._held[start] = found
        return found

    def _decode(self, start: int, place: Place) -> tuple[bytes, int]:
        content = bytearray()
        try:
            following = read_frame(self._fd, start, content)
        except zstd.ZstdError as error:
            raise self._unreadable(place, "the frame cannot be decompressed") from error
        except (EOFError, OverflowError) as error:
            raise self._unreadable(place, str(error)) from error
        return bytes(content), following

    def _unreadable(self, place: Place, what: str) -> Unreadable:
        where = f"frame at byte {place.frame}, offset {place.offset}, {place.bytes} bytes"
        return Unreadable(
            f"{what} ({where})",
            where=self._path,
            state=NOT_CHANGED,
            remedy=f"Put a copy of this file back from a backup. Without one, {FROM_MARKERS}.",
        )


def _why(blobs: git.Blobs) -> tuple[str, str]:
    """Say why a repository does not have a blob, and what to do. Raises FileFailed."""
    if blobs.top is None:
        return "its original is in a commit, and this is no clone", "Work in the clone it is from."
    shallow = "This clone is shallow: 'git fetch --unshallow' brings it."
    lacks = "its original is in a commit that this clone does not have"
    return lacks, shallow if blobs.is_shallow else git.BRING_BACK


def read_frame(
    fd: int,
    start: int,
    content: bytearray,
    *,
    end: int = sys.maxsize,
    step: int = FRAME_BYTES + 1,
    checksum: bool = True,
) -> int:
    """Add what the frame at a byte of a file holds to `content`, `step` bytes a call; return where the frame ends.

    Raises ZstdError where it is damaged, EOFError where it is cut off at `end`, OverflowError where it is larger than
    any of ours. What came before is in `content` then, except for what the last call decompressed. Without `checksum`
    the frame's own is not looked at.
    """
    decoder = zstd.ZstdDecompressor(options=_WINDOW)
    position = start
    while not decoder.eof:
        data = os.pread(fd, min(READ_BYTES, end - position), position) if decoder.needs_input else b""
        if decoder.needs_input and not data:
            raise EOFError("the frame is cut off")
        if position == start and not checksum:
            # Its head says then that no checksum stands at its end.
            flags = bytes(each & ~_CHECKSUM for each in data[_FLAGS : _FLAGS + 1])
            data = data[:_FLAGS] + flags + data[_FLAGS + 1 :]
        position += len(data)
        content += decoder.decompress(data, max_length=min(step, FRAME_BYTES + 1 - len(content)))
        if len(content) > FRAME_BYTES or position - start > _LONGEST_FRAME + READ_BYTES:
            raise OverflowError("the frame is larger than any we write")
    return position - len(decoder.unused_data)
