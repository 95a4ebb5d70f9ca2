"""Every operation that changes the disk, through one seam; no other module calls the system for that."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_OTHERS: Final = 0o077
_SWAP: Final = 2
"""RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS have the same value."""
_HERE: Final = -100
"""AT_FDCWD of Linux: a relative name counts from the working folder."""
_NO_EXCHANGE: Final = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def _to_the_disk(fd: int) -> None:
    """Flush a file through the drive's own cache too, which on macOS takes another call than fsync."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
        else:
            return
    os.fsync(fd)


def _exchange(one: Path, other: Path) -> None:
    """Let two names change files in one step. Raises OSError; ENOSYS where the system has no such call."""
    # Imported here: only a commit needs it.
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(*names, _SWAP)
        else:
            failed = library.renameat2(_HERE, names[0], _HERE, names[1], _SWAP)
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fspath(one), None, os.fspath(other))


class System:
    """The calls that change the disk. Tests put another one in `durable.system`, to fail or die at any."""

    open = staticmethod(os.open)
    write = staticmethod(os.write)
    truncate = staticmethod(os.ftruncate)
    fsync = staticmethod(_to_the_disk)
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


def create(path: Path) -> int:
    """Create a file that must not exist, 0600, to read and write; return its descriptor."""
    return system.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)


def create_or_open(path: Path) -> int:
    """Open a file to read and write, created 0600 if it is not there; return its descriptor."""
    return system.open(path, _FLAGS | os.O_CREAT, _PRIVATE_FILE)


def open_existing(path: Path, *, append: bool = False) -> int:
    """Open a file that is there to read and write; with `append`, each write goes to its end as it is then."""
    return system.open(path, _FLAGS | (os.O_APPEND if append else 0))


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of the data at the descriptor's position; one call may take only a part of it."""
    rest = memoryview(data)
    while rest:
        rest = rest[system.write(fd, rest) :]


def cut(fd: int, length: int) -> None:
    """Cut a file to its first `length` bytes, and stand at its end."""
    system.truncate(fd, length)
    os.lseek(fd, length, os.SEEK_SET)


def flush(fd: int) -> None:
    """Bring a file's bytes and metadata to the disk.

    A failure is final: the system may have dropped the bytes by then, and a second call would report success.
    """
    system.fsync(fd)


def open_folder(folder: Path) -> int:
    """Open a folder, to flush it or to set its mode; return its descriptor."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def flush_folder(folder: Path) -> None:
    """Bring a folder's names to the disk: until then a created, replaced or removed one may come back."""
    fd = open_folder(folder)
    try:
        system.fsync(fd)
    except OSError as error:
        # Some file systems have nothing to flush for a folder, and say so with EINVAL.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Create a folder, 0700, and what is missing above it; one that is there already is no error."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        system.mkdir(folder, _PRIVATE_FOLDER)
    except FileExistsError:
        return
    flush_folder(folder.parent)


def remove_folder(folder: Path) -> bool:
    """Remove a folder if it is empty; return whether it is gone."""
    try:
        system.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def link(path: Path, name: Path) -> None:
    """Give a file a second name, never following a link."""
    system.link(path, name, follow_symlinks=False)


def replace(source: Path, target: Path) -> None:
    """Put a file in another's place in one step: who opens `target` gets the one or the other."""
    system.replace(source, target)


def exchange(one: Path, other: Path) -> bool:
    """Let two names change files in one step; return False where the file system cannot."""
    try:
        system.exchange(one, other)
    except OSError as error:
        if error.errno not in _NO_EXCHANGE:
            raise
        return False
    return True


def is_private(status: os.stat_result) -> bool:
    """Tell whether only its owner may do anything with a file or folder."""
    return not status.st_mode & _OTHERS


def make_private(fd: int) -> None:
    """Keep everybody else out of a file or folder of ours, where this user may say so."""
    found = os.fstat(fd)
    if not is_private(found) and os.geteuid() in (0, found.st_uid):
        system.chmod(fd, stat.S_IMODE(found.st_mode) & ~_OTHERS)


def remove(path: Path) -> None:
    """Remove a name; one that is gone already is no error."""
    with suppress(FileNotFoundError):
        system.unlink(path)
