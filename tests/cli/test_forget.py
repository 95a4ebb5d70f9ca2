"""`forget` over several sessions asks once, with the sums; what it says fits into a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sessioncompress.cli import tables
from sessioncompress.store.layout import store_in
from tests.cli.test_cli import run
from tests.support.runs import fixture, write

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
