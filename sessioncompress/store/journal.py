"""The journal: one JSON object a line for each rewritten line, each replaced block, and each run, the commit point.

What stands behind the last run record was never committed. This module only reads.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from sessioncompress.core.model import Origin, OurKey
from sessioncompress.errors import NOT_CHANGED, Damaged, failing
from sessioncompress.store import disk, layout, records
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.lock import open_file
from sessioncompress.store.originals import FRAME_BYTES, Place
from sessioncompress.store.records import BlockRecord, CheckpointRecord, Dropped, LineRecord, RunRecord
from sessioncompress.store.runs import Makers, Standing, may_be_run, writes_checkpoint

_MOST_SAID = 200
"""Characters of what an error says of a record, which may quote it."""
ONE_SIDE = (
    "If a git merge combined two sides here, take the session and both files of its store from one side: "
    "'git checkout COMMIT -- FILE ...'."
)
"""What to do where the files of a store do not go together."""
_NOTHING: Mapping[str, Any] = {}


class _Rows:
    """Finds the rows of a key, the newest first."""

    def __init__(self, keys: Iterable[tuple[int, Hashable]]) -> None:
        self._newest: dict[Hashable, int] = {}
        self._before: dict[int, int] = {}
        """The row with the same key before a row, where there is one."""
        for row, key in keys:
            if (before := self._newest.get(key)) is not None:
                self._before[row] = before
            self._newest[key] = row

    def get(self, key: Hashable) -> int | None:
        return self._newest.get(key)

    def all(self, key: Hashable) -> Iterator[int]:
        row = self._newest.get(key)
        while row is not None:
            yield row
            row = self._before.get(row)


class Journal:
    """All committed records. `size` is the journal's committed length, `store_size` the originals'.

    `broken` is the number of the first run's line whose records are not as it wrote them, 0 where all are.

    Line and block records are named by their row: 0 for the first of their type. A SHA-256 is given in bytes.
    """

    def __init__(self) -> None:
        self.runs: list[RunRecord] = []
        self.size = 0
        self.store_size = 0
        self.broken = 0
        self._checkpoints: dict[tuple[str, ...], CheckpointRecord] = {}
        """The newest record of each, by its lines."""
        self._dropped: list[Dropped] = []
        """Those of the checkpoint whose record comes behind them."""
        self._lines: list[tuple[bytes, bytes, Place | None]] = []
        """Of each line record the SHA-256 of what the line was and of what it became: in bytes it takes half."""
        self._edits = bytearray()
        """Whether each of them is an edit."""
        self._blocks: list[BlockRecord] = []
        self._owners = array("I")
        self._ended = (0, 0)
        """How many line and block records the runs added."""
        self._makers = Makers()
        self._ends = array("I")
        """At how many line records each run ended."""
        self._made_by: dict[tuple[str, ...], int] = {}
        """The number of the run that wrote a checkpoint, by the checkpoint's lines."""
        self.standing = Standing()

    def add(self, record: LineRecord | BlockRecord | Dropped | CheckpointRecord) -> None:
        """Add a record; a block belongs to the line before it. Raises ValueError where its run has none."""
        if isinstance(record, LineRecord):
            self._lines.append((bytes.fromhex(record.sha256), bytes.fromhex(record.rewritten), record.place))
            self._edits.append(record.edit)
        elif isinstance(record, Dropped):
            self._dropped.append(record)
        elif isinstance(record, CheckpointRecord):
            # A run that took one out may have been killed before the session changed: it is looked for again.
            known = self._checkpoints.get(record.lines)
            if record.ended and known is not None:
                self._checkpoints[record.lines] = record._replace(dropped=known.dropped, alike=known.alike)
                return
            self._checkpoints.pop(record.lines, None)
            dropped = tuple(self._dropped)
            if known is not None:
                # A backup of the session may hold the one that was written before.
                alike = known.alike or bool(known.dropped) != bool(dropped)
                record = record._replace(alike=alike)
                dropped = dropped or known.dropped
            self._checkpoints[record.lines] = record._replace(dropped=dropped)
            self._made_by[record.lines] = len(self.runs)
            self._dropped.clear()
        elif len(self._lines) == self._ended[0]:
            raise ValueError("a block without its line")
        else:
            self._blocks.append(record)
            self._owners.append(len(self._lines) - 1)

    @property
    def checkpoints(self) -> Sequence[CheckpointRecord]:
        """The newest record of each checkpoint, the oldest first."""
        return tuple(self._checkpoints.values())

    @property
    def spans(self) -> Iterator[tuple[RunRecord, int]]:
        """Yield the runs, each with the byte of the originals at which it began to write."""
        return zip(self.runs, [0, *(run.store_size for run in self.runs)], strict=False)

    @property
    def lines(self) -> Iterator[LineRecord]:
        """Yield the line records."""
        return map(self.line, range(len(self._lines)))

    @property
    def blocks(self) -> Iterator[tuple[LineRecord, BlockRecord]]:
        """Yield the block records, each with that of its line."""
        return map(self.block, range(len(self._blocks)))

    @cached_property
    def kept(self) -> Sequence[int]:
        """The line records whose originals are kept, in the order in which these are stored."""
        lines = enumerate(self._lines)
        places = ((place.frame * FRAME_BYTES + place.offset, row) for row, (*_, place) in lines if place)
        return array("I", [row for _, row in sorted(places)])

    @property
    def keeps_all(self) -> bool:
        """Whether what each line was is kept."""
        return all(place for *_, place in self._lines)

    @property
    def counts(self) -> tuple[int, int]:
        """The number of line and of block records."""
        return len(self._lines), len(self._blocks)

    def line(self, row: int) -> LineRecord:
        """Read a line record."""
        was, rewritten, place = self._lines[row]
        return LineRecord(was.hex(), place, rewritten.hex(), bool(self._edits[row]))

    def block(self, row: int) -> tuple[LineRecord, BlockRecord]:
        """Read a block record, with that of the original in which it stood: see placed()."""
        return self.placed(self._owners[row]), self._blocks[row]

    def blocks_of(self, row: int) -> Sequence[BlockRecord]:
        """Find the block records of a line record."""
        first = bisect_left(self._owners, row)
        return self._blocks[first : bisect_right(self._owners, row, first)]

    @cached_property
    def _firsts(self) -> Sequence[bytes]:
        """The SHA-256 of what the agent wrote, of each line record: what an edit was, an earlier run may have made."""
        # Only earlier records count, so that no chain has an end that is its beginning.
        made: dict[bytes, bytes] = {}
        firsts: list[bytes] = []
        for (was, now, _), is_edit in zip(self._lines, self._edits, strict=True):
            firsts.append(made.get(was, was) if is_edit else was)
            made[now] = firsts[-1]
        return firsts

    @cached_property
    def _originals(self) -> _Rows:
        return _Rows(enumerate(self._firsts))

    @cached_property
    def _rewritten(self) -> _Rows:
        return _Rows((row, rewritten) for row, (_, rewritten, _) in enumerate(self._lines))

    @cached_property
    def _replacements(self) -> _Rows:
        """The block records by what identifies their replacements: each row doubled, since an image has two."""
        # The same text may stand for many originals, in calls and in values of any kind.
        blocks = enumerate(self._blocks)
        return _Rows((2 * row + at, hash(key)) for row, block in blocks for at, key in enumerate(block.identities()))

    def rewriting(self, sha256: bytes) -> int | None:
        """Find the newest line record of a rewritten line."""
        return self._rewritten.get(sha256)

    def rewritings(self, sha256: bytes) -> list[int]:
        """Find the line records of a rewritten line, in their order."""
        return list(self._rewritten.all(sha256))[::-1]

    def original(self, sha256: bytes) -> int | None:
        """Find the newest line record of an original."""
        return self._originals.get(sha256)

    def originals(self, sha256: bytes) -> list[int]:
        """Find the line records of an original, in their order."""
        return list(self._originals.all(sha256))[::-1]

    def original_of(self, row: int) -> bytes:
        """Return the SHA-256 of a line record's original: of what the agent wrote."""
        return self._firsts[row]

    def place(self, original: bytes, was: bytes) -> Place | None:
        """Find where what a line was is kept, by its SHA-256 and that of its original.

        A run that kept nothing may come before or behind one that did.
        """
        rows = (self._lines[row] for row in self._originals.all(original))
        return next((place for each, _, place in rows if each == was and place), None)

    def placed(self, row: int) -> LineRecord:
        """Return the record of a line as if its original had become at once what the line record says."""
        original = self._firsts[row]
        return LineRecord(original.hex(), self.place(original, original), self._lines[row][1].hex())

    def missing(self, there: Container[bytes], runs: Container[int]) -> list[LineRecord]:
        """Return a record of each original of which no line is `there`, if a run that stands or of these rewrote it."""
        return [
            self.placed(row)
            for row, original in enumerate(self._firsts)
            if original not in there
            and self.original(original) == row
            and any(self.stands(each) or self.run_of(each) in runs for each in self.originals(original))
        ]

    def replaced(self, key: OurKey) -> list[int]:
        """Find the block records of the replacements that a key identifies, in their order."""
        return list(self._newest(key))[::-1]

    def _newest(self, key: OurKey) -> Iterator[int]:
        found = (doubled // 2 for doubled in self._replacements.all(hash(key)))
        return (row for row in found if key in self._blocks[row].identities())

    def __contains__(self, key: OurKey) -> bool:
        return next(self._newest(key), None) is not None

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of a replacement of ours, None where it is none."""
        row = next(self._newest(key), None)
        return None if row is None else self._blocks[row].origin

    @property
    def references(self) -> Iterator[tuple[str, str]]:
        """Yield the references, each with the XXH3-64 of what it names."""
        return ((block.ref, block.xxh3) for block in self._blocks)

    @property
    def lengths(self) -> layout.Lengths:
        """The committed lengths of both files."""
        return layout.Lengths(self.store_size, self.size)

    @property
    def unknown_in_calls(self) -> int:
        """The arguments of calls that held a marker when the journal was begun."""
        return int(self.runs[0].stats.get(records.UNKNOWN_IN_CALLS, 0)) if self.runs else 0

    @property
    def session_id(self) -> str:
        """The session's id in its newest run; empty where no run noted one."""
        return next((run.session_id for run in reversed(self.runs) if run.session_id), "")

    @property
    def session_ids(self) -> tuple[str, ...]:
        """All ids that runs noted: another session may have lain at the path before this one."""
        return tuple(dict.fromkeys(run.session_id for run in self.runs if run.session_id))

    def run_of(self, row: int) -> int:
        """Find the number of the run whose change a line record tells of."""
        return self._makers.of(row) if row < self._ended[0] else len(self.runs)

    def written_by(self, row: int) -> int:
        """Find the number of the run that wrote a line record, whatever run made it its own since."""
        return bisect_right(self._ends, row)

    def stands(self, row: int) -> bool:
        """Tell whether no restore took back the run whose change a line record tells of."""
        return self.run_of(row) in self.standing

    def checkpoints_of(self, runs: Container[int]) -> list[CheckpointRecord]:
        """Find the checkpoints that some runs wrote."""
        return [each for each in self.checkpoints if self._made_by[each.lines] in runs]

    def maker(self, checkpoint: CheckpointRecord) -> RunRecord:
        """Find the run that wrote a checkpoint."""
        return self.runs[self._made_by[checkpoint.lines]]

    @property
    def restored(self) -> bool:
        """Whether the last run was a restore."""
        return bool(self.runs) and self.runs[-1].restored

    @property
    def has_checkpoint(self) -> bool:
        """Whether a checkpoint was written that no restore took out."""
        return any(not each.ended for each in self.checkpoints)

    @property
    def ends_with_checkpoint(self) -> bool:
        """Whether the last run wrote a checkpoint, which rewrites no line."""
        last = self.runs[-1] if self.has_checkpoint else None
        return last is not None and last.records == (0, 0) and not (last.again or last.restored)

    def end_run(self, run: RunRecord) -> None:
        """Add a run, whose records have been added.

        Raises ValueError where it does not go on from the run before it, or did not write the records that are there.
        """
        grown = run.store_size - self.store_size
        frames = {place.frame for *_, place in self._lines[self._ended[0] :] if place}
        # A merge may have put behind a run what another one wrote that began where this one did.
        elsewhere = frames and self.store_size not in frames if grown > 0 else grown < 0 or run.originals_sha256
        if elsewhere and not self.broken:
            raise ValueError("its run does not continue from the run before it")
        added = (len(self._lines) - self._ended[0], len(self._blocks) - self._ended[1])
        if run.records is not None and run.records != added:
            written = f"its run wrote {run.records[0]} line and {run.records[1]} block records"
            raise ValueError(f"{written}, but {added[0]} and {added[1]} are there")
        if len(self.runs) > 1 and not writes_checkpoint(self.runs[-1]):
            # What these, the first and the last run say of themselves is asked for; of any other only what it added.
            self.runs[-1] = self.runs[-1]._replace(policy=_NOTHING, stats=_NOTHING)
        number = len(self.runs)
        self.standing.add(number, run)
        for first, size in run.again:
            self._makers.claim(first, min(first + size, self._ended[0]), number)
        self._makers.claim(self._ended[0], self.counts[0], number)
        self.runs.append(run)
        self._ends.append(self.counts[0])
        self._ended = self.counts
        self.store_size = run.store_size


def load(path: Path, *, to_hole: bool = False) -> Journal:
    """Read the journal at a path; an empty one where there is none.

    With `to_hole` what the file system says is a hole at its end is not read: no record stands there. Only to tell what
    there is: some file systems have been wrong about holes, and what a run cuts off must not go by that.
    """
    with failing(path):
        refuse_linked(path)
        try:
            fd = open_file(path)
        except FileNotFoundError:
            return Journal()
        with open(fd, "rb", buffering=1 << 20) as file:
            return read(file, str(path), disk.written(fd) if to_hole else None)


def read(file: BinaryIO, where: str, end: int | None = None) -> Journal:
    """Read a journal up to its last run record, which is looked for in all of it, or before its byte `end`.

    What is bad before that is damage, and behind it a torn append. Raises Damaged, naming the line.
    """
    position = committed = 0
    for raw in records.raw_records(file):
        position += len(raw)
        if may_be_run(raw) and raw.endswith(b"\n"):
            committed = position
        if end is not None and position >= end:
            break
    journal = Journal()
    seals = records.Seals()
    file.seek(0)
    for number, raw in enumerate(records.raw_records(file), 1):
        if journal.size + len(raw) > committed:
            break
        journal.size += len(raw)
        try:
            record = records.decode(raw)
            if isinstance(record, RunRecord):
                seals.run(raw, number, record)
                journal.broken = seals.broken
                journal.end_run(record)
            else:
                journal.add(record)
                seals.record(raw)
        except (ValueError, KeyError, TypeError) as error:
            is_conflict = raw.startswith((b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>"))
            why = "git left a conflict marker there" if is_conflict else str(error)[:_MOST_SAID]
            raise Damaged(
                f"this record of the journal cannot be read ({why})",
                where=where,
                line=number,
                state=NOT_CHANGED,
                remedy=f"Put the journal back from a backup. {ONE_SIDE} "
                "'sessioncompress forget' deletes it with the originals.",
            ) from error
    return journal


def uncommitted(path: Path, start: int) -> Iterator[str]:
    """Yield the SHA-256 of the lines that the records behind the committed bytes of a journal say were written."""
    with open(open_file(path), "rb", buffering=1 << 20) as file:
        file.seek(start)
        for raw in records.raw_records(file):
            with suppress(ValueError, KeyError, TypeError):
                record = records.decode(raw)
                if isinstance(record, LineRecord):
                    yield record.rewritten
                elif isinstance(record, CheckpointRecord) and not record.ended:
                    yield from record.lines
