"""The new file of a session while it is written: a temp file in the work folder, hashed and read back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from xxhash import xxh3_128

from sessioncompress.errors import NOT_CHANGED, FileFailed, InUse
from sessioncompress.store import disk, reading
from sessioncompress.store.folder import create_in_folder
from sessioncompress.store.late import draft_path
from sessioncompress.store.lock import lock, open_file

_HELD = 4 * reading.BUFFER
"""Bytes that wait in memory until the run is known to pay: most sessions are smaller."""


class Draft:
    """A new file for a session; on disk from 4 MiB, or the first check, on. `size` counts what was written.

    `inode` is the file's number, from when it is on disk.

    Methods raise OSError as the system does.
    """

    def __init__(self, work: Path, session: Path) -> None:
        self.path = draft_path(work, session)
        self.size = 0
        self.inode = 0
        self._fd = -1
        self._exists = False
        self._checked = 0
        self._hash = xxh3_128()
        self._pending: list[bytes] = []
        self._pending_size = 0

    def write(self, data: bytes) -> None:
        """Add the next bytes."""
        self._pending.append(data)
        self._pending_size += len(data)
        self.size += len(data)
        if self._pending_size >= (_HELD if self._fd < 0 else reading.BUFFER):
            self._write_pending()

    def check(self) -> None:
        """Write out and read back all that came since the last check: a disk may take less than it was given."""
        self._write_pending()
        found = reading.digest(self._fd, self._checked, self.size)
        if os.fstat(self._fd).st_size != self.size or found != self._hash.digest():
            raise FileFailed("what was written there does not read back the same", where=self.path, state=NOT_CHANGED)
        self._checked = self.size
        self._hash.reset()

    def reader(self, start: int = 0) -> BinaryIO:
        """Start a pass over what was written and checked."""
        return reading.reader(self._fd, start, self.size)

    @property
    def fd(self) -> int:
        """The descriptor of the file, to set its metadata and to flush it."""
        return self._fd

    def open_locked(self) -> int:
        """Open the file once more to read it, locked like a session; return the new descriptor.

        So no other run of ours starts on the new session before this one is done with it.
        """
        fd = open_file(self.path)
        if not lock(fd):
            os.close(fd)
            raise InUse("another program has locked it", where=self.path, state=NOT_CHANGED)
        return fd

    def is_in_place(self) -> bool:
        """Say whether the file has been put in the session's place: only the disk knows it after an interrupt."""
        found = self._named()
        return self._exists and (found is None or found.st_ino != self.inode)

    def discard(self) -> None:
        """Close the file, and remove what has its temporary name still.

        That is the draft itself or the file that it replaced, which has a late link too. A file with this name alone
        is one that another program put in the session's place just then.
        """
        self.close()
        found = self._named()
        if found is not None and (found.st_ino == self.inode or found.st_nlink > 1):
            disk.remove(self.path)

    def _named(self) -> os.stat_result | None:
        """Look what has the temporary name."""
        try:
            return self.path.lstat()
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """Close the file for writing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write_pending(self) -> None:
        if self._fd < 0:
            self._fd = create_in_folder(self.path, exclusive=True)
            self._exists = True
            self.inode = os.fstat(self._fd).st_ino
        data = b"".join(self._pending)
        self._pending.clear()
        self._pending_size = 0
        self._hash.update(data)
        disk.write_all(self._fd, data)
