"""After a swap: bring what was still appended to the old file into the new one, or put the old one back."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from sessioncompress.store import durable
from sessioncompress.store.draft import Draft
from sessioncompress.store.holders import Held, wait_until_free
from sessioncompress.store.late import Late, current, late_links
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.swap import forget_links, link, put_in_place
from sessioncompress.store.tail import Tail, ends_line, missing, write_with_tail

HOLD_SECONDS = 0.25
"""How long a program may have a file open for an append; one that has it longer keeps it open."""
UNSEEN_SECONDS = 0.01
"""How long to wait for a last append where the system does not tell who has a file open."""
_ROUNDS = 20
_GROWTHS = 1


def settle(session: OpenSession, work: Path, old: int) -> None:
    """Drain the file that was just replaced (a descriptor), and those that are replaced by doing so.

    A file that nobody can write to any more loses its link. If someone keeps the old file open, or it keeps
    growing, it is put back and InUse is raised. What cannot be known or done now waits in its link for the next run.
    """
    waiting = [old]
    growths = 0
    for _ in range(_ROUNDS):
        if not waiting:
            return
        file = waiting[0]
        holding = wait_until_free(file, HOLD_SECONDS)
        if holding is Held.UNKNOWN:
            time.sleep(UNSEEN_SECONDS)
        if holding is Held.YES or growths > _GROWTHS:
            if file == old:
                in_use = session.in_use("a program keeps writing to it", fd=old)
                put_back(session, work, old)
                raise in_use
            return
        # Looked for only now: if nobody has it open any more, this is all that will ever come.
        tail = missing(session, state_of(session, work, file), file, whole_lines=holding is Held.UNKNOWN)
        if not tail:
            if holding is Held.NO:
                forget_links(session, work, os.fstat(file).st_ino)
            waiting.pop(0)
        elif wait_until_free(session.fd, HOLD_SECONDS) is Held.YES:
            return
        else:
            growths += holding is Held.UNKNOWN
            waiting.append(carry(session, work, tail))


def carry(session: OpenSession, work: Path, tail: Tail) -> int:
    """Replace the session by one that has the tail as well; return the descriptor of the file replaced by that."""
    late = os.fstat(tail.fd)
    draft = Draft(work, session.path)
    try:
        behind = write_with_tail(draft, session, tail)
        draft.check()
        states = _moved(session, work, tail.at, behind - tail.at)
        states[late.st_ino] = replace(states[late.st_ino], drained=tail.end, base=behind)
        return put_in_place(session, draft, work, states=states, newest=late.st_mtime_ns)
    finally:
        draft.discard()


def put_back(session: OpenSession, work: Path, old: int) -> None:
    """Put an old file (a descriptor) back over the session; lines that reached the new one go to its end.

    The new file keeps a late link until it is certain that nobody appends to it any more.
    """
    new, found = session.fd, os.fstat(old)
    links = late_links(work, session.path)[found.st_ino]
    reached = missing(session, state_of(session, work, old), old, whole_lines=False).at
    back = Late(session.stat.st_ino, int(time.time()), drained=reached, base=found.st_size, successor=found.st_ino)
    link(session.path, back.path(work, session.path))
    if back.path(work, session.path).lstat().st_ino != os.fstat(new).st_ino:
        # Another program has put its own file there: that one stays, and the old file keeps its link.
        durable.remove(back.path(work, session.path))
        return
    durable.flush_folder(work)
    durable.replace(links[0].path(work, session.path), session.path)
    durable.flush_folder(session.path.parent)
    session.adopt(os.dup(old))
    forget_links(session, work, found.st_ino)
    _bring_back(session, work, new, back)


def state_of(session: OpenSession, work: Path, late: int) -> Late:
    """Return the state of a late link by a descriptor of its file."""
    states = late_links(work, session.path)[os.fstat(late).st_ino]
    return current(states, session.stat.st_ino, session.size)


def _moved(session: OpenSession, work: Path, at: int, size: int) -> dict[int, Late]:
    """Return the states of all late links after the session got `size` bytes more at one place."""
    inode = session.stat.st_ino
    states = {
        number: current(found, inode, session.size)
        for number, found in late_links(work, session.path).items()
        if number != inode
    }
    return {
        number: state if state.base < at else replace(state, base=state.base + size) for number, state in states.items()
    }


def _bring_back(session: OpenSession, work: Path, new: int, back: Late) -> None:
    """Append to the session, in place since its writer goes on, the lines that reached the file `new`."""
    holding = wait_until_free(new, HOLD_SECONDS)
    tail = missing(session, back, new, whole_lines=holding is not Held.NO)
    if tail and ends_line(session):
        data = os.pread(tail.fd, tail.end - tail.start, tail.start)
        fd = durable.open_existing(session.path, append=True)
        try:
            durable.write_all(fd, data)
            durable.flush(fd)
            behind = os.lseek(fd, 0, os.SEEK_CUR)
        finally:
            os.close(fd)
        done = replace(back, drained=tail.end, base=behind)
        link(back.path(work, session.path), done.path(work, session.path))
        durable.remove(back.path(work, session.path))
    elif tail:
        return
    if holding is Held.NO:
        forget_links(session, work, os.fstat(new).st_ino)
