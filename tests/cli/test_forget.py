"""`forget` over several sessions asks once, with the sums; what it says fits into a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sessioncompress.cli import tables
from sessioncompress.store.layout import store_in
from tests.support.commands import put, run, spawn
from tests.support.runs import fixture, snapshot, write

NAMES = ("one.jsonl", "two.jsonl", "whole.jsonl")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with two sessions that are compressed, and one that is not; work in it."""
    paths = [write(tmp_path, fixture("pi-anthropic.jsonl"), name) for name in NAMES]
    assert run("compress", "-q", *paths[:2]).exit_code == 0
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_kept(folder: Path) -> list[bool]:
    return [store_in(folder / name).originals.exists() for name in NAMES[:2]]


def test_several_are_asked_for_once(folder: Path) -> None:
    """After a line for each and the sums; a no deletes nothing, a yes all, without saying it again."""
    for choice in (["."], list(NAMES)):
        result = run("forget", *choice, answer="n\n")
        assert result.exit_code == 0
        assert result.stdout.count("[y/N]") == 1
        sizes, originals = zip(*re.findall(r"would delete (\d+) KB with (\d+) originals", result.stdout), strict=True)
        assert len(sizes) == 2
        (sums,) = re.finditer(
            r"^Total: (\d+) KB, (\d+) originals\. After that, (\d+) of them can't", result.stdout, re.MULTILINE
        )
        assert int(sums[1]) == pytest.approx(sum(map(int, sizes)), abs=1)
        assert int(sums[2]) == int(sums[3]) == sum(map(int, originals))
        assert "Delete 2 stores? [y/N]: " in result.stdout
        assert result.stdout.endswith("total: 0 sessions; 2 kept; 1 without a store\n")
        assert is_kept(folder) == [True, True]
    result = run("forget", ".", answer="y\n")
    assert result.stdout.count(": deleted ") == 1
    assert re.search(
        r"\ntotal: 2 sessions: deleted \d+ KB, and their runs from the history; 1 without a store\n$", result.stdout
    )
    assert is_kept(folder) == [False, False]


def test_nobody_answers_for_several(folder: Path) -> None:
    """Nothing is deleted; and where nothing would be, nothing is asked."""
    result = run("forget", ".", answer="")
    assert result.exit_code == 2
    assert result.stderr.endswith("cannot ask for confirmation without a terminal. Nothing was deleted. Use --yes.\n")
    assert is_kept(folder) == [True, True]
    assert run("restore", "-q", ".").exit_code == 0
    assert "Total: " in (said := run("forget", ".", answer="n\n").stdout)
    assert "The sessions have their original bytes." in said
    assert run("forget", "--yes", ".").exit_code == 0
    assert "[y/N]" not in run("forget", ".", answer="").stdout


@pytest.mark.parametrize("arguments", [(".", "--dry-run"), (".",), ("one.jsonl",), (".", "--yes")], ids=" ".join)
def test_it_fits_into_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    """Also with a path that is longer, and with the question."""
    monkeypatch.setattr(tables, "is_seen", lambda: True)
    monkeypatch.setattr("sessioncompress.cli.forget.is_seen", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    paths = [str(folder / each) if each.endswith("jsonl") else each for each in arguments]
    result = run("forget", *paths, answer="n\n")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 60
    assert "one.jsonl" in result.stdout


def test_one_that_is_refused_is_told_beside_the_question(folder: Path) -> None:
    (folder / "link.jsonl").symlink_to("one.jsonl")
    result = run("forget", *NAMES, "link.jsonl", answer="y\n")
    assert (result.exit_code, is_kept(folder)) == (4, [False, False])
    assert result.stdout.endswith("; 1 without a store; 1 refused\n")


def test_json_asks_nothing(folder: Path) -> None:
    """A question would stand among what a program reads."""
    result = run("forget", "--json", ".", answer="y\n")
    assert (result.exit_code, result.stdout, is_kept(folder)) == (2, "", [True, True])
    assert json.loads(run("forget", "--json", "--dry-run", ".").stdout)["files"]


# One session


INTERRUPTED_QUESTION = """
import os, signal, click.termui
from sessioncompress.__main__ import run
click.termui.visible_prompt_func = lambda prompt: os.kill(os.getpid(), signal.SIGINT)
run()
"""


def test_forget_asks_and_says_what_is_lost(compressed: Path) -> None:
    """No is the answer where nothing else is said."""
    before = snapshot(compressed)
    for answer in ("n\n", "\n"):
        result = run("forget", "session.jsonl", answer=answer)
        assert result.exit_code == 0
        assert re.match(
            r"session\.jsonl: delete \d+ KB with \d+ originals, which cannot be restored after that\? \[y/N\]: ",
            result.stdout,
        )
        assert result.stdout.endswith("session.jsonl: kept\n")
        assert snapshot(compressed) == before
    result = run("forget", "session.jsonl", answer="y\n")
    assert re.search(
        r"session\.jsonl: deleted \d+ KB with \d+ originals, which can no longer be restored\n", result.stdout
    )
    assert [each.name for each in compressed.parent.iterdir()] == ["session.jsonl"]


def test_forget_without_an_answer(compressed: Path) -> None:
    """Nobody there to answer: nothing is deleted, and the error says what helps."""
    before = snapshot(compressed)
    done = spawn("forget", "session.jsonl", cwd=compressed.parent)
    assert done.returncode == 2
    assert done.stderr.endswith(
        b"session.jsonl: cannot ask for confirmation without a terminal. Nothing was deleted. Use --yes.\n"
    )
    assert snapshot(compressed) == before


def test_forget_interrupted_while_it_asks(compressed: Path) -> None:
    """That is an interrupt as any other, but nothing had begun."""
    before = snapshot(compressed)
    command = [sys.executable, "-c", INTERRUPTED_QUESTION, "forget", "session.jsonl"]
    done = subprocess.run(command, cwd=compressed.parent, capture_output=True, check=False)
    assert done.returncode == 130
    assert done.stderr.endswith(b"\nNothing was deleted.\n")
    assert snapshot(compressed) == before


def test_forget_yes(compressed: Path) -> None:
    """It does not ask; the session is not touched, and a second time only its markers are there."""
    before = compressed.read_bytes()
    result = run("forget", "--yes", "session.jsonl")
    assert re.fullmatch(r"session\.jsonl: deleted \d+ KB with \d+ originals, .*\n", result.stdout)
    assert compressed.read_bytes() == before
    result = run("forget", "--yes", "session.jsonl")
    assert (result.exit_code, "there is no store here, but" in result.stdout) == (4, True)
    result = run("restore", "session.jsonl")
    assert result.exit_code == 4
    assert "markers, but its store is missing" in result.stderr


def test_forget_after_a_restore_alarms_nobody(compressed: Path) -> None:
    assert run("restore", compressed).exit_code == 0
    result = run("forget", "--yes", "session.jsonl")
    assert re.fullmatch(
        r"session\.jsonl: deleted \d+ KB with \d+ originals \(nothing is lost: the session still has their bytes\)\n",
        result.stdout,
    )


def test_forget_of_a_journal_alone(compressed: Path) -> None:
    """It counts no originals that are gone already."""
    store_in(compressed).originals.unlink()
    result = run("forget", "--yes", "session.jsonl")
    assert re.fullmatch(r"session\.jsonl: deleted \d+ KB with no originals\n", result.stdout)


def test_forget_a_session_that_is_gone(compressed: Path) -> None:
    """By its path, or met in a folder: named as gone, and asked for like others."""
    compressed.unlink()
    put(compressed.parent / "whole.jsonl")
    for named, said in (("session.jsonl", "delete"), (".", "would delete")):
        result = run("forget", named, answer="n\n")
        assert result.exit_code == 0
        asked = (
            rf"session\.jsonl \(session gone\): {said} \d+ KB with \d+ originals, which cannot be restored after that"
        )
        assert re.search(asked, result.stdout)
        assert store_in(compressed).originals.exists()
    result = run("forget", "--yes", ".")
    assert re.search(r"session\.jsonl \(session gone\): deleted \d+ KB with \d+ originals, which can no", result.stdout)
    assert [each.name for each in compressed.parent.iterdir()] == ["whole.jsonl"]
    assert run("forget", "--yes", "session.jsonl").exit_code == 2


def test_forget_a_session_that_is_gone_from_a_backup_dir(session: Path) -> None:
    assert run("compress", "--backup-dir", "kept", session).exit_code == 0
    session.unlink()
    assert "session gone" not in run("forget", "--yes", ".").stdout
    assert "(session gone): deleted" in run("forget", "--yes", "--backup-dir", "kept", ".").stdout
    assert list((session.parent / "kept").iterdir()) == []
