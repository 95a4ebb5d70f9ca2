"""Commands over folders and several files: what is walked, passed over and totaled."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store.layout import FOLDER, store_in
from tests.support.commands import SIZES, document, put, run
from tests.support.runs import but_undo, fixture, snapshot


def test_a_folder_is_walked(here: Path) -> None:
    """Sessions in all folders below are taken; our own files and those that are none are passed over."""
    below = here / "a" / "b"
    below.mkdir(parents=True)
    put(here / "session.jsonl")
    put(below / "other.jsonl", "omp.jsonl")
    put(below / "no-session.txt")
    (below / "garbage.jsonl").write_bytes(b'{"x": 1}\n' * 20_000)
    result = run("compress", ".")
    assert result.exit_code == 0
    assert but_undo(result.stderr) == ""
    named = [line.partition(": ")[0] for line in result.stdout.splitlines()]
    assert named[:3] == ["session.jsonl", str(Path("a", "b", "other.jsonl")), "total"]
    assert "total: 2 files (2 compressed, 1 passed over (not sessions, or links))" in result.stdout
    again = run("compress", "--min-size", "0", ".")
    assert "total: 2 files (2 unchanged, 1 passed over (not sessions, or links))" in again.stdout


TOTALS = {
    "stats": rf"total: 2 sessions, {SIZES}, stores 0 KB; 1 refused; 1 passed over \(not sessions, or links\)",
    "compress": r"total: 3 files \(2 compressed, 1 refused, 1 passed over \(not sessions, or links\)\)",
    "verify": r"total: 2 sessions: 194 lines, (\d+) rewritten, \1 originals checked, these are good; 1 refused; "
    r"1 passed over \(not sessions, or links\)",
    "restore": rf"total: 2 sessions restored: {SIZES} -> 502 KB, \d+ lines; 1 refused; "
    r"1 passed over \(not sessions, or links\)",
    "forget": rf"total: 2 sessions: deleted {SIZES}, and their runs from the history; 1 refused; 1 passed over \(not sessions, or links\)",
}


def test_every_command_ends_with_a_total(here: Path) -> None:
    """Over a folder, and over several paths; what was refused or passed over is counted."""
    put(here / "a.jsonl")
    put(here / "b.jsonl", "omp.jsonl")
    (here / "none.jsonl").write_bytes(b'{"x": 1}\n' * 20_000)
    (here.parent / "link.jsonl").symlink_to(here / "a.jsonl")
    for command, said in TOTALS.items():
        yes = ["--yes"] if command == "forget" else []
        result = run(command, *yes, ".", here.parent / "link.jsonl")
        assert result.exit_code == 4, command
        (total,) = (line for line in result.stdout.splitlines() if line.startswith("total: "))
        assert re.fullmatch(said, total), result.stdout
    assert "total: 2 sessions, 502 KB, stores 0 KB\n" in run("stats", "a.jsonl", "b.jsonl").stdout
    for command in ("stats", "verify", "restore", "forget"):
        assert "total: " not in run(command, "a.jsonl").stdout


def test_a_folder_without_sessions(here: Path) -> None:
    """It says so: nothing at all would look like success."""
    (here / "empty").mkdir()
    (here / "foreign").mkdir()
    (here / "foreign" / "x.jsonl").write_bytes(b'{"x": 1}\n')
    for command in ("stats", "verify", "restore", "forget"):
        said = run(command, "empty").stdout
        assert said == "total: 0 sessions\n", command
    for command in ("stats", "verify", "restore", "forget"):
        assert run(command, "foreign").stdout == "total: 0 sessions; 1 passed over (not sessions, or links)\n", command


def test_the_totals_of_stats_as_json(here: Path) -> None:
    """They are the sums, and those of what a run would do are those of compress."""
    put(here / "a.jsonl")
    put(here / "b.jsonl", "omp.jsonl")
    done = document("stats", ".")
    for name in ("size", "storeSize", "lines", "turns"):
        assert done["totals"][name] == sum(each[name] for each in done["files"])
    assert done["totals"]["would"] == document("compress", "--dry-run", ".")["totals"]


def test_links_in_a_folder_are_passed_over(session: Path) -> None:
    """They are counted, and neither they nor what they lead to is touched through them."""
    folder = session.parent / "links"
    folder.mkdir()
    (folder / "link.jsonl").symlink_to(session)
    before = snapshot(session)
    result = run("compress", "links")
    assert result.exit_code == 0
    assert result.stdout == "total: 0 files (1 passed over (not sessions, or links))\n"
    assert snapshot(session) == before
    (session.parent / FOLDER).symlink_to(folder)
    told = run("compress", "--force", ".")
    assert (told.exit_code, f"{FOLDER}: this must be a folder of its own" in told.stderr) == (4, True)


def test_a_folder_that_is_named_by_a_link_is_walked(session: Path) -> None:
    """Its files are no links; named both ways, each is taken once."""
    linked = session.parent.parent / "linked"
    linked.symlink_to(session.parent)
    assert [each["status"] for each in document("compress", linked, session)["files"]] == ["compressed"]
    assert run("restore", linked).exit_code == 0
    assert session.read_bytes() == fixture("pi-anthropic.jsonl")


def test_a_folder_that_cannot_be_read_is_3(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (here / name).mkdir()
        put(here / name / "session.jsonl")
    real = os.scandir

    def denied(path: Any = ".") -> Any:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    for arguments in (("compress", "--check"), ("verify",), ("compress", "--json")):
        result = run(*arguments, ".")
        assert result.exit_code == 3
        assert "b: this folder cannot be read: permission denied. No session in it was changed." in result.stderr
    found = document("compress", "--min-size", "0", ".")["files"]
    assert [each["status"] for each in found] == ["unchanged", "failed", "unchanged"]


def test_a_named_link_is_refused(session: Path) -> None:
    link = session.parent / "link.jsonl"
    link.symlink_to(session)
    result = run("compress", "link.jsonl")
    assert result.exit_code == 4
    assert "link.jsonl: it is a symbolic link. The session was not changed. Name its target." in result.stderr


def test_a_file_named_twice_is_taken_once(session: Path) -> None:
    assert [each["status"] for each in document("compress", session, ".", session)["files"]] == ["compressed"]


def test_one_bad_file_stops_no_other(here: Path) -> None:
    """The session with the damaged journal fails its check, the others are done, and the code says the worst."""
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        put(here / name)
    assert run("compress", "b.jsonl").exit_code == 0
    store_in(here / "b.jsonl").originals.unlink()
    result = run("compress", "--min-size", "0", ".")
    assert result.exit_code == 5
    assert re.search(r"^a\.jsonl: .* \(-\d+ %\)$", result.stdout, re.MULTILINE)
    assert re.search(r"^c\.jsonl: .* \(-\d+ %\)$", result.stdout, re.MULTILINE)
    assert result.stderr.startswith("failed: ")
    assert "b.jsonl" in result.stderr
    assert "(2 compressed, 1 failed)" in result.stdout


def test_a_file_under_the_threshold_that_was_only_met_is_not_opened(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So what it holds is not known: it is skipped, and counts as a file, not as a session."""
    (here / "small.jsonl").write_bytes(b"no session\n")
    monkeypatch.setattr(os, "open", lambda *arguments, **options: pytest.fail("it is opened"))
    result = run("compress", ".")
    assert result.exit_code == 0
    said = "1 skipped: 0 KB, under the threshold of 100 KB\ntotal: 1 file (1 skipped)\n"
    assert (result.stdout, but_undo(result.stderr)) == (said, "")


def test_a_backup_dir_is_created_with_all_above_it(session: Path) -> None:
    """So that a cached folder need not be there for the first run."""
    assert run("compress", "--backup-dir", "not/there/yet", session).exit_code == 0
    assert len(list((session.parent / "not" / "there" / "yet").glob("local-*/[!.]*"))) == 2
