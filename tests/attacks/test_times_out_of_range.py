"""A time, an id or a name that no record can hold: whatever is written beside a session is read again."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.build import PiSession
from tests.support.claude import ClaudeSession
from tests.support.runs import HOMES, fixture, invoke, journal_of, run, turn

SECOND = 10**9
TIMES = [
    ("2250", 8_835_955_200 * SECOND),
    ("the first time that failed", 1 << 62),
    ("the last of 64 bits", (1 << 63) - 1),
    ("the first beyond", 1 << 63),
    ("beyond unsigned 64 bits", 1 << 70),
    ("the last of all", ((1 << 63) - 1) * SECOND),
    ("1970", 0),
    ("just before", -1),
    ("the first of 64 bits", -(1 << 63)),
    ("the first of all", -(1 << 63) * SECOND),
]
CLOCKS = [("the year 33658", 1e12), ("no year", 1e18), ("before 1970", -1e9), ("before our era", -1e12)]
MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder in memory, where times have no bounds; on a disk where there is none, which may have some."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path) as name:
        monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", name)
        yield Path(name)


def one(*args: object) -> dict[str, object]:
    (found,) = json.loads(run(*args, "--json").stdout)["files"]
    return dict(found)


def write(folder: Path, data: bytes = b"") -> Path:
    path = folder / "session.jsonl"
    path.write_bytes(data or fixture("pi-anthropic.jsonl"))
    return path


def set_time(path: Path, wanted: int) -> int:
    """Give a file a time of change, as near as its file system allows; return which one that is."""
    os.utime(path, ns=(wanted, wanted))
    return path.stat().st_mtime_ns


def goes_back(path: Path, was: bytes) -> None:
    """Check, list and restore a compressed session, in both ways, and find nothing more to do."""
    small, modified = path.read_bytes(), path.stat().st_mtime_ns
    assert len(small) < len(was)
    assert one("compress", "--force", path)["status"] == "unchanged"
    for command in ("verify", "stats"):
        run(command, path)
    # With 1 it says that a run is due.
    assert invoke("budget", path).exit_code in (0, 1)
    assert json.loads(run("sessions", "--json").stdout)["sessions"]
    run("forget", "--dry-run", "--max-size", "1KB", path.parent)
    for way in ((), ("--from-markers",)):
        run("restore", *way, path)
        assert (path.read_bytes(), path.stat().st_mtime_ns) == (was, modified)
        path.write_bytes(small)
        set_time(path, modified)


@pytest.mark.parametrize("wanted", [case[1] for case in TIMES], ids=[case[0] for case in TIMES])
def test_a_time_of_any_year(folder: Path, wanted: int) -> None:
    """The journal of a session from 2116 or later could not be read; times before 1970 became 1970 in it."""
    path = write(folder)
    was, modified = path.read_bytes(), set_time(path, wanted)
    run("compress", "--force", path)
    assert path.stat().st_mtime_ns == modified
    noted = modified if modified and -(1 << 63) <= modified < 1 << 63 else None
    assert journal_of(path)[-1].get("modifiedNs") == noted
    goes_back(path, was)


@pytest.mark.parametrize("now", [case[1] for case in CLOCKS], ids=[case[0] for case in CLOCKS])
def test_a_clock_of_any_year(folder: Path, monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    """Of the machine that compresses; another one reads what it wrote."""
    path = write(folder)
    was = path.read_bytes()
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time", lambda: now)
        run("compress", "--force", path)
    assert len(journal_of(path)[-1]["at"]) == len("2026-03-02T09:00:00Z")
    goes_back(path, was)


def test_a_time_to_come_is_not_quiet_forever(folder: Path) -> None:
    """A file from 2250 was in use for two hundred years."""
    path = write(folder)
    set_time(path, TIMES[0][1])
    (folder / "compression.json").write_text('{"session": {"quietSeconds": 60, "idleSeconds": 60}}')
    assert one("compress", "--force", path)["status"] == "compressed"


def test_an_id_longer_than_any_record(folder: Path) -> None:
    """The run's record was cut where it is read: the next run took all of it for a torn append, and cut it back."""
    made = PiSession(header={"id": "x" * (1100 << 10)})
    made.user("Go.")
    for number in range(60):
        made.step("bash", {"command": f"cat {number}"}, f"a line of {number}\n" * 5000)
    path = write(folder, turn(made, 5).bytes())
    was = path.read_bytes()
    run("compress", "--force", path)
    goes_back(path, was)


def test_a_tool_that_no_record_can_name(folder: Path) -> None:
    """Its agent alone can read the call; the result, which is a line of its own, was not to be recorded."""
    made = ClaudeSession()
    made.user("Go.")
    for number in range(8):
        made.step("Bash", {"command": f"cat {number}"}, f"a line of {number}\n" * 800)
    path = write(folder, made.turn(5).bytes().replace(b'"name":"Bash"', b'"name":"Bash\\ud800"'))
    was = path.read_bytes()
    run("compress", "--force", path)
    goes_back(path, was)


@pytest.mark.parametrize("old", ['"bash', '"command', '"toolu_'], ids=["tool", "key", "call"])
def test_a_name_longer_than_any_record(folder: Path, old: str) -> None:
    """Of a tool, a key or a call: its line is left alone, and the others are rewritten."""
    made = PiSession()
    made.user("Go.")
    for number in range(8):
        made.step("bash", {"command": f"a line of {number}\n" * 800}, f"a line of {number}\n" * 800)
    lines = turn(made, 5).lines()
    long = old.encode() + b"x" * 70_000
    lines[2:4] = [line.replace(old.encode(), long) for line in lines[2:4]]
    path = write(folder, b"".join(lines))
    run("compress", "--force", path)
    assert all(len(json.dumps(record)) < 70_000 for record in journal_of(path))
    goes_back(path, b"".join(lines))


def test_a_policy_longer_than_any_record(folder: Path) -> None:
    """Each run's record holds the policy: one that it could not hold is refused, and nothing is touched."""
    path = write(folder)
    was = path.read_bytes()
    (folder / "compression.json").write_text(
        json.dumps({"session": {"protectTools": [f"tool {each}" for each in range(200_000)]}})
    )
    result = invoke("compress", "--force", path)
    assert result.exit_code == 2
    assert "No session that it governs was changed." in result.stderr
    assert path.read_bytes() == was
    assert sorted(each.name for each in folder.iterdir()) == ["compression.json", "session.jsonl"]
