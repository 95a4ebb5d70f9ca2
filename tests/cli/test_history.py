"""`history`, and `restore` of one run: by its id or as the newest, over all its sessions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.runs import fixture, invoke, write

NAME = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with two sessions."""
    for name in ("one.jsonl", "two.jsonl"):
        write(tmp_path, fixture("pi-anthropic.jsonl"), name)
    return tmp_path


def test_the_newest_run_is_taken_back_in_all_its_sessions(folder: Path) -> None:
    """Then the one before it; in the end nothing is left."""
    before = [path.read_bytes() for path in sorted(folder.glob("*.jsonl"))]
    done = invoke("compress", folder / "one.jsonl", "--min-size", "0")
    assert done.exit_code == 0
    (first,) = set(NAME.findall(done.stderr))
    done = invoke("compress", folder, "--json", "--min-size", "0", "--log", folder / "log")
    (second,) = set(NAME.findall(done.stderr))
    assert {each["run"] for each in json.loads(done.stdout)["files"]} == {"", second}
    assert {json.loads(line)["run"] for line in (folder / "log").read_text().splitlines()} <= {"", second}
    runs = json.loads(invoke("history", folder, "--json").stdout)["runs"]
    assert [(run["run"], len(run["sessions"]), run["state"]) for run in runs] == [
        (second, 1, "in place"),
        (first, 1, "in place"),
    ]
    assert all(run["commands"] == ["compress"] and run["saved"] > run["savedOnDisk"] > 0 for run in runs)
    rehearsed = invoke("restore", "--last", "--dry-run", folder)
    assert "would be restored" in rehearsed.stdout
    assert second in rehearsed.stderr
    done = invoke("restore", "--last", folder)
    assert done.exit_code == 0
    assert "forget" in done.stderr
    assert first not in done.stderr
    assert (folder / "two.jsonl").read_bytes() == before[1]
    assert (folder / "one.jsonl").read_bytes() != before[0]
    assert invoke("restore", "--last", folder).exit_code == 0
    assert [path.read_bytes() for path in sorted(folder.glob("*.jsonl"))] == before
    assert "no run is left to take back" in invoke("restore", "--last", folder).stderr
    assert invoke("history", folder).stdout.count("\trestored\t") == 2


def test_a_run_by_its_id(folder: Path) -> None:
    before = (folder / "one.jsonl").read_bytes()
    (run,) = set(NAME.findall(invoke("compress", folder, "--min-size", "0").stderr))
    done = json.loads(invoke("restore", "--run", run, "--json", folder).stdout)
    assert {(each["status"], each["run"]) for each in done["files"]} == {("restored", run)}
    assert (folder / "one.jsonl").read_bytes() == before
    assert "taken back already" in invoke("restore", "--run", run, folder).stderr
    done = invoke("restore", "--run", "20260101-000000-0000", folder)
    assert done.exit_code == 2
    assert "history" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--last", "--run", "x"),
        ("--last", "--from-markers"),
        ("--run", "x", "--keep-checkpoints"),
        ("--from-markers", "--dry-run"),
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together(options: tuple[str, ...], folder: Path) -> None:
    assert invoke("restore", *options, folder).exit_code == 2
