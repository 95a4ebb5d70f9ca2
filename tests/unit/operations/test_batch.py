"""Many files: whatever becomes of one, or of a process, the others have their turn; in which order, and how far it is."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.operations import batch
from sessioncompress.operations.batch import (
    Archive,
    Outcome,
    Progress,
    Sized,
    Task,
    each,
    results,
    said,
    scheduled,
    worst,
)
from sessioncompress.pipeline.discover import Found

FILES = [Found(Path(name), named=True) for name in ("a.jsonl", "b.jsonl", "c.jsonl")]


@pytest.mark.parametrize(
    "error", [ValueError("a secret"), RecursionError(), MemoryError(), KeyError("a secret"), AssertionError()], ids=repr
)
def test_an_error_of_ours_is_one_failed_file(error: Exception) -> None:
    """Exit code 3, and a line to report that holds nothing of the session."""

    def work(found: Found) -> str:
        if found.path.name == "b.jsonl":
            raise error
        return found.path.stem

    done = list(each(FILES, work))
    assert [outcome.result for outcome in done] == ["a", None, "c"]
    assert worst(outcome.exit_code for outcome in done) == 3
    said = str(done[1].error)
    assert said.startswith("b.jsonl: an error in sessioncompress ")
    assert f"({type(error).__name__} at test_batch.py:" in said
    assert "Please report this line, without the session." in said
    assert "secret" not in said


# Many files at once


def stem(path: Path) -> str:
    return path.stem


def put(folder: Path, names: str, size: int = 10) -> list[Found]:
    """Write a file of each name, each an hour older than the one before."""
    files = [folder / f"{name}.jsonl" for name in names]
    for age, file in enumerate(files):
        file.write_bytes(b"x" * size)
        os.utime(file, (1_700_000_000 - 3600 * age,) * 2)
    return [Found(file, named=False) for file in files]


def known_or(work: Callable[[Path], str]) -> Callable[[Found], Any]:
    return lambda found: found.path.stem if found.path.stem == "k" else partial(work, found.path)


def test_what_cannot_be_prepared_is_one_failed_file(tmp_path: Path) -> None:
    """A policy that cannot be read, say."""

    def prepare(found: Found) -> Any:
        if found.path.stem == "b":
            raise ValueError
        return partial(stem, found.path)

    assert [outcome.exit_code for outcome in Archive(put(tmp_path, "abc"), prepare, 2)] == [0, 3, 0]


def interrupting(path: Path) -> str:
    """Send what Ctrl-C sends to the program, while a file is at work; a second time for `z`."""
    os.kill(os.getpid(), signal.SIGINT)
    if path.stem == "z":
        os.kill(os.getpid(), signal.SIGINT)
    return path.stem


def test_an_interrupt_finishes_the_file_at_work(tmp_path: Path) -> None:
    """No other is begun; they are counted, and what was done is given."""
    run = Archive(
        put(tmp_path, "abcd"), known_or(lambda path: interrupting(path) if path.stem == "c" else path.stem), 1
    )
    before = signal.getsignal(signal.SIGINT)
    assert [outcome.result for outcome in run] == ["c", "d"]
    assert run.left == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    """So does the first one where there is but one file: nothing else could be left out."""
    before = signal.getsignal(signal.SIGINT)
    for names in ("az", "a"):
        with pytest.raises(KeyboardInterrupt):
            list(Archive(put(tmp_path, names), known_or(interrupting), 1))
        assert signal.getsignal(signal.SIGINT) is before


# Several processes: who stops asking leaves none behind


def echo(word: str) -> str:
    return word


def end(how: int) -> str:
    os.kill(os.getpid(), how)
    time.sleep(60)
    return "never"


def leave(code: int) -> str:
    os._exit(code)


def work_a_while(mark: Path) -> str:
    """Write down who works on it, and work for a moment."""
    mark.with_suffix(".pid").write_text(str(os.getpid()))
    time.sleep(1)
    mark.touch()
    return "done"


def interrupted() -> str:
    """Be sent what the terminal sends to all processes."""
    os.kill(os.getpid(), signal.SIGINT)
    return "finished"


def wait() -> str:
    time.sleep(60)
    return "never"


def tasks(*works: Callable[[], str]) -> list[Task[str]]:
    return [Task(Found(Path(f"{number}.jsonl"), named=True), work) for number, work in enumerate(works)]


def became_of(given: list[Task[str]], processes: int = 2) -> dict[int, Outcome[str]]:
    return dict(filter(None, results(given, iter(range(len(given))), processes)))


@pytest.mark.parametrize("processes", [1, 3])
def test_every_task_is_done_once(processes: int) -> None:
    """By no more processes than that, which are gone then."""
    became = became_of(tasks(*(partial(echo, str(number)) for number in range(9))), processes)
    assert {number: outcome.result for number, outcome in became.items()} == {
        number: str(number) for number in range(9)
    }
    assert active_children() == []


@pytest.mark.parametrize(
    ("death", "said", "processes"),
    [(partial(end, signal.SIGKILL), "by the signal SIGKILL", 2), (partial(leave, 7), "with exit code 7", 1)],
    ids=["killed", "ended"],
)
def test_a_process_that_dies_costs_one_file(death: Callable[[], str], said: str, processes: int) -> None:
    """All others are done, though processes die again and again."""
    became = became_of(tasks(*(death if number % 2 else partial(echo, "done") for number in range(5))), processes)
    for number, outcome in became.items():
        if number % 2:
            assert str(outcome.error) == (
                f"{number}.jsonl: the process working on it ended ({said}). The session is either as before or "
                "completely rewritten. Run again; if memory is short, use --jobs 1."
            )
            assert outcome.exit_code == 3
        else:
            assert outcome.result == "done"
    assert sorted(became) == list(range(5))


def test_a_process_whose_parent_is_killed_ends_behind_its_file(tmp_path: Path) -> None:
    """Else it would wait for work forever."""
    marks = [tmp_path / "a", tmp_path / "b"]
    if not (parent := os.fork()):
        os._exit(bool(became_of(tasks(*(partial(work_a_while, mark) for mark in marks)))))
    ends = time.monotonic() + 30
    while sum(path.stat().st_size > 0 for path in tmp_path.glob("*.pid")) < 2 and time.monotonic() < ends:
        time.sleep(0.01)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    workers = [Path("/proc", path.read_text()) for path in tmp_path.glob("*.pid")]
    assert len(workers) == 2
    while (alive := [each for each in workers if each.exists()]) and time.monotonic() < ends:
        time.sleep(0.01)
    for worker in alive:
        os.kill(int(worker.name), signal.SIGKILL)
    assert not alive
    assert all(map(Path.exists, marks))


def test_an_interrupt_is_not_for_the_processes() -> None:
    assert became_of(tasks(interrupted, interrupted))[1].result == "finished"


def test_an_order_that_ends_early_is_heeded() -> None:
    """What is at work is finished, no other is begun."""
    given = tasks(*(partial(echo, "done") for _ in range(9)))
    became = list(filter(None, results(given, iter((4, 2, 7)), 2)))
    assert sorted(number for number, _ in became) == [2, 4, 7]


def test_who_waits_is_told() -> None:
    """That nothing was done; and who asks no more leaves no process behind."""
    outcomes = results(tasks(wait, wait), iter((0, 1)), 2)
    assert next(outcomes) is None
    assert len(active_children()) == 2
    outcomes.close()
    assert active_children() == []


# In which order, and how far

CASES: list[tuple[str, list[tuple[int, int]], int, list[int]]] = [
    ("nothing", [], 2, []),
    ("by age", [(10, 3), (10, 1), (10, 2), (10, 4)], 1, [1, 2, 0, 3]),
    ("of one age in the order given", [(10, 1), (10, 1), (10, 1)], 1, [0, 1, 2]),
    ("by age in two processes", [(10, 4), (10, 1), (10, 3), (10, 2)], 2, [1, 3, 2, 0]),
    ("one process is never idle", [(1, 1), (1, 2), (90, 3)], 1, [0, 1, 2]),
    ("a file as large as all others", [(10, 1), (10, 2), (10, 3), (30, 9)], 2, [3, 0, 1, 2]),
    ("a large one that is old", [(90, 1), (10, 2), (10, 3)], 2, [0, 1, 2]),
    ("more processes than files", [(10, 2), (10, 1)], 8, [1, 0]),
    ("empty files", [(0, 2), (0, 1)], 2, [1, 0]),
]


@pytest.mark.parametrize(("files", "processes", "order"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_order(files: list[tuple[int, int]], processes: int, order: list[int]) -> None:
    assert scheduled([Sized(*each) for each in files], processes) == order


MB = 1024 * 1024

SAID = [
    ((0, 3, 0, 0, 0.0), "100 %, 0 of 3 files, 0.0 of 0.0 MB"),
    ((0, 3, 0, 9 * MB, 2.0), "0 %, 0 of 3 files, 0.0 of 9.0 MB"),
    ((1, 3, 3 * MB, 9 * MB, 2.0), "33 %, 4 s left, 1 of 3 files, 3.0 of 9.0 MB, 1.5 MB/s"),
    ((9, 1200, MB, 100 * MB, 1.0), "1 %, 1 min 39 s left, 9 of 1,200 files, 1.0 of 100.0 MB, 1.0 MB/s"),
    ((9, 1200, MB, 9000 * MB, 1.0), "0 %, 2 h 29 min left, 9 of 1,200 files, 1.0 of 9,000.0 MB, 1.0 MB/s"),
    ((3, 3, 9 * MB, 9 * MB, 2.0), "100 %, 0 s left, 3 of 3 files, 9.0 of 9.0 MB, 4.5 MB/s"),
]


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(batch, "monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "200")
    return now


@pytest.mark.parametrize(("numbers", "text"), SAID)
def test_what_is_said(numbers: tuple[int, int, int, int, float], text: str) -> None:
    assert ", ".join(said(*numbers)) == text


def test_a_bar_on_a_terminal(clock: list[float]) -> None:
    """It goes where something else is to be written, and comes back."""
    stream = Stream(terminal=True)
    shown = Progress(4, 8 * MB, stream)
    shown.show()
    shown.hide()
    assert stream.getvalue() == ""
    clock[0] += 2
    shown.done(2 * MB)
    shown.show()
    bar = "[#####...............] 25 %, 6 s left, 1 of 4 files, 2.0 of 8.0 MB, 1.0 MB/s"
    assert stream.getvalue() == "\r" + bar
    shown.show()
    shown.hide()
    shown.hide()
    assert stream.getvalue() == "\r" + bar + "\r" + " " * len(bar) + "\r"
