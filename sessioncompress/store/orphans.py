"""Files of ours whose session is gone: it was deleted, moved or renamed without them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sessioncompress.errors import Refused, failing
from sessioncompress.store import disk
from sessioncompress.store.folder import refuse_linked_folder, tidy
from sessioncompress.store.late_links import foreign_links, late_links, stale_drafts
from sessioncompress.store.layout import Beside, sessions_named
from sessioncompress.store.lock import Held, held, lock, open_file
from sessioncompress.store.recover import LINK_SECONDS


def forget_gone(session: Path, files: Beside) -> None:
    """Remove all that lies beside a session that is gone, but for late links that may still be needed.

    Originals and journal go last: whoever comes after a kill goes on from there.
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
    """Return what else runs on a session have left: its temp files and late links."""
    if session.name not in sessions_named(files.work):
        return []
    late = [each.path(files.work, session) for states in late_links(files.work, session).values() for each in states]
    return [*stale_drafts(files.work, session), *late]


def needed_links(session: Path, files: Beside) -> list[Path]:
    """Return the late links with lines that may stand nowhere else: open for writing, or with a tail not carried over.

    There is no session to carry them over into, nor to tell whether it has them. Of files that are only named like
    late links nothing is known: they stay too.
    """
    if session.name not in sessions_named(files.work):
        return []
    return foreign_links(files.work, session) + [
        state.path(files.work, session)
        for states in late_links(files.work, session).values()
        if _is_needed(states[0].path(files.work, session), min(state.drained for state in states))
        for state in states
    ]


def _is_needed(link: Path, drained: int) -> bool:
    try:
        fd = open_file(link)
    except (FileNotFoundError, Refused):
        # Nobody appends a session's lines to what is no regular file.
        return False
    try:
        # Asked before the size is looked at: an answer NO means that nothing will come any more.
        holding = held(fd)
        found = os.fstat(fd)
        is_quiet = time.time() - found.st_mtime > LINK_SECONDS
        return found.st_size > drained or holding is Held.YES or (holding is Held.UNKNOWN and not is_quiet)
    finally:
        os.close(fd)


def dead_drafts(session: Path, files: Beside) -> list[Path]:
    """Return the temp files of a session that is gone for which no run is at work any more.

    There is no session whose lock would tell: a file that is locked, open for writing or young counts as in use.
    """
    refuse_linked_folder(files.work)
    return [path for path in stale_drafts(files.work, session) if _is_dead(path)]


def remove_drafts(drafts: list[Path], files: Beside) -> None:
    """Remove such temp files."""
    for path in drafts:
        disk.remove(path)
    tidy(files.work)


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
