"""Begin a writing run: undo what a killed run left, carry over what came late. And end with a session: forget it."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from sessioncompress.errors import failing
from sessioncompress.store import durable
from sessioncompress.store.beside import Beside, Lengths, size_of
from sessioncompress.store.drain import carry, drain, state_of
from sessioncompress.store.folder import refuse_linked, refuse_linked_folder, tidy
from sessioncompress.store.holders import Held, held
from sessioncompress.store.late import Late, holding_state, late_links, stale_drafts
from sessioncompress.store.leftover import FORGOTTEN, refuse_if_needed
from sessioncompress.store.lock import OpenSession, open_file
from sessioncompress.store.missing import forget_note
from sessioncompress.store.swap import forget_links
from sessioncompress.store.tail import missing

LINK_SECONDS = 3600
"""How long a late link stays after the last append, where the system does not tell who has a file open."""


def recover(session: OpenSession, files: Beside, lengths: Lengths) -> int:
    """Bring a session and what lies beside it to the state of the last commit; return the bytes carried over.

    First in every writing run, before the session is read. Where nothing is left over, nothing is written. If lines
    were carried over, `session` is the new file afterwards. Raises Damaged if a file beside has lost bytes, its
    journal, or the record of a run that the session needs; InUse if the session cannot be replaced now; FileFailed.
    """
    check(session, files, lengths)
    with failing(session.path):
        _cut_back(files, lengths)
        _forget_stale_states(session, files.work)
        for path in stale_drafts(files.work, session.path):
            durable.remove(path)
        carried = sum(_carry_over(session, files.work, inode) for inode in late_links(files.work, session.path))
        forget_note(files)
        tidy(files.work)
    return carried


def check(session: OpenSession, files: Beside, lengths: Lengths) -> None:
    """Raise what recover() raises of what lies beside a session, for commands that change nothing."""
    with failing(session.path):
        refuse_linked_folder(files.work)
        refuse_linked(files.originals)
        refuse_if_needed(session, files, lengths)


def removable(session: OpenSession, files: Beside) -> list[Path]:
    """Return the temp files and late links that recover() would remove now, for commands that change nothing."""
    found = stale_drafts(files.work, session.path)
    with failing(session.path):
        for inode, states in late_links(files.work, session.path).items():
            keeps = None if inode == session.stat.st_ino else _kept_state(session, files.work, states)
            found += [state.path(files.work, session.path) for state in states if state != keeps]
    return found


def _kept_state(session: OpenSession, work: Path, states: list[Late]) -> Late | None:
    """Return the one of a replaced file's links that stays, None where it has done its duty."""
    late = open_file(states[0].path(work, session.path))
    try:
        holds = holding_state(states, session.stat.st_ino)
        return None if _is_done(late, held(late), holds) else holds
    finally:
        os.close(late)


def forget(session: OpenSession, files: Beside) -> None:
    """Remove everything beside a session, after recover(); late links that may still be needed stay.

    The journal is cut to a stub first and removed last, so that a crash in between is tidied up by the next run.
    """
    with failing(session.path):
        _refuse_unless_removable(files)
        if (size_of(files.journal) or 0) > FORGOTTEN:
            _shorten(files.journal, FORGOTTEN)
        for path in (files.originals, files.journal, files.missing):
            durable.remove(path)
        if files.folder.is_dir():
            # What was a secret must not come back when the power fails.
            durable.flush_folder(files.folder)
        tidy(files.work)


def _refuse_unless_removable(files: Beside) -> None:
    """A journal that was cut, beside originals that cannot be removed, would help nobody."""
    if files.folder.is_dir() and not os.access(files.folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), files.folder)


def _cut_back(files: Beside, lengths: Lengths) -> None:
    for path, committed in ((files.originals, lengths.originals), (files.journal, lengths.journal)):
        size = size_of(path)
        if size is not None and committed == 0:
            durable.remove(path)
        elif size is not None and size > committed:
            _shorten(path, committed)


def _shorten(path: Path, length: int) -> None:
    fd = durable.open_existing(path)
    try:
        durable.cut(fd, length)
        durable.flush(fd)
    finally:
        os.close(fd)


def _forget_stale_states(session: OpenSession, work: Path) -> None:
    """Remove the links that a killed swap named for nothing, and links to the session itself.

    Before any temp file is removed: until then no other file can have the inode number of a successor that was not
    put in place.
    """
    for inode, states in late_links(work, session.path).items():
        if inode == session.stat.st_ino:
            # Killed before the swap, or after the old file was put back.
            forget_links(session, work, inode)
        elif len(states) > 1:
            forget_links(session, work, inode, but=holding_state(states, session.stat.st_ino))


def _carry_over(session: OpenSession, work: Path, inode: int) -> int:
    """Bring the tail of one late link into the session, and remove the link if it has done its duty."""
    links = late_links(work, session.path).get(inode, [])
    if not links:
        return 0
    late = open_file(links[0].path(work, session.path))
    try:
        # Asked before the size is looked at: an answer NO means that nothing will come any more.
        holding = held(late)
        state = state_of(session, work, late)
        tail = missing(session, state, late, whole_lines=holding is not Held.NO)
        if tail:
            drain(session, work, carry(session, work, tail))
        if _is_done(late, holding, state):
            forget_links(session, work, inode)
        return tail.end - tail.start
    finally:
        os.close(late)


def _is_done(late: int, holding: Held, state: Late) -> bool:
    """Say whether nothing can come late any more: nobody has the file open, or it has been quiet for long."""
    quiet = time.time() - max(os.fstat(late).st_mtime, state.since)
    return holding is Held.NO or (holding is Held.UNKNOWN and quiet > LINK_SECONDS)
