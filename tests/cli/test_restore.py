"""What `restore` says at its end of stores; and that with --quiet it, compress and compact say nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import Result

from sessioncompress.cli import tables
from sessioncompress.operations import schedule
from sessioncompress.store.layout import store_in
from tests.support.runs import fixture, invoke, run, write


def put(folder: Path, *names: str) -> list[Path]:
    """Write sessions, and compress them in one run."""
    paths = [write(folder, fixture("pi-anthropic.jsonl"), f"{name}.jsonl") for name in names]
    run("compress", "--min-size", "0", "-q", *paths)
    return paths


def said(result: Result) -> str:
    """Return what is said of stores, in one line."""
    found = re.search(r"^The stores?.*", result.stderr, re.DOTALL | re.MULTILINE)
    return " ".join(found[0].split()) if found else ""


def kept(*paths: Path) -> str:
    files = [each for path in paths for each in (store_in(path).originals, store_in(path).journal)]
    return f"{sum(each.stat().st_size for each in files) / 1024:.0f} KB"


def test_the_stores_of_others_are_left_out(tmp_path: Path) -> None:
    """Neither their bytes count, nor does the command choose them: the newest run alone was taken back."""
    others = put(tmp_path, "one", "two")
    (last,) = put(tmp_path, "three")
    done = run("restore", "--last", tmp_path)
    assert said(done) == (
        f"The store still takes {kept(last)}; if you no longer need it, delete it with: sessioncompress forget {last}"
    )
    assert said(run("restore", "--last", tmp_path)) == (
        f"The stores still take {kept(*others)}; if you no longer need them, delete them with: "
        f"sessioncompress forget {' '.join(map(str, sorted(others)))}"
    )


def test_of_many_no_command_is_given(tmp_path: Path) -> None:
    """It would name a folder, and with it others."""
    paths = put(tmp_path, *"abcd")
    assert said(run("restore", "--last", tmp_path)) == (
        f"The stores of 4 sessions that have all their bytes back still take {kept(*paths)}; if you no longer "
        "need them, 'sessioncompress forget' with their paths deletes them"
    )


def test_a_store_that_another_run_needs_is_left_out(tmp_path: Path) -> None:
    """Whoever deletes it could not take that run back."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    run("compress", "-q", "--min-size", "0", path)
    run("compact", "-q", "--keep-tokens", "2000", path)
    assert "removed" in (done := run("restore", "--last", path)).stdout
    assert said(done) == ""
    assert said(run("restore", path)) != ""


@pytest.mark.parametrize("which", [("--last",), ()], ids=["the newest run", "all"])
def test_quiet_is_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: tuple[str, ...]) -> None:
    """No run, progress, undo or store; errors are told."""
    monkeypatch.setattr(schedule, "_FIRST_LINE", 0)
    path = write(tmp_path, fixture("pi-anthropic.jsonl"), "a.jsonl")
    write(tmp_path, fixture("pi-anthropic.jsonl"), "b.jsonl")
    for command in (("compress", "--min-size", "0"), ("compact", "--keep-tokens", "2000"), ("restore", *which)):
        before = path.read_bytes()
        assert "files" in run(*command, "--dry-run", tmp_path).stderr
        assert run(*command, "-q", tmp_path).output == ""
        assert path.read_bytes() != before
    path.write_bytes(b"no session")
    assert "refused: " in invoke("restore", "-q", path).stderr


def test_hints_fit_into_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the command: it is there to be copied."""
    monkeypatch.setattr(tables, "_is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "60")
    put(tmp_path, *"abcd")
    done = run("restore", "--last", tmp_path)
    assert said(done) != ""
    assert max(map(len, done.stderr.splitlines())) <= 60
