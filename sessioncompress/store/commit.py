"""One rewrite of one session: the commit protocol, whose order of writes is the safety argument."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import BinaryIO, Final, NamedTuple, Self

from sessioncompress.errors import NOT_CHANGED, FileFailed
from sessioncompress.store.backup import Backup
from sessioncompress.store.draft import Draft
from sessioncompress.store.folder import tidy
from sessioncompress.store.late_writes import settle
from sessioncompress.store.layout import Beside, Lengths
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import Place
from sessioncompress.store.swap import put_in_place

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
