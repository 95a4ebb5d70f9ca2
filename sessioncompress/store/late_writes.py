"""After a swap: bring what was still appended to the old file into the new one, or put the old one back."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from sessioncompress.store import disk
from sessioncompress.store.late_links import NO_DRAFT, LateLink, current_state, late_links, now
from sessioncompress.store.lock import Held, OpenSession, wait_until_free
from sessioncompress.store.swap import (
    Draft,
    Replaced,
    Tail,
    begins_line,
    exchange,
    is_rewritten,
    late_tail,
    link,
    name_links,
    put_in_place,
    remove_links,
    states_at_the_end,
    write_with_tail,
)

HOLD_SECONDS = 0.25
"""How long a program may have a file open for an append; one that has it longer keeps it open."""
UNSEEN_SECONDS = 0.01
"""How long to wait for a last append where the system does not tell who has a file open."""
_ROUNDS = 20


def drain(session: OpenSession, work: Path, old: Replaced, links: Sequence[LateLink] = ()) -> None:
    """Bring what was still appended to a replaced file, and to those that this replaces, to the session.

    A file that nobody can write to any more loses its link. What cannot be known or done now stays in its link for
    the next run. `links` are the old file's, where they are known.
    """
    waiting = [old]
    for _ in range(_ROUNDS):
        if not waiting:
            return
        holding = wait_until_free(waiting[0].fd, HOLD_SECONDS)
        if holding is Held.UNKNOWN:
            time.sleep(UNSEEN_SECONDS)
        # Looked for only now: if nobody has it open any more, this is all that will ever come.
        known, links = links or late_links(work, session.path)[os.fstat(waiting[0].fd).st_ino], ()
        state = current_state(known, session.stat.st_ino, session.size)
        if is_rewritten(session, state, waiting[0]):
            return
        tail = late_tail(session, state, waiting[0].fd, whole_lines=holding is not Held.NO)
        if not tail:
            if holding is Held.NO:
                remove_links(session, work, known)
            waiting.pop(0)
        elif wait_until_free(session.fd, HOLD_SECONDS) is Held.YES:
            return
        else:
            waiting.append(carry_over(session, work, tail))


def carry_over(session: OpenSession, work: Path, tail: Tail) -> Replaced:
    """Replace the session by one that has the tail as well; return the file replaced by that."""
    late = os.fstat(tail.fd)
    draft = Draft(work, session.path)
    try:
        behind = write_with_tail(draft, session, tail)
        draft.check()
        states = {}
        for inode, links in late_links(work, session.path).items():
            if inode != session.stat.st_ino:
                # Behind the tail, the session got longer.
                state = current_state(links, session.stat.st_ino, session.size)
                moved = 0 if state.base < tail.at else behind - tail.at
                states[inode] = state._replace(base=state.base + moved)
        states[late.st_ino] = states[late.st_ino].moved(tail.fd, tail.end, behind)
        return put_in_place(session, draft, work, states=states, newest=late.st_mtime_ns)
    finally:
        draft.discard()


def put_back(session: OpenSession, work: Path, old: int, *, rewritten: bool = False) -> None:
    """Put the file that was just replaced (a descriptor) back; lines that reached the new one go to its end.

    The new file keeps a late link until it is certain that nobody appends to it any more. To a file that was
    `rewritten` nothing comes that the new one took from it before.
    """
    new, found = session.fd, os.fstat(old)
    before = late_links(work, session.path)
    links = before[found.st_ino]
    reached = session.size
    if not rewritten:
        reached = late_tail(session, state_of(session, work, old), old, whole_lines=False).at
    states = states_at_the_end(session, work, found.st_size, before)
    del states[found.st_ino]
    states = {number: state._replace(successor=found.st_ino) for number, state in states.items()}
    inode = session.stat.st_ino
    back = LateLink(inode, now(), reached, found.st_size, found.st_ino, NO_DRAFT, session.prefix(reached))
    states[inode] = back
    # If another program has put its own file there, that one stays, and the old file keeps its link.
    name_links(session, work, states, before)
    exchange(session, links[0].path(work, session.path), (found.st_ino, inode))
    disk.flush_folder(session.path.parent)
    session.adopt(os.dup(old))
    disk.remove(links[0].path(work, session.path))
    remove_links(session, work, late_links(work, session.path).get(found.st_ino, []))
    for number, state in states.items():
        remove_links(session, work, before.get(number, []), but=state)
    _bring_back(session, work, new, back)


def is_kept_open(old: int) -> bool:
    """Say whether someone keeps a file open to write; where the system does not tell, whether it grows and grows."""
    holding = wait_until_free(old, HOLD_SECONDS)
    if holding is not Held.UNKNOWN:
        return holding is Held.YES
    sizes = []
    for _ in range(3):
        sizes.append(os.fstat(old).st_size)
        time.sleep(UNSEEN_SECONDS)
    return sizes[0] < sizes[1] < sizes[2]


def state_of(session: OpenSession, work: Path, late: int) -> LateLink:
    """Return the state of a late link by a descriptor of its file."""
    links = late_links(work, session.path)[os.fstat(late).st_ino]
    return current_state(links, session.stat.st_ino, session.size)


def _bring_back(session: OpenSession, work: Path, new: int, back: LateLink) -> None:
    """Append to the session, in place since its writer goes on, the lines that reached the file `new`."""
    holding = wait_until_free(new, HOLD_SECONDS)
    if is_rewritten(session, back, Replaced(new)):
        return
    tail = late_tail(session, back, new, whole_lines=holding is not Held.NO)
    if tail and begins_line(session.fd, os.fstat(session.fd).st_size):
        data = os.pread(tail.fd, tail.end - tail.start, tail.start)
        fd = disk.open_existing(session.path, append=True)
        try:
            disk.write_all(fd, data)
            disk.flush(fd)
            behind = os.lseek(fd, 0, os.SEEK_CUR)
        finally:
            os.close(fd)
        done = back.moved(new, tail.end, behind)
        link(back.path(work, session.path), done.path(work, session.path))
        disk.remove(back.path(work, session.path))
    elif tail:
        return
    if holding is Held.NO:
        remove_links(session, work, late_links(work, session.path).get(os.fstat(new).st_ino, []))
