"""The runs of a journal: which of them are in place, and how long it takes to tell."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sessioncompress.operations.history import read_runs
from sessioncompress.store.journal import ActiveRuns
from sessioncompress.store.records import RunKind, RunRecord

MANY = 10_000
SECONDS = 2.0
"""Of processor time; a run costs some ten millionths. Compared with each other, the runs here take over ten."""

COMPRESS, COMPACT = RunKind.COMPRESS, RunKind.COMPACT
RUNS = ((COMPRESS, "one"), (COMPACT, "two"), (COMPRESS, "two"), (COMPRESS, "three"))


def record(command: str, name: str = "", undoes: tuple[str, ...] | None = None) -> RunRecord:
    return RunRecord("", "", {}, 0, 0, 0, 0, {}, id=name, command=command, undoes=undoes)


def named(number: int) -> str:
    return f"20260101-{number:06}-0000"


@pytest.mark.parametrize(
    ("restores", "numbers", "touched"),
    [
        ((), (0, 1, 2, 3), ()),
        ((record(RunKind.RESTORE),), (), ()),
        ((record(RunKind.RESTORE_RUN, undoes=("two", "two", "none")),), (0, 3), ()),
        ((record(RunKind.RESTORE_RUN, undoes=()),), (0, 1, 2, 3), ()),
        ((record(RunKind.RESTORE_LINES),), (1,), ()),
        ((record(RunKind.RESTORE_LINES), record(RunKind.RESTORE_RUN, undoes=("two",))), (), ()),
        ((record(RunKind.RESTORE_MARKERS),), (0, 1, 2, 3), (0, 1, 2, 3)),
        ((record(RunKind.RESTORE_MARKERS, undoes=()),), (0, 1, 2, 3), (0, 1, 2, 3)),
        ((record(RunKind.RESTORE_MARKERS), record(RunKind.RESTORE_LINES)), (1,), (1,)),
        ((record(RunKind.RESTORE_RUN, undoes=("two",)), record(COMPRESS, "two")), (0, 3, 5), ()),
        ((record(RunKind.RESTORE_MARKERS), record(COMPRESS, "two")), (0, 1, 2, 3, 5), (0, 1, 2, 3)),
        ((record(RunKind.RESTORE), record(COMPRESS, "two")), (5,), ()),
        # Somebody put the session back as an undone run left it, and not all of that could be restored.
        ((record(RunKind.RESTORE), record(RunKind.RESTORE_MARKERS, undoes=("three",))), (3,), (3,)),
        ((record(RunKind.RESTORE), record(RunKind.RESTORE_MARKERS, undoes=("two", "two"))), (2,), (2,)),
    ],
)
def test_what_is_in_place(restores: tuple[RunRecord, ...], numbers: tuple[int, ...], touched: tuple[int, ...]) -> None:
    standing = ActiveRuns()
    records = (*(record(*each) for each in RUNS), *restores)
    for number, each in enumerate(records):
        standing.add(number, each)
    assert standing.numbers == tuple(filter(standing.__contains__, range(len(records)))) == numbers
    assert tuple(filter(standing.touched, range(len(records)))) == touched
    twos = [1, 2, *(at for at, each in enumerate(records) if at > 3 and each.id == "two")]
    assert standing.named("two") == set(numbers).intersection(twos)


@pytest.mark.parametrize(
    "restores",
    [
        [record(RunKind.RESTORE_RUN, undoes=tuple(map(named, range(MANY, 5 * MANY))))],
        [record(RunKind.RESTORE_RUN, undoes=(named(number),)) for number in range(MANY)],
        [record(RunKind.RESTORE_LINES)] * MANY,
        [record(RunKind.RESTORE_MARKERS)] * MANY,
    ],
    ids=["many names", "many restores", "lines", "markers"],
)
def test_a_strangers_journal_takes_no_longer_than_its_length(restores: list[RunRecord], tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    runs = [record(COMPACT, named(number)) for number in range(MANY)]
    journal.write_bytes(b"".join(each.encode() for each in (*runs, *restores)))
    begun = time.process_time()
    assert len(read_runs(journal)) == MANY
    assert time.process_time() - begun < SECONDS


def sized(was: int, modified: int = 0, number: int = 1, command: str = COMPRESS) -> RunRecord:
    """Make the record of a run that took 40 bytes from a session, and added 10 to the originals so far."""
    return record(command, named(number))._replace(
        original_size=was, compressed_size=was - 40, modified=modified, store_size=10
    )


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        # Left alone: the next run met another session.
        ((sized(100, 7), sized(60, 7, 2)), [1, 2]),
        ((sized(100, 7), sized(100, 8, 2)), [1, 2]),
        ((sized(100), sized(100, number=2)), [1, 2]),
        ((sized(100), sized(60)), [1, 1]),
        ((sized(100, 7), sized(100, 7, command=RunKind.RESTORE)), [1]),
        # It met the same one: the first run died when it had written its record, and no more.
        ((sized(100, 7), sized(100, 7, 2)), [2]),
        ((sized(100, 7), sized(100, 7)), [1]),
        ((sized(100, command=COMPACT), sized(100, command=COMPACT)), [1]),
        ((sized(100, 7), sized(100, 7), sized(100, 7, 2), sized(60, 7, 3)), [2, 3]),
    ],
)
def test_a_run_that_died_before_the_session_changed_is_none(
    runs: tuple[RunRecord, ...], told: list[int], tmp_path: Path
) -> None:
    """What it added to the store counts for the run that came after it."""
    journal = tmp_path / "journal"
    journal.write_bytes(b"".join(each.encode() for each in runs))
    found = read_runs(journal)
    assert [each.run for each in found] == [*map(named, told)]
    assert {each.saved for each in found} == {40}
    if not any(each.command == RunKind.RESTORE for each in runs):
        assert sum(each.saved - each.saved_on_disk for each in found) == 10 + journal.stat().st_size
