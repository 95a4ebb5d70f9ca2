"""A file of ours that only grows: what is appended counts once it has been flushed, read back and compared."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Final

from sessioncompress.errors import NOT_CHANGED, Damaged
from sessioncompress.store import disk, reading
from sessioncompress.store.folder import create_in_folder, refuse_other_names

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
        with reading.reader(self._fd, self._committed, self.size) as file:
            while piece := file.read(reading.BUFFER):
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
