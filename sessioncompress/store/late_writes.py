"""After a swap: bring what was still appended to the old file into the new one, or put the old one back."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from sessioncompress.store import disk
from sessioncompress.store.late_links import NO_DRAFT, Late, current, late_links, now
from sessioncompress.store.lock import Held, OpenSession, wait_until_free
from sessioncompress.store.swap import (
    Draft,
    Replaced,
    Tail,
    ends_line,
    exchange,
    forget_links,
    forget_other_links,
    is_rewritten,
    link,
    missing,
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


def settle(session: OpenSession, work: Path, old: Replaced) -> None:
    """After a commit: drain the file that was replaced, or put it back and raise InUse.

    It is put back if someone keeps it open to write, or it keeps growing, or was changed otherwise than by appending:
    only now, before anything was drained, does the new file differ from it by the rewrite and what was appended, and
    by nothing else.
    """
    kept_open = _is_kept_open(old.fd)
    links = _links_of(session, work, old.fd)
    rewritten = is_rewritten(session, _current(session, links), old)
    if kept_open or rewritten:
        what = "a program keeps writing to it" if kept_open else "another program has rewritten it"
        in_use = session.in_use(what, fd=old.fd)
        put_back(session, work, old.fd, rewritten=rewritten)
        raise in_use
    drain(session, work, old, links)


def drain(session: OpenSession, work: Path, old: Replaced, links: Sequence[Late] = ()) -> None:
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
        known, links = links or _links_of(session, work, waiting[0].fd), ()
        state = _current(session, known)
        if is_rewritten(session, state, waiting[0]):
            return
        tail = missing(session, state, waiting[0].fd, whole_lines=holding is not Held.NO)
        if not tail:
            if holding is Held.NO:
                remove_links(session, work, known)
            waiting.pop(0)
        elif wait_until_free(session.fd, HOLD_SECONDS) is Held.YES:
            return
        else:
            waiting.append(carry(session, work, tail))


def carry(session: OpenSession, work: Path, tail: Tail) -> Replaced:
    """Replace the session by one that has the tail as well; return the file replaced by that."""
    late = os.fstat(tail.fd)
    draft = Draft(work, session.path)
    try:
        behind = write_with_tail(draft, session, tail)
        draft.check()
        states = _moved(session, work, tail.at, behind - tail.at)
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
        reached = missing(session, state_of(session, work, old), old, whole_lines=False).at
    states = states_at_the_end(session, work, found.st_size, before)
    del states[found.st_ino]
    states = {inode: state._replace(successor=found.st_ino) for inode, state in states.items()}
    inode, prefix = session.stat.st_ino, session.prefix(reached)
    back = Late(inode, now(), reached, found.st_size, found.st_ino, NO_DRAFT, prefix)
    states[inode] = back
    # If another program has put its own file there, that one stays, and the old file keeps its link.
    name_links(session, work, states, before)
    exchange(session, links[0].path(work, session.path), (found.st_ino, inode))
    disk.flush_folder(session.path.parent)
    session.adopt(os.dup(old))
    disk.remove(links[0].path(work, session.path))
    forget_links(session, work, found.st_ino)
    forget_other_links(session, work, states, before)
    _bring_back(session, work, new, back)


def _is_kept_open(old: int) -> bool:
    """Say whether someone keeps a file open to write; where the system does not tell, whether it grows and grows."""
    holding = wait_until_free(old, HOLD_SECONDS)
    if holding is not Held.UNKNOWN:
        return holding is Held.YES
    sizes = []
    for _ in range(3):
        sizes.append(os.fstat(old).st_size)
        time.sleep(UNSEEN_SECONDS)
    return sizes[0] < sizes[1] < sizes[2]


def state_of(session: OpenSession, work: Path, late: int) -> Late:
    """Return the state of a late link by a descriptor of its file."""
    return _current(session, _links_of(session, work, late))


def _current(session: OpenSession, links: Sequence[Late]) -> Late:
    return current(links, session.stat.st_ino, session.size)


def _links_of(session: OpenSession, work: Path, late: int) -> list[Late]:
    return late_links(work, session.path)[os.fstat(late).st_ino]


def _moved(session: OpenSession, work: Path, at: int, size: int) -> dict[int, Late]:
    """Return the states of all late links after the session got `size` bytes more at one place."""
    inode = session.stat.st_ino
    states = {
        number: current(found, inode, session.size)
        for number, found in late_links(work, session.path).items()
        if number != inode
    }
    return {
        number: state if state.base < at else state._replace(base=state.base + size) for number, state in states.items()
    }


def _bring_back(session: OpenSession, work: Path, new: int, back: Late) -> None:
    """Append to the session, in place since its writer goes on, the lines that reached the file `new`."""
    holding = wait_until_free(new, HOLD_SECONDS)
    if is_rewritten(session, back, Replaced(new)):
        return
    tail = missing(session, back, new, whole_lines=holding is not Held.NO)
    if tail and ends_line(session):
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
        forget_links(session, work, os.fstat(new).st_ino)
