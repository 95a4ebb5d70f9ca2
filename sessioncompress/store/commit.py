"""One rewrite of one session: the commit protocol, whose order of writes is the safety argument."""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import BinaryIO, Final, NamedTuple, Self, overload

from sessioncompress.errors import NOT_CHANGED, Damaged, FileFailed
from sessioncompress.store import disk, zstd
from sessioncompress.store.folder import create_in_folder, names_of, refuse_other_names, tidy
from sessioncompress.store.late_writes import settle
from sessioncompress.store.layout import Beside, Lengths
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import FRAME_BYTES, LONGEST_LINE, Place
from sessioncompress.store.swap import Draft, put_in_place

FORGET: Final = (
    "'sessioncompress forget' ends it: it deletes what is left there, the session stays as it is, and what only stood "
    "in the originals is lost."
)
"""What is left to do where no copy of a file can be put back."""


class GrowingFile:
    """The originals or the journal of a session, of which `committed` bytes stand from earlier runs.

    Nothing is opened or created before the first append, with which git sees the names that are `shown`. Raises
    Damaged where the file is shorter than what was committed, or does not read back as written; OSError as the system
    does.
    """

    def __init__(self, path: Path, committed: int, *, shown: Sequence[str]) -> None:
        self._path = path
        self._committed = committed
        self._shown = shown
        self._fd = -1
        self._is_new = False
        self._hash = sha256()
        self._held: list[bytes | bytearray] = []
        self.held = 0
        """Bytes that are not written yet."""
        self.size = committed

    def open(self) -> None:
        """Open the file, created if it is new, and cut off what a crash left behind its committed bytes."""
        if self._fd >= 0:
            return
        self._is_new = not os.path.lexists(self._path)
        fd = create_in_folder(self._path, exclusive=False, shown=self._shown)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size < self._committed:
            # Left as it is: cutting a file to a length that it does not have would fill it up.
            os.close(fd)
            lost = self._committed - found.st_size
            raise Damaged(
                f"{lost:,} of its {self._committed:,} bytes are missing since this run began",
                where=self._path,
                state=NOT_CHANGED,
                remedy="Run again: that says what can be done.",
            )
        try:
            refuse_other_names(self._path, fd)
        except BaseException:
            # Nor is it cut back when the run is undone.
            os.close(fd)
            raise
        self._fd = fd
        # A clone or an archive may have brought it with a mode that lets others read it.
        disk.make_private(fd)
        disk.cut(self._fd, self._committed)

    def hold(self, data: bytes | bytearray) -> None:
        """Take what write() appends; until then it changes nothing on disk."""
        self._held.append(data)
        self.held += len(data)
        self._hash.update(data)
        self.size += len(data)

    def write(self) -> None:
        """Write at the end what is held."""
        held, self._held, self.held = self._held, [], 0
        for data in held:
            self.open()
            disk.write_all(self._fd, data)

    def append(self, data: bytes | bytearray) -> None:
        """Write the data at the end."""
        self.hold(data)
        self.write()

    @property
    def added_sha256(self) -> str:
        """The SHA-256 of what was appended, or is held; empty where nothing is."""
        return self._hash.hexdigest() if self.size > self._committed else ""

    def settle(self) -> None:
        """Flush what was appended, read it back and compare its SHA-256; after that it is safe to rely on it."""
        if self._fd < 0:
            return
        disk.flush(self._fd)
        _forget_cached(self._fd, self._committed)
        found = sha256()
        with disk.reader(self._fd, self._committed, self.size) as file:
            while piece := file.read(disk.BUFFER):
                found.update(piece)
        if found.digest() != self._hash.digest() or os.fstat(self._fd).st_size != self.size:
            raise Damaged(
                "what was written there does not read back the same",
                where=self._path,
                state=NOT_CHANGED,
                remedy="Check the disk.",
            )
        if self._is_new:
            disk.flush_folder(self._path.parent)

    def cut_back(self) -> None:
        """Undo the appends."""
        if self._fd >= 0:
            disk.cut(self._fd, self._committed)
            disk.flush(self._fd)

    def remove_if_new(self) -> None:
        """Remove the file if this run created it."""
        if self._is_new:
            disk.remove(self._path)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def too_short(path: Path, size: int, committed: int, *, left: bool = False) -> Damaged:
    """Make the error for a file beside a session that has lost bytes, or is gone.

    `left` says that it holds originals, and that one of them at least can still be read.
    """
    first = ""
    if left:
        first = (
            ", 'sessioncompress restore --from-markers' puts back all lines that can still be read, and "
            f"'zstd -dc {quote(path.name)}' prints what stands before the damage. Only then"
        )
    what = f"{committed - size:,} of its {committed:,} bytes are missing"
    if not os.path.lexists(path):
        what = f"it is not there any more, with the {committed:,} bytes that the session needs of it"
    return Damaged(
        what, where=path, state=NOT_CHANGED, remedy=f"{put_back(path, committed)} Without one{first} {FORGET}"
    )


def put_back(path: Path, committed: int) -> str:
    """Say whence a file beside a session, of which so many bytes are needed, can come back."""
    # Git may have an older state of it, which would take the place of a newer one that is there.
    what = f"all {committed:,} bytes of it" if os.path.lexists(path) else "it"
    return f"Put a copy of it back from a backup{or_from_git(path, what)}."


def or_from_git(path: Path, what: str = "it") -> str:
    """Say where else than in a backup a file beside a session may be; git is not asked."""
    return f", or where git has {what} with 'git checkout -- {quote(str(path))}'"


def _forget_cached(fd: int, start: int) -> None:
    """Ask the system to drop its copy in memory, so that the disk itself is read; some systems have no such call."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, start, 0, os.POSIX_FADV_DONTNEED)


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


_HELD = 4 * disk.BUFFER
"""Bytes of packed originals that wait in memory until the run is known to pay."""


class Backup:
    """What one run adds beside the session. Nothing is on disk before 4 MiB of packed originals, or write().

    The journal's file exists before the originals' does: originals without a journal are therefore never the trace
    of a crash, and are never cut back as one.
    """

    def __init__(self, files: Beside, lengths: Lengths, *, commit_originals: bool) -> None:
        shown = names_of(files) if commit_originals else ()
        self._journal = GrowingFile(files.journal, lengths.journal, shown=shown)
        self._originals = GrowingFile(files.originals, lengths.originals, shown=shown)
        self._packer = OriginalsPacker(lengths.originals, self._append_frame)

    def keep(self, line: bytes) -> int:
        """Add an original; return its index in what finish() returns."""
        return self._packer.add(line)

    def finish(self) -> Sequence[Place]:
        """Pack all originals; return their places."""
        return self._packer.finish()

    def write(self) -> None:
        """Bring all packed originals into the file."""
        if self._originals.held:
            self._journal.open()
            self._originals.write()

    @property
    def originals_size(self) -> int:
        """Bytes of the originals file, after finish()."""
        return self._originals.size

    @property
    def originals_sha256(self) -> str:
        """The SHA-256 of what the run added to the originals, after finish(); empty where that is nothing."""
        return self._originals.added_sha256

    def commit(self, records: Iterable[bytes]) -> None:
        """Make the originals certain on disk, then the journal's records; from here on the backup counts."""
        self._originals.settle()
        waiting = bytearray()
        for record in records:
            waiting += record
            if len(waiting) >= disk.BUFFER:
                self._journal.append(waiting)
                waiting = bytearray()
        if waiting:
            self._journal.append(waiting)
        self._journal.settle()

    def take_back(self) -> None:
        """Undo everything: the journal stops naming originals before they go, and its file goes last."""
        self._journal.cut_back()
        self._originals.cut_back()
        self._originals.remove_if_new()
        self._journal.remove_if_new()

    def close(self) -> None:
        """Close the files."""
        self._originals.close()
        self._journal.close()

    def _append_frame(self, frame: bytes) -> None:
        self._originals.hold(frame)
        if self._originals.held > _HELD:
            self.write()


CHANGED: Final = "The session is the new one, and its originals are kept."


class Finished(NamedTuple):
    """What is ready to be committed: bytes of the new session and of the originals file, and each original's place.

    `originals_sha256` is that of what the run added to the originals file, empty where that is nothing.
    """

    size: int
    originals_size: int
    originals_sha256: str
    places: Sequence[Place]


class Committed(NamedTuple):
    """What lies at the session's path now: its bytes, and how many of them others appended meanwhile."""

    size: int
    appended: int


class Rewrite:
    """A new file for an open session, with the originals that it needs; leaves no trace unless committed.

    Use it as a context manager, after recover(): write() and keep() in any order, measure() to decide whether it pays,
    finish(), then commit(). Nothing is on disk before 4 MiB of the new file or of packed originals, or finish(). Every
    method raises FileFailed, with the session's state, where the system fails.
    """

    def __init__(
        self, session: OpenSession, files: Beside, lengths: Lengths, *, commit_originals: bool = False
    ) -> None:
        self._session = session
        self._measured: Finished | None = None
        self._finished = False
        self._work = files.work
        self._draft = Draft(files.work, session.path)
        self._backup = Backup(files, lengths, commit_originals=commit_originals)

    def __enter__(self) -> Self:
        return self

    def write(self, data: bytes) -> None:
        """Write the next bytes of the new session."""
        try:
            self._draft.write(data)
        except OSError as error:
            raise self._failed(error) from error

    def keep(self, line: bytes) -> int:
        """Keep a line that the new session replaces; return the index of its place in what finish() returns."""
        try:
            return self._backup.keep(line)
        except OSError as error:
            raise self._failed(error) from error

    def measure(self) -> Finished:
        """Return what the rewrite comes to; nothing may be written or kept after that."""
        if self._measured is None:
            try:
                places = self._backup.finish()
            except OSError as error:
                raise self._failed(error) from error
            backup = self._backup
            self._measured = Finished(self._draft.size, backup.originals_size, backup.originals_sha256, places)
        return self._measured

    def finish(self) -> Finished:
        """Write out everything; read the new file back and compare it with what was written."""
        measured = self.measure()
        try:
            self._backup.write()
            self._draft.check()
        except OSError as error:
            raise self._failed(error) from error
        self._finished = True
        return measured

    def reader(self, start: int = 0) -> BinaryIO:
        """Start a pass over the finished new file."""
        return self._draft.reader(start)

    def commit(self, journal: Iterable[bytes]) -> Committed:
        """Make the backup certain, then put the new file in the session's place.

        `journal` yields what is appended to the journal: nothing if it is empty. Raises InUse if the session was
        changed other than by appending, or someone keeps writing to it: it is then as they left it. Damaged if the
        originals or the journal do not read back as written.
        """
        if not self._finished:
            raise RuntimeError("finish() comes before commit()")
        size = self._draft.size
        try:
            self._backup.commit(journal)
            old = put_in_place(self._session, self._draft, self._work)
            settle(self._session, self._work, old)
            now = os.fstat(self._session.fd).st_size
        except OSError as error:
            raise self._failed(error) from error
        return Committed(now, now - size)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Take everything back, unless the new file has reached the session's path: then its originals stay."""
        failures = []
        for step in (self._take_back, self._backup.close, self._draft.discard, partial(tidy, self._work)):
            try:
                step()
            except OSError as failure:
                failures.append(failure)
        if failures and error is None:
            raise self._failed(failures[0])

    def _take_back(self) -> None:
        if not self._draft.is_in_place():
            self._backup.take_back()

    def _failed(self, error: OSError) -> FileFailed:
        where = error.filename if isinstance(error.filename, str | os.PathLike) else self._session.path
        state = CHANGED if self._draft.is_in_place() else NOT_CHANGED
        return FileFailed((error.strerror or str(error)).lower(), where=where, state=state)


_ANY = sha256().hexdigest()
"""Stands for the SHA-256 of originals that nobody will read."""


class DryRun:
    """Takes what a Rewrite takes, counts it from a size on, and keeps nothing."""

    def __init__(self, lengths: Lengths, size: int = 0) -> None:
        self._size = size
        self._before = self._originals = lengths.originals
        self._packer = OriginalsPacker(lengths.originals, self._count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        """There is nothing to take back."""

    def write(self, data: bytes) -> None:
        """Count the next bytes of the new session."""
        self._size += len(data)

    def keep(self, line: bytes) -> int:
        """Compress an original, to know what it would take; return its index."""
        return self._packer.add(line)

    def measure(self) -> Finished:
        """Return what the rewrite would come to."""
        places = self._packer.finish()
        return Finished(self._size, self._originals, _ANY if self._originals > self._before else "", places)

    def _count(self, frame: bytes) -> None:
        self._originals += len(frame)
