"""What of a session is finished: noted by the run that finished it, so that the next one begins behind it.

A line before the boundary of a run was rewritten or left for good, and nothing that comes later says more of it, but
that a text of it is said again. So a run that knows where that boundary was, and that the bytes before it are the same,
need not read them. Whatever would make it judge otherwise of the rest sends it back to the first line: see behind().
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

from xxhash import xxh3_64_hexdigest, xxh3_128

from sessioncompress.core.jsonl import GAP, Piece, among, pieces, pieces_of, with_updates
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.model import PLAIN, Line, Prefix, Role
from sessioncompress.core.turns import asked
from sessioncompress.core.version import VERSION
from sessioncompress.errors import NOT_CHANGED, InUse
from sessioncompress.formats.base import Reader
from sessioncompress.formats.table import NAMELESS, NAMES, REVISED, format_named
from sessioncompress.pipeline.apply import IN_USE
from sessioncompress.pipeline.reading import Known
from sessioncompress.pipeline.rewritten import RewrittenLines
from sessioncompress.pipeline.survey import read_line, unchangeable
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

    def copied(self, changing: Container[int]) -> Iterator[Piece]:
        """Yield the session once more: the lines that are changing, and as what belongs to no line all around them.

        Raises NotFinished where the prefix is another one now, InUse where what follows it is.
        """
        sizes = [line.size for line in self.known.survey.lines.rows]
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
        if not self.prefix.size:
            return
        found = xxh3_128()
        left = self.prefix.size
        while left and (raw := file.read(min(left, BUFFER))):
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
    if run.version != VERSION or run.policy != differences(policy):
        return None
    if session.size < prefix.size or not can_follow(prefix) or not _can_be(prefix):
        return None
    if prefix.form in NAMELESS and not named:
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
    known = Known(form, run.session_id, read, RewrittenLines(journal), seen=True)
    return Part(session, known, journal, found.hexdigest())


def _can_be(prefix: Prefix) -> bool:
    """Say whether something can be finished in such a format, and there is no more of anything than there are bytes."""
    counts = (prefix.lines, prefix.turns, prefix.characters, prefix.strange, prefix.imitated, prefix.in_calls)
    return prefix.form in NAMES and prefix.form not in REVISED and max(*counts, prefix.whole) <= prefix.size


def can_follow(prefix: Prefix) -> bool:
    """Say whether the next run can begin behind what a run finished."""
    return 0 < prefix.size <= prefix.whole * _GROWTH


def goes_on(read: Survey) -> bool:
    """Say whether the lines hang together by themselves, as one piece of the live path from their first one on."""
    lines, shape = read.lines, read.shape
    if not shape.live or shape.live[0] != 0 or shape.dead or Role.CHECKPOINT in lines.roles:
        return False
    if any(facts.back or facts.several or facts.listed or facts.first for facts in lines.facts if facts is not PLAIN):
        return False
    if turns_by_prompts(lines, shape.live) or _leaves(lines, shape.live):
        return False
    return all(call is not None or not line.answers for line, call in zip(lines, asked(lines), strict=True))


def turns_by_prompts(lines: Lines, live: Sequence[int]) -> bool:
    """Say whether only the lack of user lines, which may stand before or come later, makes turns of prompts."""
    return any(lines.facts[number].prompt for number in live) and all(
        lines.roles[number] is not Role.USER for number in live
    )


def _leaves(lines: Lines, live: Sequence[int]) -> bool:
    """Say whether a line behind the first one hangs on none of these: Claude Code's path goes on in time without it."""
    names = frozenset(lines.ids)
    return any(lines.parents[number] and lines.parents[number] not in names for number in live[1:])


def read_behind(raw: bytes, reader: Reader, ours: Container[str]) -> Line:
    """Read a line; of one that is ours already nothing more can be replaced."""
    line = read_line(raw, reader)
    return unchangeable(line) if ours and hex_of(line.digest) in ours else line


def hex_of(digest: int) -> str:
    """Return a digest as a run record holds it."""
    return f"{digest:016x}"
