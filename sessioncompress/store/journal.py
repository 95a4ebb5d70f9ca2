"""The journal: one JSON object a line for each rewritten line, each replaced block, and each run, the commit point.

Records after the last run record were never committed. This module only reads.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from heapq import heappop, heappush
from itertools import count, islice, repeat
from json import JSONDecodeError
from pathlib import Path
from typing import Any, BinaryIO

from sessioncompress.core.model import Origin, OurKey
from sessioncompress.core.text import quote
from sessioncompress.errors import Damaged, failing
from sessioncompress.store import disk, layout, records
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.git import in_work_tree
from sessioncompress.store.lock import open_file
from sessioncompress.store.machine import is_signed
from sessioncompress.store.originals import FRAME_BYTES, FROM_MARKERS, InBlob, InFrame
from sessioncompress.store.records import BlockRecord, CheckpointRecord, Dropped, LineRecord, RunKind, RunRecord

_MOST_ASKED = 8
"""Maximum places of one line that are compared: a session may have thousands of identical lines."""
_MOST_SAID = 200
"""Maximum characters of an error about a record, which may quote it."""
_NOTHING: Mapping[str, Any] = {}
_OF_A_BLOCK = b'{"type":"block"'
_OF_A_LINE = (b'{"type":"edit"', b'{"type":"git-edit"', b'{"type":"line"', _OF_A_BLOCK)


class _Rows:
    """Finds the rows of a key, newest first."""

    def __init__(self, keys: Iterable[tuple[int, Hashable]]) -> None:
        self._newest: dict[Hashable, int] = {}
        self._before: dict[int, int] = {}
        """Links a row to the previous row with the same key."""
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


class ActiveRuns:
    """The runs of a journal that no restore took back, by number.

    Adding a run never compares it with all before it, because an untrusted journal may have any number of them.
    """

    def __init__(self) -> None:
        self.dead: set[int] = set()
        """The runs that died before their session was put in place."""
        self._last: RunRecord | None = None
        self._in_place: dict[int, None] = {}
        self._named: dict[str, list[int]] = {}
        self._undone: dict[str, int] = {}
        """The newest undone run of each name."""
        self._rewriting: list[int] = []
        """The runs that wrote no checkpoint. Like `_named`, it may still list runs that are no longer in place."""
        self._partly: set[int] = set()
        """The runs that were taken back only in part by a restore of a single run."""
        self._touched = 0
        """Every run in place with a number below this was taken back in part."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the runs in place, oldest first."""
        return tuple(sorted(self._in_place))

    def __contains__(self, number: int) -> bool:
        return number in self._in_place

    def named(self, name: str) -> frozenset[int]:
        """Return the runs in place with this name: one command may have written a session more than once."""
        return frozenset(filter(self._in_place.__contains__, self._named.get(name, ())))

    def touched(self, number: int) -> bool:
        """True if a run is in place and a restore took back a part of it."""
        return (number < self._touched or number in self._partly) and number in self

    def add(self, number: int, run: RunRecord) -> None:
        """Add the next run."""
        last = self._last
        if (
            last is not None
            and (last.modified == run.modified > 0 or last.id == run.id != "")
            and (last.original_size, last.command) == (run.original_size, run.command)
        ):
            # It found the session as the previous run did, and did the same: that run died before the swap.
            self.dead.add(number - 1)
            self._in_place.pop(number - 1, None)
        self._last = run
        if not run.is_restore:
            self._in_place[number] = None
            self._named.setdefault(run.id, []).append(number)
            if not run.writes_checkpoint:
                self._rewriting.append(number)
        elif run.command == RunKind.RESTORE_MARKERS and run.undoes:
            for name in run.undoes:
                if name not in self._named and name in self._undone:
                    # Someone put the session back to the state after that run.
                    back = self._undone.pop(name)
                    self._in_place[back], self._named[name] = None, [back]
                self._partly.update(self._named.get(name, ()))
        elif run.command == RunKind.RESTORE_MARKERS:
            self._touched = number
        elif run.undoes is not None:
            for name in run.undoes:
                if numbers := self._named.pop(name, []):
                    self._undone[name] = numbers[-1]
                    self._end(numbers)
        elif run.command == RunKind.RESTORE_LINES:
            self._end(self._rewriting)
        else:
            self._undone |= {name: numbers[-1] for name, numbers in self._named.items() if numbers}
            self._in_place.clear()
            self._named.clear()
            self._rewriting.clear()

    def _end(self, numbers: list[int]) -> None:
        while numbers:
            self._in_place.pop(numbers.pop(), None)


class Journal:
    """All committed records. `size` is the journal's committed length in bytes, `store_size` that for the originals.

    `broken` is the line number of the first run whose records were changed after it wrote them, or 0.

    Line and block records are identified by row, counted from 0 for each type. SHA-256 digests are passed as bytes.
    """

    def __init__(self) -> None:
        self.runs: list[RunRecord] = []
        self.size = 0
        self.store_size = 0
        self.broken = 0
        self.is_ours = True
        """True if this user signed all runs on this machine, so no one else can have planted them."""
        self._checkpoints: dict[tuple[str, ...], CheckpointRecord] = {}
        """The newest record of each checkpoint, by its lines."""
        self._dropped: list[Dropped] = []
        """Dropped records whose checkpoint record has not been read yet; it follows them."""
        self._lines: list[tuple[bytes, bytes, InFrame | InBlob | None, bool, int]] = []
        """The fields of each line record, with SHA-256 digests as bytes to halve the memory."""
        self._blocks: list[BlockRecord] = []
        self._owners = array("I")
        self._ends = [(0, 0)]
        """The numbers of line and block records at the start, and at the end of each run."""
        self._sizes = array("Q")
        """Bytes of the store at the end of each run."""
        self._made_by: dict[tuple[str, ...], int] = {}
        """The number of the run that wrote a checkpoint, by the checkpoint's lines."""
        self._ended_by: dict[tuple[str, ...], int] = {}
        """The number of the newest run that removed a checkpoint."""
        self.standing = ActiveRuns()

    def add(self, record: LineRecord | BlockRecord | Dropped | CheckpointRecord) -> None:
        """Add a record; a block belongs to the line record before it. Raises ValueError if its run has none."""
        if isinstance(record, LineRecord):
            was, now = bytes.fromhex(record.sha256), bytes.fromhex(record.rewritten)
            self._lines.append((was, now, record.place, record.edit, record.line))
        elif isinstance(record, Dropped):
            self._dropped.append(record)
        elif isinstance(record, CheckpointRecord):
            # Keep an ended checkpoint: its run may have been killed before the session changed, so look for it again.
            known = self._checkpoints.get(record.lines)
            if record.ended and known is not None:
                self._checkpoints[record.lines] = record._replace(dropped=known.dropped, alike=known.alike)
                self._ended_by[record.lines] = len(self.runs)
                return
            if record.drops not in (None, len(self._dropped)) and not record.ended:
                raise ValueError(f"it dropped {record.drops} parts of the session, but {len(self._dropped)} are there")
            self._checkpoints.pop(record.lines, None)
            dropped = tuple(self._dropped)
            if known is not None:
                # A backup of the session may contain the checkpoint in its earlier form.
                alike = known.alike or bool(known.dropped) != bool(dropped)
                record = record._replace(alike=alike)
                dropped = dropped or known.dropped
            self._checkpoints[record.lines] = record._replace(dropped=dropped)
            self._made_by[record.lines] = len(self.runs)
            self._dropped.clear()
        elif len(self._lines) == self._ends[-1][0]:
            raise ValueError("a block without its line")
        else:
            self._blocks.append(record)
            self._owners.append(len(self._lines) - 1)

    def drop_line(self) -> None:
        """Remove the newest line record, if it is of the run that is being read, with its blocks."""
        if len(self._lines) > self._ends[-1][0]:
            self._lines.pop()
        while self._owners and self._owners[-1] == len(self._lines):
            self._owners.pop()
            self._blocks.pop()

    @property
    def checkpoints(self) -> Sequence[CheckpointRecord]:
        """The newest record of each checkpoint, oldest first."""
        return tuple(self._checkpoints.values())

    @property
    def spans(self) -> Iterator[tuple[RunRecord, int]]:
        """Yield each run with the byte of the originals at which it started to write."""
        return zip(self.runs, [0, *(run.store_size for run in self.runs)], strict=False)

    @cached_property
    def kept(self) -> Sequence[int]:
        """The rows of the line records whose originals are stored, in storage order."""
        places = ((row, place) for row, (_, _, place, *_) in enumerate(self._lines) if place)
        order = (
            (
                ("", each.frame * FRAME_BYTES + each.offset) if isinstance(each, InFrame) else (each.blob, each.offset),
                row,
            )
            for row, each in places
        )
        return array("I", [row for _, row in sorted(order)])

    @property
    def blobs(self) -> frozenset[str]:
        """The ids of the git blobs that contain originals."""
        return frozenset(place.blob for _, _, place, *_ in self._lines if isinstance(place, InBlob))

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of line and block records."""
        return len(self._lines), len(self._blocks)

    def line(self, row: int) -> LineRecord:
        """Return a line record."""
        was, rewritten, place, is_edit, line = self._lines[row]
        return LineRecord(was.hex(), place, rewritten.hex(), is_edit, line)

    def block(self, row: int) -> tuple[LineRecord, BlockRecord]:
        """Return a block record, preceded by the record of the original that contained it; see placed()."""
        return self.placed(self._owners[row]), self._blocks[row]

    def blocks_of(self, row: int) -> Sequence[BlockRecord]:
        """Return the block records of a line record."""
        first = bisect_left(self._owners, row)
        return self._blocks[first : bisect_right(self._owners, row, first)]

    @cached_property
    def _firsts(self) -> Sequence[bytes]:
        """The SHA-256 of the line that the agent wrote, for each line record. An edit's `was` may be our own output."""
        # Only earlier records are followed, so no chain can loop.
        made: dict[bytes, bytes] = {}
        firsts: list[bytes] = []
        for was, now, _, is_edit, _ in self._lines:
            firsts.append(made.get(was, was) if is_edit else was)
            made[now] = firsts[-1]
        return firsts

    @cached_property
    def _originals(self) -> _Rows:
        return _Rows(enumerate(self._firsts))

    @cached_property
    def _rewritten(self) -> _Rows:
        return _Rows((row, rewritten) for row, (_, rewritten, *_) in enumerate(self._lines))

    @cached_property
    def _replacements(self) -> _Rows:
        """The block records by the identities of their replacements. Rows are doubled, because an image has two."""
        # The same text may replace many originals, in calls and in values of any kind.
        blocks = enumerate(self._blocks)
        return _Rows((2 * row + at, hash(key)) for row, block in blocks for at, key in enumerate(block.identities()))

    def rewriting(self, sha256: bytes) -> int | None:
        """Return the newest line record of a rewritten line, or None."""
        return self._rewritten.get(sha256)

    def rewritings(self, sha256: bytes) -> list[int]:
        """Return the line records of a rewritten line, oldest first."""
        return list(self._rewritten.all(sha256))[::-1]

    def original(self, sha256: bytes) -> int | None:
        """Return the newest line record of an original, or None."""
        return self._originals.get(sha256)

    def originals(self, sha256: bytes) -> list[int]:
        """Return the line records of an original, oldest first."""
        return list(self._originals.all(sha256))[::-1]

    def numbers_of(self, row: int, last: int = -1) -> set[int]:
        """Return the numbers of the lines that runs rewrote from a record's original, as of run `last`, or -1 for all.

        If no record has a number, as in stores of 1.0.0, there is one negative number for each record.
        """
        if last >= 0 and (run := self.runs[last]).command == RunKind.RESTORE and run.undoes is None:
            return set()
        end = self._ends[last + 1 or -1][0]
        rows = [each for each in self.originals(self._firsts[row]) if each < end]
        lines = {each: self._lines[each][-1] for each in rows}
        lines |= {each: block.line for each in rows for block in self.blocks_of(each)[:1]}
        return {line for line in lines.values() if line >= 0} or {-1 - each for each in rows}

    @cached_property
    def _named(self) -> Mapping[tuple[bytes, str], int]:
        """The oldest block record of each reference in an original."""
        blocks = zip(reversed(self._owners), reversed(self._blocks), count(len(self._blocks) - 1, -1), strict=False)
        return {(self._firsts[owner], block.ref): row for owner, block, row in blocks}

    def named(self, ref: str, original: bytes) -> BlockRecord | None:
        """Return the record that a reference in an original's rewritten line refers to, or None."""
        row = self._named.get((original, ref))
        return None if row is None else self._blocks[row]

    def original_of(self, row: int) -> bytes:
        """Return the SHA-256 of a line record's original, the line that the agent wrote."""
        return self._firsts[row]

    def place(self, original: bytes, was: bytes) -> InFrame | InBlob | None:
        """Return the place of a line's earlier content, by its SHA-256 and its original's, or None if no run stored it.

        Some runs on the same line may have stored nothing, so search all of them.
        """
        rows = (self._lines[row] for row in self._originals.all(original))
        places = list(islice((place for each, _, place, *_ in rows if each == was and place), _MOST_ASKED))
        # Prefer the store: a commit may disappear.
        return min(places, key=lambda place: isinstance(place, InBlob), default=None)

    def placed(self, row: int) -> LineRecord:
        """Return a line record that leads directly from the agent's original to this record's rewritten line."""
        original = self._firsts[row]
        return LineRecord(original.hex(), self.place(original, original), self._lines[row][1].hex())

    def missing(self, there: Container[bytes], runs: Container[int]) -> list[LineRecord]:
        """Return a record for each original that is not in `there`, if a run in place or one of `runs` rewrote it."""
        return [
            self.placed(row)
            for row, original in enumerate(self._firsts)
            if original not in there
            and self.original(original) == row
            and any(self.stands(each) or self.run_of(each) in runs for each in self.originals(original))
        ]

    def replaced(self, key: OurKey) -> Iterator[int]:
        """Yield the block records of the replacements with this identity, newest first."""
        found = (doubled // 2 for doubled in self._replacements.all(hash(key)))
        return (row for row in found if key in self._blocks[row].identities())

    def __contains__(self, key: OurKey) -> bool:
        return next(self.replaced(key), None) is not None

    def origin(self, key: OurKey) -> Origin | None:
        """Return the original of our replacement, or None if it is not ours."""
        row = next(self.replaced(key), None)
        return None if row is None else self._blocks[row].origin

    @property
    def references(self) -> Iterator[tuple[str, str]]:
        """Yield each reference with the digest of its content."""
        return ((block.ref, block.digest) for block in self._blocks)

    @property
    def texts(self) -> Iterator[OurKey]:
        """Yield the identities of the texts that runs wrote."""
        return (key for block in self._blocks for key in block.identities())

    @property
    def lengths(self) -> layout.Lengths:
        """The committed lengths of both files, in bytes."""
        return layout.Lengths(self.store_size, self.size)

    @property
    def unaccounted(self) -> int:
        """Bytes of both files that no run in place accounts for: left by restores, and by runs that were undone."""
        return self.size + self.store_size - max((self._sizes[each] for each in self.standing.numbers), default=0)

    @property
    def session_id(self) -> str:
        """The session's id in the newest run that recorded one, or empty."""
        return next((run.session_id for run in reversed(self.runs) if run.session_id), "")

    @property
    def session_ids(self) -> tuple[str, ...]:
        """All ids that runs recorded: the path may have belonged to another session before."""
        return tuple(dict.fromkeys(run.session_id for run in self.runs if run.session_id))

    @cached_property
    def _makers(self) -> Sequence[int]:
        """The number of the run that made each line record, or of the newest run that lists it in `again`."""
        makers = array("I")
        named: list[tuple[int, int, int]] = []
        for number, (run, (end, _)) in enumerate(zip(self.runs, self._ends[1:], strict=True)):
            named += [(first, min(first + size, len(makers)), number) for first, size in run.again]
            makers.extend(repeat(number, end - len(makers)))
        # An untrusted journal's runs may all list all rows: visit each range only where it starts and ends.
        named.sort(reverse=True)
        newest: list[tuple[int, int]] = []
        for row in range(len(makers)) if named else ():
            while named and named[-1][0] <= row:
                _, end, number = named.pop()
                heappush(newest, (-number, end))
            while newest and newest[0][1] <= row:
                heappop(newest)
            if newest:
                makers[row] = -newest[0][0]
        return makers

    def run_of(self, row: int) -> int:
        """Return the number of the run that made a line record's change."""
        return self._makers[row]

    def stands(self, row: int) -> bool:
        """True if no restore took back the run that made a line record's change."""
        return self.run_of(row) in self.standing

    def checkpoints_of(self, runs: Container[int]) -> list[CheckpointRecord]:
        """Return the checkpoints that any of these runs wrote."""
        return [each for each in self.checkpoints if self._made_by[each.lines] in runs]

    def lifetime(self, checkpoint: CheckpointRecord) -> range:
        """Return the numbers of the runs that left a checkpoint in the session, from the one that wrote it on."""
        made = self._made_by[checkpoint.lines]
        return range(made, self._ended_by.get(checkpoint.lines, made) if checkpoint.ended else len(self.runs))

    def maker(self, checkpoint: CheckpointRecord) -> RunRecord:
        """Return the run that wrote a checkpoint."""
        return self.runs[self._made_by[checkpoint.lines]]

    @property
    def has_checkpoint(self) -> bool:
        """True if a checkpoint was written that no restore removed."""
        return any(not each.ended for each in self.checkpoints)

    @property
    def last_run(self) -> RunRecord | None:
        """The newest run; None before the first, and if a restore undid all.

        A checkpoint is not undone: usage from before it doesn't describe the next request.
        """
        newest = self.runs[-1] if self.runs else None
        return None if newest is not None and newest.restored and not self.has_checkpoint else newest

    @property
    def left(self) -> int:
        """The number of old lines that summaries in the session replaced; a document's part counts as one line."""
        standing = [each for each in self.checkpoints if not each.ended]
        lines = sum(dropped.lines for each in standing for dropped in each.dropped)
        return lines + sum(each.removed is not None for each in standing)

    def end_run(self, run: RunRecord, *, lost: bool = False) -> None:
        """Add a run after its records, of which some may be `lost`.

        Raises ValueError if it does not continue from the previous run, or if its number of records is wrong.
        """
        grown = run.store_size - self.store_size
        lines, blocks = self._ends[-1]
        frames = {place.frame for _, _, place, *_ in self._lines[lines:] if isinstance(place, InFrame)}
        # A git merge may have appended a run that started from the same state as the run before it.
        elsewhere = frames and self.store_size not in frames if grown > 0 else grown < 0 or run.originals_sha256
        if elsewhere and not self.broken:
            raise ValueError("its run does not continue from the run before it")
        added = (len(self._lines) - lines, len(self._blocks) - blocks)
        if run.records is not None and run.records != added and not lost:
            written = f"its run wrote {run.records[0]} line and {run.records[1]} block records"
            raise ValueError(f"{written}, but {added[0]} and {added[1]} are there")
        if len(self.runs) > 1 and not self.runs[-1].writes_checkpoint:
            # Policy and stats are used only for these runs, the first and the last: drop the others to save memory.
            self.runs[-1] = self.runs[-1]._replace(policy=_NOTHING, stats=_NOTHING)
        self.standing.add(len(self.runs), run)
        self.runs.append(run)
        self.is_ours = self.is_ours and run.is_ours
        self._ends.append(self.counts)
        self.store_size = run.store_size
        self._sizes.append(self.size + self.store_size)


def load(path: Path, *, to_hole: bool = False, salvaging: bool = False) -> Journal:
    """Read the journal at a path, or return an empty one if the file is missing.

    If `salvaging`, skip damaged records; see read(). With `to_hole`, stop at a trailing hole that the file system
    reports, because a hole contains no records. Use this only for reports: some file systems have been wrong about
    holes, and no run may truncate a file because of one.
    """
    with failing(path):
        refuse_linked(path)
        try:
            fd = open_file(path)
        except FileNotFoundError:
            return Journal()
        with open(fd, "rb", buffering=1 << 20) as file:
            return read(file, str(path), disk.written(fd) if to_hole else None, salvaging=salvaging)


def read(file: BinaryIO, where: str, end: int | None = None, *, salvaging: bool = False) -> Journal:
    """Read a journal up to its last run record; with `end`, up to the last one that starts before that byte.

    A bad record before that is damage; after it, it is a torn append. If `salvaging`, skip a line of which a record
    can't be read, and set `broken`: the other lines' records are complete. Raises Damaged, with the line number, also
    for converted line ends: they break all sizes and seals.
    """
    position = committed = 0
    for raw in records.raw_records(file):
        position += len(raw)
        if records.may_be_run(raw) and raw.endswith(b"\n"):
            committed = position
        if end is not None and position >= end:
            break
    journal = Journal()
    seal, seen = sha256(), sha256(layout.named_in(Path(where)))
    lost = skips = False
    file.seek(0)
    for number, raw in enumerate(records.raw_records(file), 1):
        if journal.size + len(raw) > committed:
            break
        journal.size += len(raw)
        if raw.endswith(b"\r\n"):
            raise Damaged(
                "its lines end with CR LF: git converts line ends where an attribute or core.autocrlf says so",
                where=where,
                remedy=convert_back(where, f"*{layout.HISTORY if where.endswith(layout.HISTORY) else layout.JOURNAL}"),
            )
        try:
            record = records.decode(raw)
            if isinstance(record, RunRecord):
                body, written = records.unsealed(raw)
                seal.update(body)
                # A missing seal is only suspect if the run counts its records: all versions that do so write seals.
                if written != seal.hexdigest().encode() and (written or record.records is not None):
                    journal.broken = journal.broken or number
                seal = sha256()
                journal.end_run(record._replace(is_ours=is_signed(seen, raw)), lost=lost)
                lost = skips = False
            else:
                skips = skips and isinstance(record, BlockRecord)
                if not skips:
                    journal.add(record)
                seal.update(raw)
            seen.update(raw)
        except (ValueError, KeyError, TypeError) as error:
            # A record that is whole, but contradicts itself, was forged.
            is_torn = isinstance(error, JSONDecodeError)
            is_of_line = is_torn and raw.startswith(_OF_A_LINE) and not records.may_be_run(raw)
            if salvaging and is_of_line:
                journal.broken = journal.broken or number
                if not skips and raw.startswith(_OF_A_BLOCK):
                    journal.drop_line()
                lost = skips = True
                # Otherwise a record that others added would count as ours.
                seen.update(raw)
                continue
            is_conflict = raw.startswith((b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>"))
            why = "git left a conflict marker there" if is_conflict else str(error)[:_MOST_SAID]
            path, originals = Path(where), layout.originals_of(Path(where))
            back = f"{FROM_MARKERS}. " if is_of_line else ""
            prints = f"'zstd -dc {quote(str(originals))}' still prints the originals. " if originals.exists() else ""
            raise Damaged(
                f"this record of the journal cannot be read ({why})",
                where=where,
                line=number,
                remedy=f"Put the journal back from a backup. {one_side(path, is_sure=is_conflict)}If others made it, "
                f"move its two files away. {back}{prints}Only when nothing else helps: 'sessioncompress forget' "
                f"deletes all stores of {os.fsdecode(layout.named_in(path))}.",
            ) from error
    return journal


def one_side(journal: Path, *, is_sure: bool = False) -> str:
    """Return the remedy if git may have merged two stores, ending with a space; empty if it can't have this one."""
    if not is_sure and (layout.is_local(journal.parent.name) or not in_work_tree(journal.parent)):
        return ""
    return (
        "If a git merge combined two sides here, take the session and both files of its store from one side: "
        "'git checkout COMMIT -- FILE ...'. "
    )


def uncommitted(path: Path, start: int) -> Iterator[str]:
    """Yield the SHA-256 of the lines that a journal's uncommitted records, from byte `start` on, list as written."""
    with open(open_file(path), "rb", buffering=1 << 20) as file:
        file.seek(start)
        for raw in records.raw_records(file):
            with suppress(ValueError, KeyError, TypeError):
                record = records.decode(raw)
                if isinstance(record, LineRecord):
                    yield record.rewritten
                elif isinstance(record, CheckpointRecord) and not record.ended:
                    yield from record.lines


LF, CR_LF = b"\n", b"\r\n"
_CHANGES = {LF: r"s/\r\n/\n/", CR_LF: r"s/(?<!\r)\n/\r\n/"}


def convert_back(file: str, pattern: str, to: bytes = LF) -> str:
    """Return a remedy: the command that converts a file's line ends back, and how to keep git from converting them."""
    command = f"perl -pi -e '{_CHANGES[to]}' {quote(file)}"
    return f"Convert them back: {command}, and run again. A line '{pattern} -text' in .gitattributes keeps git from it."
