"""What of a session is finished: noted by the run that finished it, so that the next one begins behind it.

A line before the boundary of a run was rewritten or left for good, and nothing that comes later says more of it, but
that a text of it is said again. So a run that knows where that boundary was, and that the bytes before it are the same,
need not read them. Whatever would make it judge otherwise of the rest sends it back to the first line: see behind().
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest, xxh3_128

from sessioncompress import config
from sessioncompress.account import boundary_of
from sessioncompress.compressors import View
from sessioncompress.documents import pieces_of, with_updates
from sessioncompress.errors import NOT_CHANGED, InUse
from sessioncompress.files import Known
from sessioncompress.formats import NAMELESS, NAMES, REVISED, format_named
from sessioncompress.formats.base import Format, Reader
from sessioncompress.jsonl import GAP, LINE_CAP, Piece, pieces
from sessioncompress.lines import Lines, Survey
from sessioncompress.marker import PREFIX_BYTES
from sessioncompress.model import NO_PREFIX, Line, Prefix, Role
from sessioncompress.pairs import NO_CALL, asked
from sessioncompress.policy import Policy
from sessioncompress.rewritten import RewrittenLines
from sessioncompress.splice import literal
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.survey import read_line, unchangeable
from sessioncompress.turns import turns_on
from sessioncompress.version import VERSION

_CHUNK: Final = 1 << 20
_NO_DIGEST: Final = "0" * 32
_MOST_BEHIND: Final = 256
"""So many lines that are ours already may follow what is finished; they are noted one by one."""
_GROWTH: Final = 2
"""A session whose finished part is so many times as large as when it was last read whole is read whole again: what came
since may say again, or take the place of, what stands in it. So all these readings together cost no more than two."""


class NotFinished(Exception):
    """The session is to be read from its first line on after all."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a run reads of a session: all of it, or what follows the prefix that an earlier run finished."""

    session: OpenSession
    known: Known
    journal: Journal
    digest: str = ""
    """The XXH3-128 of what was read behind a prefix."""

    @property
    def prefix(self) -> Prefix:
        """What the run does not read."""
        return self.known.survey.before

    def copied(self) -> Iterator[Piece]:
        """Yield the session's pieces once more, those of the prefix as what belongs to no line.

        Raises NotFinished where the prefix is another one now, InUse where what follows it is.
        """
        if not self.prefix.size:
            yield from pieces_of(self.session.reader, self.session.size)
            return
        with self.session.reader() as file:
            yield from self._checked(file)
            found = xxh3_128()
            for number, raw, whole in pieces(file, self.session.size - self.prefix.size):
                found.update(raw)
                yield number, raw, whole
        if found.hexdigest() != self.digest:
            raise InUse("it changed while it was being read", where=self.session.path, state=NOT_CHANGED)

    def check(self) -> None:
        """Read the prefix. Raises NotFinished where it is another one now."""
        with self.session.reader() as file:
            for _ in self._checked(file):
                pass

    def read(self, reader: Callable[..., BinaryIO], size: int) -> Iterator[Piece]:
        """Yield the pieces of what is read, or of what is to take its place."""
        if not self.prefix.size:
            yield from pieces_of(reader, size)
            return
        with reader(self.prefix.size) as file:
            yield from pieces(file, size - self.prefix.size)

    def _checked(self, file: BinaryIO) -> Iterator[Piece]:
        found = xxh3_128()
        left = self.prefix.size
        while left and (raw := file.read(min(left, _CHUNK))):
            found.update(raw)
            left -= len(raw)
            yield GAP, raw, False
        if found.hexdigest() != self.prefix.digest:
            raise NotFinished


def behind(session: OpenSession, journal: Journal, policy: Policy, *, named: bool = True) -> Part | None:
    """Read what follows the prefix that the newest run noted; None where the session must be read as a whole.

    That is where this run would judge the prefix otherwise: by another policy or another version, after a compaction,
    where the live path leaves the prefix elsewhere, where a call in it is answered only now, where turns are taken
    back, or where something looks like a marker. It is also where the journal, which others may have written, says what
    cannot be, and where nobody `named` a file that names no agent.
    """
    run = journal.runs[-1]
    prefix = run.prefix
    if run.version != VERSION or run.policy != config.differences(policy):
        return None
    if session.size < prefix.size or not can_follow(prefix) or not _can_be(prefix):
        return None
    if prefix.form in NAMELESS and not named:
        return None
    form = format_named(prefix.form)
    lines, reader, found = Lines(), form.reader(), xxh3_128()
    ours = frozenset(prefix.behind)
    with session.reader(prefix.size) as file:
        for number, raw, whole in with_updates(pieces(file, session.size - prefix.size)):
            if number == GAP or not whole or (PREFIX_BYTES in raw and xxh3_64_hexdigest(raw) not in ours):
                return None
            found.update(raw)
            lines.append(_read(raw, reader, ours))
    read = Survey(lines, form.shape(lines), session.size, prefix)
    if not _goes_on(read):
        return None
    known = Known(form, run.session_id, read, RewrittenLines(journal), seen=True)
    return Part(session, known, journal, found.hexdigest())


def _can_be(prefix: Prefix) -> bool:
    """Say whether something can be finished in such a format, and there is no more of anything than there are bytes."""
    counts = (prefix.lines, prefix.turns, prefix.characters, prefix.strange, prefix.imitated, prefix.in_calls)
    return prefix.form in NAMES and prefix.form not in REVISED and max(*counts, prefix.whole) <= prefix.size


def can_follow(prefix: Prefix) -> bool:
    """Say whether the next run can begin behind what a run finished."""
    return 0 < prefix.size <= prefix.whole * _GROWTH


def _goes_on(read: Survey) -> bool:
    """Say whether the lines hang together by themselves, as one piece of the live path from their first one on."""
    lines, shape = read.lines, read.shape
    if not shape.live or shape.live[0] != 0 or shape.dead or Role.CHECKPOINT in lines.roles:
        return False
    if any(facts.back or facts.several or facts.listed or facts.first for facts in lines.facts):
        return False
    if _turns_by_prompts(lines, shape.live) or _leaves(lines, shape.live):
        return False
    return all(call != NO_CALL or not lines.answers[number] for number, call in enumerate(_asked(lines)))


def _turns_by_prompts(lines: Lines, live: Sequence[int]) -> bool:
    """Say whether only the lack of user lines, which may stand before or come later, makes turns of prompts."""
    return any(lines.facts[number].prompt for number in live) and all(
        lines.roles[number] is not Role.USER for number in live
    )


def _leaves(lines: Lines, live: Sequence[int]) -> bool:
    """Say whether a line behind the first one hangs on none of these: Claude Code's path goes on in time without it."""
    names = frozenset(lines.ids)
    return any(lines.parents[number] and lines.parents[number] not in names for number in live[1:])


def _asked(lines: Lines) -> Sequence[int]:
    return asked(lines, range(len(lines)))


def prefix_of(part: Part, view: View, new: Lines, size: int, rewritten: bytes, markers: tuple[int, int]) -> Prefix:
    """Return what of a session this run finishes: what lies before the first protected line; or NO_PREFIX.

    `new` are the lines as they are now, of a session of `size` bytes, `rewritten` says (not 0) which of them are ours,
    `markers` how many there are that are not, and in calls. The digest is still to come. The prefix counts only where
    reading what follows it alone shows the same lines, on the same path, that the whole showed.
    """
    lines, live, before = view.lines, view.survey.shape.live, part.prefix
    first = boundary_of(view)
    if not 0 < first < len(lines) or sum(new.sizes) + before.size != size or _turns_by_prompts(lines, live):
        return NO_PREFIX
    if view.form.name in REVISED:
        return NO_PREFIX
    if max(lines.sizes[first:]) >= LINE_CAP:
        # It is copied in pieces, and the next run would read all of the session.
        return NO_PREFIX
    ours = frozenset(before.behind)
    behind = [number for number in range(first, len(lines)) if rewritten[number] or _hex(lines.digests[number]) in ours]
    if len(behind) > _MOST_BEHIND or any(
        _is_marked(new, number) for number in range(first, len(lines)) if number not in behind
    ):
        return NO_PREFIX
    alone = _alone(part, view.form, before.size + sum(lines.sizes[:first]))
    behind_it = [number - first for number in live if number >= first]
    if not (_are_the_same(alone.lines, lines, first) and _goes_on(alone) and list(alone.shape.live) == behind_it):
        return NO_PREFIX
    ahead = live[: len(live) - len(behind_it)]
    end = before.size + sum(new.sizes[:first])
    return Prefix(
        view.form.name,
        end,
        before.lines + first,
        _NO_DIGEST,
        before.turns + sum(position < len(ahead) for position in turns_on(lines, live)),
        before.characters + sum(new.reads[number] for number in ahead if number not in view.survey.shape.dead),
        before.strange + new.not_understood(first),
        *markers,
        before.whole or end,
        tuple(_hex(new.digests[number]) for number in behind),
    )


def _alone(part: Part, form: Format, start: int) -> Survey:
    """Read a session from a byte on as if nothing came before it."""
    reader, ours = form.reader(), frozenset(part.prefix.behind)
    with part.session.reader(start) as file:
        lines = Lines(_read(raw, reader, ours) for _, raw, _ in pieces(file, part.session.size - start))
    return Survey(lines, form.shape(lines), 0)


def _are_the_same(alone: Lines, lines: Lines, first: int) -> bool:
    """Say whether lines read alone are what they are from there on in the whole; the names of responses are free."""
    if len(alone) != len(lines) - first:
        return False
    names: dict[str, str] = {}
    for one, other in zip(alone, lines[first:], strict=True):
        if one._replace(response="") != other._replace(response=""):
            return False
        if names.setdefault(one.response, other.response) != other.response:
            return False
    named = set(names.values()) - {""}
    return len(named) == len(names.keys() - {""}) and named.isdisjoint(lines.responses[:first])


def _read(raw: bytes, reader: Reader, ours: Container[str]) -> Line:
    """Read a line; of one that is ours already nothing more can be replaced."""
    line = read_line(raw, reader)
    return unchangeable(line) if ours and _hex(line.digest) in ours else line


def _is_marked(lines: Lines, number: int) -> bool:
    marked = lines.blocks.columns[7]
    return any(marked[index] for index in lines.block_span(number))


def _hex(digest: int) -> str:
    return f"{digest:016x}"


def digest_of_prefix(
    file: BinaryIO,
    size: int,
    unread: int,
    rewritten: Container[tuple[int, int]],
    takes: Callable[[bytes], bool] = lambda _: False,
) -> str:
    """Return the XXH3-128 of the first bytes of a new session, of which this run did not read so many.

    `rewritten` holds size and XXH3-64 of the lines that it rewrote. Raises NotFinished where one of them stands among
    those that it did not read, for restore could not tell them apart, or where one of those `takes` an id.
    """
    found = xxh3_128()
    position = 0
    while position < max(size, unread):
        raw = file.readline(LINE_CAP) if position < unread else file.read(min(size - position, _CHUNK))
        if position < unread and ((len(raw), xxh3_64_intdigest(raw)) in rewritten or takes(raw)):
            raise NotFinished
        position += len(raw)
        if position <= size:
            found.update(raw)
    return found.hexdigest()


def taking(view: View, new: Lines) -> Callable[[bytes], bool]:
    """Return what says of a line whether it has a call that goes by an id which a run made by cutting others."""
    ids = frozenset(new.calls.columns[0]).difference(view.lines.calls.columns[0])
    if not ids:
        return lambda _: False
    written = re.compile(b"|".join(re.escape(literal(name)[:-1]) for name in ids))

    def takes(raw: bytes) -> bool:
        if not written.search(raw):
            return False
        line = read_line(raw, view.form.reader())
        return line.answers in ids or any(call.name in ids for call in line.calls)

    return takes
