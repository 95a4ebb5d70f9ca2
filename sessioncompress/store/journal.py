"""The journal: one JSON object a line for each rewritten line, each replaced block, and each run, the commit point.

What stands behind the last run record was never committed. This module only reads.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO, Final, NamedTuple

from sessioncompress.core.lines import DigestIndex, Index, Table, columns
from sessioncompress.core.model import Origin, OurKey
from sessioncompress.errors import NOT_CHANGED, Damaged, Met, failing
from sessioncompress.store.disk import written
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.layout import FOLDER, Lengths, originals_of, session_beside
from sessioncompress.store.lock import open_file
from sessioncompress.store.originals import FRAME_BYTES, Place
from sessioncompress.store.records import (
    UNKNOWN_IN_CALLS,
    BlockRecord,
    LineRecord,
    RunRecord,
    Seals,
    decode,
    is_sealed,
    raw_records,
)

_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")


def is_conflict_marker(raw: bytes) -> bool:
    """Say whether a line is one of those that git puts around what it could not merge."""
    return raw.startswith(_MARKERS)


def met(journal: str | os.PathLike[str], how: str, line: int | None = None) -> Met:
    """Make the error for two sides that both went on from the same originals and journal."""
    path = Path(journal)
    return Met(
        f"two sides stand together here, put so by git or from a backup, which went on from the same originals: {how}",
        where=path,
        line=line,
        state=NOT_CHANGED,
        remedy=_way_out(Path(os.path.abspath(path))),  # noqa: PTH100 - of Path.absolute() a `..` would stay
    )


def _way_out(journal: Path) -> str:
    """Name the git commands that bring back one side, from whatever folder they are called.

    By commits: where git merged a file by itself, `--ours` means what it made of both.
    """
    folder = journal.parent
    store = [originals_of(journal).name, journal.name]
    session, path = "SESSION", " SESSION is its path."
    if folder.name == FOLDER:
        session, path = quote(session_beside(journal)), ""
        folder, store = folder.parent, [f"{FOLDER}/{name}" for name in store]
    git = f"git -C {quote(str(folder))}"
    three = " ".join([session, *map(quote, store)])
    return (
        "Take all three files of one side. While a merge or rebase is not done, with "
        f"{git} checkout HEAD -- {three} (the other side: MERGE_HEAD instead of HEAD, in a rebase REBASE_HEAD). "
        f"When it is done, {git} log --all --reflog --full-history --oneline -- {quote(store[1])} lists the commits of "
        f"both sides; take from the last one of a side: {git} checkout COMMIT -- {three} (COMMIT is its number).{path} "
        "To keep what both sides have, do so for each in turn, run 'sessioncompress restore' on it and keep a copy: "
        "restored sessions can be merged. Where no git was at work, put the file back that goes with the other."
    )


_MOST_HASHED: Final = 1 << 30
"""Bytes. To find where the other side's records stand takes about a second then; a longer run is called damaged."""


def shares_records(file: BinaryIO, ends: Sequence[int]) -> bool:
    """Say whether the run behind the last of `ends`, where runs end, shares records with one of another side.

    Both sides rewrote the same lines first. Git lets what is equal stand once, then the records of one side with its
    run, then the rest of the other's with its run. That run counts more records than stand behind the run before it;
    with those from before, its seal holds. Where in between the sides rewrote a line differently, both records stand
    there, and the seal holds without those of the other side. Damage cannot look like that.
    """
    own, last, run = _run(file, ends[-1] if ends else 0)
    if run is None or run.records is None:
        return False
    missing = sum(run.records) - len(own)
    if missing < 0:
        return _holds_without(-missing, own, last)
    return missing > 0 and any(
        is_sealed([*shared, *own], last)
        for start in (0, *ends[:-1])
        if len(shared := _first(file, start, missing)) == missing
    )


def _holds_without(number: int, own: Sequence[bytes], last: bytes) -> bool:
    """Say whether the seal of a run holds without so many of its records that stand behind each other.

    Not the first ones: git lets those of the other side stand behind ours, and before ours may stand the records of a
    run whose own is gone, which is damage.
    """
    if len(own) * sum(map(len, own)) > _MOST_HASHED:
        return False
    return any(is_sealed([*own[:at], *own[at + number :]], last) for at in range(1, len(own) - number + 1))


def _run(file: BinaryIO, start: int) -> tuple[list[bytes], bytes, RunRecord | None]:
    """Return the records of the run that begins there, its own as it stands and as it is read; None where none is."""
    file.seek(start)
    own: list[bytes] = []
    for raw in raw_records(file):
        with suppress(ValueError, KeyError, TypeError):
            record = decode(raw)
            if isinstance(record, RunRecord):
                return own, raw, record
        own.append(raw)
    return own, b"", None


def _first(file: BinaryIO, start: int, number: int) -> list[bytes]:
    """Return so many of the first records of the run that begins there, fewer where it has not so many."""
    file.seek(start)
    return list(islice(raw_records(file), number))


_MOST_SAID = 200
"""Characters of what an error says of a record, which may quote it."""
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
        """Return how many line and block records there are."""
        return len(self._lines), len(self._blocks)

    def line(self, row: int) -> LineRecord:
        """Return a line record."""
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
        """Return the newest line record of a rewritten line with that SHA-256."""
        return next(self._rewritten.newest(sha256), None)

    def originals(self, sha256: bytes) -> list[int]:
        """Return the line records of an original with that SHA-256."""
        return self._originals.rows(sha256)

    def original(self, sha256: bytes) -> int | None:
        """Return the newest line record of an original with that SHA-256."""
        return next(self._originals.newest(sha256), None)

    def place(self, sha256: bytes) -> Place | None:
        """Return where an original is; a run that kept none may come before or behind one that did."""
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
            if self.original(original) == row and (fewer := self._equal_lines(original) - there[row]) > 0:
                missing += [self.placed(row)] * fewer
        return missing

    def _equal_lines(self, original: bytes) -> int:
        """Return how many lines with that original were rewritten, each once, however often it was."""
        rows = self.originals(original)
        return max(len(self.numbers(rows)), 1) if len(rows) > 1 else 1

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
        """Return how much of both files is committed."""
        return Lengths(self.store_size, self.size)

    @property
    def unknown_in_calls(self) -> int:
        """Return in how many arguments of calls a marker stood when the journal was begun."""
        return int(self.runs[0].stats.get(UNKNOWN_IN_CALLS, 0)) if self.runs else 0

    @property
    def session_id(self) -> str:
        """Return the id of the session as its newest run saw it; empty where no run noted one."""
        return next((run.session_id for run in reversed(self.runs) if run.session_id), "")

    @property
    def session_ids(self) -> tuple[str, ...]:
        """Return all ids that runs noted: another session may have lain at the path before this one."""
        return tuple(dict.fromkeys(run.session_id for run in self.runs if run.session_id))

    @property
    def restored(self) -> bool:
        """Say whether the last run was a restore."""
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
    ends: list[int] = []
    file.seek(0)
    for number, raw in enumerate(raw_records(file), 1):
        if journal.size + len(raw) > committed:
            break
        journal.size += len(raw)
        try:
            record = decode(raw)
            if isinstance(record, RunRecord):
                seals.run(raw, number, record)
                if not seals.broken and _goes_on_elsewhere(journal, record, before[0]):
                    raise _elsewhere(where, number, seals)
                _end_run(journal, record, before)
                before = journal.counts
                ends.append(journal.size)
            else:
                _add(journal, record, before)
                seals.record(raw)
        except (ValueError, KeyError, TypeError) as error:
            if is_conflict_marker(raw):
                raise met(where, "a conflict marker stands in the journal", number) from error
            if shares_records(file, ends):
                raise met(where, "a run in it began with records that stand before another run", number) from error
            raise Damaged(
                f"this record of the journal cannot be read ({str(error)[:_MOST_SAID]})",
                where=where,
                line=number,
                state=NOT_CHANGED,
                remedy="Put the journal back from a backup; 'sessioncompress forget' deletes it with the originals.",
            ) from error
    journal.broken = seals.broken
    return journal


def _add(journal: Journal, record: LineRecord | BlockRecord, before: tuple[int, int]) -> None:
    """Add a record of the run that begins behind so many line and block records."""
    if isinstance(record, BlockRecord) and journal.counts[0] == before[0]:
        raise ValueError("a block without its line")
    journal.add(record)


def _end_run(journal: Journal, run: RunRecord, before: tuple[int, int]) -> None:
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


def _goes_on_elsewhere(journal: Journal, run: RunRecord, first: int) -> bool:
    """Say whether a run's originals do not begin where those of the run before it end.

    Git has then put behind a run what another one wrote that began where this one did.
    """
    grown = run.store_size - journal.store_size
    if grown <= 0:
        return grown < 0 or bool(run.originals_sha256)
    frames = journal.frames(first)
    return bool(frames) and journal.store_size not in frames


def _elsewhere(where: str, number: int, seals: Seals) -> Exception:
    """Make the error for a run that goes on elsewhere: a flipped digit looks so too, unless two seals hold."""
    if seals.holds and seals.before:
        return met(where, "a run in it does not go on from the run before it", number)
    return ValueError("its run does not go on from the run before it")


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
