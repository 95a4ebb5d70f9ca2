"""What this user has on this machine alone: a key that nobody else knows, and the name that it gives our folders."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sessioncompress.errors import FileFailed

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

_KEY = "late-links.key"
_KEY_BYTES = 32
_MODE = 0o400
"""Of the key. A checkout makes no file that its owner may not write: it brings none where the home is a work tree."""
_FOLDER_BYTES = 4
_found: list[bytes] = []
"""The key, once it was read or made."""


def state_folder() -> Path:
    """Name our folder in `XDG_STATE_HOME`, which counts only where it is absolute.

    Raises FileFailed where no home is known: the working folder may be anyone's project.
    """
    named = os.environ.get("XDG_STATE_HOME", "")
    home = named if os.path.isabs(named) else at_home("~/.local/state")  # noqa: PTH117 - as in the line below
    return Path(home, "sessioncompress")


def at_home(named: str) -> Path:
    """Expand a path that may begin with `~`. Raises FileFailed where that is nobody's home."""
    path = os.path.expanduser(named)  # noqa: PTH111 - that of a Path raises what is no error of the system
    if named.startswith("~") and not os.path.isabs(path):  # noqa: PTH117
        raise FileFailed("no home folder is known", where=named, state="Nothing was changed.", remedy="Set HOME.")
    return Path(path)


def key() -> bytes:
    """Read this user's key on this machine; empty where none was made yet."""
    if not _found:
        with suppress(OSError, FileFailed):
            folder = state_folder()
            if there := _read(folder / _KEY):
                _found.append(there)
                _hide(folder)
    return _found[0] if _found else b""


def make_key() -> bytes:
    """Read this user's key on this machine, or make it: before the first run that writes names anything by it.

    What is there and nobody can trust gives way. Where none can be kept, this process has one of its own. The links
    that it leaves when it is killed count for no later run then, and stay where they are; its stores are in a folder
    that later runs take for another machine's.
    """
    if not key():
        try:
            made = _made(state_folder())
        except (OSError, FileFailed):
            made = os.urandom(_KEY_BYTES)
        _found.append(made)
    return _found[0]


def _made(folder: Path) -> bytes:
    # Imported here, as below: a run with nothing to do is faster without.
    import fcntl

    from sessioncompress.store import disk

    disk.make_folder(folder)
    if folder.is_symlink():
        raise NotADirectoryError(folder)
    with disk.closing(disk.open_folder(folder)) as fd:
        # Another process may be first: then its key counts, and is to stay.
        fcntl.flock(fd, fcntl.LOCK_EX)
        _hide(folder)
        if not (there := _read(folder / _KEY)):
            disk.remove(folder / _KEY)
            disk.put_new(folder / _KEY, os.urandom(_KEY_BYTES), mode=_MODE)
            there = _read(folder / _KEY)
    if not there:
        raise PermissionError(folder)
    return there


def _hide(folder: Path) -> None:
    """Keep git from seeing the key, where the home folder is a work tree. A branch may have brought another file."""
    ignore = folder / ".gitignore"
    if ignore.is_symlink() or not ignore.is_file() or ignore.read_bytes() != b"*\n":
        from sessioncompress.store import disk

        disk.remove(ignore)
        disk.put_new(ignore, b"*\n")


def folder_name() -> str:
    """Name the folder of this user's hidden stores: no branch, clone or archive has one of that name.

    Empty where no key was made yet: then there is no such folder.
    """
    made = key()
    # The bytes that are left are secret enough, and a digest of all would be an import in runs that have nothing to do.
    return f"local-{made[-_FOLDER_BYTES:].hex()}" if made else ""


_SIGNED = b',"signed":"'
_SIGNED_DIGITS = 32
_SEAL = re.compile(rb',"sha256":"[0-9a-f]{64}"\}\n')


def signature(before: Hash, body: bytes) -> bytes:
    """Return the field of a run's record that only this user can make on this machine.

    `before` has what the journal holds before the record, `body` what the record holds before the field. A rehearsal
    may come before there is a key: then it is as long, and nobody's.
    """
    # Imported here: a run with nothing to do is faster without.
    from hmac import digest

    whole = before.copy()
    whole.update(body)
    return _SIGNED + digest(key(), whole.digest(), "sha256").hex()[:_SIGNED_DIGITS].encode() + b'"'


def is_signed(before: Hash, record: bytes) -> bool:
    """Return true if this user made a record on this machine, behind all that a journal holds before it."""
    body, field, rest = record.rpartition(_SIGNED)
    # Behind it only the seal: of two fields of one name a reader takes the last.
    made = signature(before, body)
    return key() != b"" and _SEAL.fullmatch((field + rest).removeprefix(made)) is not None


def _read(path: Path) -> bytes:
    """Read the key in a file; empty where there is none that this program wrote here. Raises OSError."""
    if path.parent.is_symlink():
        return b""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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
    """Tell whether a repository has the key, so that others may know it: a branch may have shown it to git."""
    # Imported here, as above.
    from sessioncompress.store.git import Blobs, work_trees

    if not (tops := list(work_trees(folder))):
        return False
    from hashlib import sha1, sha256

    blob = b"blob %d\0%s" % (len(read), read)
    for top in tops:
        with suppress(FileFailed), Blobs(top) as blobs:
            if any(blobs.read(make(blob).hexdigest()) for make in (sha1, sha256)):
                return True
    return False
