"""Put a new file in a session's place, with what was appended meanwhile, and keep the old one under a second name."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from sessioncompress.errors import NOT_CHANGED, Unsupported
from sessioncompress.store import disk, reading
from sessioncompress.store.draft import Draft
from sessioncompress.store.late import Late, current, draft_of, late_links, now
from sessioncompress.store.lock import OpenSession, open_file
from sessioncompress.store.metadata import copy_metadata
from sessioncompress.store.tail import Replaced, missing

_TRIES = 3
"""How often to take and flush what was appended before the swap; what comes later is drained after it."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def put_in_place(
    session: OpenSession, draft: Draft, work: Path, *, states: dict[int, Late] | None = None, newest: int = 0
) -> Replaced:
    """Put a checked draft in the session's place; return the old file, whose descriptor the session keeps.

    Bytes appended since the session was opened go to the draft's end. `states` are those of earlier late links, by
    inode number, with the draft in place; without them what comes late there goes to its end. `newest`
    (nanoseconds) is a time of change that the new file is to have at least. Raises InUse if the session was changed
    otherwise; then, and with every OSError before the swap, it is not changed.
    """
    old, inode = Replaced(session.fd, session.stat), session.stat.st_ino
    taken = _take_appended(session, draft, session.size)
    before = late_links(work, session.path)
    states = states or states_at_the_end(session, work, draft.size, before)
    states[inode] = Late(inode, now(), taken, draft.size, 0, draft_of(draft.path), session.prefix(taken))
    states = {number: state._replace(successor=draft.inode) for number, state in states.items()}
    new = draft.open_locked()
    try:
        # Named before the last look at the session, so that hardly any time is left between that and the swap.
        # What is taken in between is found in its place by whoever drains the link.
        name_links(session, work, states, before)
        _take_the_last(session, draft, taken, newest)
        exchange(session, draft.path, (draft.inode, inode))
    except BaseException:
        # Only the disk tells whether an interrupt came before or after the swap.
        if not draft.is_in_place():
            os.close(new)
            for state in states.values():
                disk.remove(state.path(work, session.path))
            raise
        session.adopt(new)
        raise
    session.adopt(new)
    draft.discard()
    disk.flush_folder(session.path.parent)
    forget_other_links(session, work, states, before)
    return old


def exchange(session: OpenSession, source: Path, inodes: tuple[int, int]) -> None:
    """Put the file at `source` in the session's place; `inodes` are its own and that of the file that is there.

    Between the last look at a path and any call that replaces what lies there, another program may put a file of its
    own there. So the two files change places, and what came out is looked at: a file that nobody expected goes back,
    and InUse is raised. `source` is then what it was, or what that program has itself replaced since. Where the file
    system knows no exchange, `source` is gone afterwards, and such a file with it.
    """
    inside, expected = inodes
    while disk.exchange(source, session.path):
        if (found := source.lstat().st_ino) != expected:
            inside, expected = found, inside
        elif inside == inodes[0]:
            return
        else:
            raise session.in_use("another program has put a new file in its place")
    disk.replace(source, session.path)


def link(path: Path, name: Path) -> None:
    """Make a hard link, or raise Unsupported where there are none: without them an appended line could get lost."""
    try:
        disk.link(path, name)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        what = "no hard link can be made here, which would keep lines that are appended meanwhile"
        raise Unsupported(what, where=path, state=NOT_CHANGED) from error


def name_links(session: OpenSession, work: Path, states: dict[int, Late], before: dict[int, list[Late]]) -> None:
    """Give the file at the session's path, and those that have late links, the names of their new states.

    `before` are the names that they have. Raises InUse if the file at the path is another one by then.
    """
    for inode, state in states.items():
        source = before[inode][0].path(work, session.path) if inode in before else session.path
        link(source, state.path(work, session.path))
        if state.path(work, session.path).lstat().st_ino != inode:
            disk.remove(state.path(work, session.path))
            raise session.in_use("another program has put a new file in its place")
    session.was_linked()
    disk.flush_folder(work)


def forget_links(session: OpenSession, work: Path, inode: int, *, but: Late | None = None) -> None:
    """Remove the late links to a replaced file, all or all but one."""
    remove_links(session, work, late_links(work, session.path).get(inode, []), but=but)


def forget_other_links(
    session: OpenSession, work: Path, states: dict[int, Late], before: dict[int, list[Late]]
) -> None:
    """Remove the names that files had before they got those of these states, by inode number."""
    for inode, state in states.items():
        remove_links(session, work, before.get(inode, []), but=state)


def remove_links(session: OpenSession, work: Path, links: Sequence[Late], *, but: Late | None = None) -> None:
    """Remove late links that were found, all or all but one."""
    for state in links:
        if state != but:
            disk.remove(state.path(work, session.path))


def states_at_the_end(session: OpenSession, work: Path, end: int, before: dict[int, list[Late]]) -> dict[int, Late]:
    """Return the states of earlier late links if what comes late there is to go to the end of a file of that size.

    What of it the session has already is looked up now, since that other file's bytes do not tell it.
    """
    states = {}
    for inode, found in before.items():
        if inode != session.stat.st_ino:
            file = open_file(found[0].path(work, session.path))
            try:
                state = current(found, session.stat.st_ino, session.size)
                drained = missing(session, state, file, whole_lines=False).start
                states[inode] = state.moved(file, drained, end)
            finally:
                os.close(file)
    return states


def _take_the_last(session: OpenSession, draft: Draft, taken: int, newest: int) -> None:
    """Bring bytes and metadata of the session to the draft, and the draft to the disk, until nothing comes any more.

    With someone who appends all the time, the last bytes are taken without a flush: nor has their writer flushed
    them, and each millisecond more before the swap is a line more to drain after it.
    """
    for _ in range(_TRIES):
        taken = _take_appended(session, draft, taken)
        copy_metadata(session.fd, draft.fd, newest=newest)
        disk.flush(draft.fd)
        if session.size + session.appended() == taken:
            return
    _take_until(session, draft, taken, os.fstat(session.fd).st_size)


def _take_appended(session: OpenSession, draft: Draft, taken: int) -> int:
    """Copy what was appended to the session behind its first `taken` bytes; return how many bytes are taken now."""
    return _take_until(session, draft, taken, session.size + session.appended())


def _take_until(session: OpenSession, draft: Draft, taken: int, end: int) -> int:
    if end > taken:
        with reading.reader(session.fd, taken, end) as file:
            while piece := file.read(reading.BUFFER):
                draft.write(piece)
        draft.check()
    return end
