"""Which lines of a session stand there as the journal says they were rewritten."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from sessioncompress.core.jsonl import Piece, pieces_of
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.records import LineRecord

_NO_RECORD = -1


class RewrittenLines(Mapping[int, LineRecord]):
    """The line records of a session's rewritten lines by number, each with a place where any run kept the original."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rows = array("q")
        self.fewer: frozenset[str] = frozenset()
        """The SHA-256 of each original of which fewer lines stand there rewritten than were, as find() saw it."""

    def watch(self, stream: Iterable[Piece]) -> Iterator[Piece]:
        """Pass a session's pieces on; note the lines that the journal knows."""
        return self._watched(stream) if self._journal.counts[0] else iter(stream)

    def _watched(self, stream: Iterable[Piece]) -> Iterator[Piece]:
        for number, raw, whole in stream:
            if whole:
                self.note(number, row_of(raw, sha256(raw).digest(), self._journal))
            yield number, raw, whole

    def note(self, number: int, row: int | None) -> None:
        """Take note of a line's record."""
        if row is not None:
            self._rows.extend([_NO_RECORD] * (number - len(self._rows)))
            self._rows.append(row)

    def __getitem__(self, number: int) -> LineRecord:
        if number not in self:
            raise KeyError(number)
        return self._journal.placed(self._rows[number])

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and 0 <= number < len(self._rows) and self._rows[number] != _NO_RECORD

    def __iter__(self) -> Iterator[int]:
        return (number for number, row in enumerate(self._rows) if row != _NO_RECORD)

    def __len__(self) -> int:
        return len(self._rows) - self._rows.count(_NO_RECORD)

    @property
    def copies(self) -> int:
        """Return how many lines stand there more often than they were written."""
        there = Counter(row for row in self._rows if row != _NO_RECORD)
        return sum(times - self._journal.times(row) for row, times in there.items() if times > self._journal.times(row))


def row_of(raw: bytes, digest: bytes, journal: Journal) -> int | None:
    """Return the record of a rewritten line with that SHA-256, or of a message that stood in a line of its own before.

    An agent that sets all messages anew writes them without the LF that ended the lines.
    """
    row = journal.rewriting(digest)
    if row is None and not raw.endswith(b"\n"):
        row = journal.rewriting(sha256(raw + b"\n").digest())
    return row


def original_in(raw: bytes, digest: bytes, row: int | None, journal: Journal) -> int | None:
    """Return the newest record of the original that a line is, or of that of the rewritten line that it is by `row`."""
    if row is not None:
        return journal.original(journal.original_of(row))
    newest = journal.original(digest)
    if newest is None and not raw.endswith(b"\n"):
        newest = journal.original(sha256(raw + b"\n").digest())
    return newest


def find(session: OpenSession, journal: Journal) -> tuple[RewrittenLines, list[LineRecord]]:
    """Return a session's rewritten lines, and a record for each line of the journal that stands there in no known form.

    Of equal lines that is so for each one fewer than there were.
    """
    found = RewrittenLines(journal)
    there, rewritten = (array("I", [0]) * journal.counts[0] for _ in range(2))
    for number, raw, whole in pieces_of(session.reader, session.size) if there else ():
        digest = sha256(raw).digest() if whole else b""
        row = row_of(raw, digest, journal) if whole else None
        found.note(number, row)
        newest = original_in(raw, digest, row, journal) if whole else None
        if newest is not None:
            there[newest] += 1
            rewritten[newest] += row is not None
    if not journal.restored:
        # An equal line that was never rewritten stands in for one that was only where the originals were put back.
        found.fewer = frozenset(record.sha256 for record in journal.not_there(rewritten))
    return found, journal.not_there(there)
