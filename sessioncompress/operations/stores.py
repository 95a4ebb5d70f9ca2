"""Find the stores of sessions and folders, and delete those of sessions that are gone."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from msgspec.structs import replace

from sessioncompress.core import text
from sessioncompress.errors import Refused, SessionCompressError, UsageError, failing
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, discover, folders, is_folder
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk
from sessioncompress.store import journal as journals
from sessioncompress.store.damage import refuse_if_of_another
from sessioncompress.store.folder import refuse_folders, refuse_linked_folder, tidy
from sessioncompress.store.late_links import foreign_links, late_links, stale_drafts
from sessioncompress.store.layout import (
    FOLDER,
    Beside,
    beside,
    beside_of,
    holds,
    owners,
    sessions_named,
    size_of,
    store_beside,
    store_of,
)
from sessioncompress.store.lock import Held, held, lock, open_file
from sessioncompress.store.recover import LINK_SECONDS


def forget_gone(session: Path, files: Beside) -> None:
    """Delete an orphaned store, except for late links that may still be needed.

    Originals and journal go last, so that a later run can go on after a kill.
    """
    refuse_linked_folder(files.work)
    with failing(session, state=""):
        needed = needed_links(session, files)
        going = (path for path in remains(session, files) if path not in needed)
        for path in (*going, files.originals, files.journal):
            disk.remove(path)
        for folder in {files.folder, files.work}:
            if folder.is_dir():
                disk.flush_folder(folder)
        tidy(files.work)


def remains(session: Path, files: Beside) -> list[Path]:
    """List the temp files and late links that runs on a session left."""
    if session.name not in sessions_named(files.work):
        return []
    late = [each.path(session) for states in late_links(session).values() for each in states]
    return [*stale_drafts(session), *late]


def needed_links(session: Path, files: Beside) -> list[Path]:
    """List the late links whose lines may exist nowhere else: open for writing, or with a tail not carried over.

    The session is gone, so that nothing can be carried over or compared. Files that are only named like late links
    stay too.
    """
    if session.name not in sessions_named(files.work):
        return []
    return foreign_links(session) + [
        state.path(session)
        for states in late_links(session).values()
        if _is_needed(states[0].path(session), min(state.drained for state in states))
        for state in states
    ]


def _is_needed(link: Path, drained: int) -> bool:
    try:
        fd = open_file(link)
    except (FileNotFoundError, Refused):
        # Nobody appends a session's lines to what is no regular file.
        return False
    try:
        # Before the size is read: NO means that nothing more will be appended.
        holding = held(fd)
        found = os.fstat(fd)
        is_quiet = time.time() - found.st_mtime > LINK_SECONDS
        return found.st_size > drained or holding is Held.YES or (holding is Held.UNKNOWN and not is_quiet)
    finally:
        os.close(fd)


def dead_drafts(session: Path, files: Beside) -> list[Path]:
    """List the temp files of dead runs on a session that is gone.

    There is no session to lock: a temp file that is locked, open for writing or young counts as in use.
    """
    refuse_linked_folder(files.work)
    return [path for path in stale_drafts(session) if _is_dead(path)]


def _is_dead(draft: Path) -> bool:
    try:
        fd = open_file(draft)
    except FileNotFoundError:
        return False
    try:
        is_old = time.time() - os.fstat(fd).st_mtime > LINK_SECONDS
        return is_old and lock(fd) and held(fd) is not Held.YES
    finally:
        os.close(fd)


class Holding(NamedTuple):
    """The store of one session. `size` is that of originals and journal; `left_over`: temp files or late links exist.

    `named`: the user named the session itself, not a folder above it.
    """

    session: Path
    named: bool
    policy: Policy
    beside: Beside
    exists: bool
    size: int
    left_over: bool


class Told(NamedTuple):
    """The number of runs in the journal, and the time of the last one in seconds since 1970.

    A wrong clock may have put it into the future; None if it is no time.
    """

    runs: int = 0
    last_run: float | None = None


NOTHING_TOLD = Told()


def holdings(paths: Iterable[Path], policy_of: Callable[[Path], Policy]) -> Iterator[Holding | Found]:
    """Yield the stores of the sessions that the paths mean, each once, and what cannot be read with its error.

    Raises UsageError if a path does not exist and has no store.
    """
    paths = list(paths)
    named = {_place(path) for path in paths if not is_folder(path)}
    # Of thousands of sessions in a folder it is listed once: a command that removes what is left looks again.
    left_in = cache(sessions_named)
    seen: set[Path] = set()
    for path in paths:
        for found in sessions_of(path, policy_of) if is_folder(path) else [Found(path, named=True)]:
            place = _place(found.path)
            if found.error is not None:
                yield found
            elif place not in seen:
                seen.add(place)
                yield from _holding(replace(found, named=place in named), policy_of, left_in)


def _place(path: Path) -> Path:
    return path.parent.resolve() / path.name


def told(holding: Holding) -> Told:
    """Read the journal of a store. Raises Damaged if it cannot be read, or belongs to other originals."""
    refuse_linked_folder(holding.beside.work)
    journal = journals.load(holding.beside.journal)
    if size_of(holding.beside.originals) not in (None, journal.store_size):
        refuse_if_of_another(holding.beside, journal)
    last = text.said_time(journal.runs[-1].at) if journal.runs else None
    return Told(len(journal.runs), last)


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
        for each in chain(own, sessions_of(folder, policy_of, globs)):
            if gone_too or (_concerns(each) if each.error is not None else _has_store(each.path, policy_of)):
                lying[real(each.path.parent), each.path.name] = _named(each, gone_too=gone_too)
    for found in discover(paths, globs):
        yield lying.pop((real(found.path.parent), found.path.name), found)
    yield from lying.values()


def _has_store(session: Path, policy_of: Callable[[Path], Policy]) -> bool:
    policy = policy_of(session)
    return holds(beside_of(session, policy)) or store_beside(session, policy) is not None


def _concerns(folder: Found) -> bool:
    # A wrong policy may lie in a folder without sessions.
    return not isinstance(folder.error, UsageError) or os.path.lexists(folder.path / FOLDER)


def _named(found: Found, *, gone_too: bool) -> Found:
    try:
        refuse_unless_there(found.path, gone_too=gone_too)
    except SessionCompressError as error:
        return replace(found, named=True, error=found.error or error)
    return replace(found, named=True)


def refuse_unless_there(session: Path, *, gone_too: bool) -> None:
    """Raise Refused if a session with a store is missing (unless `gone_too`), or is no regular file."""
    first = "move that away, and "
    with failing(session):
        try:
            mode = session.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            if gone_too:
                return
            what, first = "the session is not there", ""
        else:
            if stat.S_ISREG(mode):
                return
            lies = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no regular file"
            what = f"{lies} lies where the session was"
    named = quote(str(session))
    raise Refused(
        f"{what}, but its store is still there",
        where=session,
        state="Nothing of that is changed.",
        remedy=f"Put the session back. If it was moved, 'sessioncompress restore --from-markers --originals {named} "
        f"NEW_PATH' gives it its originals back. If it is not wanted any more, {first}'sessioncompress forget "
        f"{named}' deletes them.",
    )


def sessions_of(folder: Path, policy_of: Callable[[Path], Policy], globs: Globs = EVERYTHING) -> Iterator[Found]:
    """Yield the sessions in and below a folder that have a store there, or in the backup folder.

    A folder that cannot be read is yielded with its error.
    """
    for here, begins in folders(folder, globs):
        try:
            names = [each for each in _in_folder(here, policy_of) if globs.takes(begins + each)]
            yield from [Found(here / each, named=False) for each in names]
        except SessionCompressError as error:
            yield Found(here, named=True, error=error)


def _in_folder(here: Path, policy_of: Callable[[Path], Policy]) -> list[str]:
    """Name the sessions of a folder that have a store, in either place.

    With a backup folder, no command uses a store in the session's folder: it refuses the session by name.
    """
    any_session = here / "session.jsonl"
    ours = (beside(any_session), beside_of(any_session, policy_of(any_session)))
    # Where both are one folder, the names in it are those of a backup folder.
    stores = {os.path.realpath(each.folder): each for each in ours}
    with failing(ours[0].work, state=""):
        found = sessions_named(ours[0].work)
    for files_there in stores.values():
        with failing(files_there.folder, state=""):
            names = os.listdir(files_there.folder) if is_folder(files_there.folder) else []
        found |= {session for _, session in owners(files_there, names)}
    return sorted(found)


def _holding(
    session: Found, policy_of: Callable[[Path], Policy], left_in: Callable[[Path], frozenset[str]]
) -> Iterator[Holding | Found]:
    try:
        found = _measured(session, policy_of(session.path), left_in)
    except SessionCompressError as error:
        yield Found(session.path, named=True, error=error)
        return
    if found.size or found.left_over:
        yield found
    elif session.named and not os.path.lexists(session.path):
        what = "it does not exist, and it has no store"
        raise UsageError(what, where=session.path, state="Nothing was done.")


def _measured(session: Found, policy: Policy, left_in: Callable[[Path], frozenset[str]]) -> Holding:
    place = _place(session.path)
    beside = store_of(place, policy)
    refuse_folders(beside)
    with failing(session.path, state=""):
        size = reading.size_beside(beside)
        left_over = place.name in left_in(beside.work) and bool(remains(place, beside))
    if size or left_over:
        refuse_unless_there(session.path, gone_too=True)
    with failing(session.path, state=""):
        return Holding(session.path, session.named, policy, beside, os.path.lexists(place), size, left_over)
