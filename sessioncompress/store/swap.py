"""Put a new file in a session's place and keep the old one under a second name: a program may still append to it.

What it appends is brought into the new file, or the old one is put back.
"""

from __future__ import annotations

import errno
import os
import time
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from xxhash import xxh3_128

from sessioncompress.core import jsonl
from sessioncompress.errors import NOT_CHANGED, FileFailed, InUse, Unsupported
from sessioncompress.store import disk
from sessioncompress.store.folder import create_in_folder
from sessioncompress.store.late_links import NO_DRAFT, LateLink, current_state, now, prefix_of
from sessioncompress.store.layout import FOLDER, status_of
from sessioncompress.store.lock import Held, OpenSession, lock, open_file, wait_until_free

_HELD = 4 * disk.BUFFER
"""Bytes that wait in memory until the run is known to pay: most sessions are smaller."""


class Draft:
    """A new file for a session; on disk from 4 MiB, or the first check, on. `size` counts what was written.

    `fd` is the file's descriptor and `inode` its number, from when it is on disk. Methods raise OSError as the system
    does.
    """

    def __init__(self, session: Path) -> None:
        self.ending = os.urandom(4).hex()
        self.path = session.parent / FOLDER / f"{session.name}.temp-{self.ending}"
        self.size = 0
        self.inode = 0
        self.fd = -1
        self.digest = ""
        """The XXH3-128, in hex, of what the first check found."""
        self._checked = 0
        self._hash = xxh3_128()
        self._pending: list[bytes] = []
        self._pending_size = 0

    def write(self, data: bytes) -> None:
        """Add the next bytes."""
        self._pending.append(data)
        self._pending_size += len(data)
        self.size += len(data)
        if self._pending_size >= (_HELD if self.fd < 0 else disk.BUFFER):
            self._write_pending()

    def check(self) -> None:
        """Write out and read back all that came since the last check: a disk may take less than it was given."""
        self._write_pending()
        found = disk.digest(self.fd, self._checked, self.size)
        if os.fstat(self.fd).st_size != self.size or found != self._hash.digest():
            what = "what was written there does not read back the same"
            raise FileFailed(what, where=self.path, state=NOT_CHANGED, remedy="Check the disk.")
        self.digest = self.digest or found.hex()
        self._checked = self.size
        self._hash.reset()

    def is_in_place(self) -> bool:
        """Tell whether the file is in the session's place: after an interrupt only the disk knows."""
        found = status_of(self.path)
        return self.inode != 0 and (found is None or found.st_ino != self.inode)

    def discard(self) -> None:
        """Close the file, and remove what still has its temporary name.

        That is the draft itself or the file that it replaced, which has a late link too. A file with this name alone
        is one that another program put in the session's place just then.
        """
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        found = status_of(self.path)
        if found is not None and (found.st_ino == self.inode or found.st_nlink > 1):
            disk.remove(self.path)

    def _write_pending(self) -> None:
        if self.fd < 0:
            self.fd = create_in_folder(self.path, exclusive=True)
            self.inode = os.fstat(self.fd).st_ino
        data = b"".join(self._pending)
        self._pending.clear()
        self._pending_size = 0
        self._hash.update(data)
        disk.write_all(self.fd, data)


class Replaced(NamedTuple):
    """The descriptor of a file that was replaced, and its status when it was last read whole.

    The run that replaced it took exactly `taken` bytes of it into the session; None if that was another run.
    """

    fd: int
    seen: os.stat_result | None = None
    taken: int | None = None


class Tail(NamedTuple):
    """Bytes `start` to `end` of the file with the descriptor `fd`, which belong into the session at byte `at`."""

    fd: int
    start: int
    end: int
    at: int

    def __bool__(self) -> bool:
        return self.end > self.start


def is_rewritten(session: OpenSession, state: LateLink, replaced: Replaced) -> bool:
    """Tell whether a replaced file was changed otherwise than by lines appended: then none of it is carried over."""
    found = os.fstat(replaced.fd)
    if replaced.seen and (found.st_size, found.st_mtime_ns) == (replaced.seen.st_size, replaced.seen.st_mtime_ns):
        return False
    if found.st_size < state.drained or prefix_of(replaced.fd, state.drained) != state.prefix:
        return True
    return found.st_size > state.drained and session.is_document()


def late_tail(session: OpenSession, state: LateLink, fd: int, *, whole_lines: bool, taken: int | None = None) -> Tail:
    """Find the bytes that came late to a replaced file and are not in the session yet.

    Only lines were appended to the file, see is_rewritten(). `whole_lines` leaves out a last line that may not be
    complete, unless its rest is in the session.
    """
    start, end = state.drained, max(os.fstat(fd).st_size, state.drained)
    common = _common(session, state, fd, end) if taken is None else max(taken - start, 0)
    at = state.base + common
    # The rest of a line that is in the session already can only come there.
    if whole_lines and (session.size <= at or _is_line_at(session, at)):
        end = max(_last_line_end(fd, start, end), start + common)
    return Tail(fd, start + common, end, at)


def _common(session: OpenSession, state: LateLink, fd: int, end: int) -> int:
    """Count the late bytes that a run took after it had named the link, and was killed before it told.

    What the session has at that place counts: all that either has, or whole lines.
    """
    start, common = state.drained, 0
    while True:
        ours = os.pread(fd, min(disk.BUFFER, end - start - common), start + common)
        theirs = os.pread(session.fd, min(len(ours), session.size - state.base - common), state.base + common)
        if not ours or not theirs:
            return common
        if not ours.startswith(theirs):
            common += next(index for index, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other)
            return _last_line_end(fd, start, start + common) - start
        common += len(theirs)


def write_with_tail(draft: Draft, session: OpenSession, tail: Tail) -> int:
    """Write the session with the tail in its place; return the place behind the tail.

    Where the agent's own writes left a line without its end, a line break keeps two lines from becoming one. A line
    that a program wrote in two pieces, one before the swap and one after it, becomes one again.
    """
    with session.reader() as file:
        _copy(draft, file, tail.at)
        if _begins_line(tail.fd, tail.start) and not _begins_line(session.fd, tail.at):
            draft.write(b"\n")
        with disk.reader(tail.fd, tail.start, tail.end) as late:
            _copy(draft, late, tail.end - tail.start)
        if not _begins_line(tail.fd, tail.end) and _is_line_at(session, tail.at):
            draft.write(b"\n")
        behind = draft.size
        _copy(draft, file, session.size - tail.at)
    return behind


def _copy(draft: Draft, file: BinaryIO, size: int) -> None:
    while size and (piece := file.read(min(size, disk.BUFFER))):
        draft.write(piece)
        size -= len(piece)


def _begins_line(fd: int, position: int) -> bool:
    return position == 0 or os.pread(fd, 1, position - 1) == b"\n"


def _is_line_at(session: OpenSession, position: int) -> bool:
    with session.reader(position) as file:
        return jsonl.parse(file.readline()) is not None


def _last_line_end(fd: int, start: int, end: int) -> int:
    while end > start:
        begin = max(start, end - disk.BUFFER)
        found = os.pread(fd, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return start


def put_in_place(
    session: OpenSession, draft: Draft, *, states: dict[int, LateLink] | None = None, newest: int = 0
) -> Replaced:
    """Put a checked draft in the session's place; return the old file, whose descriptor the session keeps.

    Bytes appended since the session was opened go to the draft's end. `states` are those of earlier late links, by
    inode number, with the draft in place; without them what comes late there goes to its end. `newest`
    (nanoseconds) is a time of change that the new file is to have at least. Raises InUse if the session was changed
    otherwise; then, and with every OSError before the swap, it is not changed.
    """
    old, inode = Replaced(session.fd, session.stat), session.stat.st_ino
    taken = _take_appended(session, draft, session.size, session.size + session.appended())
    before = session.left_over.late
    states = states or _states_at_the_end(session, draft.size)
    states[inode] = LateLink(inode, now(), taken, draft.size, 0, draft.ending, session.prefix(taken))
    states = {number: state._replace(successor=draft.inode) for number, state in states.items()}
    new = open_file(draft.path)
    # So no other run of ours starts on the new session before this one is done with it.
    if not lock(new):
        os.close(new)
        raise InUse("another program has locked it", where=draft.path, state=NOT_CHANGED)
    try:
        with session.pointers.moving(draft.fd):
            # Named before the last look at the session, so that hardly any time is left between that and the swap.
            # What is taken in between is found in its place by whoever drains the link.
            _name_links(session, states)
            # What comes after the last try is drained after the swap.
            for _ in range(3):
                taken = _take_appended(session, draft, taken, session.size + session.appended())
                disk.copy_metadata(session.fd, draft.fd, newest=newest)
                disk.system.fsync(draft.fd)
                if session.size + session.appended() == taken:
                    break
            else:
                # With someone who appends all the time, the last bytes are taken without a flush: nor has their writer
                # flushed them, and each millisecond more before the swap is a line more to drain after it.
                taken = _take_appended(session, draft, taken, os.fstat(session.fd).st_size)
            _exchange(session, draft.path, (draft.inode, inode))
    except BaseException:
        # Only the disk tells whether an interrupt came before or after the swap.
        if draft.is_in_place():
            session.adopt(new)
        else:
            os.close(new)
            session.left_over.drop(states.values())
        raise
    session.adopt(new)
    draft.discard()
    disk.flush_folder(session.path.parent)
    session.left_over.drop(chain.from_iterable(before.values()))
    return old._replace(taken=taken)


def _take_appended(session: OpenSession, draft: Draft, taken: int, end: int) -> int:
    if end > taken:
        with disk.reader(session.fd, taken, end) as file:
            _copy(draft, file, end - taken)
        draft.check()
    return end


def _exchange(session: OpenSession, source: Path, inodes: tuple[int, int]) -> None:
    """Put the file at `source` in the session's place; `inodes` are its own and that of the file that is there.

    Another program may put a file of its own there at the last moment. So the two files change places, and what came
    out is looked at: a file that nobody expected goes back, and InUse is raised. `source` is then what it was, or what
    that program has itself replaced since. Where the file system knows no exchange, `source` is gone afterwards, and
    such a file with it.
    """
    inside, expected = inodes
    while True:
        try:
            disk.system.exchange(source, session.path)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
                raise
            disk.system.replace(source, session.path)
            return
        if (found := source.lstat().st_ino) != expected:
            inside, expected = found, inside
        elif inside == inodes[0]:
            return
        else:
            raise session.in_use("another program has replaced or deleted it")


def link(path: Path, name: Path) -> None:
    """Make a hard link, or raise Unsupported where there are none: without them an appended line could get lost."""
    try:
        disk.system.link(path, name, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV):
            raise
        what = "hard links are not possible here, and without one we could lose lines appended in the meantime"
        raise Unsupported(what, where=path, state=NOT_CHANGED) from error


def _name_links(session: OpenSession, states: dict[int, LateLink]) -> None:
    """Name the new states of the session's file and of those that have late links.

    Raises InUse if the file at the path is another one by then.
    """
    before = session.left_over.late
    for inode, state in states.items():
        there = before[inode][0].path(session.path) if inode in before else session.path
        name = session.left_over.name(state)
        link(there, name)
        if name.lstat().st_ino != inode:
            session.left_over.drop([state])
            raise session.in_use("another program has replaced or deleted it")
    session.was_linked()
    disk.flush_folder(session.path.parent / FOLDER)


def _states_at_the_end(session: OpenSession, end: int) -> dict[int, LateLink]:
    """Make states of earlier late links by which what comes late there goes to the end of a file of that size.

    What of it the session has already is looked up now, since that file's bytes do not tell it.
    """
    states = {}
    for inode, found in session.left_over.late.items():
        if inode != session.stat.st_ino:
            with disk.closing(open_file(found[0].path(session.path))) as file:
                state = current_state(found, session.stat.st_ino, session.size)
                drained = late_tail(session, state, file, whole_lines=False).start
                states[inode] = state.moved(file, drained, end)
    return states


HOLD_SECONDS = 0.25
"""How long a program may have a file open for an append; one that has it longer keeps it open."""
_UNSEEN_SECONDS = 0.01
"""How long to wait for a last append where the system does not tell who has a file open."""


LINK_SECONDS = 3600
"""How long a late link stays after the last append, where the system does not tell who has a file open."""


def drain(session: OpenSession, old: Replaced) -> int:
    """Bring what was still appended to a replaced file, and to those that this replaces, to the session.

    A file that nobody can write to any more loses its link. What cannot be known or done now stays in its link for
    the next run. Return how many bytes were brought.
    """
    waiting, carried = [old], 0
    # A writer that never ends must not keep us here.
    for _ in range(20):
        if not waiting:
            break
        holding = wait_until_free(waiting[0].fd, HOLD_SECONDS)
        if holding is Held.UNKNOWN:
            time.sleep(_UNSEEN_SECONDS)
        state = state_of(session, waiting[0].fd)
        if is_rewritten(session, state, waiting[0]):
            break
        # Looked for only now: if nobody has it open any more, this is all that will ever come.
        done = is_done(waiting[0].fd, holding, state)
        tail = late_tail(session, state, waiting[0].fd, whole_lines=not done, taken=waiting[0].taken)
        if not tail:
            if done:
                session.left_over.drop(session.left_over.late[state.inode])
            waiting.pop(0)
        elif wait_until_free(session.fd, HOLD_SECONDS) is Held.YES:
            break
        else:
            waiting.append(_carry_over(session, tail))
            carried += tail.end - tail.start
    return carried


def is_done(old: int, holding: Held, state: LateLink) -> bool:
    """Tell whether nothing can come late any more: nobody has the file open, or it has been quiet for long."""
    quiet = time.time() - max(os.fstat(old).st_mtime, state.since)
    return holding is Held.NO or (holding is Held.UNKNOWN and quiet > LINK_SECONDS)


def _carry_over(session: OpenSession, tail: Tail) -> Replaced:
    """Replace the session by one that has the tail as well; return the file replaced by that."""
    late = os.fstat(tail.fd)
    draft = Draft(session.path)
    try:
        behind = write_with_tail(draft, session, tail)
        draft.check()
        states = {}
        for inode, links in session.left_over.late.items():
            if inode != session.stat.st_ino:
                # Behind the tail, the session got longer.
                state = current_state(links, session.stat.st_ino, session.size)
                moved = 0 if state.base < tail.at else behind - tail.at
                states[inode] = state._replace(base=state.base + moved)
        states[late.st_ino] = states[late.st_ino].moved(tail.fd, tail.end, behind)
        return put_in_place(session, draft, states=states, newest=late.st_mtime_ns)
    finally:
        draft.discard()


def put_back(session: OpenSession, replaced: Replaced, *, rewritten: bool = False) -> None:
    """Put the file that was just replaced back; lines that reached the new one go to its end.

    The new file keeps a late link until it is certain that nobody appends to it any more. To a file that was
    `rewritten` nothing comes that the new one took from it before.
    """
    new, old = session.fd, replaced.fd
    found = os.fstat(old)
    before = session.left_over.late
    links = before[found.st_ino]
    reached = session.size
    if not rewritten:
        state = state_of(session, old)
        reached = late_tail(session, state, old, whole_lines=False, taken=replaced.taken).at
    states = _states_at_the_end(session, found.st_size)
    del states[found.st_ino]
    states = {number: state._replace(successor=found.st_ino) for number, state in states.items()}
    inode = session.stat.st_ino
    back = states[inode] = LateLink(
        inode, now(), reached, found.st_size, found.st_ino, NO_DRAFT, session.prefix(reached)
    )
    # If another program has put its own file there, that one stays, and the old file keeps its link.
    _name_links(session, states)
    with session.pointers.moving(old):
        _exchange(session, links[0].path(session.path), (found.st_ino, inode))
    disk.flush_folder(session.path.parent)
    session.adopt(os.dup(old))
    session.left_over.drop(chain.from_iterable(before.values()))

    # The lines that reached the new file are appended in place, since the session's writer goes on.
    holding = wait_until_free(new, HOLD_SECONDS)
    if is_rewritten(session, back, Replaced(new)):
        return
    if tail := late_tail(session, back, new, whole_lines=False):
        # A half line waits for the next run, which brings it to its place and not to the end.
        if not (_begins_line(session.fd, os.fstat(session.fd).st_size) and _begins_line(new, tail.end)):
            return
        with disk.closing(disk.open_existing(session.path, append=True)) as fd:
            disk.write_all(fd, os.pread(tail.fd, tail.end - tail.start, tail.start))
            disk.system.fsync(fd)
            behind = os.lseek(fd, 0, os.SEEK_CUR)
        link(back.path(session.path), session.left_over.name(back.moved(new, tail.end, behind)))
        session.left_over.drop([back])
    if holding is Held.NO:
        session.left_over.drop(session.left_over.late.get(inode, ()))


def is_kept_open(old: int) -> bool:
    """Tell whether someone keeps a file open to write; where the system does not tell, whether it grows and grows."""
    holding = wait_until_free(old, HOLD_SECONDS)
    if holding is not Held.UNKNOWN:
        return holding is Held.YES
    sizes = []
    for _ in range(3):
        sizes.append(os.fstat(old).st_size)
        time.sleep(_UNSEEN_SECONDS)
    return sizes[0] < sizes[1] < sizes[2]


def state_of(session: OpenSession, late: int) -> LateLink:
    """Look up the state of a late link by a descriptor of its file."""
    links = session.left_over.late[os.fstat(late).st_ino]
    return current_state(links, session.stat.st_ino, session.size)
