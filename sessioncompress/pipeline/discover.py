"""Resolve the paths that a user names to session files. Folders are walked, and our own files in them are skipped.

For commands that need stores, also find missing sessions that still have a store.
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
    failing,
)
from sessioncompress.formats.table import FIRST_BYTES, holds_opencode, may_be_session
from sessioncompress.policy.model import Policy
from sessioncompress.store.layout import (
    FOLDER,
    JOURNAL,
    NEVER,
    backups_of,
    holds,
    originals_of,
    plain_in,
    rows_of,
    sessions_named,
    status_of,
    store_at,
    store_in,
    store_in_own_folder,
    stores_in,
)
from sessioncompress.store.machine import READING


class Globs(NamedTuple):
    """Include and exclude patterns. A file must match any of `include`, if given, and none of `exclude`.

    A pattern matches the path relative to the named folder, or any component of it. `*` also matches slashes.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """True if a file is selected. `path` is relative to the folder and uses slashes."""
        return not self.leaves(path) and (not self.include or _matches(path, self.include))

    def leaves(self, path: str) -> bool:
        """True if a file is excluded, or a folder with everything in it."""
        return _matches(path, self.exclude)


EVERYTHING = Globs()


def _matches(path: str, patterns: Iterable[str]) -> bool:
    names = (path, *path.split("/"))
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


class SessionGone(Refused):
    """The session that a command looks for is missing from its path, but its store is still there."""


class Remote(Struct, frozen=True):
    """A session that isn't a local file: listed in an object store, or a row in a database (`is_row`).

    `stored` names its store's objects, or is None if unknown. A row's URL is the database's path plus the session's id.
    """

    url: str
    size: int
    changed_ns: int
    stored: frozenset[str] | None = None
    is_row: bool = False


class Found(Struct, frozen=True):
    """A file that the user named, or that was found in a folder (then it is no error if it isn't a session).

    If `error` is set, it is a folder that could not be read, or one with sessions that only their agent can read. If
    `remote` is set, `path` holds only its name.
    """

    path: Path
    named: bool
    error: SessionCompressError | None = None
    remote: Remote | None = None

    @property
    def shown(self) -> str:
        """The path or URL as the user typed it."""
        return self.remote.url if self.remote else str(self.path)


Search = Callable[[Sequence[Path], Globs], Iterable[Found]]
"""Resolve files and folders to the sessions that a command works on."""


def discover(paths: Iterable[Path], globs: Globs = EVERYTHING) -> Iterator[Found]:
    """Yield the files that the paths name, each once, in the order of the paths and then by name.

    From a folder, take the files that match the patterns and are named `.jsonl`, or `.json` if they start like a
    session or have our journal. A folder may be given as a link. Links to files, and links inside folders, are also
    yielded; opening the session refuses them. Skip a journal next to its originals, as in a backup folder.
    """
    paths = list(paths)
    # Resolve the parent only: the name itself may be a link, which must be refused later.
    named = {os.path.join(os.path.realpath(path.parent), path.name) for path in paths if not is_folder(path)}  # noqa: PTH118
    seen: set[str] = set()
    folder, real = "", ""
    for path in paths:
        for found in _in_folder(path, globs) if is_folder(path) else [Found(path, named=True)]:
            here, name = os.path.split(found.path)
            if here != folder or not real:
                # Once per folder: resolving links takes longer than the rest of the walk, and a folder may hold
                # thousands of files.
                folder, real = here, os.path.realpath(here)
            key = os.path.join(real, name)  # noqa: PTH118
            if key not in seen:
                seen.add(key)
                # The user may have named the folder and this file.
                yield replace(found, named=True) if key in named else found


def unchanged_for(found: Iterable[Found], seconds: float) -> Iterator[Found]:
    """Yield the files unchanged for at least `seconds`, and those that can't be read. Skip missing files."""
    for each in found:
        try:
            younger = is_younger(each.path.lstat(), seconds)
        except FileNotFoundError:
            continue
        except OSError:
            # Opening it will report the error.
            younger = False
        if each.error is not None or not younger:
            yield each


def is_younger(status: os.stat_result, seconds: float) -> bool:
    """True if a file changed less than `seconds` ago."""
    return time.time() - status.st_mtime < seconds


def handed(files: Iterable[Path]) -> Iterator[Found]:
    """Yield the files that may be sessions by name and first bytes, as if they were found in a folder.

    For programs that pass every file matching a pattern: files that aren't sessions, or are ours, are no error.
    """
    for path in files:
        ours = FOLDER in path.parts or (path.name.endswith(JOURNAL) and os.path.lexists(originals_of(path)))
        if not ours and _may_be_session(os.fspath(path.parent), path.name):
            yield Found(path, named=False)


def is_folder(path: Path) -> bool:
    """True if the path is a folder. If that can't be determined, opening the session reports why."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir() raises if a parent folder is inaccessible


SQLITE = b"SQLite format 3\0"
_DATABASES = (".db", ".sqlite")


def is_sqlite(path: Path) -> bool:
    """True if a file is an SQLite database, by its first bytes."""
    with suppress(OSError):
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(len(SQLITE)) == SQLITE
    return False


def is_database(path: Path) -> bool:
    """True if a file is an SQLite database, also by its name, or if it is missing from its folder but has a store."""
    # What can't be examined is not missing.
    with suppress(OSError):
        if path.name.endswith(_DATABASES):
            return is_sqlite(path) if status_of(path) else is_folder(rows_of(path) / FOLDER)
    return False


def is_missing(database: Path) -> bool:
    """True if a database does not exist. Raises FileFailed if that is unknown, as when its disk fails."""
    with failing(database):
        return status_of(database) is None


def databases_with_store(folder: Path) -> list[Path]:
    """List the databases in a folder that have a store, also missing ones, whatever their names."""
    found = (each.parent.name for each in (folder / FOLDER).glob(f"*/{FOLDER}"))
    return sorted(folder / name for name in found if name.endswith(_DATABASES))


def names_rows(path: Path) -> bool:
    """True if a path names a database, or a session in one (the database's path plus the session's id)."""
    return is_database(path) or is_database(path.parent)


def folders(folder: Path, globs: Globs = EVERYTHING) -> Iterator[tuple[Path, str]]:
    """Yield a folder and its subfolders that may hold sessions, each with the path prefix used for patterns."""
    for here, begins, _ in walked(folder, lambda _: None, globs):
        yield Path(here), begins


def walked(
    folder: Path, failed: Callable[[OSError], None], globs: Globs = EVERYTHING
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each folder with the path prefix of its contents and its file names. Our own have no sessions."""
    if FOLDER in Path(os.path.realpath(folder)).parts:
        # In the folder of a database's stores, all of its sessions would seem to be missing.
        return
    for here, folders, names in os.walk(folder, onerror=failed):
        below = "" if here == str(folder) else Path(here).relative_to(folder).as_posix() + "/"
        folders[:] = sorted(name for name in folders if name not in NEVER and not globs.leaves(below + name))
        yield here, below, names


def _in_folder(folder: Path, globs: Globs) -> Iterator[Found]:
    """Walk a named folder. For OpenCode's own storage yield an error, since only OpenCode can read it."""
    if holds_opencode(folder):
        what = "OpenCode keeps its sessions here in a form that only OpenCode can read"
        state, remedy = "Nothing here was changed.", "Use the file that 'opencode export SESSION > FILE' writes."
        yield Found(folder, named=True, error=NotASession(what, where=folder, state=state, remedy=remedy))
        return
    unreadable: list[Found] = []

    def failed(error: OSError) -> None:
        # A folder that was just deleted has no sessions.
        if not isinstance(error, FileNotFoundError):
            what = f"this folder cannot be read: {(error.strerror or str(error)).lower()}"
            state, remedy = "No session in it was changed.", "Check its permissions."
            found = FileFailed(what, where=error.filename, state=state, remedy=remedy)
            unreadable.append(Found(Path(error.filename), named=False, error=found))

    for here, below, names in walked(folder, failed, globs):
        yield from unreadable
        unreadable.clear()
        for name in sorted(names):
            if not (globs.takes(below + name) and _may_be_session(here, name)):
                continue
            if not (name.endswith(JOURNAL) and originals_of(Path(name)).name in names):
                yield Found(Path(here) / name, named=False)
    yield from unreadable


def _may_be_session(here: str, name: str) -> bool:
    """Judge a file by its name, and a `.json` also by its first bytes, since most aren't sessions.

    A `.json` session that the user once compressed by name may start like any other file, but it has a journal.
    """
    if not name.endswith(".json"):
        return name.endswith(".jsonl")
    if os.path.lexists(os.path.join(here, FOLDER)) and holds(store_in(Path(here, name))):  # noqa: PTH118 - as below
        return True
    try:
        fd = os.open(os.path.join(here, name), READING)  # noqa: PTH118 - build a Path only for likely sessions
    except OSError:
        # A link, or an unreadable file. For `.jsonl` this would be reported, but `.json` files are everywhere.
        return False
    try:
        return may_be_session(os.read(fd, FIRST_BYTES))
    except OSError:
        return False
    finally:
        os.close(fd)


def compressed(
    paths: Iterable[Path], policy_of: Callable[[Path], Policy], globs: Globs, *, gone_too: bool
) -> Iterator[Found]:
    """Yield the sessions that the paths name for a command that needs stores, each once.

    From a folder, take the sessions that discover() finds, and every session with a store, whatever its name; otherwise
    the user would assume that all were processed. The latter count as named, and have an `error` if the session is
    missing or something else took its place. With `gone_too`, a missing session is no error, and temp files and late
    links count as a store.
    """
    paths = list(paths)
    real = cache(os.path.realpath)
    lying: dict[tuple[str, str], Found] = {}
    for path in paths:
        if not (gone_too or os.path.exists(path)) and _has_store(path, policy_of):  # noqa: PTH110 - this can't raise
            lying[real(path.parent), path.name] = _named(Found(path, named=True), gone_too=False)
    for folder in filter(is_folder, paths):
        # A folder may have replaced a session.
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
    """Raise SessionGone if a stored session is missing (unless `gone_too`), Refused if it isn't a regular file."""
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


def _sessions_of(folder: Path, policy_of: Callable[[Path], Policy], globs: Globs) -> Iterator[Found]:
    """Yield the sessions in and below a folder that have a store there or in the backup folder.

    If the policy sets a backup folder, no command uses a store in the session's folder; naming such a session is
    refused. A folder that can't be read is yielded with its error.
    """
    for here, begins in folders(folder, globs):
        any_session = here / "session.jsonl"
        try:
            work, backups = plain_in(any_session).work, backups_of(any_session, policy_of(any_session))
            with failing(work, state=""):
                found = set(sessions_named(work))
            # If both are the same folder, its names follow the backup folder's scheme.
            is_one = backups is not None and os.path.realpath(backups) == os.path.realpath(work)
            for each in dict.fromkeys([backups] if is_one else [None, backups]):
                with failing(each or work, state=""):
                    found.update(session.name for session, _ in stores_in(here, each))
        except SessionCompressError as error:
            yield Found(here, named=True, error=error)
            continue
        yield from (Found(here / each, named=False) for each in sorted(found) if globs.takes(begins + each))
