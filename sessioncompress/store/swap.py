"""Put a new file in a session's place and keep the old one under a second name: a program may still append to it.

Lines appended to the old file are brought into the new one, or the old one is put back.
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
from sessioncompress.errors import FileFailed, InUse, Unsupported
from sessioncompress.store import disk
from sessioncompress.store.folder import create_in_folder
from sessioncompress.store.late_links import NO_DRAFT, LateLink, current_state, now, prefix_of
from sessioncompress.store.layout import FOLDER, status_of
from sessioncompress.store.lock import OpenForWriting, OpenSession, lock, open_file, wait_until_free

HELD = 4 * disk.BUFFER
"""Bytes of a file held in memory until the run is known to pay. Most sessions are smaller."""


class Draft:
    """A new file for a session, on disk from 4 MiB or the first check on. `size` counts the bytes written.

    Once it is on disk, `fd` is its descriptor and `inode` its number. Methods raise OSError if a system call fails.
    """

    def __init__(self, session: Path) -> None:
        self.ending = os.urandom(4).hex()
        self.path = session.parent / FOLDER / f"{session.name}.temp-{self.ending}"
        self.size = 0
        self.inode = 0
        self.fd = -1
        self.digest = ""
        """The XXH3-128, in hex, of the file at the first check."""
        self._checked = 0
        self._hash = xxh3_128()
        self._pending: list[bytes] = []
        self._pending_size = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._pending.append(data)
        self._pending_size += len(data)
        self.size += len(data)
        if self._pending_size >= (HELD if self.fd < 0 else disk.BUFFER):
            self._write_pending()

    def check(self) -> None:
        """Write out and read back everything since the last check: a disk may store less than it was given."""
        self._write_pending()
        found = disk.digest(self.fd, self._checked, self.size)
        if os.fstat(self.fd).st_size != self.size or found != self._hash.digest():
            what = "what was written there does not read back the same"
            raise FileFailed(what, where=self.path, remedy="Check the disk.")
        self.digest = self.digest or found.hex()
        self._checked = self.size
        self._hash.reset()

    def is_in_place(self) -> bool:
        """Return True if the file is in the session's place: after an interrupt only the disk knows."""
        found = status_of(self.path)
        return self.inode != 0 and (found is None or found.st_ino != self.inode)

    def discard(self) -> None:
        """Close the file, and remove the one with its temporary name.

        That is the draft itself, or the file that it replaced, which also has a late link. A file with only this name
        is one that another program put in the session's place during the swap; it stays.
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
    """The descriptor of a replaced file, and its status when it was last read completely.

    `taken` is how many of its bytes the run that replaced it took into the session; None if another run did.
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
    """Return True if a replaced file was changed other than by appended lines: then nothing of it is carried over."""
    found = os.fstat(replaced.fd)
    if replaced.seen and (found.st_size, found.st_mtime_ns) == (replaced.seen.st_size, replaced.seen.st_mtime_ns):
        return False
    if found.st_size < state.drained or prefix_of(replaced.fd, state.drained) != state.prefix:
        return True
    return found.st_size > state.drained and session.is_document()


def late_tail(session: OpenSession, state: LateLink, fd: int, *, whole_lines: bool, taken: int | None = None) -> Tail:
    """Find the bytes that arrived late in a replaced file and are not in the session yet.

    Only lines were appended to the file; see is_rewritten(). `whole_lines` leaves out a last line that may not be
    complete, unless its rest is in the session.
    """
    start, end = state.drained, max(os.fstat(fd).st_size, state.drained)
    common = _common(session, state, fd, end) if taken is None else max(taken - start, 0)
    at = state.base + common
    # Unless the session ends or a complete line begins there, it already has the rest of the incomplete line.
    if whole_lines and (session.size <= at or _is_line_at(session, at)):
        end = max(_last_line_end(fd, start, end), start + common)
    return Tail(fd, start + common, end, at)


def _common(session: OpenSession, state: LateLink, fd: int, end: int) -> int:
    """Return the number of late bytes already in the session, from a run killed before it recorded them.

    Compare with the session at that place: count everything if one contains all of the other, otherwise whole lines.
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
    """Write the session with the tail inserted; return the position after the tail.

    If the agent's own write left a line without its end, add a line break so that two lines don't become one. A line
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

    Bytes appended since the session was opened are added to the end of the draft. `states` are the states of earlier
    late links, by inode number, once the draft is in place; without them, late bytes are added at its end. `newest`
    (nanoseconds) is a lower bound for the new file's time of change. Raises InUse if the session was changed in any
    other way. After that, and after any OSError before the swap, the session is unchanged.
    """
    old, inode = Replaced(session.fd, session.stat), session.stat.st_ino
    taken = _take_appended(session, draft, session.size, session.size + session.appended())
    before = session.left_over.late
    states = states or _states_at_the_end(session, draft.size)
    states[inode] = LateLink(inode, now(), taken, draft.size, 0, draft.ending, session.prefix(taken))
    states = {number: state._replace(successor=draft.inode) for number, state in states.items()}
    new = open_file(draft.path)
    # Keep other sessioncompress runs off the new session until this run is done with it.
    if not lock(new):
        os.close(new)
        raise InUse("another program has locked it", where=draft.path)
    try:
        with session.pointers.moving(draft.fd):
            # Name the links before the last look at the session, to leave hardly any time between that look and the
            # swap. If bytes are taken in between, drain() finds them in the session.
            _name_links(session, states)
            # Bytes that arrive after the last try are drained after the swap.
            for _ in range(3):
                taken = _take_appended(session, draft, taken, session.size + session.appended())
                disk.copy_metadata(session.fd, draft.fd, newest=newest)
                disk.system.fsync(draft.fd)
                if session.size + session.appended() == taken:
                    break
            else:
                # A program appends all the time: take its last bytes without a flush. Their writer has not flushed them
                # either, and each extra millisecond before the swap means more lines to drain after it.
                taken = _take_appended(session, draft, taken, os.fstat(session.fd).st_size)
            _exchange(session, draft.path, (draft.inode, inode))
    except BaseException:
        # Only the disk tells if an interrupt hit before or after the swap.
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
    """Put the file at `source` in the session's place; `inodes` are its number and the expected number there.

    Another program may replace the session at the last moment. So exchange the two files and look at the one that came
    out. If it is not the expected one, put it back and raise InUse. `source` is then the same file as before, or one
    that the other program has replaced since. If the file system has no exchange, `source` is gone afterwards, and with
    it any file that another program put there.
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
    """Make a hard link, or raise Unsupported if they are not supported: without one an appended line could get lost."""
    try:
        disk.system.link(path, name, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV):
            raise
        # Linux refuses links to another user's file that this one may not write to.
        if error.errno == errno.EPERM and path.lstat().st_uid != os.geteuid():
            raise
        what = "hard links are not possible here, and without one we could lose lines appended in the meantime"
        remedy = (
            "Move it to a file system that has them. If this one has, 'lsattr' shows what forbids one of this file."
        )
        raise Unsupported(what, where=path, remedy=remedy) from error


def _name_links(session: OpenSession, states: dict[int, LateLink]) -> None:
    """Name the new states of the session's file and of the files with late links.

    Raises InUse if another file is at the path by then.
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
    """Return the states of earlier late links for a new file of `end` bytes, with late bytes added at its end.

    Look up now which late bytes the session already has: the new file's bytes can't tell.
    """
    states = {}
    for inode, found in session.left_over.replaced(session.stat.st_ino).items():
        with disk.closing(open_file(found[0].path(session.path))) as file:
            state = current_state(found, session.stat.st_ino, session.size)
            drained = late_tail(session, state, file, whole_lines=False).start
            states[inode] = state.moved(file, drained, end)
    return states


HOLD_SECONDS = 0.25
"""Seconds that a program may have a file open for one append. After that, the file counts as kept open."""
_UNSEEN_SECONDS = 0.01
"""Seconds to wait for a last append if the system can't report who has a file open."""


LINK_SECONDS = 3600
"""Seconds that a late link stays after the last append if the system can't report who has a file open."""


def drain(session: OpenSession, old: Replaced) -> int:
    """Bring late bytes of a replaced file, and of the files that this in turn replaces, into the session.

    A file that no program can write to any more loses its link. Anything that can't be decided or done now stays in its
    link for the next run. Return the number of bytes carried over.
    """
    waiting, carried = [old], 0
    # Don't wait for a program that never stops writing.
    for _ in range(20):
        if not waiting:
            break
        holding = wait_until_free(waiting[0].fd, HOLD_SECONDS)
        if holding is OpenForWriting.UNKNOWN:
            time.sleep(_UNSEEN_SECONDS)
        state = state_of(session, waiting[0].fd)
        if is_rewritten(session, state, waiting[0]):
            break
        # Read the tail only now: if no program has the file open any more, no more bytes can follow.
        done = is_done(waiting[0].fd, holding, state)
        tail = late_tail(session, state, waiting[0].fd, whole_lines=not done, taken=waiting[0].taken)
        if not tail:
            if done:
                session.left_over.drop(session.left_over.late[state.inode])
            waiting.pop(0)
        elif wait_until_free(session.fd, HOLD_SECONDS) is OpenForWriting.YES:
            break
        else:
            waiting.append(_carry_over(session, tail))
            carried += tail.end - tail.start
    return carried


def is_done(old: int, holding: OpenForWriting, state: LateLink) -> bool:
    """Return True if nothing can arrive late any more: the file is not open, or it has been quiet for an hour."""
    quiet = time.time() - max(os.fstat(old).st_mtime, state.since)
    return holding is OpenForWriting.NO or (holding is OpenForWriting.UNKNOWN and quiet > LINK_SECONDS)


def _carry_over(session: OpenSession, tail: Tail) -> Replaced:
    """Replace the session by one that includes the tail; return the file that this replaced."""
    late = os.fstat(tail.fd)
    draft = Draft(session.path)
    try:
        behind = write_with_tail(draft, session, tail)
        draft.check()
        states = {}
        for inode, links in session.left_over.replaced(session.stat.st_ino).items():
            # Places after the tail moved by its length.
            state = current_state(links, session.stat.st_ino, session.size)
            moved = 0 if state.base < tail.at else behind - tail.at
            states[inode] = state._replace(base=state.base + moved)
        states[late.st_ino] = states[late.st_ino].moved(tail.fd, tail.end, behind)
        return put_in_place(session, draft, states=states, newest=late.st_mtime_ns)
    finally:
        draft.discard()


def put_back(session: OpenSession, replaced: Replaced, *, rewritten: bool = False) -> None:
    """Put the file that was just replaced back; append to it the lines that reached the new one.

    The new file keeps a late link until no program can append to it any more. If the old file was `rewritten`, append
    nothing that the new file had taken from it.
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

    # Append the lines that reached the new file in place, since the session's writer continues.
    holding = wait_until_free(new, HOLD_SECONDS)
    if is_rewritten(session, back, Replaced(new)):
        return
    if tail := late_tail(session, back, new, whole_lines=False):
        # Leave an incomplete line to the next run, which inserts it at its place instead of the end.
        if not (_begins_line(session.fd, os.fstat(session.fd).st_size) and _begins_line(new, tail.end)):
            return
        with disk.closing(disk.open_existing(session.path, append=True)) as fd:
            disk.write_all(fd, os.pread(tail.fd, tail.end - tail.start, tail.start))
            disk.system.fsync(fd)
            behind = os.lseek(fd, 0, os.SEEK_CUR)
        link(back.path(session.path), session.left_over.name(back.moved(new, tail.end, behind)))
        session.left_over.drop([back])
    if holding is OpenForWriting.NO:
        session.left_over.drop(session.left_over.late.get(inode, ()))


def is_kept_open(old: int) -> bool:
    """Return True if a program keeps a file open for writing; if that can't be known, True if it keeps growing."""
    holding = wait_until_free(old, HOLD_SECONDS)
    if holding is not OpenForWriting.UNKNOWN:
        return holding is OpenForWriting.YES
    sizes = []
    for _ in range(3):
        sizes.append(os.fstat(old).st_size)
        time.sleep(_UNSEEN_SECONDS)
    return sizes[0] < sizes[1] < sizes[2]


def state_of(session: OpenSession, late: int) -> LateLink:
    """Return the state of a late link by a descriptor of its file."""
    links = session.left_over.late[os.fstat(late).st_ino]
    return current_state(links, session.stat.st_ino, session.size)
