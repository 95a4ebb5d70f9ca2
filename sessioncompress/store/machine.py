"""The secret key of this user on this machine, and the name that it gives our folders."""

from __future__ import annotations

import os
import re
import stat
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sessioncompress.errors import FileFailed

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

READING = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
"""Follow no link, pass nothing to child processes, and do not wait for the writer of a pipe."""

_KEY = "late-links.key"
_KEY_BYTES = 32
_MODE = 0o400
"""Mode of the key file. A checkout never makes a read-only file, so it can't bring a key if the home is a work tree."""
_FOLDER_BYTES = 4
_found: list[bytes] = []
"""The key, once it was read or made."""


def state_folder() -> Path:
    """Return our folder in `XDG_STATE_HOME`, which counts only if it is absolute.

    Raises FileFailed if no home folder is known: the working folder may be anyone's project.
    """
    named = os.environ.get("XDG_STATE_HOME", "")
    home = named if os.path.isabs(named) else at_home("~/.local/state")  # noqa: PTH117 - as in the line below
    return Path(home, "sessioncompress")


def at_home(named: str) -> Path:
    """Expand a path that may begin with `~`. Raises FileFailed if there is no such home folder."""
    path = os.path.expanduser(named)  # noqa: PTH111 - Path.expanduser() raises RuntimeError, not an OSError
    if named.startswith("~") and not os.path.isabs(path):  # noqa: PTH117
        raise FileFailed("no home folder is known", where=named, state="Nothing was changed.", remedy="Set HOME.")
    return Path(path)


def key() -> bytes:
    """Return this user's key on this machine, or b"" if none was made yet."""
    if not _found:
        with suppress(OSError, FileFailed):
            folder = state_folder()
            if there := _read(folder / _KEY):
                _found.append(there)
                _hide(folder)
    return _found[0] if _found else b""


def make_key() -> bytes:
    """Return this user's key on this machine, or make it. Call this before a run writes names made with it.

    A file that can't be trusted is replaced. If no key can be stored, this process makes its own. If it is then killed,
    later runs ignore its links, which stay in place, and take its stores for another machine's.
    """
    if not key():
        try:
            made = _made(state_folder())
        except (OSError, FileFailed):
            made = os.urandom(_KEY_BYTES)
        _found.append(made)
    return _found[0]


def _made(folder: Path) -> bytes:
    from sessioncompress.store import disk

    disk.make_folder(folder)
    if folder.is_symlink():
        raise NotADirectoryError(folder)
    with disk.locked(folder):
        # Another process may have made a key first: use that one.
        _hide(folder)
        if not (there := _read(folder / _KEY)):
            disk.remove(folder / _KEY)
            disk.put_new(folder / _KEY, os.urandom(_KEY_BYTES), mode=_MODE)
            there = _read(folder / _KEY)
    if not there:
        raise PermissionError(folder)
    return there


def _hide(folder: Path) -> None:
    """Hide the key from git if the home folder is a work tree. A branch may have brought another `.gitignore`."""
    ignore = folder / ".gitignore"
    if ignore.is_symlink() or not ignore.is_file() or ignore.read_bytes() != b"*\n":
        from sessioncompress.store import disk

        disk.remove(ignore)
        disk.put_new(ignore, b"*\n")


def folder_name() -> str:
    """Return the name of the folder of this user's hidden stores, which no branch, clone or archive can contain.

    Empty if no key was made yet: then there is no such folder.
    """
    made = key()
    # The other bytes of the key are secret enough, and a digest would cost an import in runs with nothing to do.
    return f"local-{made[-_FOLDER_BYTES:].hex()}" if made else ""


_SIGNED = b',"signed":"'
_SIGNED_DIGITS = 32
_SEAL = re.compile(rb',"sha256":"[0-9a-f]{64}"\}\n')


def signature(before: Hash, body: bytes) -> bytes:
    """Return the field of a run's record that only this user can make on this machine.

    `before` has hashed the journal up to the record; `body` is the record up to the field. A dry run may happen before
    there is a key: the field then has the same length but proves nothing.
    """
    from hmac import digest

    whole = before.copy()
    whole.update(body)
    return _SIGNED + digest(key(), whole.digest(), "sha256").hex()[:_SIGNED_DIGITS].encode() + b'"'


def is_signed(before: Hash, record: bytes) -> bool:
    """Return True if this user made a record on this machine, as the next record of a journal hashed in `before`."""
    body, field, rest = record.rpartition(_SIGNED)
    # Only the seal may follow: a JSON reader takes the last of two fields with one name.
    made = signature(before, body)
    return key() != b"" and _SEAL.fullmatch((field + rest).removeprefix(made)) is not None


def _read(path: Path) -> bytes:
    """Return the key in a file, or b"" if this program did not write it here. Raises OSError."""
    if path.parent.is_symlink():
        return b""
    try:
        fd = os.open(path, READING)
    except FileNotFoundError:
        return b""
    try:
        found, read = os.fstat(fd), os.read(fd, _KEY_BYTES + 1)
        is_ours = found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode) and len(read) == _KEY_BYTES
        is_ours = is_ours and stat.S_IMODE(found.st_mode) == _MODE
    finally:
        os.close(fd)
    return read if is_ours and not _is_in_git(read, path.parent) else b""


def _is_in_git(read: bytes, folder: Path) -> bool:
    """Return True if a repository has the key: a branch may have shown it to git, and others may know it."""
    from sessioncompress.store.git import Blobs, work_trees

    if not (tops := list(work_trees(folder))):
        return False
    from hashlib import sha1, sha256

    blob = b"blob %d\0%s" % (len(read), read)
    for top in tops:
        with suppress(FileFailed), closing(Blobs(top)) as blobs:
            if any(blobs.read(make(blob).hexdigest()) for make in (sha1, sha256)):
                return True
    return False
