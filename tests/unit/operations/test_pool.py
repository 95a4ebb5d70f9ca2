"""Several processes: whatever becomes of one, the others go on; who stops asking leaves none behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import pytest

from sessioncompress.errors import Damaged
from sessioncompress.operations.batch import Outcome, Task, results
from sessioncompress.pipeline.discover import Found


def echo(word: str) -> str:
    return word


def end(how: int) -> str:
    """Die as by a lack of memory."""
    os.kill(os.getpid(), how)
    time.sleep(60)
    return "never"


def leave(code: int) -> str:
    os._exit(code)


def end_once(mark: Path) -> str:
    """Die, but not the second time."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def note(mark: Path) -> str:
    """Write down who works on it, and work for a moment."""
    mark.with_suffix(".pid").write_text(str(os.getpid()))
    time.sleep(1)
    mark.touch()
    return "done"


def fail(word: str) -> str:
    raise Damaged(word, where="x.jsonl", line=3, state="It is as it was.", remedy="Do something.")


def interrupted() -> str:
    """Be sent what the terminal sends to all processes."""
    os.kill(os.getpid(), signal.SIGINT)
    return "finished"


def wait() -> str:
    time.sleep(60)
    return "never"


def tasks(*works: Callable[[], str]) -> list[Task[str]]:
    return [Task(Found(Path(f"{number}.jsonl"), named=True), work) for number, work in enumerate(works)]


def done(given: list[Task[str]], processes: int = 2) -> dict[int, Outcome[str]]:
    return dict(filter(None, results(given, iter(range(len(given))), processes, 5)))


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_every_task_is_done_once(processes: int) -> None:
    """By no more processes than that, which are gone then."""
    became = done(tasks(*(partial(echo, str(number)) for number in range(9))), processes)
    assert {number: each.result for number, each in became.items()} == {number: str(number) for number in range(9)}
    assert active_children() == []


@pytest.mark.parametrize(
    ("death", "said"),
    [(partial(end, signal.SIGKILL), "by the signal SIGKILL"), (partial(leave, 7), "with exit code 7")],
    ids=["killed", "ended"],
)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_process_that_dies_costs_one_file(death: Callable[[], str], said: str, processes: int) -> None:
    """All others are done, though processes die again and again."""
    became = done(tasks(*(death if number % 2 else partial(echo, "done") for number in range(8))), processes)
    for number, each in became.items():
        if number % 2:
            assert str(each.error).startswith(f"{number}.jsonl: the process working on it ended ({said}).")
            assert each.exit_code == 3
        else:
            assert each.result == "done"
    assert sorted(became) == list(range(8))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_process_that_dies_once_costs_nothing(tmp_path: Path, processes: int) -> None:
    """What it worked on has one more try, and so has what the other process did."""
    given = tasks(*(partial(echo, "done") for _ in range(6)), partial(end_once, tmp_path / "mark"))
    assert {each.result for each in done(given, processes).values()} == {"done"}


def test_a_process_whose_parent_is_killed_ends_behind_its_file(tmp_path: Path) -> None:
    """Else it would wait for work forever."""
    marks = [tmp_path / "a", tmp_path / "b"]
    if not (parent := os.fork()):
        os._exit(bool(done(tasks(*(partial(note, mark) for mark in marks)))))
    ends = time.monotonic() + 30
    while sum(path.stat().st_size > 0 for path in tmp_path.glob("*.pid")) < 2 and time.monotonic() < ends:
        time.sleep(0.01)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    workers = [Path("/proc", path.read_text()) for path in tmp_path.glob("*.pid")]
    assert len(workers) == 2
    while (alive := [each for each in workers if each.exists()]) and time.monotonic() < ends:
        time.sleep(0.01)
    for each in alive:
        os.kill(int(each.name), signal.SIGKILL)
    assert not alive
    assert all(map(Path.exists, marks))


def test_an_error_comes_back_whole() -> None:
    """With all its parts, and its exit code."""
    error = done(tasks(partial(fail, "a word")))[0].error
    assert isinstance(error, Damaged)
    assert str(error) == "x.jsonl:3: a word. It is as it was. Do something."


def test_an_interrupt_is_not_for_the_processes() -> None:
    """They finish what they are at."""
    assert done(tasks(interrupted, interrupted))[1].result == "finished"


def test_an_order_that_ends_early_is_heeded() -> None:
    """What is at work is finished, no other is begun."""
    given = tasks(*(partial(echo, "done") for _ in range(9)))
    became = list(filter(None, results(given, iter((4, 2, 7)), 2, 5)))
    assert sorted(number for number, _ in became) == [2, 4, 7]


def test_who_waits_is_told() -> None:
    """That nothing was done; and who asks no more leaves no process behind."""
    outcomes = results(tasks(wait, wait), iter((0, 1)), 2, 0.01)
    assert next(outcomes) is None
    assert len(active_children()) == 2
    outcomes.close()
    assert active_children() == []
