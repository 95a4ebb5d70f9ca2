"""The form of a pack: sessions with their stores in a tar archive of zstd frames, and the index that lies beside it."""

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
from sessioncompress.store.layout import FOLDER, may_be_store
from sessioncompress.store.lock import open_file
from sessioncompress.store.originals import zstd

INDEX: Final = ".index"
VERSION: Final = 1

_LARGEST_WINDOW: Final = 27
"""The largest that zstd, and so `tar --zstd`, reads without an option: 128 MiB."""
_FRAME: Final = 3 << 20
"""Compressed bytes behind which the next session begins a frame; to read one session, its frame is decompressed."""
_LONGEST_FRAME: Final = 32 << 20
"""Compressed bytes behind which even a session of the same family begins a frame: before, it repeats what is there."""
_ALIGNED: Final = 1 << 20
"""Bytes of a file from which its blocks are counted from behind its first line, which of a fork is of another length.

Of a repeat only what begins a block is remembered. Where forks have other blocks, each finds its parent, but not the
forks before it, and so nothing once the parent is farther back than the window.
"""
_PIECE: Final = 1 << 18
LONGEST_INDEX: Final = 64 << 20
_LEAST_CONTENT: Final = 64 << 20
_RATIO: Final = 2_000
"""A frame is read up to the larger of so many bytes and so many times its own: no session compresses to less."""
_SKIPPED: Final = (0x184D2A5C).to_bytes(4, "little")
"""Begins a frame that zstd passes over, and so tar: an archive ends with its index in one, which may get lost."""
_LAST: Final = b"sessidx1"
_NEVER: Final = frozenset({FOLDER, ".git", "node_modules"})
"""No session is looked for in such a folder, and none is put there."""
MODE: Final = 0o777

MOST: Final = (1 << 63) - 1
"""The largest number that a call of the system takes."""

Count = Annotated[int, Meta(ge=0, le=MOST)]
Time = Annotated[int, Meta(ge=-MOST, le=MOST)]
"""Nanoseconds."""
Digest = Annotated[str, Meta(min_length=64, max_length=64)]


class State(StrEnum):
    """What became of a session in a pack.

    `LEFT`: it changed as it was packed, and stayed where it was. `MOVED`: a newer pack has it.
    """

    PACKED = "packed"
    UNPACKED = "unpacked"
    LEFT = "left"
    MOVED = "moved"


class Member(Struct, frozen=True, rename="camel"):
    """One file in a pack: its path below the packed folder, and where in the content of its frame it begins."""

    path: str
    size: Count
    sha256: Digest
    mode: Count
    mtime_ns: Time
    start: Count


class Entry(Struct, frozen=True, rename="camel", tag="session"):
    """One session in a pack. Its first member is the session, and the others are its store, as in the archive.

    `frame` is the byte of the archive where its frame begins. `begun` is when its first entry was written, or empty,
    and `packed_ns` when it was first packed, in nanoseconds.
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
        """What is greater for the newer of two at one place; a store tells times of change in whole seconds."""
        return (self.members[0].mtime_ns, self.packed_ns)

    @property
    def path(self) -> str:
        """Where the session was, below the packed folder."""
        return self.members[0].path

    @property
    def size(self) -> int:
        """The bytes of the session and its store."""
        return sum(each.size for each in self.members)

    @property
    def content(self) -> tuple[str, ...]:
        """What is equal for the same files at the same place alone."""
        return (self.path, *(part for each in self.members for part in (each.path, each.sha256)))


class _Head(Struct, frozen=True, rename="camel", tag="pack"):
    version: Annotated[int, Meta(ge=1)]
    size: Count = 0
    """A later version may have another way to say it."""
    rows_sha256: str = ""
    """Of all that stands behind the head: an archive goes by what its index says, so no row may get lost unseen."""


class Index(NamedTuple):
    """What an index says: the size of the archive in bytes, and its sessions in their order there."""

    size: int
    entries: tuple[Entry, ...]

    def written(self) -> bytes:
        """Write it as JSON lines."""
        rows = b"".join(msgspec.json.encode(row) + b"\n" for row in self.entries)
        return msgspec.json.encode(_Head(VERSION, self.size, sha256(rows).hexdigest())) + b"\n" + rows


def read_index(path: Path) -> Index:
    """Read an index.

    Raises Damaged where it is none, or names a file that no pack may hold; Refused where it is of a later version;
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
    """Read what is in an index; see read_index()."""
    head: _Head | None = None
    entries: list[Entry] = []
    places: set[str] = set()
    for number, row in enumerate(data.splitlines(), 1):
        try:
            if head is None:
                head = msgspec.json.decode(row, type=_Head)
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
        # What became of a session is noted by its path.
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
    """Tell whether the paths of an entry stay below the packed folder: it may be a stranger's data."""
    first, *others = entry.members
    if not may_name(first.path):
        return False
    named = {each.path for each in others}
    return len(named) == len(others) and may_be_store(Path(first.path), named)


def may_name(path: str) -> bool:
    """Tell whether an index may name a session by a path below the packed folder."""
    return not any(step in ("", ".", "..") or "\0" in step or step.lower() in _NEVER for step in path.split("/"))


class Source(NamedTuple):
    """A file to pack: its path below the packed folder, its bytes in pieces and how many they are, and its status."""

    path: str
    pieces: Iterable[bytes]
    size: int
    mode: int
    mtime_ns: int
    owner: tuple[int, int]


def source_of(path: str, fd: int, size: int | None = None) -> Source:
    """Make a source of an open file, or of its first `size` bytes."""
    found = os.fstat(fd)
    size = found.st_size if size is None else size
    mode = found.st_mode & MODE
    return Source(path, _pieces(fd, size), size, mode, found.st_mtime_ns, (found.st_uid, found.st_gid))


def _pieces(fd: int, size: int) -> Iterator[bytes]:
    with disk.reader(fd, 0, size) as file:
        yield from iter(lambda: file.read(_PIECE), b"")


class PackWriter:
    """Writes a pack into an empty file; `size` counts its bytes.

    `content` is about how many bytes will be packed: a small pack needs no large window to be read.
    """

    def __init__(self, fd: int, content: int) -> None:
        parameter = zstd.CompressionParameter
        window = min(max(content.bit_length(), 19), _LARGEST_WINDOW)
        self._compressor = zstd.ZstdCompressor(
            options={
                int(parameter.compression_level): 5,
                int(parameter.window_log): window,
                int(parameter.enable_long_distance_matching): 1,
                # Shorter repeats from far before take the place of longer ones: then forks of a session take far more.
                int(parameter.ldm_min_match): 256,
                # Of 2 to that power places one is remembered; more take a third of the time, and find no more.
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

    def add(self, sources: Sequence[Source], family: str) -> tuple[int, tuple[Member, ...]] | None:
        """Pack the files of one session; return where its frame begins, and the members.

        None if a file has become shorter meanwhile: what stands in the archive is then of no session. Raises OSError.
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

    def _member(self, source: Source) -> Member | None:
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
        """Write the archive's end, and its index behind that; flush it to the disk. Raises OSError."""
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


def _tar_header(source: Source) -> bytes:
    """Make the header of a file in the archive; its time has nanoseconds, as a PAX record."""
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
    """An archive that is open, here or in a bucket: `read` gives its next bytes from a place on, at most to another."""

    where: str
    size: int
    read: Callable[[int, int], bytes]


@contextmanager
def opened(path: Path) -> Iterator[Span]:
    """Open an archive on a disk. Raises FileFailed, as its reading does."""
    with failing(path, ""):
        fd = open_file(path)

    def read(start: int, end: int) -> bytes:
        with failing(path, ""):
            return os.pread(fd, min(_PIECE, end - start), start)

    with disk.closing(fd):
        yield Span(str(path), os.fstat(fd).st_size, read)


def index_in(span: Span) -> Index | None:
    """Read the index that an archive ends with; None where it is older than these. Raises as read_index() does."""
    end = _bytes(span, max(span.size - 16, 0), span.size)
    size = int.from_bytes(end[:8], "little")
    if not end.endswith(_LAST) or size > min(span.size - 16, LONGEST_INDEX):
        return None
    try:
        rows = _bytes(span, span.size - 16 - size, span.size - 16)
        found = index_of(span.where, zstd.ZstdDecompressor().decompress(rows, max_length=LONGEST_INDEX))
    except zstd.ZstdError:
        return None
    # As it was written it did not count itself.
    return found._replace(size=span.size)


def _bytes(span: Span, start: int, end: int) -> bytes:
    pieces = []
    while start < end and (piece := span.read(start, end)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


class PackReader:
    """Reads sessions from an archive. What follows in a frame is read on, not anew.

    `bytes_read` counts what was read of the archive. Raises Unreadable where a session does not read back, Refused
    where its index says that it is larger than its frame can hold, FileFailed.
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
        """Yield the bytes of a file; that they are all, and have its SHA-256, is told at the end."""
        # The index says how large it is: what no frame of ours can hold is refused before anything of it is read.
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
        """Read a session and its store, and compare them with the index."""
        for member in entry.members:
            for _ in self.read(entry, member):
                pass

    def _end_of(self, at: int) -> int:
        """Find where the frame ends in which a byte of the archive is."""
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
    """Tell whether a file has the bytes of a member, or at least begins with them. Raises OSError."""
    with suppress(NotASession, FileNotFoundError, NotADirectoryError), disk.closing(open_file(path)) as fd:
        size = os.fstat(fd).st_size
        may_be = size >= member.size if begun else size == member.size
        return may_be and disk.sha256_of(fd, 0, member.size) == member.sha256
    return False
