"""Who reads the output may go away at any time: what writes is done all the same, what only reads ends."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sessioncompress.store.layout import store_in
from tests.support.runs import but_undo, fixture

NAMES = ("a.jsonl", "b.jsonl", "c.jsonl")
_TOTAL = ("  sessions", "  with the stores", "  of those changed", "  replaced")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).write_bytes(fixture("pi-anthropic.jsonl"))
    return tmp_path


def unread(*arguments: str, cwd: Path, errors: bool = False) -> tuple[int, str]:
    """Run a command whose stdout nobody reads, with `errors` its stderr neither; return the exit code and stderr."""
    command = [sys.executable, "-m", "sessioncompress", *arguments]
    stderr = subprocess.STDOUT if errors else subprocess.PIPE
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=stderr) as process:
        assert process.stdout is not None
        process.stdout.close()
        said = process.stderr.read() if process.stderr else b""
    return process.returncode, but_undo(said)


def test_every_session_is_done(folder: Path) -> None:
    """The first line that cannot be written ends nothing, for no command."""
    assert unread("compress", ".", cwd=folder) == (0, "")
    for name in NAMES:
        assert (folder / name).stat().st_size < len(fixture("pi-anthropic.jsonl"))
    for command in ("stats", "verify"):
        assert unread(command, ".", cwd=folder) == (0, "")
    assert unread("restore", ".", cwd=folder) == (0, "")
    for name in NAMES:
        assert (folder / name).read_bytes() == fixture("pi-anthropic.jsonl")
    assert unread("forget", "--yes", ".", cwd=folder) == (0, "")
    assert {path.name for path in folder.iterdir()} == set(NAMES)


@pytest.mark.parametrize("errors", [False, True], ids=["stdout", "both"])
def test_the_exit_code_is_that_of_the_work(folder: Path, errors: bool) -> None:
    """1 is for --check alone, and a damaged store is 5, where nobody reads that either."""
    assert unread("compress", "--check", ".", cwd=folder, errors=errors)[0] == 1
    assert unread("compress", "b.jsonl", cwd=folder, errors=errors)[0] == 0
    store_in(folder / "b.jsonl").originals.unlink()
    assert unread("verify", ".", cwd=folder, errors=errors)[0] == 5
    assert unread("compress", "none.jsonl", cwd=folder, errors=errors)[0] == 2


def test_what_is_read_is_whole(folder: Path) -> None:
    """Where there is a reader nothing is lost, and characters are written as before."""
    name = "\u00e9\u6f22.jsonl"
    (folder / "a.jsonl").rename(folder / name)
    command = [sys.executable, "-m", "sessioncompress", "compress", "-v", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    assert [line.partition(b": ")[0].decode() for line in done.stdout.splitlines()] == [
        *NAMES[1:],
        name,
        "total",
        *_TOTAL,
    ]
    assert but_undo(done.stderr) == ""


def test_what_only_reads_ends_with_its_reader(folder: Path) -> None:
    """Without an error, and without the work that nobody will see."""
    command = [sys.executable, "-c", _LOOKS_IN, "verify", "-v", "--jobs", "1", *NAMES]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"looked into 1\n")


_LOOKS_IN = """
import sys
from sessioncompress.__main__ import run
from sessioncompress.operations import verify
real, number = verify.verify_session, 0
def counting(*given, **more):
    global number
    number += 1
    return real(*given, **more)
verify.verify_session = counting
try:
    run()
finally:
    print("looked into", number, file=sys.stderr)
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_streams_that_were_never_open(folder: Path, closed: str) -> None:
    """There is nothing to write to, which is no error."""
    shell = f'"$0" -m sessioncompress compress . {closed}'
    assert subprocess.run(["sh", "-c", shell, sys.executable], cwd=folder, check=False).returncode == 0
    assert (folder / "c.jsonl").stat().st_size < len(fixture("pi-anthropic.jsonl"))


@pytest.mark.parametrize(("command", "code"), [("compress", 0), ("stats", 0), ("nothing", 2)])
def test_a_terminal_that_is_gone_is_a_reader_that_went(folder: Path, command: str, code: int) -> None:
    """As after a hangup that nohup ignores."""
    ours, theirs = pty.openpty()
    program = "import sys; sys.stdin.read(); from sessioncompress.__main__ import run; run()"
    arguments = [sys.executable, "-c", program, command, "."]
    with subprocess.Popen(arguments, cwd=folder, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs) as begun:
        os.close(theirs)
        os.close(ours)
    assert begun.returncode == code
    done = [(folder / name).stat().st_size < len(fixture("pi-anthropic.jsonl")) for name in NAMES]
    assert done == [command == "compress"] * 3


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("compress .", 3),
        ("compress --json .", 3),
        ("compress --check .", 3),
        ("compress a.jsonl b.jsonl c.jsonl", 3),
        ("compact --print a.jsonl", 3),
        ("stats -v .", 3),
        ("diff a.jsonl", 3),
        ("--version", 3),
        ("compress none.jsonl", 2),
    ],
)
def test_a_disk_that_is_full_is_said(folder: Path, arguments: str, code: int) -> None:
    """The work is done all the same, and who goes by the exit code takes no half output for a whole one."""
    command = [sys.executable, "-m", "sessioncompress", *arguments.split()]
    with FULL.open("wb") as full:
        done = subprocess.run(command, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    said = "stdout cannot be written: No space left on device. Part of the output is lost"
    assert (said in done.stderr) is (code == 3)
    smaller = (folder / "c.jsonl").stat().st_size < len(fixture("pi-anthropic.jsonl"))
    assert smaller is (arguments in ("compress .", "compress --json .", "compress a.jsonl b.jsonl c.jsonl"))


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_a_damaged_store_says_more_than_a_full_disk(folder: Path) -> None:
    assert unread("compress", "b.jsonl", cwd=folder)[0] == 0
    store_in(folder / "b.jsonl").originals.unlink()
    command = [sys.executable, "-m", "sessioncompress", "verify", "b.jsonl"]
    with FULL.open("wb") as full:
        assert subprocess.run(command, cwd=folder, stdout=full, stderr=full, check=False).returncode == 5


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_nobody_to_be_asked(folder: Path, closed: str) -> None:
    """As where somebody is asked and does not answer: nothing is deleted."""
    assert unread("compress", "a.jsonl", cwd=folder)[0] == 0
    shell = f'"$0" -m sessioncompress forget a.jsonl {closed}'
    done = subprocess.run(["sh", "-c", shell, sys.executable], cwd=folder, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (2, False)
    assert store_in(folder / "a.jsonl").originals.exists()


@pytest.mark.parametrize("command", ["diff", "show"])
def test_nothing_to_show_it_on(command: str, folder: Path) -> None:
    assert unread("compress", "a.jsonl", cwd=folder)[0] == 0
    journal = map(json.loads, store_in(folder / "a.jsonl").journal.read_text().splitlines())
    ref = next(record["ref"] for record in journal if record["type"] == "block")
    named = "a.jsonl" if command == "diff" else f"{ref} a.jsonl"
    shell = f'"$0" -m sessioncompress {command} {named} >&-'
    done = subprocess.run(["sh", "-c", shell, sys.executable], cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_an_error_of_ours_is_still_told_where_stdout_is_full() -> None:
    """That the output is lost says less."""
    lines = ("from sessioncompress.core.process import outliving_their_readers", "with outliving_their_readers():")
    code = "\n".join((*lines, "    print('x')", "    raise ValueError('of ours')"))
    with FULL.open("wb") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, b"ValueError: of ours")
