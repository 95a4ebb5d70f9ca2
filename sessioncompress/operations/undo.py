"""Take back what one run did to a session: its lines as they were before it, if that is known of all."""

from __future__ import annotations

from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

from sessioncompress.core.jsonl import pieces_of
from sessioncompress.operations.checkpoints import before_checkpoints
from sessioncompress.operations.show import original_of
from sessioncompress.pipeline import reading
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord


class Undo:
    """Gives back lines as they were before some runs, by their numbers in the journal; None: before all."""

    def __init__(
        self, journal: Journal, runs: frozenset[int] | None, originals: OriginalsReader | None, where: Path
    ) -> None:
        self._journal, self._runs, self._originals, self._where = journal, runs, originals, where
        self._others = frozenset(journal.standing.numbers) - (runs or frozenset())
        self._known: dict[int, LineRecord | None] = {}

    def before(self, raw: bytes, row: int) -> bytes | None:
        """Return the rewritten line of a record as it was before; None where that is not known."""
        if row not in self._known:
            # As many equal lines may stand there: they do not look for their records each.
            self._known[row] = self._journal.placed(row) if self._runs is None else self._stood(row, self._runs)
        record = self._known[row]
        if record is None or record.rewritten == record.sha256:
            return None if record is None else raw
        if record.place is None or self._originals is None:
            return None
        return original_of(raw, record, self._originals, self._where)

    def _stood(self, row: int, runs: frozenset[int]) -> LineRecord | None:
        """Find what stood in a line before some runs; None where that is not known. One that stays became itself."""
        journal = self._journal
        original, stands = journal.original_of(row), bytes.fromhex(journal.line(row).rewritten)
        makers = {journal.run_of(each) for each in journal.originals(original)}
        was, last = stands, journal.counts[0]
        while True:
            rows = journal.rewritings(was)
            mine = [each for each in rows if journal.run_of(each) in runs and each < last]
            if not mine:
                break
            record, last = journal.line(mine[-1]), mine[-1]
            if (
                # Of equal lines nobody knows which run rewrote which.
                any(journal.run_of(each) in self._others for each in rows)
                or len({journal.line(each).sha256 for each in mine}) > 1
                # The first stores do not have what an earlier run had left.
                or not (record.edit or makers.isdisjoint(self._others))
            ):
                return None
            was = bytes.fromhex(record.sha256)
        if was == stands and (not makers.isdisjoint(runs) or makers.isdisjoint(self._others)):
            # A later run rewrote it again. Or an older version, which recorded nothing again behind a restore.
            return None
        return LineRecord(was.hex(), journal.place(original, was), stands.hex())


def stands_alone(session: OpenSession, journal: Journal, runs: frozenset[int], originals: Path) -> bool:
    """Tell whether a session as it was before some runs is known to the byte, while what other runs did stays.

    A checkpoint goes alone only while no other run came behind it, and no lines come back from under another one.
    """
    others = frozenset(journal.standing.numbers) - runs
    newer = frozenset(number for number in others if number > min(runs))
    if newer and journal.checkpoints_of(runs):
        return False
    if any(each.dropped or each.removed for each in journal.checkpoints_of(newer)):
        return False
    pieces = before_checkpoints(session, journal, originals) or pieces_of(session.reader, session.size)
    # A store of checkpoints alone, or of runs that kept no originals, has no such file.
    with OriginalsReader(originals) if journal.store_size else nullcontext() as reader:
        undo = Undo(journal, runs, reader, originals)
        for _, raw, whole in pieces:
            row = reading.row_of(raw, sha256(raw).digest(), journal) if whole else None
            if row is not None and undo.before(raw, row) is None:
                return False
    return True
