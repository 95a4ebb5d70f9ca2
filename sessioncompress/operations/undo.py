"""Take back what one run did to a session: its lines as they were before it, if that is known of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from sessioncompress.core.jsonl import parse_any, pieces_of
from sessioncompress.core.model import JsonPath, Kind
from sessioncompress.core.splice import REMOVED, CannotSplice, splice
from sessioncompress.formats.base import Entry, Format
from sessioncompress.operations.checkpoints import before_checkpoints
from sessioncompress.operations.show import original_of
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.rewrite import value_at
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import BlockRecord


class _Makers(NamedTuple):
    """What the journal says of one original: whether runs that are taken back rewrote it, and the rows of other runs.

    `in_order`: all are of the same line, and no other run came behind them.
    """

    mine: bool
    theirs: Sequence[int]
    in_order: bool


class Undo:
    """Gives back lines as they were before some runs, by their numbers in the journal; None: before all.

    Of a line that other runs had rewritten by then, nobody kept what stood there. It is made again from its original
    and the replacements of those runs, as far as they stand in it still; the journal knows its SHA-256.
    """

    def __init__(
        self,
        journal: Journal,
        runs: frozenset[int] | None,
        form: Format | None,
        originals: OriginalsReader | None,
        where: Path,
    ) -> None:
        self._journal, self._runs, self._form = journal, runs, form
        self._originals, self._where = originals, where
        self._others = frozenset(journal.standing.numbers) - (runs or frozenset())
        self._known: dict[bytes, _Makers] = {}

    def before(self, raw: bytes, row: int) -> bytes | None:
        """Return the rewritten line of a record as it was before; None where that is not known."""
        journal, originals = self._journal, self._originals
        record = journal.placed(row)
        if self._runs is None:
            if record.place is None or originals is None:
                return None
            return original_of(raw, record, originals, self._where)
        owner, makers = journal.run_of(row), self._makers_of(journal.original_of(row), self._runs)
        if owner in self._others:
            return None if makers.mine else raw
        # A version that gave runs no ids did not record again what it rewrote again behind a restore.
        if owner not in self._runs or record.place is None or originals is None:
            return None
        theirs = makers.theirs
        if not theirs:
            return original_of(raw, record, originals, self._where)
        if not makers.in_order:
            return None
        original = originals.line(record.place, record.sha256)
        made = self._made_again(original, raw, theirs)
        if made is None or sha256(made).hexdigest() != journal.line(theirs[-1]).rewritten:
            return None
        return made if raw.endswith(b"\n") else made.removesuffix(b"\n")

    def _makers_of(self, original: bytes, runs: frozenset[int]) -> _Makers:
        """Find which records of an original are of runs that are taken back, and of others."""
        if (known := self._known.get(original)) is not None:
            return known
        journal = self._journal
        owners = {each: journal.run_of(each) for each in journal.originals(original)}
        mine = [each for each, owner in owners.items() if owner in runs]
        theirs = sorted((each for each, owner in owners.items() if owner in self._others), key=owners.__getitem__)
        in_order = False
        if mine and theirs:
            # Of equal lines nobody knows which run rewrote which. What a later run rewrote was never without these.
            numbers = [journal.numbers([each]) for each in (*mine, *theirs)]
            later = owners[theirs[-1]] > min(owners[each] for each in mine)
            in_order = not later and len(numbers[0]) == 1 and all(each == numbers[0] for each in numbers)
        makers = _Makers(bool(mine), theirs, in_order)
        if len(owners) > 1:
            # As many equal lines may stand there: they do not look for their records each.
            self._known[original] = makers
        return makers

    def _made_again(self, original: bytes, raw: bytes, rows: Sequence[int]) -> bytes | None:
        """Replace in an original what some records say was replaced, by what stands there now."""
        was, now = parse_any(original), parse_any(raw)
        if was is None or now is None or self._form is None:
            return None
        line = self._form.reader().line(raw, now)
        standing = {(block.digest, block.kind): block.path for block in line.blocks if block.marked}
        values: dict[JsonPath, Any] = {}
        # A value that is nested too deep to be written is a TypeError.
        with suppress(CannotSplice, KeyError, TypeError):
            for block in (each for row in rows for each in self._journal.blocks_of(row)):
                values[block.path] = _replacement(block, now, standing)
            return splice(original, was, values)[0]
        return None


def _replacement(block: BlockRecord, now: Entry, standing: Mapping[tuple[bytes, Kind], JsonPath]) -> Any:
    """Find what took a value's place. Raises KeyError where it stands there no longer, CannotSplice."""
    if block.replacement:
        return value_at(now, standing[block.replacement, block.kind])
    if block.kind is Kind.MIRROR:
        with suppress(CannotSplice):
            return value_at(now, block.path)
    return REMOVED


def stands_alone(
    session: OpenSession, journal: Journal, runs: frozenset[int], form: Format | None, originals: Path
) -> bool:
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
        undo = Undo(journal, runs, form, reader, originals)
        for _, raw, whole in pieces:
            row = reading.row_of(raw, sha256(raw).digest(), journal) if whole else None
            if row is not None and undo.before(raw, row) is None:
                return False
    return True
