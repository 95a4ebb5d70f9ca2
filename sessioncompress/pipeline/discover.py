"""Paths that a user names to the files that they mean; folders are walked, our own files in them are passed over.

A command that needs stores also means the sessions that have one and are gone.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.core.text import quote
from sessioncompress.errors import (
    FileFailed,
    NotASession,
    Refused,
    SessionCompressError,
    SessionGone,
    failing,
)
from sessioncompress.formats.table import FIRST_BYTES, holds_opencode, may_be_session
from sessioncompress.policy.model import Policy
from sessioncompress.store.layout import (
    FOLDER,
    JOURNAL,
    backups_of,
    holds,
    originals_of,
    plain_in,
    sessions_named,
    store_at,
    store_in,
    store_in_own_folder,
    stores_in,
)


class Globs(NamedTuple):
    """A file must match one of the patterns to include, if there are any, and none of those to exclude.

    A pattern matches a path below the folder that was named, or any name in that path. `*` matches slashes too.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """Tell whether a file is meant, by its path below the folder, with slashes."""
        return not self.leaves(path) and (not self.include or _matches(path, self.include))

    def leaves(self, path: str) -> bool:
        """Tell whether a file is excluded, or a folder with all that is in it."""
        return _matches(path, self.exclude)


EVERYTHING = Globs()


def _matches(path: str, patterns: Iterable[str]) -> bool:
    names = (path, *path.split("/"))
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


NEVER = frozenset({FOLDER, ".git", "node_modules"})
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
"""Not through a link, and without waiting for the writer of a pipe."""


class Remote(Struct, frozen=True):
    """A session that is no file: one in an object store, as it was listed, or one in a database (`is_row`).

    `stored` names its store's objects; None: not known. The URL of a row is the path of its database, and its id.
    """

    url: str
    size: int
    changed_ns: int
    stored: frozenset[str] | None = None
    is_row: bool = False


class Found(Struct, frozen=True):
    """One file: named by the user, or met in a folder (then what is no session there is no error).

    With an `error` it is a folder that could not be read, or in which sessions lie that only their agent can read.
    What is `remote` has no path here: that only says its name.
    """

    path: Path
    named: bool
    error: SessionCompressError | None = None
    remote: Remote | None = None

    @property
    def shown(self) -> str:
        """Its path or URL, as the user typed it."""
        return self.remote.url if self.remote else str(self.path)


Search = Callable[[Sequence[Path], Globs], Iterable[Found]]
"""Finds what some files and folders mean to a command."""


def discover(paths: Iterable[Path], globs: Globs = EVERYTHING) -> Iterator[Found]:
    """Yield the files that the paths mean, each once, in the order of the paths and of their names.

    Of the files in a folder those that are called `.jsonl`, and those `.json` that begin as a session may or have a
    journal of ours beside them, and of them those that the patterns take. A folder may be named by a link: the files
    in it are what they are. A link to a file, and links met in a folder, are for the session's opening to refuse. A
    journal beside its originals, as in a backup folder, is no session.
    """
    paths = list(paths)
    # The name itself must not be resolved.
    named = {os.path.join(os.path.realpath(path.parent), path.name) for path in paths if not is_folder(path)}  # noqa: PTH118
    seen: set[str] = set()
    folder, real = "", ""
    for path in paths:
        for found in _in_folder(path, globs) if is_folder(path) else [Found(path, named=True)]:
            here, name = os.path.split(found.path)
            if here != folder or not real:
                # Thousands of files may lie in a folder, and to follow its links takes longer than all else of a walk.
                folder, real = here, os.path.realpath(here)
            key = os.path.join(real, name)  # noqa: PTH118
            if key not in seen:
                seen.add(key)
                yield replace(found, named=True) if key in named else found


def unchanged_for(found: Iterable[Found], seconds: float) -> Iterator[Found]:
    """Yield the files that have not changed for so long, and what cannot be read. What is gone has no age."""
    for each in found:
        try:
            younger = is_younger(each.path.lstat(), seconds)
        except FileNotFoundError:
            continue
        except OSError:
            # Its opening says what is wrong.
            younger = False
        if each.error is not None or not younger:
            yield each


def is_younger(status: os.stat_result, seconds: float) -> bool:
    """Tell whether a file changed within so many seconds."""
    return time.time() - status.st_mtime < seconds


def handed(files: Iterable[Path]) -> Iterator[Found]:
    """Yield those of some files that may be sessions, by their names and first bytes, as if met in a folder.

    For a program that hands over all files that a pattern fits: what is no session, or ours, is no error.
    """
    for path in files:
        ours = FOLDER in path.parts or (path.name.endswith(JOURNAL) and os.path.lexists(originals_of(path)))
        if not ours and _may_be_session(os.fspath(path.parent), path.name):
            yield Found(path, named=False)


def is_folder(path: Path) -> bool:
    """Tell whether a folder lies there; where that is not to be known, it is for the session's opening to tell."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir() raises where a folder above may not be entered


_SQLITE = b"SQLite format 3\0"


def is_database(path: Path) -> bool:
    """Tell by its name and first bytes whether a file is a database."""
    with suppress(OSError):
        if path.name.endswith((".db", ".sqlite")) and stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(len(_SQLITE)) == _SQLITE
    return False


def names_rows(path: Path) -> bool:
    """Tell whether a path names a database, or a session in one: the database's path, and the session's id."""
    return is_database(path) or is_database(path.parent)


def folders(folder: Path, globs: Globs = EVERYTHING) -> Iterator[tuple[Path, str]]:
    """Yield a folder and all below it in which sessions may lie, each with what their paths begin with for patterns."""
    for here, begins, _ in _walked(folder, globs, lambda _: None):
        yield Path(here), begins


def _walked(folder: Path, globs: Globs, failed: Callable[[OSError], None]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield folders, each with what a path of what is in it begins with, and the names of its files."""
    for here, folders, names in os.walk(folder, onerror=failed):
        below = "" if here == str(folder) else Path(here).relative_to(folder).as_posix() + "/"
        folders[:] = sorted(name for name in folders if name not in NEVER and not globs.leaves(below + name))
        yield here, below, names


def _in_folder(folder: Path, globs: Globs) -> Iterator[Found]:
    """Walk a folder that was named; what OpenCode keeps there are its sessions, but nothing that could be walked."""
    if holds_opencode(folder):
        what = "OpenCode keeps its sessions here in a form that only OpenCode can read"
        state, remedy = "Nothing here was changed.", "Use the file that 'opencode export SESSION > FILE' writes."
        yield Found(folder, named=True, error=NotASession(what, where=folder, state=state, remedy=remedy))
        return
    unreadable: list[Found] = []

    def failed(error: OSError) -> None:
        # A folder that has just been deleted has no sessions.
        if not isinstance(error, FileNotFoundError):
            what = f"this folder cannot be read: {(error.strerror or str(error)).lower()}"
            state, remedy = "No session in it was changed.", "Check its permissions."
            found = FileFailed(what, where=error.filename, state=state, remedy=remedy)
            unreadable.append(Found(Path(error.filename), named=False, error=found))

    for here, below, names in _walked(folder, globs, failed):
        yield from unreadable
        unreadable.clear()
        for name in sorted(names):
            if not (globs.takes(below + name) and _may_be_session(here, name)):
                continue
            if not (name.endswith(JOURNAL) and originals_of(Path(name)).name in names):
                yield Found(Path(here) / name, named=False)
    yield from unreadable


def _may_be_session(here: str, name: str) -> bool:
    """Judge a file by its name, and a `.json` by its first bytes: nearly all of them are no sessions.

    One that was compressed when it was named may begin like any other, but its journal tells.
    """
    if not name.endswith(".json"):
        return name.endswith(".jsonl")
    if os.path.lexists(os.path.join(here, FOLDER)) and holds(store_in(Path(here, name))):  # noqa: PTH118 - as below
        return True
    try:
        fd = os.open(os.path.join(here, name), _FLAGS)  # noqa: PTH118 - a path is made only of what may be a session
    except OSError:
        # A link, or what may not be read: were it `.jsonl` that would be told, but such files lie everywhere.
        return False
    try:
        return may_be_session(os.read(fd, FIRST_BYTES))
    except OSError:
        return False
    finally:
        os.close(fd)


def compressed(
    paths: Iterable[Path], policy_of: Callable[[Path], Policy], globs: Globs = EVERYTHING, *, gone_too: bool = False
) -> Iterator[Found]:
    """Yield the sessions that the paths mean to a command that needs stores, each once.

    In a folder these are the sessions that discover() finds, and all sessions with a store, whatever their names:
    otherwise a user would think that all had been processed. Those count as named, and have an `error` if the session
    is missing or something else is in its place. With `gone_too` a missing session is no error, and temp files and
    late links count as a store.
    """
    paths = list(paths)
    real = cache(os.path.realpath)
    lying: dict[tuple[str, str], Found] = {}
    for path in paths:
        if not (gone_too or os.path.exists(path)) and _has_store(path, policy_of):  # noqa: PTH110 - raises nothing
            lying[real(path.parent), path.name] = _named(Found(path, named=True), gone_too=False)
    for folder in filter(is_folder, paths):
        # A folder may have taken the place of a session.
        own = [Found(folder, named=True)] if folder.name and _has_store(folder, policy_of) else []
        for each in chain(own, _sessions_of(folder, policy_of, globs)):
            if gone_too or each.error is not None or _has_store(each.path, policy_of):
                lying[real(each.path.parent), each.path.name] = _named(each, gone_too=gone_too)
    for found in discover(paths, globs):
        yield lying.pop((real(found.path.parent), found.path.name), found)
    yield from lying.values()


def _has_store(session: Path, policy_of: Callable[[Path], Policy]) -> bool:
    policy = policy_of(session)
    return holds(store_at(session, policy)) or store_in_own_folder(session, policy) is not None


def _named(found: Found, *, gone_too: bool) -> Found:
    try:
        _refuse_unless_there(found.path, gone_too=gone_too)
    except SessionCompressError as error:
        return replace(found, named=True, error=found.error or error)
    return replace(found, named=True)


def _refuse_unless_there(session: Path, *, gone_too: bool) -> None:
    """Raise SessionGone if a session with a store is missing (unless `gone_too`), Refused if it is no regular file."""
    first, kind = "move that away, and ", Refused
    with failing(session):
        try:
            mode = session.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            if gone_too:
                return
            what, first, kind = "the session is missing", "", SessionGone
        else:
            if stat.S_ISREG(mode):
                return
            lies = (
                "a symbolic link"
                if stat.S_ISLNK(mode)
                else "a folder"
                if stat.S_ISDIR(mode)
                else "something that is not a regular file"
            )
            what = f"{lies} is where the session was"
    named = quote(str(session))
    raise kind(
        f"{what}, but its store is still there",
        where=session,
        state="Nothing was changed.",
        remedy=f"Put the session back. If it was moved, 'sessioncompress restore --from-markers --originals {named} "
        f"NEW_PATH' gives it its originals back. If you no longer need it, {first}'sessioncompress forget "
        f"{named}' deletes them.",
    )


def _sessions_of(folder: Path, policy_of: Callable[[Path], Policy], globs: Globs = EVERYTHING) -> Iterator[Found]:
    """Yield the sessions in and below a folder that have a store there, or in the backup folder.

    With a backup folder, no command uses a store in the session's folder: it refuses the session by name. A folder that
    cannot be read is yielded with its error.
    """
    for here, begins in folders(folder, globs):
        any_session = here / "session.jsonl"
        try:
            work, backups = plain_in(any_session).work, backups_of(any_session, policy_of(any_session))
            with failing(work, state=""):
                found = set(sessions_named(work))
            # Where both are one folder, the names in it are those of a backup folder.
            is_one = backups is not None and os.path.realpath(backups) == os.path.realpath(work)
            for each in dict.fromkeys([backups] if is_one else [None, backups]):
                with failing(each or work, state=""):
                    found.update(session.name for session, _ in stores_in(here, each))
        except SessionCompressError as error:
            yield Found(here, named=True, error=error)
            continue
        yield from (Found(here / each, named=False) for each in sorted(found) if globs.takes(begins + each))
