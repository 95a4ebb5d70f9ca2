"""What of a session is finished: noted by the run that finished it, so that the next one begins behind it.

A line before the boundary of a run was rewritten or left for good, and nothing that comes later says more of it, but
that a text of it is said again. So a run that knows where that boundary was, and that the bytes before it are the same,
need not read them. Whatever would make it judge otherwise of the rest sends it back to the first line: see behind().
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import BinaryIO, Final, NamedTuple

from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest, xxh3_128

from sessioncompress.compressors import View
from sessioncompress.core import VERSION
from sessioncompress.core.jsonl import GAP, LINE_CAP, Piece, among, pieces, pieces_of, with_updates
from sessioncompress.core.lines import Lines, Survey, asked, turns_on
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.model import NO_PREFIX, PLAIN, Line, Prefix, Role
from sessioncompress.core.splice import literal
from sessioncompress.errors import NOT_CHANGED, InUse
from sessioncompress.formats.base import Format, Reader
from sessioncompress.formats.table import NAMELESS, NAMES, REVISED, format_named
from sessioncompress.pipeline.reading import Known, RewrittenLines, newest, read_line, unchangeable
from sessioncompress.pipeline.rewrite import IN_USE
from sessioncompress.pipeline.summary import boundary_of
from sessioncompress.policy.file import differences
from sessioncompress.policy.model import Policy
from sessioncompress.store.disk import BUFFER
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession

_GROWTH: Final = 2
"""A session whose finished part is so many times as large as when it was last read whole is read whole again: what came
since may say again, or take the place of, what stands in it. So all these readings together cost no more than two."""


class NotFinished(Exception):
    """The session is to be read from its first line on after all."""


class Part(NamedTuple):
    """What a run reads of a session: all of it, or what follows the prefix that an earlier run finished.

    `digest` is the XXH3-128 of what was read behind a prefix.
    """

    session: OpenSession
    known: Known
    journal: Journal
    digest: str = ""

    @property
    def prefix(self) -> Prefix:
        """What the run does not read."""
        return self.known.survey.before

    def copied(self, changing: Container[int]) -> Iterator[Piece]:
        """Yield the session once more: the lines that are changing, and as what belongs to no line all around them.

        Raises NotFinished where the prefix is another one now, InUse where what follows it is.
        """
        sizes = [line.size for line in self.known.survey.lines]
        if self.prefix.size + sum(sizes) != self.session.size:
            # In a document there is more than its messages.
            yield from pieces_of(self.session.reader, self.session.size)
            return
        found = xxh3_128()
        with self.session.reader() as file:
            yield from self._checked(file)
            for piece in among(file, sizes, changing):
                if self.digest:
                    found.update(piece[1])
                yield piece
        if self.digest and found.hexdigest() != self.digest:
            raise InUse(IN_USE, where=self.session.path, state=NOT_CHANGED)

    def check(self) -> None:
        """Read the prefix. Raises NotFinished where it is another one now."""
        with self.session.reader() as file:
            deque(self._checked(file), maxlen=0)

    def read(self, reader: Callable[..., BinaryIO], size: int) -> Iterator[Piece]:
        """Yield the pieces of what is read, or of what is to take its place."""
        if not self.prefix.size:
            yield from pieces_of(reader, size)
            return
        with reader(self.prefix.size) as file:
            yield from pieces(file, size - self.prefix.size)

    def lines(self, numbers: Iterable[int], most: int = LINE_CAP) -> Iterator[tuple[int, bytes]]:
        """Yield some lines in any order, each with its number, or so many bytes of each."""
        starts = [*accumulate((line.size for line in self.known.survey.lines), initial=self.prefix.size)]
        if starts[-1] != self.session.size:
            # In a document there is more than its messages.
            messages = {number: raw for number, raw, _ in pieces_of(self.session.reader, self.session.size)}
            yield from ((number, messages[number][:most]) for number in numbers)
            return
        for number in numbers:
            start, end = starts[number : number + 2]
            yield number, os.pread(self.session.fd, min(end - start, most), start)

    def before(self, most: int) -> bytes:
        """Read the end of the prefix, so many bytes at most."""
        start = max(self.prefix.size - most, 0)
        return os.pread(self.session.fd, self.prefix.size - start, start)

    def _checked(self, file: BinaryIO) -> Iterator[Piece]:
        found = xxh3_128()
        left = self.prefix.size
        while left and (raw := file.read(min(left, BUFFER))):
            found.update(raw)
            left -= len(raw)
            yield GAP, raw, False
        if self.prefix.size and found.hexdigest() != self.prefix.digest:
            raise NotFinished


def behind(session: OpenSession, journal: Journal, policy: Policy, *, named: bool = True) -> Part | None:
    """Read what follows the prefix that the newest run noted; None where the session must be read as a whole.

    That is where this run would judge the prefix otherwise: by another policy or version, after a compaction, where the
    live path leaves the prefix elsewhere, where a call in it is answered only now, where turns are taken back, or where
    something looks like a marker. It is also where the journal, which others may have written, says what cannot be, and
    where nobody `named` a file that names no agent.
    """
    run = journal.runs[-1]
    prefix = run.prefix
    counts = (prefix.lines, prefix.turns, prefix.characters, prefix.strange, prefix.imitated, prefix.in_calls)
    if (
        run.version != VERSION
        or run.policy != differences(policy)
        or session.size < prefix.size
        or not can_follow(prefix)
        or prefix.form not in NAMES
        or prefix.form in REVISED
        # Nothing is counted more often than there are bytes.
        or max(*counts, prefix.whole) > prefix.size
        or (prefix.form in NAMELESS and not named)
    ):
        return None
    form = format_named(prefix.form)
    read_lines: list[Line] = []
    reader, found = form.reader(), xxh3_128()
    ours = frozenset(prefix.behind)
    with session.reader(prefix.size) as file:
        for number, raw, whole in with_updates(pieces(file, session.size - prefix.size)):
            if number == GAP or not whole or (PREFIX_BYTES in raw and xxh3_64_hexdigest(raw) not in ours):
                return None
            found.update(raw)
            read_lines.append(read_behind(raw, reader, ours))
    lines = Lines(read_lines)
    read = Survey(lines, form.shape(lines), session.size, prefix)
    if not goes_on(read):
        return None
    answer = newest(session, read, form)
    answer = answer._replace(model=answer.model or prefix.model)
    known = Known(form, run.session_id, read, RewrittenLines(journal), seen=True, newest=answer)
    return Part(session, known, journal, found.hexdigest())


def can_follow(prefix: Prefix) -> bool:
    """Tell whether the next run can begin behind what a run finished."""
    return 0 < prefix.size <= prefix.whole * _GROWTH


def goes_on(read: Survey) -> bool:
    """Tell whether the lines hang together by themselves, as one piece of the live path from their first one on."""
    lines, shape = read.lines, read.shape
    if not shape.live or shape.live[0] != 0 or shape.dead or Role.CHECKPOINT in lines.roles:
        return False
    if any(facts.back or facts.several or facts.listed or facts.first for facts in lines.facts if facts is not PLAIN):
        return False
    # A line that hangs on none of these leaves the path: Claude Code's goes on in time without it.
    names = frozenset(lines.ids)
    if any(lines.parents[number] and lines.parents[number] not in names for number in shape.live[1:]):
        return False
    if turns_by_prompts(lines, shape.live):
        return False
    return all(call is not None or not line.answers for line, call in zip(lines, asked(lines), strict=True))


def turns_by_prompts(lines: Lines, live: Sequence[int]) -> bool:
    """Tell whether only the lack of user lines, which may stand before or come later, makes turns of prompts."""
    return any(lines.facts[number].prompt for number in live) and all(
        lines.roles[number] is not Role.USER for number in live
    )


def read_behind(raw: bytes, reader: Reader, ours: Container[str]) -> Line:
    """Read a line; of one that is ours already nothing more can be replaced."""
    line = read_line(raw, reader)
    return unchangeable(line) if ours and f"{line.digest:016x}" in ours else line


_BEGINNING: Final = re.compile(rb'"[^"\\]*+')
"""A string of a line's JSON, up to what is escaped in it."""
_MOST_BEHIND: Final = 256
"""So many lines that are ours already may follow what is finished; they are noted one by one."""
_SHORT_MEMORY: Final = frozenset({"claude-code", "codex", "oh-my-pi", "openclaw", "pi"})
"""The formats whose readers keep of earlier lines only what _sliced() names."""


def prefix_of(part: Part, view: View, new: Lines, size: int, ours: Container[int], markers: tuple[int, int]) -> Prefix:
    """Find what of a session this run finishes: what lies before the first protected line; or NO_PREFIX.

    `new` are the lines as they are now, of a session of `size` bytes, `ours` those of them that a run rewrote,
    `markers` how many there are that are not ours, and in calls. The digest is still to come. The prefix counts only
    where reading what follows it alone shows the same lines, on the same path, that the whole showed.
    """
    lines, live, before, policy = view.lines, view.survey.shape.live, part.prefix, view.policy
    first = boundary_of(view)
    responses = {line.response for line in lines[first:]} - {""}
    if (
        not 0 < first < len(lines)
        # Lines behind it were changed, of which more may change later.
        or policy.at_rest
        # What it left as too recent to be pruned comes due as the session goes on.
        or policy.prune.enabled
        or view.form.name in REVISED
        or turns_by_prompts(lines, live)
        # A response of the lines before it goes on behind it.
        or not responses.isdisjoint(lines.responses[:first])
        # Such a line is copied in pieces, and the next run would read all of the session.
        or max(line.size for line in lines[first:]) >= LINE_CAP
        # There is more in it than these lines, as in a document.
        or sum(line.size for line in new) + before.size != size
    ):
        return NO_PREFIX
    done = frozenset(before.behind)
    # Of a line that lost only copies that nobody meets again, more may change later: it holds no marker.
    marked = {number for number in range(first, len(lines)) if any(block.marked for block in new[number].blocks)}
    behind = [
        number
        for number in range(first, len(lines))
        if (number in marked and number in ours) or (done and f"{lines[number].digest:016x}" in done)
    ]
    if len(behind) > _MOST_BEHIND or not marked.issubset(behind):
        return NO_PREFIX
    behind_it = [number - first for number in live if number >= first]
    alone = _sliced(lines, first, view.form) or _read_again(part, lines, first, view.form)
    if alone is None or not goes_on(alone) or list(alone.shape.live) != behind_it:
        return NO_PREFIX
    ahead = live[: len(live) - len(behind_it)]
    end = before.size + sum(line.size for line in new[:first])
    return Prefix(
        view.form.name,
        end,
        before.lines + first,
        "0" * 32,
        before.turns + sum(position < len(ahead) for position in turns_on(lines, live)),
        before.characters + sum(new[number].reads for number in ahead if number not in view.survey.shape.dead),
        before.strange + new.not_understood(first),
        *markers,
        before.whole or end,
        tuple(f"{new[number].digest:016x}" for number in behind),
        part.known.newest.model[:200],
    )


def _sliced(lines: Lines, first: int, form: Format) -> Survey | None:
    """Tell what lines would be if they were read alone, taken from the whole; None if only a reading shows it.

    No response may go on behind the lines before them. Of these a reader may know a call that is answered later, which
    goes_on() sees, and results that the next answer repeats.
    """
    if form.name not in _SHORT_MEMORY:
        return None
    answer = next((line for line in lines[first:] if line.role is Role.ASSISTANT), None)
    if answer is not None and answer.facts.repeats:
        return None
    alone = Lines(lines[first:])
    return Survey(alone, form.shape(alone), 0)


def _read_again(part: Part, lines: Lines, first: int, form: Format) -> Survey | None:
    """Read lines as if nothing came before them; None if they are others then than in the whole."""
    start = part.prefix.size + sum(line.size for line in lines[:first])
    reader, ours = form.reader(), frozenset(part.prefix.behind)
    with part.session.reader(start) as file:
        alone = Lines(read_behind(raw, reader, ours) for _, raw, _ in pieces(file, part.session.size - start))
    return Survey(alone, form.shape(alone), 0) if _are_the_same(alone, lines, first) else None


def _are_the_same(alone: Lines, lines: Lines, first: int) -> bool:
    """Tell whether lines read alone are what they are from there on in the whole; the names of responses are free."""
    if len(alone) != len(lines) - first:
        return False
    names: dict[str, str] = {}
    for one, other in zip(alone, lines[first:], strict=True):
        if one._replace(response="") != other._replace(response=""):
            return False
        if names.setdefault(one.response, other.response) != other.response:
            return False
    return len(set(names.values()) - {""}) == len(names.keys() - {""})


def digest_of_prefix(file: BinaryIO, size: int, unread: int, clashes: Callable[[bytes], bool] | None) -> str:
    """Hash the first bytes of a new session with XXH3-128; of them this run did not read so many.

    Raises NotFinished where one of the lines that it did not read clashes with what it wrote.
    """
    found = xxh3_128()
    position = 0
    while position < max(size, unread):
        raw = file.readline(LINE_CAP) if position < unread else file.read(min(size - position, BUFFER))
        if position < unread and clashes is not None and clashes(raw):
            raise NotFinished
        position += len(raw)
        if position <= size:
            found.update(raw)
    return found.hexdigest()


def clashing(view: View, new: Lines, changed: Iterable[int]) -> Callable[[bytes], bool]:
    """Make what tells whether a line that a run did not read clashes with those that it changed.

    It must not be one of them, for restore could not tell them apart, nor have a call that goes by an id which the run
    made by cutting others.
    """
    rewritten = {(new[number].size, new[number].digest) for number in changed}
    before = {call.id for line in view.lines for call in line.calls}
    ids = {call.id for line in new for call in line.calls} - before
    written = frozenset(each for name in ids for each in _BEGINNING.findall(literal(name))[:1])

    def clashes(raw: bytes) -> bool:
        if (len(raw), xxh3_64_intdigest(raw)) in rewritten:
            return True
        if not written or written.isdisjoint(_BEGINNING.findall(raw)):
            return False
        line = read_line(raw, view.form.reader())
        return line.answers in ids or any(call.name in ids for call in line.calls)

    return clashes
