"""Check a session: is it one, and is the original of every rewritten line there and right."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sessioncompress import files
from sessioncompress.errors import NOT_CHANGED, Damaged, failing
from sessioncompress.policy import BALANCED, Policy
from sessioncompress.recorded import recorded
from sessioncompress.restore import WAY_OUT, missing_lines
from sessioncompress.stats import VerifyStats
from sessioncompress.store import journal as journals
from sessioncompress.store.beside import Beside
from sessioncompress.store.journal import BlockRecord, Journal, LineRecord
from sessioncompress.store.leftover import refuse_if_needed
from sessioncompress.store.lock import open_session
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.survey import parse


def verify_session(path: Path | str, policy: Policy = BALANCED) -> VerifyStats:
    """Check a session and what lies beside it; changes nothing.

    Raises Damaged where an original or the record of a run is missing or wrong, or where the session does not hold
    the lines that the journal says were written, so that it could not be restored exactly; other
    SessionCompressErrors as usual.
    """
    with open_session(Path(path), writing=False) as session:
        beside = files.beside_of(session.path, policy)
        journal = journals.load(beside.journal)
        with failing(session.path):
            refuse_if_needed(session, beside, journal.lengths)
        known = files.read_session(session, journal)
        checked = _originals(beside, journal)
        missing = missing_lines(session, journal)
        if missing:
            raise Damaged(
                f"it cannot be restored exactly: {missing:,} rewritten {'line is' if missing == 1 else 'lines are'} "
                "no longer there as written",
                where=session.path,
                state=NOT_CHANGED,
                remedy=WAY_OUT,
            )
        lines = known.survey.lines
        opaque = lines.not_understood
        return VerifyStats(
            str(session.path), known.form.name, len(lines), opaque, len(known.rewritten), checked, len(journal.blocks)
        )


def _originals(beside: Beside, journal: Journal) -> int:
    """Read every original and compare it and its blocks with their records; return how many there are."""
    stored = {record.sha256: record for record in journal.lines if record.place is not None}
    if not stored:
        return 0
    blocks: dict[str, list[BlockRecord]] = {}
    for line, block in journal.blocks:
        # A run that kept no originals may have changed its own rewriting: its records say where in that one.
        if line.place is not None:
            blocks.setdefault(line.sha256, []).append(block)
    with closing(OriginalsReader(beside.originals)) as originals:
        for record in sorted(stored.values(), key=_position):
            assert record.place is not None
            original = originals.line(record.place, record.sha256)
            _check_blocks(original, blocks.get(record.sha256, []), beside)
    return len(stored)


def _position(record: LineRecord) -> tuple[int, int]:
    return (record.place.frame, record.place.offset) if record.place else (0, 0)


def _check_blocks(original: bytes, blocks: list[BlockRecord], beside: Beside) -> None:
    entry = parse(original)
    for block in blocks:
        recorded(entry, block, beside.journal)
