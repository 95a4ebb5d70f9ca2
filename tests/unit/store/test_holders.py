"""Who has a file open for writing is known, whoever it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessioncompress.store import lock
from sessioncompress.store.lock import Held, held, wait_until_free

HOLDER = "import sys, os; fd = os.open(sys.argv[1], int(sys.argv[2])); print(flush=True); sys.stdin.read()"

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open")


@contextmanager
def holding(path: Path, flags: int) -> Iterator[int]:
    """Let another process have the file open for a block; give its id."""
    command = [sys.executable, "-c", HOLDER, str(path), str(flags)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Create a file."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"{}\n")
    return path


@pytest.fixture(params=["lease", "proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask in each of the two ways."""
    if request.param == "proc":
        monkeypatch.setattr(lock, "_ask_for_lease", lambda fd: Held.UNKNOWN)


@linux
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("flags", "answer"),
    [(os.O_RDONLY, Held.NO), (os.O_WRONLY, Held.YES), (os.O_RDWR, Held.YES), (os.O_WRONLY | os.O_APPEND, Held.YES)],
)
def test_another_process(file: Path, flags: int, answer: Held) -> None:
    """A reader does not count, every kind of writer does, until it closes."""
    fd = os.open(file, os.O_RDONLY)
    with holding(file, flags) as pid:
        assert held(fd) is answer
        assert ([each.endswith(f"(process {pid})") for each in lock.holders(fd)] == [True]) is (answer is Held.YES)
    assert held(fd) is Held.NO
    os.close(fd)


@linux
def test_we_are_named_only_where_nobody_else_is(file: Path) -> None:
    """A shell opened the file, say, and we have it from there: naming us sends the user the wrong way."""
    fd = os.open(file, os.O_RDONLY)
    with file.open("ab"):
        assert lock.holders(fd) == [f"this command itself (process {os.getpid()})"]
        with holding(file, os.O_WRONLY) as pid:
            (other,) = lock.holders(fd)
            assert other.endswith(f"(process {pid})")
    os.close(fd)


@linux
@pytest.mark.usefixtures("way")
def test_a_replaced_file_is_still_known(file: Path) -> None:
    """The file counts, not its name: a writer to the old file is seen after a replace, one to the new file is not."""
    fd = os.open(file, os.O_RDONLY)
    with holding(file, os.O_WRONLY):
        other = file.with_name("other")
        other.write_bytes(b"")
        other.replace(file)
        assert held(fd) is Held.YES
        new = os.open(file, os.O_RDONLY)
        assert held(new) is Held.NO
        os.close(new)
    os.close(fd)


@linux
def test_waiting(file: Path) -> None:
    """A short append is waited for, a long one not longer than asked."""
    fd = os.open(file, os.O_RDONLY)
    started = time.monotonic()
    with holding(file, os.O_WRONLY):
        assert wait_until_free(fd, 0.05) is Held.YES
    assert wait_until_free(fd, 5) is Held.NO
    assert time.monotonic() - started < 2
    os.close(fd)


@linux
def test_asking_looks_at_no_process(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs the same however many there are: a lease tells, and /proc is for where there is none, and for names."""
    fd = os.open(file, os.O_RDONLY)
    monkeypatch.setattr(os, "listdir", None)
    monkeypatch.setattr(os, "scandir", None)
    assert held(fd) is Held.NO
    os.close(fd)


def test_without_any_way_the_answer_is_unknown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system tells nothing, nothing is assumed."""
    monkeypatch.setattr(lock, "_ask_for_lease", lambda fd: Held.UNKNOWN)
    listdir = os.listdir

    def no_proc(path: str) -> list[str]:
        if str(path) == "/proc":
            raise FileNotFoundError(2, "No such file or directory")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", no_proc)
    fd = os.open(file, os.O_RDONLY)
    assert held(fd) is Held.UNKNOWN
    assert lock.holders(fd) == []
    os.close(fd)


@linux
def test_a_writer_that_meets_the_lease_goes_on(file: Path) -> None:
    """Asking again and again neither stops a program that appends nor us."""
    script = "import sys\nfor n in range(2000):\n with open(sys.argv[1], 'ab') as f: f.write(b'x\\n')"
    fd = os.open(file, os.O_RDONLY)
    with subprocess.Popen([sys.executable, "-c", script, str(file)]) as process:
        while process.poll() is None:
            held(fd)
    assert process.returncode == 0
    assert file.read_bytes() == b"{}\n" + b"x\n" * 2000
    os.close(fd)
