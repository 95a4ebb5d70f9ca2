"""Give a new file the mode, owner, times and attributes of the one that it replaces, through `durable.system`."""

from __future__ import annotations

import errno
import os
import stat
import sys

from sessioncompress.store import disk


def copy_metadata(source: int, target: int, *, newest: int = 0) -> None:
    """Copy all metadata from one open file to another; both are descriptors.

    The time of change becomes the source's, or `newest` (nanoseconds; 0: none) if that is later. Raises OSError where
    the owner or an attribute cannot be kept. On macOS Python reaches no extended attributes; they are not kept there.
    """
    old, new = os.fstat(source), os.fstat(target)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        disk.system.chown(target, old.st_uid, old.st_gid)
    if stat.S_IMODE(old.st_mode) != stat.S_IMODE(new.st_mode):
        disk.system.chmod(target, stat.S_IMODE(old.st_mode))
    if sys.platform == "linux":
        _copy_attributes(source, target)
    disk.system.utime(target, ns=(old.st_atime_ns, max(old.st_mtime_ns, newest or old.st_mtime_ns)))


def _copy_attributes(source: int, target: int) -> None:
    """Make the target's extended attributes, access lists among them, those of the source, and no others."""
    if sys.platform != "linux":
        return
    wanted, present = _attributes(source), _attributes(target)
    for name in present.keys() - wanted.keys():
        if _ours_to_set(name):
            disk.system.removexattr(target, name)
    for name, value in wanted.items():
        if present.get(name) != value and _ours_to_set(name):
            disk.system.setxattr(target, name, value)


def _attributes(fd: int) -> dict[str, bytes]:
    if sys.platform != "linux":
        return {}
    try:
        return {name: os.getxattr(fd, name) for name in os.listxattr(fd)}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def _ours_to_set(name: str) -> bool:
    """Labels such as SELinux's are the system's own: it gives the new file what belongs in that folder."""
    return not name.startswith(("security.", "trusted."))
