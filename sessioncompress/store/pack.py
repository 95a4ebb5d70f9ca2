"""The format of a pack: a tar archive, in zstd frames, of sessions with their stores, and the index file next to it."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct

from sessioncompress.errors import Damaged, NotASession, Refused, Unreadable, failing
from sessioncompress.store import disk
from sessioncompress.store.layout import NEVER, may_be_store
from sessioncompress.store.lock import open_file
from sessioncompress.store.originals import zstd

INDEX: Final = ".index"
VERSION: Final = 1

_LARGEST_WINDOW: Final = 27
"""The largest window that zstd, and so `tar --zstd`, reads without an option: 128 MiB."""
_FRAME: Final = 3 << 20
"""Compressed bytes after which the next session starts a new frame: reading a session decompresses its whole frame."""
_LONGEST_FRAME: Final = 32 << 20
"""Compressed bytes after which even a session of the same family starts a new frame, losing the repeats before it."""
_ALIGNED: Final = 1 << 20
"""Minimum bytes of a file whose blocks are aligned to the end of its first line; a fork's has a different length.

In a repeat, zstd remembers only the start of each block. If forks were not aligned alike, each would match its parent
but not the forks before it, and so nothing once the parent is outside the window.
"""
_PIECE: Final = 1 << 18
LONGEST_INDEX: Final = 64 << 20
_LEAST_CONTENT: Final = 64 << 20
_RATIO: Final = 2_000
"""Limits of a frame's content: _LEAST_CONTENT, or _RATIO times the frame's bytes. No session compresses better."""
_SKIPPED: Final = (0x184D2A5C).to_bytes(4, "little")
"""Magic of a skippable frame, which zstd and tar ignore. An archive ends with a copy of its index in such a frame."""
_LAST: Final = b"sessidx1"
MODE: Final = 0o777

MOST: Final = (1 << 63) - 1
"""The largest number that a system call accepts."""

Count = Annotated[int, Meta(ge=0, le=MOST)]
Time = Annotated[int, Meta(ge=-MOST, le=MOST)]
"""Nanoseconds."""
Digest = Annotated[str, Meta(min_length=64, max_length=64)]


class State(StrEnum):
    """The state of a session in a pack.

    `LEFT`: it changed while it was being packed, so it stayed in its place. `MOVED`: a newer pack has it.
    """

    PACKED = "packed"
    UNPACKED = "unpacked"
    LEFT = "left"
    MOVED = "moved"


class Member(Struct, frozen=True, rename="camel"):
    """One file in a pack: its path relative to the packed folder, and its start in the content of its frame."""

    path: str
    size: Count
    sha256: Digest
    mode: Count
    mtime_ns: Time
    start: Count


class Entry(Struct, frozen=True, rename="camel", tag="session"):
    """One session in a pack. The first member is the session, the others are its store, in archive order.

    `frame` is the byte of the archive at which its frame begins. `begun` is the time of its first entry, or empty, and
    `packed_ns` the time of its first packing, in nanoseconds.
    """

    state: State
    id: str
    agent: str
    project: str
    title: str
    begun: str
    modified: str
    turns: Count
    frame: Count
    members: Annotated[tuple[Member, ...], Meta(min_length=1, max_length=3)]
    packed_ns: Count = 0

    @property
    def age(self) -> tuple[int, int]:
        """A sort key, greater for the newer of two at one place; an object store has times in whole seconds only."""
        return (self.members[0].mtime_ns, self.packed_ns)

    @property
    def path(self) -> str:
        """The session's path, relative to the packed folder."""
        return self.members[0].path

    @property
    def size(self) -> int:
        """The bytes of the session and its store."""
        return sum(each.size for each in self.members)

    @property
    def content(self) -> tuple[str, ...]:
        """A key that is equal only for the same files at the same place."""
        return (self.path, *(part for each in self.members for part in (each.path, each.sha256)))


class _IndexHead(Struct, frozen=True, rename="camel", tag="pack"):
    version: Annotated[int, Meta(ge=1)]
    size: Count = 0
    """Bytes of the archive. Optional, so that a later version can record it in another way."""
    rows_sha256: str = ""
    """Of all bytes after the head. It reveals lost rows: the index alone decides what counts as packed."""


class Index(NamedTuple):
    """The content of an index: the size of the archive in bytes, and its sessions in archive order."""

    size: int
    entries: tuple[Entry, ...]

    def written(self) -> bytes:
        """Return the index as JSON lines."""
        rows = b"".join(msgspec.json.encode(row) + b"\n" for row in self.entries)
        return msgspec.json.encode(_IndexHead(VERSION, self.size, sha256(rows).hexdigest())) + b"\n" + rows


def read_index(path: Path) -> Index:
    """Read an index.

    Raises Damaged if it is not an index, or names a file that no pack may hold; Refused if a later version wrote it;
    FileFailed.
    """
    try:
        with opened(path) as span:
            if span.size > LONGEST_INDEX:
                raise _bad_index(path, f"it is larger than {LONGEST_INDEX:,} bytes")
            return index_of(path, _bytes(span, 0, span.size))
    except NotASession:
        raise _bad_index(path, "it is not a regular file") from None


def index_of(path: Path | str, data: bytes) -> Index:
    """Parse an index; see read_index()."""
    head: _IndexHead | None = None
    entries: list[Entry] = []
    places: set[str] = set()
    for number, row in enumerate(data.splitlines(), 1):
        try:
            if head is None:
                head = msgspec.json.decode(row, type=_IndexHead)
                if head.version > VERSION:
                    what = f"it is of version {head.version}, and this program reads version {VERSION}"
                    remedy = "Install a newer sessioncompress."
                    raise Refused(what, where=path, state="The pack was not changed.", remedy=remedy)
            else:
                entries.append(msgspec.json.decode(row, type=Entry))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise _bad_index(path, "this line does not belong in the index of a pack", number) from None
        if len(entries) == len(places):
            continue
        if not _may_hold(entries[-1]):
            raise _bad_index(path, "this line names a file that no pack can hold", number)
        # A session's state is recorded by its path, so paths must be unique.
        places.add(entries[-1].path)
        if len(entries) != len(places):
            raise _bad_index(path, "this line names the same session as another line", number)
    if head is None:
        raise _bad_index(path, "it is empty")
    # Indexes of versions before 1.0 have none.
    if head.rows_sha256 and head.rows_sha256 != sha256(data.partition(b"\n")[2]).hexdigest():
        raise _bad_index(path, "lines are missing or were changed")
    return Index(head.size, tuple(entries))


def _bad_index(path: Path | str, what: str, line: int | None = None) -> Damaged:
    remedy = "Put it back from a backup, or move it away: the archive ends with one as it was when it was packed."
    return Damaged(what, where=path, line=line, state="The pack was not changed.", remedy=remedy)


def _may_hold(entry: Entry) -> bool:
    """True if an entry's paths stay below the packed folder: the index is untrusted."""
    first, *others = entry.members
    if not may_name(first.path):
        return False
    named = {each.path for each in others}
    return len(named) == len(others) and may_be_store(Path(first.path), named)


def may_name(path: str) -> bool:
    """True if an index may use this path, relative to the packed folder, for a session."""
    return not any(step in ("", ".", "..") or "\0" in step or step.lower() in NEVER for step in path.split("/"))


class FileToPack(NamedTuple):
    """A file to pack: its path relative to the packed folder, its content, its size in bytes, mode, time and owner."""

    path: str
    pieces: Iterable[bytes]
    size: int
    mode: int
    mtime_ns: int
    owner: tuple[int, int]


def source_of(path: str, fd: int, size: int | None = None) -> FileToPack:
    """Return a source for an open file, or for its first `size` bytes."""
    found = os.fstat(fd)
    size = found.st_size if size is None else size
    mode = found.st_mode & MODE
    return FileToPack(path, _pieces(fd, size), size, mode, found.st_mtime_ns, (found.st_uid, found.st_gid))


def _pieces(fd: int, size: int) -> Iterator[bytes]:
    with disk.reader(fd, 0, size) as file:
        yield from iter(lambda: file.read(_PIECE), b"")


class PackWriter:
    """Writes a pack into an empty file; `size` counts its bytes.

    `content` is the approximate number of bytes to pack: a small pack gets a small window, to be read in less memory.
    """

    def __init__(self, fd: int, content: int) -> None:
        parameter = zstd.CompressionParameter
        window = min(max(content.bit_length(), 19), _LARGEST_WINDOW)
        self._compressor = zstd.ZstdCompressor(
            options={
                int(parameter.compression_level): 5,
                int(parameter.window_log): window,
                int(parameter.enable_long_distance_matching): 1,
                # With a lower minimum, short distant matches replace longer ones, and forks take far more space.
                int(parameter.ldm_min_match): 256,
                # Remember one of 2**8 positions. More would cost a third of the time, and find no more.
                int(parameter.ldm_hash_rate_log): 8,
                int(parameter.checksum_flag): 1,
            }
        )
        self._fd = fd
        self._pending = bytearray()
        self._frame = 0
        self._content = 0
        self._family = ""
        self.size = 0

    def add(self, sources: Sequence[FileToPack], family: str) -> tuple[int, tuple[Member, ...]] | None:
        """Pack the files of one session; return the start of its frame, and the members.

        Return None if a file became shorter meanwhile; no session then owns the bytes in the archive. Raises OSError.
        """
        size = self.size - self._frame
        is_full = self._content > max(_LEAST_CONTENT, _RATIO * size) // 2
        if is_full or size > _LONGEST_FRAME or (size > _FRAME and family != self._family):
            self._end_frame()
        self._family = family
        frame = self._frame
        members = [self._member(source) for source in sources]
        whole = [member for member in members if member is not None]
        return (frame, tuple(whole)) if len(whole) == len(members) else None

    def _member(self, source: FileToPack) -> Member | None:
        self._write(_tar_header(source))
        start, digest = self._content, sha256()
        is_begun = source.size < _ALIGNED
        for piece in source.pieces:
            digest.update(piece)
            behind = 0 if is_begun else piece.find(b"\n") + 1
            if behind:
                is_begun = True
                self._write(piece[:behind])
                self._put(self._compressor.flush(self._compressor.FLUSH_BLOCK))
            self._write(piece[behind:])
        missing = source.size - (self._content - start)
        for _ in range(-(-missing // _PIECE)):
            self._write(bytes(min(_PIECE, source.size - (self._content - start))))
        self._write(bytes(-source.size % tarfile.BLOCKSIZE))
        if missing:
            return None
        return Member(source.path, source.size, digest.hexdigest(), source.mode, source.mtime_ns, start)

    def finish(self, entries: Sequence[Entry] = ()) -> Index:
        """Write the end of the archive and then its index; flush both to disk. Raises OSError."""
        self._write(bytes(2 * tarfile.BLOCKSIZE))
        self._end_frame()
        rows = zstd.compress(Index(self.size, tuple(entries)).written())
        self._put(_SKIPPED + (len(rows) + 16).to_bytes(4, "little") + rows + len(rows).to_bytes(8, "little") + _LAST)
        self._flush()
        disk.system.fsync(self._fd)
        return Index(self.size, tuple(entries))

    def _write(self, data: bytes) -> None:
        self._content += len(data)
        self._put(self._compressor.compress(data))

    def _end_frame(self) -> None:
        self._put(self._compressor.flush())
        self._frame = self.size
        self._content = 0

    def _put(self, data: bytes) -> None:
        self._pending += data
        self.size += len(data)
        if len(self._pending) >= disk.BUFFER:
            self._flush()

    def _flush(self) -> None:
        disk.write_all(self._fd, self._pending)
        self._pending = bytearray()


def _tar_header(source: FileToPack) -> bytes:
    """Return the tar header of a file; a PAX record holds the time in nanoseconds."""
    info = tarfile.TarInfo(source.path)
    info.size = source.size
    info.mode = source.mode
    info.uid, info.gid = source.owner
    seconds, fraction = divmod(abs(source.mtime_ns), 10**9)
    sign = "-" if source.mtime_ns < 0 else ""
    info.mtime = max(source.mtime_ns // 10**9, 0)
    info.pax_headers = {"mtime": f"{sign}{seconds}.{fraction:09}"}
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


class Span(NamedTuple):
    """An open archive, local or in a bucket. `read(start, end)` may return fewer bytes than that."""

    where: str
    size: int
    read: Callable[[int, int], bytes]


@contextmanager
def opened(path: Path) -> Iterator[Span]:
    """Open an archive on a disk. Raises FileFailed, and so does reading it."""
    with failing(path, ""):
        fd = open_file(path)

    def read(start: int, end: int) -> bytes:
        with failing(path, ""):
            return os.pread(fd, min(_PIECE, end - start), start)

    with disk.closing(fd):
        yield Span(str(path), os.fstat(fd).st_size, read)


def index_in(span: Span) -> Index | None:
    """Return the index at the end of an archive, or None if it has none (early versions). Raises as read_index()."""
    end = _bytes(span, max(span.size - 16, 0), span.size)
    size = int.from_bytes(end[:8], "little")
    if not end.endswith(_LAST) or size > min(span.size - 16, LONGEST_INDEX):
        return None
    try:
        rows = _bytes(span, span.size - 16 - size, span.size - 16)
        found = index_of(span.where, zstd.ZstdDecompressor().decompress(rows, max_length=LONGEST_INDEX))
    except zstd.ZstdError:
        return None
    # When the index was written, its size did not yet include the index itself.
    return found._replace(size=span.size)


def _bytes(span: Span, start: int, end: int) -> bytes:
    pieces = []
    while start < end and (piece := span.read(start, end)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


class PackReader:
    """Reads sessions from an archive. Continues in the current frame if the next session is further on in it.

    `bytes_read` counts the bytes read from the archive. Raises Unreadable if a session does not read back, Refused if
    the index gives it a size that its frame can't hold, FileFailed.
    """

    def __init__(self, span: Span, index: Index) -> None:
        self._span = span
        self._starts = sorted({min(each.frame, span.size) for each in index.entries} | {span.size})
        self._decoder = zstd.ZstdDecompressor()
        self._frame = -1
        self._next = 0
        self._content = 0
        self.bytes_read = 0

    def read(self, entry: Entry, member: Member) -> Iterator[bytes]:
        """Yield the content of a file. Its length and SHA-256 are checked only at the end."""
        # The size in the index is untrusted: refuse what our frames can't hold before reading any of it.
        most = max(_LEAST_CONTENT, _RATIO * (self._end_of(entry.frame) - entry.frame))
        if member.start + member.size > most:
            what = f"{member.path} in it would be larger than any session of ours in so small an archive"
            raise Refused(what, where=self._span.where, state="Nothing of it was read.", remedy="Find out who made it.")
        if self._frame != entry.frame or self._content > member.start:
            self._decoder = zstd.ZstdDecompressor()
            self._frame = self._next = entry.frame
            self._content = 0
        digest = sha256()
        for _ in self._until(member.start, member):
            pass
        for piece in self._until(member.start + member.size, member):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != member.sha256:
            raise self._unreadable(member, "its SHA-256 does not match the index")

    def check(self, entry: Entry) -> None:
        """Read a session and its store, and check them against the index."""
        for member in entry.members:
            for _ in self.read(entry, member):
                pass

    def _end_of(self, at: int) -> int:
        """Return the end of the frame that contains a byte of the archive."""
        return next((each for each in self._starts if each > at), at)

    def _until(self, end: int, member: Member) -> Iterator[bytes]:
        try:
            while self._content < end:
                data = b""
                if self._decoder.needs_input:
                    data = self._span.read(self._next, self._end_of(self._next))
                    self._next += len(data)
                    self.bytes_read += len(data)
                    if not data:
                        raise self._unreadable(member, "the archive ends too early")
                piece = self._decoder.decompress(data, max_length=min(_PIECE, end - self._content))
                self._content += len(piece)
                if piece:
                    yield piece
        except (zstd.ZstdError, EOFError):
            raise self._unreadable(member, "the frame cannot be decompressed") from None

    def _unreadable(self, member: Member, what: str) -> Unreadable:
        self._frame = -1
        remedy = "Put a copy of the pack back from a backup."
        return Unreadable(
            f"{member.path} in it cannot be read: {what}", where=self._span.where, state="", remedy=remedy
        )


def is_same(path: Path, member: Member, *, begun: bool = False) -> bool:
    """True if a file equals a member, or with `begun`, starts with it. Raises OSError."""
    with suppress(NotASession, FileNotFoundError, NotADirectoryError), disk.closing(open_file(path)) as fd:
        size = os.fstat(fd).st_size
        may_be = size >= member.size if begun else size == member.size
        return may_be and disk.sha256_of(fd, 0, member.size) == member.sha256
    return False
