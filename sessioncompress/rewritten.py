"""Which lines of a session stand there as the journal says they were rewritten."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from sessioncompress.documents import pieces_of
from sessioncompress.jsonl import Piece
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.records import LineRecord

_NO_RECORD = -1


class RewrittenLines(Mapping[int, LineRecord]):
    """The line records of a session's rewritten lines by number, each with a place where any run kept the original."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rows = array("q")

    def watch(self, stream: Iterable[Piece]) -> Iterator[Piece]:
        """Pass a session's pieces on; note the lines that the journal knows."""
        known = self._journal.counts[0]
        for number, raw, whole in stream:
            if known and whole:
                self.note(number, _row_of(raw, sha256(raw).digest(), self._journal))
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


def _row_of(raw: bytes, digest: bytes, journal: Journal) -> int | None:
    """Return the record of a rewritten line with that SHA-256, or of a message that stood in a line of its own before.

    An agent that sets all messages anew writes them without the LF that ended the lines.
    """
    row = journal.rewriting(digest)
    if row is None and not raw.endswith(b"\n"):
        row = journal.rewriting(sha256(raw + b"\n").digest())
    return row


def find(session: OpenSession, journal: Journal) -> tuple[RewrittenLines, list[LineRecord]]:
    """Return a session's rewritten lines, and the records of the originals that stand there in no known form."""
    found = RewrittenLines(journal)
    present = bytearray(journal.counts[0])
    for number, raw, whole in pieces_of(session.reader, session.size) if present else ():
        digest = sha256(raw).digest() if whole else b""
        row = _row_of(raw, digest, journal) if whole else None
        found.note(number, row)
        original = digest if row is None else journal.original_of(row)
        newest = journal.original(original)
        # Where as many lines are the same, their records are marked once.
        if newest is not None and not present[newest]:
            for each in journal.originals(original):
                present[each] = True
    return found, journal.originals_but(present)
