"""Open a session, or refuse: links, files in use, other sessioncompress runs. Reads and locks, never writes."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from sessioncompress.core.jsonl import document_of
from sessioncompress.core.pointers import Pointers
from sessioncompress.errors import InUse, IsALink, NotASession, SessionCompressError, Unsupported, failing
from sessioncompress.store import disk
from sessioncompress.store.late_links import PREFIX_BYTES, LeftOver, longest_name, prefix_of
from sessioncompress.store.layout import real_place, status_of
from sessioncompress.store.machine import READING, make_key

LOCK_SECONDS = 5.0
"""Seconds to wait for another sessioncompress run on the same session."""
APPEND_SECONDS = 0.1
"""Seconds to wait for a program that opens, appends and closes."""


class OpenSession:
    """A session as open_session() found it: the first `size` bytes of `fd`, with the `stat` at that time.

    When a run puts a new file in place, the session switches to that file. The descriptor of the old one stays open and
    locked to the end.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.pointers = Pointers()
        self.forced: str | None = None
        """The name of the format that the user chose; else its content tells."""
        self._fds: list[int] = []
        self.adopt(fd)

    def adopt(self, fd: int) -> None:
        """Switch to the file that is now at the path. Its descriptor is closed with the session."""
        self._fds.append(fd)
        self.fd = fd
        self.stat = os.fstat(fd)
        self.size = self.stat.st_size
        self._digests: set[bytes] = set()

    @cached_property
    def left_over(self) -> LeftOver:
        """The files that earlier runs left of it. Raises OSError."""
        return LeftOver(self.path)

    def reader(self, start: int = 0) -> BinaryIO:
        """Start a pass over the session's bytes as of its opening; passes do not disturb each other.

        At least one must be read whole before a commit: its digest distinguishes an overwrite from an append.
        """
        return disk.reader(self.fd, start, self.size, None if start else self._digests.add)

    def is_document(self) -> bool:
        """Return True if the session is one JSON document, to which no program appends."""
        return document_of(self.reader, self.size) is not None

    def appended(self) -> int:
        """Return the number of bytes appended since the opening. Raises InUse if the file changed in any other way."""
        now = os.fstat(self.fd)
        if not _same_file(self.path, now):
            raise self.in_use("another program has replaced or deleted it")
        if len(self._digests) <= 1:
            was = self.stat
            if (now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (was.st_size, was.st_mtime_ns, was.st_ctime_ns):
                return 0
            same = now.st_size >= self.size and disk.digest(self.fd, 0, self.size) in self._digests
            if same and (now.st_size == self.size or not self.is_document()):
                return now.st_size - self.size
        raise self.in_use("another program has changed it, not only appended to it")

    def prefix(self, size: int) -> str:
        """Return the digest of the session's first `size` bytes, as prefix_of() does."""
        if size == self.size and len(self._digests) == 1:
            return next(iter(self._digests))[:PREFIX_BYTES].hex()
        return prefix_of(self.fd, size)

    def was_linked(self) -> None:
        """Accept the new ctime after we linked the file: the session itself has not changed."""
        now = os.fstat(self.fd)
        if (now.st_size, now.st_mtime_ns) == (self.stat.st_size, self.stat.st_mtime_ns):
            self.stat = now

    def in_use(self, what: str, *, fd: int | None = None) -> InUse:
        """Return the error for a session that can't be changed now, with the processes that have it (or `fd`) open."""
        known = ", ".join(holders(self.fd if fd is None else fd))
        by = f", open for writing in {known}" if known else ""
        return InUse(f"{what}{by}", where=self.path, remedy="Run again when the agent is idle.")

    def close(self) -> None:
        """Close the files, which also releases the locks."""
        while self._fds:
            os.close(self._fds.pop())


@contextmanager
def open_session(path: Path, *, writing: bool, quiet_seconds: float = 0) -> Iterator[OpenSession]:
    """Open a session to read it, or to replace it: then lock it, and refuse unless it is safe to replace.

    Raises IsALink for a symbolic link and, when writing, for a file with other hard links than our own; NotASession if
    it is not a regular file; InUse if another sessioncompress run keeps it locked, a program has it open for writing,
    or it changed within `quiet_seconds`; Unsupported if nothing may be written, or its name is too long for the files
    to be written; FileFailed if it cannot be opened.
    """
    if writing:
        # The names of stores and late links are made with the key.
        make_key()
    with failing(path):
        path = real_place(path)
        session = _open_locked(path) if writing else OpenSession(path, open_file(path))
    try:
        if writing:
            with failing(path):
                _refuse_unless_replaceable(session, quiet_seconds)
        yield session
    finally:
        session.close()


def open_file(path: Path) -> int:
    """Open a regular file for reading, never through a link. Raises IsALink, NotASession, OSError."""
    try:
        fd = os.open(path, READING)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise IsALink("it is a symbolic link", where=path, remedy="Name its target.") from error
        if error.errno != errno.ENXIO:
            raise
    else:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
    remedy = "Name a session, or a folder with sessions."
    raise NotASession("it is not a regular file", where=path, state="It was not changed.", remedy=remedy)


def lock(fd: int) -> bool:
    """Take the lock of sessioncompress on a session's file; return False if it is taken."""
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(fd: int, seconds: float, where: Path, what: str) -> None:
    """Take the lock of an open file once it is free. Raises InUse, with `what`, if that takes longer than `seconds`."""
    deadline = time.monotonic() + seconds
    while not lock(fd):
        if time.monotonic() > deadline:
            raise InUse(what, where=where, remedy="Run again.")
        time.sleep(0.02)


def _open_locked(path: Path) -> OpenSession:
    """Open and lock the file at the path; open it again if it was replaced before the lock was free."""
    if sys.platform not in ("linux", "darwin"):
        raise Unsupported("writing is supported on Linux and macOS only", where=path)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        fd = open_file(path)
        try:
            if lock(fd) and _same_file(path, os.fstat(fd)):
                return OpenSession(path, fd)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if time.monotonic() > deadline:
            raise InUse("another sessioncompress is working on it", where=path, remedy="Run again.")
        time.sleep(0.02)


def _refuse_unless_replaceable(session: OpenSession, quiet_seconds: float) -> None:
    links = session.stat.st_nlink
    if links > 1 and links > 1 + len(session.left_over.names_of(session.stat.st_ino)):
        remedy = (
            "Remove them ('find FOLDER -samefile FILE' names them), or put a copy in its place: "
            "cp -p FILE COPY && mv COPY FILE."
        )
        what = "it has other hard links, which would keep the old text"
        raise IsALink(what, where=session.path, remedy=remedy)
    # The late link has a longer name. Better to fail before the work than after it.
    longest = longest_name(session.path, session.stat.st_ino, session.size)
    if (over := longest - os.pathconf(session.path.parent, "PC_NAME_MAX")) > 0:
        what = f"its name is {over} bytes too long: while it is replaced, the old file is kept under a longer name"
        raise Unsupported(what, where=session.path, remedy="Give it a shorter name.")
    # A time far in the future tells nothing about when the file changed.
    if quiet_seconds and abs(age := time.time() - session.stat.st_mtime) < quiet_seconds:
        seconds = round(max(age, 0))
        raise session.in_use(f"it changed {seconds} {'second' if seconds == 1 else 'seconds'} ago")
    if wait_until_free(session.fd, APPEND_SECONDS) is OpenForWriting.YES:
        raise session.in_use("it is in use")


def _same_file(path: Path, opened: os.stat_result) -> bool:
    found = status_of(path)
    return found is not None and os.path.samestat(found, opened)


class OpenForWriting(Enum):
    """Does a program have the file open for writing? The answer of held()."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


def held(fd: int) -> OpenForWriting:
    """Find out whether any process, including this one, has the file open for writing at this moment."""
    answer = _ask_for_lease(fd)
    if answer is not OpenForWriting.UNKNOWN:
        return answer
    try:
        return OpenForWriting.YES if any(_holders(fd, skip_unreadable=False)) else OpenForWriting.NO
    except OSError:
        return OpenForWriting.UNKNOWN


def is_busy(path: Path, quiet_seconds: float) -> bool:
    """True if open_session() would now refuse a session as in use. False if it can't be opened."""
    with suppress(OSError, SessionCompressError):
        fd = open_file(path)
        with disk.closing(fd):
            age = abs(time.time() - os.fstat(fd).st_mtime)
            return age < quiet_seconds or held(fd) is OpenForWriting.YES
    return False


def wait_until_free(fd: int, seconds: float) -> OpenForWriting:
    """Wait for programs that open a file, append and close it at once; return the last answer of held()."""
    deadline = time.monotonic() + seconds
    while (answer := held(fd)) is OpenForWriting.YES and time.monotonic() < deadline:
        time.sleep(0.002)
    return answer


def holders(fd: int) -> list[str]:
    """List the processes that have the open file open for writing and that this user may see.

    List this command and its workers only if there is no other: they may have inherited the open file.
    """
    try:
        found = list(_holders(fd, skip_unreadable=True))
    except OSError:
        return []
    ours = _said_of("self", "cmdline")
    others = [f"{_said_of(pid, 'comm')} (process {pid})" for pid in found if _said_of(pid, "cmdline") != ours]
    return others or [f"this command itself (process {pid})" for pid in found[:1]]


def _ask_for_lease(fd: int) -> OpenForWriting:
    """Take a read lease from Linux, which grants it only if no one has the file open for writing, and give it back.

    This takes microseconds. Searching /proc takes milliseconds and sees only this user's processes. A program that
    opens the file meanwhile waits those microseconds. We then get a signal: SIGURG, which does nothing, instead of
    SIGIO, which would end us.
    """
    if sys.platform != "linux":
        return OpenForWriting.UNKNOWN
    import fcntl

    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return OpenForWriting.YES if error.errno == errno.EAGAIN else OpenForWriting.UNKNOWN
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return OpenForWriting.NO


def _holders(fd: int, *, skip_unreadable: bool) -> Iterator[str]:
    """Yield the ids of processes from /proc. Raises OSError if there is none, or one of this user's can't be read."""
    wanted = os.fstat(fd)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            try:
                is_mine = os.stat(f"/proc/{pid}").st_uid == os.geteuid()
            except OSError:
                is_mine = False
            if is_mine and not skip_unreadable:
                raise
            continue
        if any(_writes(f"/proc/{pid}/fd/{number}", wanted) for number in descriptors):
            yield pid


def _said_of(pid: str, what: str) -> str:
    """Read a file of a process in /proc; `?` if the process is gone."""
    with suppress(OSError), open(f"/proc/{pid}/{what}", encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return "?"


def _writes(descriptor: str, wanted: os.stat_result) -> bool:
    """Return True if a /proc/PID/fd entry is that file, open for writing: its mode then has the owner's write bit."""
    try:
        return bool(os.lstat(descriptor).st_mode & 0o200) and os.path.samestat(os.stat(descriptor), wanted)
    except OSError:
        return False
