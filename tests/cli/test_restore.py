"""What `restore` says at its end of stores; and that with --quiet it, compress and compact say nothing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import Result

from sessioncompress.cli import tables
from sessioncompress.operations import schedule
from sessioncompress.operations.history import session_runs
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
        f"The store still takes {kept(last)}; if you no longer need it, delete it with: sessioncompress forget --unneeded {last}"
    )
    assert said(run("restore", "--last", tmp_path)) == (
        f"The stores still take {kept(*others)}; if you no longer need them, delete them with: "
        f"sessioncompress forget --unneeded {' '.join(map(str, sorted(others)))}"
    )


@pytest.mark.parametrize("which", [(), ("--include", "[a-d].jsonl")], ids=["all", "some are chosen"])
def test_of_many_the_folder_is_named(tmp_path: Path, which: tuple[str, ...]) -> None:
    """Nobody types the paths of many; the command deletes no other stores."""
    put(tmp_path, "other")
    paths = put(tmp_path, *"abcd")
    told = said(run("restore", "--last", *which, tmp_path))
    assert told == (
        f"The stores still take {kept(*paths)}; if you no longer need them, delete them with: "
        f"sessioncompress forget --unneeded {tmp_path}"
    )
    run(*shlex.split(told.partition("with: sessioncompress ")[2]), "--yes")
    assert [path.stem for path in sorted(tmp_path.glob("*.jsonl")) if store_in(path).originals.exists()] == ["other"]


def test_a_run_under_later_ones_is_refused_and_the_newest_one_first_all_go(tmp_path: Path) -> None:
    """Where others rewrote its lines it cannot go alone."""
    path = put(tmp_path, "a")[0]
    first = session_runs(path)[0].run
    run("compress", "-q", "--min-size", "0", "--preset", "archive", "--keep-turns", "0", tmp_path)
    left = path.read_bytes()
    done = invoke("restore", "--run", first, tmp_path)
    assert (done.exit_code, path.read_bytes()) == (4, left)
    assert "can't be undone alone: other runs rewrote line" in " ".join(done.stderr.split())
    run("restore", "--last", tmp_path)
    assert path.read_bytes() != left
    run("restore", "--run", first, tmp_path)
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")


def test_a_backup_that_was_put_back_behind_an_undo_is_told_of(tmp_path: Path) -> None:
    """The journal says that the run was undone, and the session is as it had left it."""
    path = put(tmp_path, "a")[0]
    left = path.read_bytes()
    run("restore", path)
    assert "put it back" not in run("restore", "--last", path).stderr
    path.write_bytes(left)
    done = run("restore", "--last", path)
    assert "nothing left to undo" in done.stderr
    assert f"'sessioncompress restore {path}' gives all back" in " ".join(done.stderr.split())
    run("restore", path)
    assert path.read_bytes() == fixture("pi-anthropic.jsonl")


def test_without_originals_no_way_back_is_promised(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    assert "undo with" not in run("compress", "--no-backup", path).stderr


def test_a_store_that_another_run_needs_is_left_out(tmp_path: Path) -> None:
    """Whoever deletes it could not take that run back."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    run("compress", "-q", "--min-size", "0", path)
    run("compact", "-q", "--keep-tokens", "2000", path)
    assert "removed" in (done := run("restore", "--last", path)).stdout
    assert said(done) == ""
    assert said(run("restore", path)) != ""


def test_a_summary_that_is_taken_out_is_counted(tmp_path: Path) -> None:
    """In each line, and in the total; no line came back, which reads as if nothing had been done."""
    path = write(tmp_path, fixture("pi-anthropic.jsonl"))
    run("compact", "-q", "--keep-tokens", "2000", path)
    short, total = run("restore", "--last", tmp_path).stdout.splitlines()
    assert short.endswith(" (1 summary removed)")
    assert total.startswith("total: 1 session restored: ")
    assert total.endswith(" KB, 1 summary removed")


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
    command, *others = sorted(done.stderr.splitlines(), key=lambda line: "forget --unneeded" not in line)
    assert command == f"  sessioncompress forget --unneeded {tmp_path}"
    assert max(map(len, others)) <= 60
