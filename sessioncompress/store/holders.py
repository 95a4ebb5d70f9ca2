"""Does any program have a file open for writing? Only reads; asks the kernel where it can, /proc otherwise."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

POLL_SECONDS = 0.002


class Held(Enum):
    """Whether someone has a file open for writing."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class Holder(NamedTuple):
    """A process that has the file open for writing, and the name of its program."""

    pid: int
    program: str


def held(fd: int) -> Held:
    """Say whether anyone, this process included, has the open file open for writing at this moment."""
    answer = _ask_for_lease(fd)
    if answer is not Held.UNKNOWN:
        return answer
    try:
        return Held.YES if any(_holders(fd, skip_unreadable=False)) else Held.NO
    except OSError:
        return Held.UNKNOWN


def wait_until_free(fd: int, seconds: float) -> Held:
    """Wait for those who open a file, append and close it at once; return what held() says in the end."""
    deadline = time.monotonic() + seconds
    while (answer := held(fd)) is Held.YES and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return answer


def holders(fd: int) -> list[Holder]:
    """Name those that have the open file open for writing, as far as this user may see them."""
    try:
        return list(_holders(fd, skip_unreadable=True))
    except OSError:
        return []


def _ask_for_lease(fd: int) -> Held:
    """Ask Linux for a read lease, which it gives only on a file that nobody has open for writing, and give it back.

    This takes microseconds, where looking through /proc takes milliseconds and sees this user's processes alone.
    Who opens the file meanwhile waits those microseconds and we get a signal: SIGURG, which does nothing, instead
    of SIGIO, which would end us.
    """
    if sys.platform != "linux":
        return Held.UNKNOWN
    import fcntl

    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return Held.YES if error.errno == errno.EAGAIN else Held.UNKNOWN
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return Held.NO


def _holders(fd: int, *, skip_unreadable: bool) -> Iterator[Holder]:
    """Look through /proc. Raises OSError where there is none, or where a process of this user cannot be read."""
    wanted = os.fstat(fd)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            if skip_unreadable or not _is_mine(pid):
                continue
            raise
        if any(_writes(f"/proc/{pid}/fd/{number}", wanted) for number in descriptors):
            yield Holder(int(pid), _program(pid))


def _writes(descriptor: str, wanted: os.stat_result) -> bool:
    """Say whether a /proc/PID/fd entry is that file, open for writing: its own mode has the owner's write bit then."""
    try:
        if not os.lstat(descriptor).st_mode & 0o200:
            return False
        found = os.stat(descriptor)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)


def _is_mine(pid: str) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        return False


def _program(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"
