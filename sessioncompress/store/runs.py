"""The runs over a session: which of them are in place, and what each came to, by their records alone."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sessioncompress.errors import failing
from sessioncompress.store import records
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.layout import last_line
from sessioncompress.store.lock import open_file
from sessioncompress.store.records import Command, RunRecord

_IS_RUN = re.compile(rb'"type": ?"run"')
"""Also as other programs write JSON: whoever mended a journal by hand may have used one."""


def may_be_run(raw: bytes) -> bool:
    """Tell whether a record can be that of a run, without decoding it."""
    return _IS_RUN.search(raw) is not None


class Makers:
    """Which run made each line record, or made it its own again, by the numbers of runs and the rows of records.

    Ranges of rows, none of which overlap: a run mostly makes all of an earlier one its own, or none.
    """

    def __init__(self) -> None:
        self._starts = array("Q")
        self._runs = array("Q")

    def claim(self, first: int, end: int, run: int) -> None:
        """Give rows up to `end` to a run."""
        if first >= end:
            return
        behind = self.of(end)
        left, right = bisect_left(self._starts, first), bisect_right(self._starts, end)
        self._starts[left:right] = array("Q", (first, end))
        self._runs[left:right] = array("Q", (run, behind))

    def of(self, row: int) -> int:
        """Find the run of a row; 0 for one that no run has."""
        at = bisect_right(self._starts, row) - 1
        return self._runs[at] if at >= 0 else 0


class Standing:
    """The runs of a journal that no restore took back, by their numbers.

    No record is compared with all before it: a stranger's journal may have any number of them.
    """

    def __init__(self) -> None:
        self._in_place: dict[int, None] = {}
        self._named: dict[str, list[int]] = {}
        self._rewriting: list[int] = []
        """The runs that wrote no checkpoint. Here, as by their names, those that went since may stand too."""
        self._partly: set[int] = set()
        """Those of which a restore of them alone left a part."""
        self._touched = 0
        """The number below which each run that is in place was taken back in part."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The runs in place, the oldest first."""
        return tuple(self._in_place)

    def __contains__(self, number: int) -> bool:
        return number in self._in_place

    def named(self, name: str) -> frozenset[int]:
        """Find the runs in place that a user calls so: a command may have written a session more than once."""
        return frozenset(filter(self._in_place.__contains__, self._named.get(name, ())))

    def touched(self, number: int) -> bool:
        """Tell whether a restore took back a part of a run that is in place."""
        return (number < self._touched or number in self._partly) and number in self

    def add(self, number: int, run: RunRecord) -> None:
        """Take the next record."""
        if not _restores(run):
            self._in_place[number] = None
            self._named.setdefault(run.name, []).append(number)
            if not writes_checkpoint(run):
                self._rewriting.append(number)
        elif run.command == Command.RESTORE_MARKERS and run.undoes:
            for name in run.undoes:
                self._partly.update(self._named.get(name, ()))
        elif run.command == Command.RESTORE_MARKERS:
            self._touched = number
        elif run.undoes is not None:
            for name in run.undoes:
                self._end(self._named.pop(name, []))
        elif run.command == Command.RESTORE_LINES:
            self._end(self._rewriting)
        else:
            self._in_place.clear()
            self._named.clear()
            self._rewriting.clear()

    def _end(self, numbers: list[int]) -> None:
        while numbers:
            self._in_place.pop(numbers.pop(), None)


def _restores(run: RunRecord) -> bool:
    # Behind a restore a checkpoint's record says so too. It counts what the session holds, which a restore does not.
    return run.command.startswith(Command.RESTORE) if run.command else run.restored and not run.stats


def writes_checkpoint(run: RunRecord) -> bool:
    """Tell whether a run wrote a checkpoint, and rewrote no line."""
    return run.command in (Command.COMPACT, Command.BRANCH) if run.command else run.records == (0, 0)


class Run(NamedTuple):
    """One run over one session. `saved` are the bytes by which the session became smaller, `added` those of the store.

    `restored`: it was taken back, or, where `touched`, part of it. What it added to the store is there still: the next
    run need not add it again, and has it as `found`.
    """

    name: str
    at: str
    command: str
    saved: int
    added: int
    restored: bool
    touched: bool
    found: int


def read_runs(journal: Path) -> list[Run]:
    """Read the runs of the journal at a path, the oldest first; of all other records nothing.

    A run that died before the session was put in place is none: what it added counts for the one that came after it.
    What is no record of a run is passed over: whether the journal is whole, `verify` tells. Raises
    SessionCompressError where the system fails.
    """
    found: list[tuple[RunRecord, int]] = []
    standing, stored, size, begun = Standing(), 0, 0, 0
    with failing(journal):
        refuse_linked(journal)
        try:
            fd = open_file(journal)
        except FileNotFoundError:
            return []
        with open(fd, "rb", buffering=1 << 20) as file:
            for raw in records.raw_records(file):
                size += len(raw)
                if may_be_run(raw):
                    with suppress(ValueError, KeyError, TypeError):
                        run = records.decode(raw)
                        if isinstance(run, RunRecord):
                            standing.add(len(found), run)
                            found.append((run, run.store_size - stored + size - begun))
                            stored, begun = run.store_size, size
    return list(_told(found, standing))


def written_by(name: str, command: Command, journal: Path) -> Run | None:
    """Find what the newest run over a session did to it, if it was of that name, and by that command.

    Whoever has to ask was given the work of a process that died when it had written and not yet told.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        newest = records.decode(last_line(journal))
        if isinstance(newest, RunRecord) and (newest.id, newest.command) == (name, command):
            return read_runs(journal)[-1]
    return None


def _told(found: Sequence[tuple[RunRecord, int]], standing: Standing) -> Iterable[Run]:
    left = 0
    """The bytes that dead runs added to the store, for the next one."""
    back = 0
    """Those that restores, and runs that were taken back, added."""
    for number, (run, added) in enumerate(found):
        if _restores(run):
            back += added
            continue
        if number + 1 < len(found) and _is_made_anew(run, found[number + 1][0]):
            left += added
            continue
        command = run.command or (Command.COMPACT if writes_checkpoint(run) else Command.COMPRESS)
        saved = run.original_size - run.compressed_size
        restored, touched = number not in standing, standing.touched(number)
        yield Run(run.name, run.at, command, saved, left + added, restored, touched, 0 if restored else back)
        back = back + left + added if restored else 0
        left = 0


def _is_made_anew(run: RunRecord, follows: RunRecord) -> bool:
    """Tell whether the next run met the session as this one had: it was never put in place."""
    as_it_was = run.modified == follows.modified > 0 or run.id == follows.id != ""
    return as_it_was and run.original_size == follows.original_size and not _restores(follows)
