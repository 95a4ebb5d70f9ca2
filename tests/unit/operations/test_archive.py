"""Many files: whatever becomes of one, the others have their turn."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.operations import batch
from sessioncompress.operations.batch import Archive, each, worst
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
    assert f"({type(error).__name__} at test_archive.py:" in said
    assert "Please report this line, without the session." in said
    assert "secret" not in said


def test_an_error_of_the_system_is_named_as_one() -> None:
    """It is nothing to report."""

    def work(found: Found) -> str:
        return found.path.read_text()

    assert "b.jsonl: no such file or directory. " in str(list(each(FILES, work))[1].error)


def test_what_ends_it_all() -> None:
    """An interrupt is no failure of one file."""

    def work(found: Found) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(each(FILES, work))


# Many files at once


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other processes work on files however small they are."""
    monkeypatch.setattr(batch, "_LITTLE", 0)


def stem(path: Path) -> str:
    return path.stem


def note(path: Path) -> str:
    """Write down that the file's turn has come."""
    with open(path.parent / "turns", "a") as turns:
        turns.write(path.stem)
    return path.stem


def die(path: Path) -> str:
    note(path)
    os.kill(os.getpid(), signal.SIGKILL)
    return path.stem


def put(folder: Path, names: str, size: int = 10) -> list[Found]:
    """Write a file of each name, each an hour older than the one before."""
    files = [folder / f"{name}.jsonl" for name in names]
    for age, file in enumerate(files):
        file.write_bytes(b"x" * size)
        os.utime(file, (1_700_000_000 - 3600 * age,) * 2)
    return [Found(file, named=False) for file in files]


def known_or(work: Callable[[Path], str]) -> Callable[[Found], Any]:
    """Return what knows of `k` at once what it comes to."""
    return lambda found: found.path.stem if found.path.stem == "k" else partial(work, found.path)


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_the_order_of_what_is_given_is_that_of_the_files(tmp_path: Path, at_once: None, jobs: int) -> None:
    """Whatever was done first, and in how many processes."""
    run = Archive(put(tmp_path, "akbcdef"), known_or(stem), jobs)
    assert "".join(outcome.result or "" for outcome in run) == "akbcdef"
    assert run.left is None


def test_what_changed_last_is_worked_on_last(tmp_path: Path) -> None:
    """And what is known without work has no turn at all."""
    list(Archive(put(tmp_path, "akbcdef"), known_or(note), 1))
    assert (tmp_path / "turns").read_text() == "fedcba"


def test_a_process_that_dies_is_one_failed_file(tmp_path: Path, at_once: None) -> None:
    """It is tried once more, then named, with what to do; the others are done."""
    files = put(tmp_path, "abcd")

    def prepare(found: Found) -> Any:
        return partial(die if found.path.stem == "b" else stem, found.path)

    run = list(Archive(files, prepare, 2))
    assert [outcome.result for outcome in run] == ["a", None, "c", "d"]
    assert worst(outcome.exit_code for outcome in run) == 3
    assert str(run[1].error) == (
        f"{files[1].path}: the process working on it ended (by the signal SIGKILL). The session is either as before or "
        "completely rewritten. Run again; if memory is short, use --jobs 1."
    )
    assert (tmp_path / "turns").read_text() == "bb"


def test_what_cannot_be_prepared_is_one_failed_file(tmp_path: Path) -> None:
    """A policy that cannot be read, say."""

    def prepare(found: Found) -> Any:
        if found.path.stem == "b":
            raise ValueError
        return partial(stem, found.path)

    assert [outcome.exit_code for outcome in Archive(put(tmp_path, "abc"), prepare, 2)] == [0, 3, 0]


@pytest.mark.parametrize(("size", "jobs"), [(10, 8), (batch._LITTLE, 1)], ids=["little", "one job"])
def test_no_process_is_started_for_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, jobs: int
) -> None:
    """Nor where only one is asked for."""
    monkeypatch.setitem(sys.modules, "multiprocessing.connection", None)
    assert len(list(Archive(put(tmp_path, "abc", size), known_or(stem), jobs))) == 3


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
