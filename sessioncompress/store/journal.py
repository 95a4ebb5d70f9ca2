"""The journal: one JSON object a line for each rewritten line, each replaced block, and each run, the commit point.

What stands behind the last run record was never committed. This module only reads.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from sessioncompress.core.lines import DigestIndex, Index, Table, columns
from sessioncompress.core.model import Origin, OurKey
from sessioncompress.errors import NOT_CHANGED, Damaged, failing
from sessioncompress.store.disk import written
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.layout import Lengths
from sessioncompress.store.lock import open_file
from sessioncompress.store.originals import FRAME_BYTES, Place
from sessioncompress.store.records import (
    UNKNOWN_IN_CALLS,
    BlockRecord,
    LineRecord,
    RunRecord,
    Seals,
    decode,
    raw_records,
)

_MOST_SAID = 200
"""Characters of what an error says of a record, which may quote it."""
_CONFLICT = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")
ONE_SIDE = (
    "If a merge in git put two sides together here, take the session and both files of its store from one side: "
    "'git checkout COMMIT -- FILE ...'."
)
"""What to do where the files of a store do not go together."""
_NO_FRAME = -1
_64_BITS = (1 << 64) - 1
_NOTHING: Mapping[str, Any] = {}
_RUN = re.compile(rb'"type": ?"run"')
"""Also as other programs write JSON: whoever mended a journal by hand may have used one."""


class _LineRow(NamedTuple):
    """A line record as it is held: digests in bytes, and the place apart."""

    sha256: bytes
    rewritten: bytes
    frame: int
    offset: int
    bytes: int


class Journal:
    """All committed records, in columns. `size` is the journal's committed length, `store_size` the originals'.

    `broken` is the number of the first run's line whose records are not as it wrote them, 0 where all are.

    Line and block records are named by their row: 0 for the first of their type.
    """

    def __init__(self, runs: Iterable[RunRecord] = (), size: int = 0, store_size: int = 0) -> None:
        self.runs = list(runs)
        self.size = size
        self.store_size = store_size
        self.broken = 0
        self._lines: Table[_LineRow] = Table(_LineRow, columns("WWqqq"))
        self._blocks: Table[BlockRecord] = Table(BlockRecord, columns("TqOOOTqqTDOT"))
        self._owners = array("I")

    def add(self, record: LineRecord | BlockRecord) -> None:
        """Add a record; a block belongs to the line before it."""
        if isinstance(record, LineRecord):
            place = record.place or Place(_NO_FRAME, 0, 0)
            self._lines.add((bytes.fromhex(record.sha256), bytes.fromhex(record.rewritten), *place))
        else:
            self._blocks.add(record)
            self._owners.append(len(self._lines) - 1)

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
        frames, offsets = self._lines.columns[2:4]
        kept = [row for row, frame in enumerate(frames) if frame != _NO_FRAME]
        return array("I", sorted(kept, key=lambda row: frames[row] * FRAME_BYTES + offsets[row]))

    @property
    def counts(self) -> tuple[int, int]:
        """The number of line and of block records."""
        return len(self._lines), len(self._blocks)

    def line(self, row: int) -> LineRecord:
        """Read a line record."""
        original, rewritten, frame, offset, size = self._lines[row]
        return LineRecord(original.hex(), None if frame < 0 else Place(frame, offset, size), rewritten.hex())

    def frames(self, first: int) -> set[int]:
        """Return where the frames begin in which the originals of the line records from that row on are kept."""
        column = self._lines.columns[2]
        return {column[row] for row in range(first, len(self._lines))} - {_NO_FRAME}

    def block(self, row: int) -> tuple[LineRecord, BlockRecord]:
        """Return a block record with that of its line."""
        return self.line(self._owners[row]), self._blocks[row]

    def blocks_of(self, row: int) -> Iterator[BlockRecord]:
        """Yield the block records of a line record."""
        first = bisect_left(self._owners, row)
        return self._blocks.rows(range(first, bisect_right(self._owners, row, first)))

    def rewriting(self, sha256: bytes) -> int | None:
        """Find the newest line record of a rewritten line by its SHA-256."""
        return next(self._rewritten.newest(sha256), None)

    def originals(self, sha256: bytes) -> list[int]:
        """Find the line records of an original by its SHA-256."""
        return self._originals.rows(sha256)

    def original(self, sha256: bytes) -> int | None:
        """Find the newest line record of an original by its SHA-256."""
        return next(self._originals.newest(sha256), None)

    def place(self, sha256: bytes) -> Place | None:
        """Find where an original is kept; a run that kept none may come before or behind one that did."""
        return next((place for row in self._originals.newest(sha256) if (place := self.line(row).place)), None)

    def placed(self, row: int) -> LineRecord:
        """Return a line record, with a place where any run kept its original."""
        record = self.line(row)
        return record if record.place else record._replace(place=self.place(bytes.fromhex(record.sha256)))

    def original_of(self, row: int) -> bytes:
        """Return the SHA-256 of a line record's original."""
        digest: bytes = self._lines.columns[0][row]
        return digest

    def times(self, row: int) -> int:
        """Return how many line records have the same rewritten line as this one."""
        return len(self._rewritten.rows(self._lines.columns[1][row]))

    def not_there(self, there: Sequence[int]) -> list[LineRecord]:
        """Return a record for each line that is not there.

        `there` says, at the newest line record of each original, how many lines are its own or its rewritten ones.
        """
        missing: list[LineRecord] = []
        for row, original in enumerate(self._lines.columns[0]):
            if self.original(original) != row:
                continue
            # Each line is counted once, however often it was rewritten.
            rows = self.originals(original)
            lines = max(len(self.numbers(rows)), 1) if len(rows) > 1 else 1
            missing += [self.placed(row)] * (lines - there[row])
        return missing

    def numbers(self, rows: Iterable[int]) -> set[int]:
        """Return the numbers of the lines that some line records are of, as far as they have blocks."""
        return {block.line for row in rows for block in islice(self.blocks_of(row), 1)}

    def rewritings(self, sha256: bytes) -> list[int]:
        """Return the line records of a rewritten line with that SHA-256."""
        return self._rewritten.rows(sha256)

    def replaced(self, key: OurKey) -> list[int]:
        """Return the block records of the replacements that a key identifies."""
        return list(self._newest(key))[::-1]

    def _newest(self, key: OurKey) -> Iterator[int]:
        """Yield the block records of the replacements that a key identifies, the last one first."""
        found = self._replacements.newest(_key(key[0], key[2]))
        return (row for row in found if key in self._blocks[row].identities())

    def __contains__(self, key: OurKey) -> bool:
        return next(self._newest(key), None) is not None

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of a replacement of ours, None where it is none."""
        row = next(self._newest(key), None)
        return None if row is None else self._blocks[row].origin

    @cached_property
    def _originals(self) -> DigestIndex:
        return DigestIndex(self._lines.columns[0])

    @cached_property
    def _rewritten(self) -> DigestIndex:
        return DigestIndex(self._lines.columns[1])

    @cached_property
    def _replacements(self) -> Index:
        """The same text may stand for many originals: so they are found by their calls as well."""
        return Index(map(_key, self._blocks.columns[9], self._blocks.columns[5]))

    @property
    def references(self) -> Iterator[tuple[str, str]]:
        """Yield the references, each with the XXH3-64 of what it names."""
        return zip(self._blocks.columns[0], self._blocks.columns[8], strict=True)

    @property
    def lengths(self) -> Lengths:
        """The committed lengths of both files."""
        return Lengths(self.store_size, self.size)

    @property
    def unknown_in_calls(self) -> int:
        """The arguments of calls that held a marker when the journal was begun."""
        return int(self.runs[0].stats.get(UNKNOWN_IN_CALLS, 0)) if self.runs else 0

    @property
    def session_id(self) -> str:
        """The session's id in its newest run; empty where no run noted one."""
        return next((run.session_id for run in reversed(self.runs) if run.session_id), "")

    @property
    def session_ids(self) -> tuple[str, ...]:
        """All ids that runs noted: another session may have lain at the path before this one."""
        return tuple(dict.fromkeys(run.session_id for run in self.runs if run.session_id))

    @property
    def restored(self) -> bool:
        """Whether the last run was a restore."""
        return bool(self.runs) and self.runs[-1].restored


def _key(replacement: bytes, call: str) -> int:
    return hash((replacement, call)) & _64_BITS


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
            return read(file, str(path), written(fd) if to_hole else None)


def read(file: BinaryIO, where: str, end: int | None = None) -> Journal:
    """Read a journal up to its last run record, which is looked for in all of it, or before its byte `end`.

    Raises Damaged, naming the line, where a committed record is bad.
    """
    journal = Journal()
    committed = _committed(file, end)
    before = (0, 0)
    seals = Seals()
    file.seek(0)
    for number, raw in enumerate(raw_records(file), 1):
        if journal.size + len(raw) > committed:
            break
        journal.size += len(raw)
        try:
            record = decode(raw)
            if isinstance(record, RunRecord):
                seals.run(raw, number, record)
                _end_run(journal, record, before, broken=seals.broken > 0)
                before = journal.counts
            else:
                _add(journal, record, before[0])
                seals.record(raw)
        except (ValueError, KeyError, TypeError) as error:
            why = "git left a conflict marker there" if raw.startswith(_CONFLICT) else str(error)[:_MOST_SAID]
            raise Damaged(
                f"this record of the journal cannot be read ({why})",
                where=where,
                line=number,
                state=NOT_CHANGED,
                remedy=f"Put the journal back from a backup. {ONE_SIDE} "
                "'sessioncompress forget' deletes it with the originals.",
            ) from error
    journal.broken = seals.broken
    return journal


def _add(journal: Journal, record: LineRecord | BlockRecord, first: int) -> None:
    if isinstance(record, BlockRecord) and journal.counts[0] == first:
        raise ValueError("a block without its line")
    journal.add(record)


def _end_run(journal: Journal, run: RunRecord, before: tuple[int, int], *, broken: bool) -> None:
    # A merge may have put behind a run what another one wrote that began where this one did.
    grown = run.store_size - journal.store_size
    frames = journal.frames(before[0])
    elsewhere = frames and journal.store_size not in frames if grown > 0 else grown < 0 or run.originals_sha256
    if elsewhere and not broken:
        raise ValueError("its run does not go on from the run before it")
    now = journal.counts
    added = (now[0] - before[0], now[1] - before[1])
    if run.records is not None and run.records != added:
        lines, blocks = run.records
        raise ValueError(f"its run wrote {lines} line and {blocks} block records; {added[0]} and {added[1]} are there")
    if len(journal.runs) > 1:
        # What the first and the last run say of themselves is asked for; of any other only what it added.
        journal.runs[-1] = journal.runs[-1]._replace(policy=_NOTHING, stats=_NOTHING)
    journal.runs.append(run)
    journal.store_size = run.store_size


def _committed(file: BinaryIO, end: int | None) -> int:
    """Return where the last whole run record ends; what is bad before it is damage, and behind it a torn append."""
    position = committed = 0
    for raw in raw_records(file):
        position += len(raw)
        if _RUN.search(raw) and raw.endswith(b"\n"):
            committed = position
        if end is not None and position >= end:
            break
    return committed


def uncommitted(path: Path, start: int) -> Iterator[LineRecord]:
    """Yield the line records behind the committed bytes of a journal, as far as they can be read."""
    fd = open_file(path)
    with open(fd, "rb", buffering=1 << 20) as file:
        file.seek(start)
        for raw in raw_records(file):
            with suppress(ValueError, KeyError, TypeError):
                record = decode(raw)
                if isinstance(record, LineRecord):
                    yield record
