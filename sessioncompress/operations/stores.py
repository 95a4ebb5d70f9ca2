"""Find the stores of sessions and folders, and what runs left in them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from shlex import quote

from msgspec.structs import replace

from sessioncompress.errors import Refused, SessionCompressError, SessionGone, UsageError, failing
from sessioncompress.pipeline.discover import EVERYTHING, Found, Globs, discover, folders, is_folder
from sessioncompress.policy.model import Policy
from sessioncompress.store import layout
from sessioncompress.store.disk import closing, remove
from sessioncompress.store.folder import refuse_linked_folder, tidy
from sessioncompress.store.late_links import foreign_links, late_links, stale_drafts
from sessioncompress.store.lock import Held, held, lock, open_file
from sessioncompress.store.recover import LINK_SECONDS


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
            if gone_too:
                concerns = True
            elif each.error is not None:
                # A wrong policy may lie in a folder without sessions.
                concerns = not isinstance(each.error, UsageError) or os.path.lexists(each.path / layout.FOLDER)
            else:
                concerns = _has_store(each.path, policy_of)
            if concerns:
                lying[real(each.path.parent), each.path.name] = _named(each, gone_too=gone_too)
    for found in discover(paths, globs):
        yield lying.pop((real(found.path.parent), found.path.name), found)
    yield from lying.values()


def _has_store(session: Path, policy_of: Callable[[Path], Policy]) -> bool:
    policy = policy_of(session)
    return layout.holds(layout.store_at(session, policy)) or layout.store_in_own_folder(session, policy) is not None


def _named(found: Found, *, gone_too: bool) -> Found:
    try:
        refuse_unless_there(found.path, gone_too=gone_too)
    except SessionCompressError as error:
        return replace(found, named=True, error=found.error or error)
    return replace(found, named=True)


def refuse_unless_there(session: Path, *, gone_too: bool) -> None:
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


def sessions_of(folder: Path, policy_of: Callable[[Path], Policy], globs: Globs = EVERYTHING) -> Iterator[Found]:
    """Yield the sessions in and below a folder that have a store there, or in the backup folder.

    With a backup folder, no command uses a store in the session's folder: it refuses the session by name. A folder that
    cannot be read is yielded with its error.
    """
    for here, begins in folders(folder, globs):
        any_session = here / "session.jsonl"
        try:
            work, backups = layout.plain_in(any_session).work, layout.backups_of(any_session, policy_of(any_session))
            with failing(work, state=""):
                found = set(layout.sessions_named(work))
            # Where both are one folder, the names in it are those of a backup folder.
            is_one = backups is not None and os.path.realpath(backups) == os.path.realpath(work)
            for each in dict.fromkeys([backups] if is_one else [None, backups]):
                with failing(each or work, state=""):
                    found.update(session.name for session, _ in layout.stores_in(here, each))
        except SessionCompressError as error:
            yield Found(here, named=True, error=error)
            continue
        yield from (Found(here / each, named=False) for each in sorted(found) if globs.takes(begins + each))


def remains(session: Path) -> list[Path]:
    """List the temp files and late links that runs on a session left."""
    if not layout.has_leftovers(session):
        return []
    late = [each.path(session) for states in late_links(session).values() for each in states]
    return [*stale_drafts(session), *late]


def needed_links(session: Path) -> list[Path]:
    """List the late links whose lines may exist nowhere else: open for writing, or with a tail not carried over.

    The session is gone, so that nothing can be carried over or compared. Files that are only named like late links
    stay too.
    """
    if not layout.has_leftovers(session):
        return []
    needed = foreign_links(session)
    for states in late_links(session).values():
        paths = [state.path(session) for state in states]
        try:
            fd = open_file(paths[0])
        except (FileNotFoundError, Refused):
            # Nobody appends a session's lines to what is no regular file.
            continue
        try:
            # Before the size is read: NO means that nothing more will be appended.
            holding = held(fd)
            found = os.fstat(fd)
            may_come = holding is Held.UNKNOWN and time.time() - found.st_mtime <= LINK_SECONDS
            if holding is Held.YES or may_come or found.st_size > min(state.drained for state in states):
                needed += paths
        finally:
            os.close(fd)
    return needed


def sweep(folder: Path) -> None:
    """Delete the temp files that dead runs left of sessions that are gone: no run comes that would recover those.

    There is no session to lock: a temp file that is locked, open for writing or young counts as in use.
    """
    work = folder / layout.FOLDER
    # What cannot be deleted is in nobody's way.
    with suppress(OSError, Refused):
        refuse_linked_folder(work)
        for name in layout.sessions_named(work):
            for path in () if os.path.lexists(folder / name) else stale_drafts(folder / name):
                with closing(open_file(path)) as fd:
                    is_old = time.time() - os.fstat(fd).st_mtime > LINK_SECONDS
                    if is_old and lock(fd) and held(fd) is not Held.YES:
                        remove(path)
        tidy(work)
