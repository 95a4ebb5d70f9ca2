"""One rewrite of one session: the commit protocol, whose order of writes is the safety argument."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self, TypeAlias

from sessioncompress.errors import NOT_CHANGED, Damaged, failed
from sessioncompress.store import disk
from sessioncompress.store.folder import create_in_folder, names_of, refuse_other_names, tidy_after
from sessioncompress.store.layout import Lengths, Store
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import InFrame, OriginalsPacker
from sessioncompress.store.swap import HELD, Draft, drain, is_kept_open, is_rewritten, put_back, put_in_place, state_of

CHANGED: Final = "The session is the new one, and its originals are kept."


class _GrowingFile:
    """The originals or the journal of a session, with `committed` bytes from earlier runs.

    Nothing is opened or created before the first write. That write opens the file `before` first; git then sees the
    names in `shown`. Raises Damaged if the file is shorter than its committed length or does not read back as written;
    OSError. `size` counts the bytes written or held, `held` the latter.
    """

    def __init__(self, path: Path, committed: int, *, shown: Sequence[str], before: _GrowingFile | None = None) -> None:
        self._path = path
        self._committed = committed
        self._shown = shown
        self._before = before
        self._fd = -1
        self._is_new = False
        self.added = sha256()
        """SHA-256 of the bytes appended or held."""
        self._pieces: list[bytes] = []
        self.held = 0
        self.size = committed

    def open(self) -> None:
        if self._fd >= 0:
            return
        if self._before is not None:
            self._before.open()
        self._is_new = not os.path.lexists(self._path)
        fd = create_in_folder(self._path, exclusive=False, shown=self._shown)
        found, committed = os.fstat(fd), self._committed
        if not stat.S_ISREG(found.st_mode) or found.st_size < committed:
            # Leave it alone: "cutting" it to a greater length would fill it with zeros.
            os.close(fd)
            what = f"{committed - found.st_size:,} of its {committed:,} bytes are missing since this run started"
            remedy = "Run again; that says what you can do."
            raise Damaged(what, where=self._path, remedy=remedy)
        try:
            refuse_other_names(self._path, fd)
        except BaseException:
            # Close it now, so that undoing the run does not cut it back.
            os.close(fd)
            raise
        self._fd = fd
        # A clone or an archive may have given it a mode that lets others read it.
        disk.make_private(fd)
        # Drop the uncommitted bytes of a crashed run.
        disk.cut(fd, self._committed)

    def hold(self, data: bytes) -> None:
        self._pieces.append(data)
        self.added.update(data)
        self.held += len(data)
        self.size += len(data)
        if self.held > HELD:
            self.write()

    def write(self) -> None:
        if self._pieces:
            self.open()
            disk.write_all(self._fd, b"".join(self._pieces))
            self._pieces.clear()
            self.held = 0

    def sync(self) -> None:
        """Flush what was appended, read it back and compare its SHA-256."""
        if self._fd < 0:
            return
        disk.system.fsync(self._fd)
        if hasattr(os, "posix_fadvise"):
            # Make the system drop its cached copy, so that the next read is from the disk itself.
            os.posix_fadvise(self._fd, self._committed, 0, os.POSIX_FADV_DONTNEED)
        found = disk.sha256_of(self._fd, self._committed, self.size)
        if found != self.added.hexdigest() or os.fstat(self._fd).st_size != self.size:
            what = "what was written there does not read back the same"
            raise Damaged(what, where=self._path, remedy="Check the disk.")
        if self._is_new:
            disk.flush_folder(self._path.parent)

    def cut_back(self) -> None:
        if self._fd >= 0:
            disk.cut(self._fd, self._committed)
            disk.system.fsync(self._fd)

    def remove_if_new(self) -> None:
        if self._is_new:
            disk.remove(self._path)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Finished(NamedTuple):
    """Bytes of the new session and of the originals file; the SHA-256 of what the run adds to the latter, or empty.

    `digest` is the XXH3-128 of the new session, once it is finished.
    """

    size: int
    originals_size: int
    originals_sha256: str
    digest: str = ""


class Rewrite:
    """A new file for an open session, with the originals that it needs. Leaves no trace unless committed.

    Use it as a context manager, after recover(). In any order, write() the bytes of the new session and keep() the
    lines that it replaces; keep() returns their places. Then measure() whether it pays, finish(), commit(). Nothing is
    on disk before finish(), or before 4 MiB of the new file or of packed originals. A system error leaves the context
    as FileFailed, with the session's state.

    The journal is created before the originals. Originals without a journal are therefore never the trace of a crash,
    and are never cut back as one.
    """

    def __init__(self, session: OpenSession, store: Store, lengths: Lengths) -> None:
        shown = () if store.is_hidden else names_of(store)
        self._session = session
        self._lengths = lengths
        self._finished = False
        self._state = NOT_CHANGED
        self._store = store
        self._draft = Draft(session.path)
        self._journal = _GrowingFile(store.journal, lengths.journal, shown=shown)
        self._originals = _GrowingFile(store.originals, lengths.originals, shown=shown, before=self._journal)
        # Hold no reference back to the rewrite: a cycle would keep an abandoned one in memory until the collector runs.
        self._packer = OriginalsPacker(lengths.originals, self._originals.hold)
        self.write: Callable[[bytes], None] = self._draft.write
        self.keep: Callable[[bytes], InFrame] = self._packer.add

    def __enter__(self) -> Self:
        return self

    def measure(self) -> Finished:
        """Pack the rest and return the totals of the rewrite. Nothing may be written or kept after that."""
        self._packer.finish()
        added = self._originals.added.hexdigest() if self._originals.size > self._lengths.originals else ""
        return Finished(self._draft.size, self._originals.size, added)

    def finish(self) -> Finished:
        """Write everything to disk, and compare the new file with what was written."""
        measured = self.measure()
        self._originals.write()
        self._draft.check()
        self._finished = True
        return measured._replace(digest=self._draft.digest)

    def reader(self, start: int = 0) -> BinaryIO:
        """Open the finished new file for reading."""
        return disk.reader(self._draft.fd, start, self._draft.size)

    def commit(self, journal: Iterable[bytes]) -> int:
        """Make the backup certain, then put the new file in the session's place: steps 6 to 9 of the protocol.

        Return the session's size in bytes, including what other programs appended meanwhile.

        `journal` yields the records to append to the journal; it may be empty. Raises InUse if the session was changed
        other than by appending, or another program keeps writing to it; the session then stays as that program left it.
        Raises Damaged if the originals or the journal do not read back as written.
        """
        if not self._finished:
            raise RuntimeError("finish() comes before commit()")
        session = self._session

        # Commit the backup: flush the originals before the journal names them; the journal's last record commits both.
        self._originals.sync()
        for record in journal:
            self._journal.hold(record)
            if self._journal.held >= disk.BUFFER:
                self._journal.write()
        self._journal.write()
        self._journal.sync()

        # Commit the change: the new file takes the session's place, and the old one keeps a late link.
        old = put_in_place(session, self._draft)

        # Put the old file back if a program keeps writing to it or rewrote it. Decide now, before draining: only now do
        # the two files differ by nothing but the rewrite and the appended bytes.
        kept_open = is_kept_open(old.fd)
        rewritten = is_rewritten(session, state_of(session, old.fd), old)
        if kept_open or rewritten:
            what = "a program keeps writing to it" if kept_open else "another program has rewritten it"
            in_use = session.in_use(what, fd=old.fd)
            put_back(session, old, rewritten=rewritten)
            raise in_use

        # Carry over the bytes that still reached the old file.
        drain(session, old)
        return os.fstat(session.fd).st_size

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Undo everything, unless the new file has reached the session's path: then its originals stay."""
        met = error if isinstance(error, OSError) else None
        close = (self._originals.close, self._journal.close, self._draft.discard, partial(tidy_after, self._store))
        for step in (self._take_back, *close):
            try:
                step()
            except OSError as failure:
                met = failure if error is None and met is None else met
        if met is not None:
            raise failed(met, self._session.path, self._state) from met

    def _take_back(self) -> None:
        if self._draft.is_in_place():
            self._state = CHANGED
            return
        # Cut the journal before the originals that it names, and remove its file last.
        self._journal.cut_back()
        self._originals.cut_back()
        self._originals.remove_if_new()
        self._journal.remove_if_new()


_ANY = sha256().hexdigest()
"""Placeholder for the SHA-256 of originals that are never read."""


class CountingSink:
    """Stand-in for a Rewrite that counts its input and keeps nothing."""

    def __init__(self, lengths: Lengths) -> None:
        self._size = 0
        self._before = lengths.originals
        self._packer = OriginalsPacker(lengths.originals, lambda _: None)
        self.keep: Callable[[bytes], InFrame] = self._packer.add

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        """Do nothing: nothing was written."""

    def write(self, data: bytes) -> None:
        """Count the next bytes of the new session."""
        self._size += len(data)

    def measure(self) -> Finished:
        """Pack the rest and return what the totals of a rewrite would be."""
        self._packer.finish()
        return Finished(self._size, self._packer.end, _ANY if self._packer.end > self._before else "")

    finish = measure

    def commit(self, journal: Iterable[bytes]) -> int:  # noqa: ARG002 - nothing is written
        """Return what the session's size in bytes would be."""
        return self._size


Sink: TypeAlias = Rewrite | CountingSink


def sink_for(session: OpenSession, store: Store, lengths: Lengths, *, dry_run: bool) -> Sink:
    """Return what takes the new session: a rewrite, or in a dry run what only counts."""
    return CountingSink(lengths) if dry_run else Rewrite(session, store, lengths)
