"""What a late link's file has that the session lacks, found and copied into a draft; reads both, writes the draft."""

from __future__ import annotations

import os
from typing import BinaryIO, NamedTuple

from sessioncompress.store import reading
from sessioncompress.store.draft import Draft
from sessioncompress.store.late import Late, prefix_of
from sessioncompress.store.lock import OpenSession


class Replaced(NamedTuple):
    """A file that was replaced: a descriptor, and what was known of it when it was last looked at whole."""

    fd: int
    seen: os.stat_result | None = None


class Tail(NamedTuple):
    """Bytes `start` to `end` of the file with the descriptor `fd`, which belong into the session at byte `at`."""

    fd: int
    start: int
    end: int
    at: int

    def __bool__(self) -> bool:
        return self.end > self.start


def is_rewritten(session: OpenSession, state: Late, replaced: Replaced) -> bool:
    """Tell whether a replaced file was changed otherwise than by lines appended: then none of it is carried over."""
    found = os.fstat(replaced.fd)
    if replaced.seen and (found.st_size, found.st_mtime_ns) == (replaced.seen.st_size, replaced.seen.st_mtime_ns):
        return False
    if found.st_size < state.drained or prefix_of(replaced.fd, state.drained) != state.prefix:
        return True
    return found.st_size > state.drained and session.is_document()


def missing(session: OpenSession, state: Late, fd: int, *, whole_lines: bool) -> Tail:
    """Return what came late to a replaced file and is not in the session yet.

    Some may be there already, taken after the link was named or by a run that was killed: what the session has at
    that place counts. `whole_lines` leaves out a last line that may still be being written. The file must be one to
    which lines were appended, see is_rewritten().
    """
    end = max(os.fstat(fd).st_size, state.drained)
    if whole_lines:
        end = _last_line_end(fd, state.drained, end)
    there = _common(fd, state.drained, end, session, state.base)
    return Tail(fd, state.drained + there, end, state.base + there)


def write_with_tail(draft: Draft, session: OpenSession, tail: Tail) -> int:
    """Write the session with the tail in its place; return the place behind the tail.

    Where the agent's own writes left a line without its end, a line break keeps two lines from becoming one.
    """
    with session.reader() as file:
        _copy(draft, file, tail.at)
        if _begins_line(tail.fd, tail.start) and not _begins_line(session.fd, tail.at):
            draft.write(b"\n")
        with reading.reader(tail.fd, tail.start, tail.end) as late:
            _copy(draft, late, tail.end - tail.start)
        if session.size > tail.at and not _begins_line(tail.fd, tail.end):
            draft.write(b"\n")
        behind = draft.size
        _copy(draft, file, session.size - tail.at)
    return behind


def ends_line(session: OpenSession) -> bool:
    """Say whether a line appended to the session now would be one of its own."""
    return _begins_line(session.fd, os.fstat(session.fd).st_size)


def _copy(draft: Draft, file: BinaryIO, size: int) -> None:
    while size and (piece := file.read(min(size, reading.BUFFER))):
        draft.write(piece)
        size -= len(piece)


def _begins_line(fd: int, position: int) -> bool:
    return position == 0 or os.pread(fd, 1, position - 1) == b"\n"


def _last_line_end(fd: int, start: int, end: int) -> int:
    """Return where the last whole line between the two positions ends; `start` if there is none."""
    while end > start:
        begin = max(start, end - reading.BUFFER)
        found = os.pread(fd, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return start


def _common(fd: int, start: int, end: int, session: OpenSession, base: int) -> int:
    """Return how many bytes of the tail the session has at `base`: all that either has, or whole lines."""
    common = 0
    while True:
        ours = os.pread(fd, min(reading.BUFFER, end - start - common), start + common)
        theirs = os.pread(session.fd, min(len(ours), session.size - base - common), base + common)
        if not ours or not theirs:
            return common
        if not ours.startswith(theirs):
            common += next(index for index, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other)
            return _last_line_end(fd, start, start + common) - start
        common += len(theirs)
