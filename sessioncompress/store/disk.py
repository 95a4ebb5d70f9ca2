"""All operations that change the disk. No other module makes these system calls."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from xxhash import xxh3_128

_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = 0o077


def _flush_drive(fd: int) -> None:
    """Flush a file and the drive's cache: on macOS, fsync does not flush the cache."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
            os.fsync(fd)


@cache
def _library() -> tuple[Any, Callable[[], int]]:
    """Load the C library and the errno getter once: each load leaves reference cycles for the garbage collector."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True), ctypes.get_errno


def _exchange(one: Path, other: Path) -> None:
    """Exchange the files of two names atomically. Raises OSError, with ENOSYS if the system can't do it."""
    library, last_error = _library()
    # Linux's RENAME_EXCHANGE and macOS's RENAME_SWAP have the same value. AT_FDCWD: names are relative to the cwd.
    swap, here = 2, -100
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(os.fsencode(one), os.fsencode(other), swap)
        else:
            failed = library.renameat2(here, os.fsencode(one), here, os.fsencode(other), swap)
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if failed:
        code = last_error()
        raise OSError(code, os.strerror(code), os.fspath(one), None, os.fspath(other))


class System:
    """The system calls that change the disk. Tests replace `disk.system` to make any of them fail or die.

    A failed `fsync` is final: the system may have dropped the bytes, and a second call would report success.
    """

    open = staticmethod(os.open)
    write = staticmethod(os.write)
    truncate = staticmethod(os.ftruncate)
    fsync = staticmethod(_flush_drive if sys.platform == "darwin" else os.fsync)
    mkdir = staticmethod(os.mkdir)
    rmdir = staticmethod(os.rmdir)
    link = staticmethod(os.link)
    replace = staticmethod(os.replace)
    exchange = staticmethod(_exchange)
    unlink = staticmethod(os.unlink)
    chmod = staticmethod(os.fchmod)
    chown = staticmethod(os.fchown)
    utime = staticmethod(os.utime)
    if sys.platform == "linux":
        setxattr = staticmethod(os.setxattr)
        removexattr = staticmethod(os.removexattr)


system = System()


def create(path: Path, *, exclusive: bool = True) -> int:
    """Create a file with mode 0600 and open it to read and write. If `exclusive`, it must not exist."""
    return system.open(path, _FLAGS | os.O_CREAT | (os.O_EXCL if exclusive else 0), 0o600)


def open_existing(path: Path, *, append: bool = False) -> int:
    """Open a file to read and write; with `append`, each write is at the current end of the file."""
    return system.open(path, _FLAGS | (os.O_APPEND if append else 0))


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close a descriptor at the end of a block."""
    try:
        yield fd
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of the data: one system call may write only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[system.write(fd, rest) :]


def cut(fd: int, length: int) -> None:
    """Truncate a file to its first `length` bytes, and seek to its end."""
    system.truncate(fd, length)
    os.lseek(fd, length, os.SEEK_SET)


def open_folder(folder: Path) -> int:
    """Open a folder to flush it or to set its mode."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@contextmanager
def locked(folder: Path, *, needed: bool = True) -> Iterator[None]:
    """Lock a folder once it is free.

    Some network file systems can't lock a folder: raise OSError then, or go on if the lock is not `needed`.
    """
    import fcntl

    with closing(open_folder(folder)) as fd:
        with suppress(*(() if needed else (OSError,))):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield


def flush_folder(folder: Path) -> None:
    """Flush a folder's names to disk: without it, a crash may undo creating, replacing or removing one."""
    with closing(open_folder(folder)) as fd:
        try:
            system.fsync(fd)
        except OSError as error:
            # Some file systems need no flush for a folder, and report EINVAL.
            if error.errno != errno.EINVAL:
                raise


def make_folder(folder: Path) -> None:
    """Create a folder with mode 0700, and missing parents, unless it exists."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        system.mkdir(folder, 0o700)
    except FileExistsError:
        return
    flush_folder(folder.parent)


def remove_folder(folder: Path) -> bool:
    """Remove a folder if it is empty and this user may remove it; return True if it no longer exists."""
    try:
        with suppress(FileNotFoundError):
            system.rmdir(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM):
            raise
        return False
    return True


def is_private(status: os.stat_result) -> bool:
    """True if only the owner of a file or folder has any access."""
    return not status.st_mode & _OTHERS


def make_private(fd: int) -> None:
    """Remove other users' access to one of our files or folders, if this user may change its mode."""
    found = os.fstat(fd)
    if not is_private(found) and os.geteuid() in (0, found.st_uid):
        system.chmod(fd, stat.S_IMODE(found.st_mode) & ~_OTHERS)


def remove(path: Path) -> None:
    """Remove a file, if it exists."""
    with suppress(FileNotFoundError):
        system.unlink(path)


BUFFER = 1 << 20
"""Bytes per read. Reading lines is four times as fast as with Python's 8 KiB."""


class _Pass(io.RawIOBase):
    """Reads the bytes from `start` to `end` of a descriptor, without closing it.

    After the last byte, calls `done` with the digest of all bytes. A file that was truncated meanwhile ends early, and
    `done` is not called.
    """

    def __init__(self, fd: int, start: int, end: int, done: Callable[[bytes], None] | None = None) -> None:
        self._fd = fd
        self._position = start
        self._end = end
        self._done = done
        self._hash = xxh3_128()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # A reader of the whole file passes a bytearray; slicing that would copy.
        wanted = memoryview(buffer)[: min(len(buffer), self._end - self._position)]
        size = os.preadv(self._fd, [wanted], self._position) if wanted else 0
        self._position += size
        if self._done is not None:
            self._hash.update(wanted[:size])
            if self._position == self._end:
                self._done(self._hash.digest())
                self._done = None
        return size


def reader(fd: int, start: int, end: int, done: Callable[[bytes], None] | None = None) -> BinaryIO:
    """Return a buffered reader for a span of an open file; see _Pass."""
    # Limit the buffer to the span: allocating memory takes as long as filling it.
    return cast(BinaryIO, io.BufferedReader(_Pass(fd, start, end, done), min(max(end - start, 1), BUFFER)))


def written(fd: int) -> int:
    """Return the end of a file's data. A hole may follow it, which reads as zeros.

    Moves the descriptor's position to the beginning. If the system cannot report holes, return the file's size.
    """
    size = os.fstat(fd).st_size
    data, hole = getattr(os, "SEEK_DATA", None), getattr(os, "SEEK_HOLE", None)
    if data is None or hole is None:
        return size
    end = 0
    try:
        while end < size:
            end = os.lseek(fd, os.lseek(fd, end, data), hole)
    except OSError as error:
        # ENXIO: the rest of the file is a hole.
        return end if error.errno == errno.ENXIO else size
    finally:
        os.lseek(fd, 0, os.SEEK_SET)
    return end


def digest(fd: int, start: int, end: int) -> bytes | None:
    """Return the XXH3-128 of the bytes between two positions of a file, or None if it is shorter."""
    if start == end:
        return xxh3_128().digest()
    digests: list[bytes] = []
    with reader(fd, start, end, digests.append) as file:
        while file.read(BUFFER):
            pass
    return digests[0] if digests else None


def sha256_of(fd: int, start: int, end: int) -> str:
    """Return the SHA-256 of a span of a file, or of the part that exists, in hex."""
    found = sha256()
    with reader(fd, start, end) as file:
        while piece := file.read(BUFFER):
            found.update(piece)
    return found.hexdigest()


@contextmanager
def appending(path: Path, check: Callable[[int], None] | None = None) -> Iterator[Callable[[bytes], None]]:
    """Open a file, created with mode 0600 if missing; yield a function that appends a line at the current end.

    `check` gets the descriptor, and raises to prevent the append. Raises OSError, also for a symbolic link.
    """
    with suppress(FileExistsError):
        os.close(create(path))
    with closing(open_existing(path, append=True)) as fd:
        if check is not None:
            check(fd)
        yield lambda line: write_all(fd, line)


def copy_metadata(source: int, target: int, *, newest: int) -> None:
    """Copy all metadata from one open file to another, with extended attributes only on Linux, where Python has them.

    The modification time becomes the source's, or `newest` (nanoseconds; 0: none) if that is later. Raises OSError if
    the owner or an attribute can't be kept.
    """
    old, new = os.fstat(source), os.fstat(target)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        system.chown(target, old.st_uid, old.st_gid)
    if stat.S_IMODE(old.st_mode) != stat.S_IMODE(new.st_mode):
        system.chmod(target, stat.S_IMODE(old.st_mode))
    if sys.platform == "linux":
        wanted, present = _attributes(source), _attributes(target)
        for name in present.keys() - wanted.keys():
            system.removexattr(target, name)
        for name, value in wanted.items():
            if present.get(name) != value:
                system.setxattr(target, name, value)
    system.utime(target, ns=(old.st_atime_ns, max(old.st_mtime_ns, newest or old.st_mtime_ns)))


def _attributes(fd: int) -> dict[str, bytes]:
    """Return a file's extended attributes, without labels such as SELinux's, which the system sets on a new file."""
    if sys.platform != "linux":
        return {}
    try:
        names = [name for name in os.listxattr(fd) if not name.startswith(("security.", "trusted."))]
        return {name: os.getxattr(fd, name) for name in names}
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return {}


def set_time(fd: int, changed_ns: int) -> None:
    """Set the access and modification times of an open file, in nanoseconds."""
    system.utime(fd, ns=(changed_ns, changed_ns))


def put_new(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write a new file atomically, with mode 0600 or `mode`. Raises OSError; FileExistsError if it exists."""
    temporary = path.with_name(f".{os.getpid()}-{time.time_ns():x}.temp")
    with closing(create(temporary)) as fd:
        try:
            write_all(fd, data)
            if mode is not None:
                system.chmod(fd, mode)
            system.fsync(fd)
            system.link(temporary, path, follow_symlinks=False)
        finally:
            remove(temporary)
    flush_folder(path.parent)


def put(path: Path, data: bytes) -> None:
    """Write a file atomically; keep an existing file's mode, owner and attributes, else use 0600. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{time.time_ns():x}")
    with closing(create(temporary)) as fd:
        try:
            write_all(fd, data)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with suppress(FileNotFoundError), closing(os.open(path, flags)) as old:
                copy_metadata(old, fd, newest=time.time_ns())
            system.fsync(fd)
            system.replace(temporary, path)
        except BaseException:
            remove(temporary)
            raise
    flush_folder(path.parent)
