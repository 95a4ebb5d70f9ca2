"""The originals of replaced lines: packing them into zstd frames as one stream of lines, and reading them back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Mapping
from contextlib import closing
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple, Self

from xxhash import xxh3_64_intdigest

from sessioncompress.errors import Damaged, FileFailed, Unreadable, failing
from sessioncompress.store import git
from sessioncompress.store.layout import session_of
from sessioncompress.store.lock import open_file

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]  # other modules import it from here, whichever it is

FRAME_MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of every zstd frame."""
FRAME_BYTES: Final = 2 << 20
"""Bytes of content of every frame except the last of a run."""
LONGEST_LINE: Final = 64 << 20
"""Bytes. Longer lines are not stored, so that no record can exhaust the reader's memory."""
FROM_MARKERS: Final = "'sessioncompress restore --from-markers' puts back all lines that can still be read"
OTHERS_CAN: Final = f" Without one these originals are lost; {FROM_MARKERS}."
"""The last remedy if no copy of a file has the unreadable original; `damage.judging` checks it."""
COMMITS_CAN: Final = f"{OTHERS_CAN} 'forget' and 'compress --originals-in committed' after it store what is left."
"""The same if no clone has the original: it can't be stored any more, but others can before the next squash."""
READ_BYTES: Final = 1 << 16
"""Bytes of a frame per read."""

_LONGEST_FRAME: Final = FRAME_BYTES + (1 << 16)
"""Bytes on disk: zstd adds at most a few thousand bytes to incompressible content."""
_FLAGS: Final = len(FRAME_MAGIC)
"""Offset of the byte with the flags in a frame's header."""
_CHECKSUM: Final = 0x04
_WINDOW: Final = {int(zstd.DecompressionParameter.window_log_max): FRAME_BYTES.bit_length() - 1}
"""Reject a frame that asks for a larger window than our frames need."""
_OPTIONS: Final = {int(zstd.CompressionParameter.compression_level): 3, int(zstd.CompressionParameter.checksum_flag): 1}
_PIECE: Final = 1 << 18
_MOST_HELD: Final = 8 * FRAME_BYTES
"""Bytes of decoded frames that a reader caches."""
_BESIDE: Final = 1 << 10
"""Bytes that a cached frame costs in addition to its content, rounded up: small runs make many small frames."""


class InFrame(NamedTuple):
    """The place of a line: a frame's byte offset in the file, the offset in the frame's content, and the line's length.

    A line that does not end in its frame continues at the start of the next one.
    """

    frame: int
    offset: int
    bytes: int


class InBlob(NamedTuple):
    """The place of a line in a commit: the id of a git blob, the offset in it, and the line's length."""

    blob: str
    offset: int
    bytes: int


class Committed:
    """Finds lines of a session at HEAD, in the repository of the work tree around `store`.

    `wanted` are the XXH3-64 hashes of the lines, `first` is the hash of the session's first line. A blob with another
    first line, such as an LFS pointer, is no version of the session. If `waits`, lines that are not at HEAD are left
    for a later run; otherwise they are stored.
    """

    def __init__(self, session: Path, store: Path, first: int, wanted: Container[int], *, waits: bool) -> None:
        self._session, self._store, self._first, self._wanted, self.waits = session, store, first, wanted, waits

    @cached_property
    def lines(self) -> Mapping[bytes, InBlob] | None:
        """The wanted lines at HEAD by their SHA-256, or None if HEAD has no readable version of the session."""
        try:
            with closing(git.Blobs(self._store)) as blobs:
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
    """Packs lines into frames and passes them to `sink` in order.

    `start` is the offset of the first frame in the file. A frame is passed on only if it decompresses to its content.
    """

    def __init__(self, start: int, sink: Callable[[bytes], None]) -> None:
        self._sink = sink
        self.end = start
        """The file offset of the end of the packed frames, and of the start of the next one."""
        # It grows with the first frame, because most sessions do not fill one. Later frames reuse it: allocating memory
        # takes as long as packing.
        self._content = bytearray()
        self._filled = 0

    def add(self, line: bytes) -> InFrame:
        """Store a line and return its place. Raises ValueError if it is over LONGEST_LINE.

        A message of a document has no LF of its own. An LF is added after it, outside its place, so that lines can be
        told apart without a record.
        """
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a line of {len(line)} bytes is not kept")
        place = InFrame(self.end, self._filled, len(line))
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
        """Pack the rest."""
        if self._filled:
            del self._content[self._filled :]
            self._pack()
        self._content = bytearray()

    def _pack(self) -> None:
        content = self._content
        # Compress and verify in pieces: a single call would double the memory.
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
            raise Damaged("zstd did not give back what it was given", remedy="Check the memory.")
        self._sink(frame)
        self.end += len(frame)
        self._filled = 0


class OriginalsReader:
    """Reads lines from an originals file. Sizes declared by the file or by a record are never trusted.

    Opens the file for the first line, because a journal may refer to none. Caches the most recent frames: lines are
    read in session order, which alternates between the frames of different runs.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._held: dict[int, tuple[bytes, int]] = {}
        """Content of a frame and start of the next one, by the frame's start; the most recently used is last."""
        self._size = 0
        self._blobs: git.Blobs | None = None
        self._lacking: dict[str, tuple[str, str]] = {}
        """Why a blob can't be read and the remedy, by blob id, so that git is asked once per blob."""
        self.way = ""
        """The remedy for the first original that could not be read from a commit, or empty."""

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

    def line(self, place: InFrame | InBlob, sha256_hex: str) -> bytes:
        """Return the line at a place. Raises Unreadable unless it is complete and its SHA-256 matches."""
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
            remedy += COMMITS_CAN
        where = session_of(self._path)
        raise Unreadable(f"{what} (git blob {place.blob})", where=where, remedy=remedy)

    def _frame(self, start: int, place: InFrame) -> tuple[bytes, int]:
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
                        raise Unreadable(what, where=self._path, remedy=remedy) from error
                found = self._decode(start, place)
            self._size += len(found[0]) + _BESIDE
        self._held[start] = found
        return found

    def _decode(self, start: int, place: InFrame) -> tuple[bytes, int]:
        content = bytearray()
        try:
            following = read_frame(self._fd, start, content)
        except zstd.ZstdError as error:
            raise self._unreadable(place, "the frame cannot be decompressed") from error
        except (EOFError, OverflowError) as error:
            raise self._unreadable(place, str(error)) from error
        return bytes(content), following

    def _unreadable(self, place: InFrame, what: str) -> Unreadable:
        where = f"frame at byte {place.frame}, offset {place.offset}, {place.bytes} bytes"
        return Unreadable(
            f"{what} ({where})",
            where=self._path,
            remedy=f"Put copies of this file and of the journal beside it back from a backup.{OTHERS_CAN}",
        )


def _why(blobs: git.Blobs) -> tuple[str, str]:
    """Return why a repository lacks a blob, and the remedy. Raises FileFailed."""
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
    """Append the content of the frame at byte `start` to `content`, `step` bytes a call; return the end of the frame.

    Raises ZstdError if the frame is damaged, EOFError if it is cut off at `end`, OverflowError if it is larger than
    any that we write. `content` then has everything up to the call that failed. Without `checksum` the frame's checksum
    is ignored.
    """
    decoder = zstd.ZstdDecompressor(options=_WINDOW)
    position = start
    while not decoder.eof:
        data = os.pread(fd, min(READ_BYTES, end - position), position) if decoder.needs_input else b""
        if decoder.needs_input and not data:
            raise EOFError("the frame is cut off")
        if position == start and not checksum:
            # Clear the flag, so that the decoder expects no checksum.
            flags = bytes(each & ~_CHECKSUM for each in data[_FLAGS : _FLAGS + 1])
            data = data[:_FLAGS] + flags + data[_FLAGS + 1 :]
        position += len(data)
        content += decoder.decompress(data, max_length=min(step, FRAME_BYTES + 1 - len(content)))
        if len(content) > FRAME_BYTES or position - start > _LONGEST_FRAME + READ_BYTES:
            raise OverflowError("the frame is larger than any we write")
    return position - len(decoder.unused_data)
