"""Errors that a user can act on. Each has the exit code that it leads to."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sessioncompress.core.text import printable

NOT_CHANGED = "The session was not changed."
NONE_CHANGED = "No session was changed."
NOTHING_DONE = "Nothing was done."
NOTHING_SENT = "Nothing was sent, and no session was changed."
OLD_OR_NEW = "The session is either as before or completely rewritten."
EACH_OLD_OR_NEW = "Every session is either as before or completely rewritten."


class SessionCompressError(Exception):
    """An error with its place, the session's state, and the remedy. `str()` is safe to print.

    `what` is a clause without a period, `where` a path or other place. `line` counts from 1. `state` and `remedy` are
    whole sentences, or empty.
    """

    exit_code = 3

    def __init__(
        self,
        what: str,
        *,
        where: str | os.PathLike[str] | None = None,
        line: int | None = None,
        state: str = NOT_CHANGED,
        remedy: str = "",
    ) -> None:
        self.what = what
        self.where = None if where is None else os.fspath(where)
        self.line = line
        self.state = state
        self.remedy = remedy
        super().__init__(what)

    def __str__(self) -> str:
        """Format as `where:line: what. State. Remedy.` without unknown parts."""
        place = "" if self.where is None else f"{self.where}: "
        if self.line is not None:
            place = f"{self.where}:{self.line}: "
        end = "" if self.what.endswith("?") else "."
        return printable(" ".join(part for part in (f"{place}{self.what}{end}", self.state, self.remedy) if part))


class UsageError(SessionCompressError):
    """The command or the policy names something that doesn't exist."""

    exit_code = 2


class FileFailed(SessionCompressError):
    """One file could not be read or written; others may be fine."""


class Refused(SessionCompressError):
    """The file is of a kind, or in a state, that we don't touch."""

    exit_code = 4


class InUse(Refused):
    """Another program, or another run, has the session open for writing or has just changed it."""


class NotASession(Refused):
    """The file isn't a session, or isn't even a regular file."""


class IsALink(Refused):
    """The path, or a file next to it, is a link. Replacing it would separate it from the link's target."""


class Unsupported(Refused):
    """The system or the file system lacks something that the commit protocol needs."""


class Damaged(SessionCompressError):
    """A store or a session failed its check."""

    exit_code = 5


class Unreadable(Damaged):
    """An original cannot be read; others may be readable."""


_REMEDIES = {
    errno.EACCES: "Check its permissions and those of its folder.",
    errno.EPERM: "Only its owner may do that, or an attribute forbids it: see 'ls -l' and 'lsattr'.",
    errno.ENOENT: "Check that it is there, and run again.",
    errno.ENOSPC: "Make room on the disk, and run again.",
    errno.EDQUOT: "Make room in your quota, and run again.",
    errno.EROFS: "Make the file system writable, or name a session elsewhere.",
    errno.ENOTDIR: "Check the path: one part of it is a file.",
    errno.EMFILE: "Let the process open more files (ulimit -n).",
    errno.EIO: "Check the disk.",
}


@contextmanager
def failing(where: str | os.PathLike[str], state: str = NOT_CHANGED) -> Iterator[None]:
    """Convert an OSError raised in the block to FileFailed; see failed()."""
    try:
        yield
    except OSError as error:
        raise failed(error, where, state) from error


def failed(error: OSError, where: str | os.PathLike[str], state: str = NOT_CHANGED) -> FileFailed:
    """Build a FileFailed from an OSError. It names the error's own file, or else `where`."""
    named = error.filename if isinstance(error.filename, str | os.PathLike) else where
    remedy = _REMEDIES.get(error.errno or 0, "See what the system says about it, and run again.")
    what = (error.strerror or str(error)).lower()
    if error.errno == errno.EACCES and (folder := _closed(named, error.filename2 or where)):
        what += f": this user may not write to the folder {folder}"
        remedy = "Change its permissions, or run the command as a user who may."
    return FileFailed(what, where=named, state=state, remedy=remedy)


def _closed(*paths: str | os.PathLike[str]) -> str:
    """Return the first folder among these, or of them, in which this user can't create or replace files, or empty."""
    for each in paths:
        path = os.fspath(each)
        is_unreadable = os.path.isfile(path) and not os.access(path, os.R_OK)  # noqa: PTH113 - raises nothing
        folder = path if os.path.isdir(path) else os.path.dirname(path)  # noqa: PTH112, PTH120 - as above
        if os.path.isdir(folder) and not (is_unreadable or os.access(folder, os.W_OK)):  # noqa: PTH112
            return folder
    return ""
