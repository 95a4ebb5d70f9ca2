"""A session is opened as it is, or refused by name; opening never writes."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessioncompress.errors import FileFailed, InUse, IsALink, NotASession, SessionCompressError, Unsupported
from sessioncompress.store import lock
from sessioncompress.store.lock import OpenForWriting, held, open_session, wait_until_free
from sessioncompress.store.machine import make_key
from tests.unit.store.tools import APPENDED, OLD, compress, disk, everything, late_state, make_session, shortened

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


def refused(path: Path, kind: type[SessionCompressError], *, writing: bool = True, quiet_seconds: float = 0) -> str:
    """Check that opening raises that error and touches nothing; return its text."""
    before = everything(path.parent)
    with pytest.raises(kind) as caught, open_session(path, writing=writing, quiet_seconds=quiet_seconds):
        pass
    assert everything(path.parent) == before
    return str(caught.value)


def test_opening_gives_the_session_as_it_is(tmp_path: Path) -> None:
    """Passes do not disturb each other, and end where the session ended when it was opened."""
    path = make_session(tmp_path)
    # What this user has on this machine alone is made by the first run that writes.
    make_key()
    with disk() as seam, open_session(path, writing=True) as session:
        one, other = session.reader(), session.reader()
        first = one.readline()
        with path.open("ab") as file:
            file.write(APPENDED)
        assert other.read() == OLD
        assert first + one.read() == OLD
        assert (session.size, session.path) == (len(OLD), path)
    assert seam.calls == []


def test_symbolic_link(tmp_path: Path) -> None:
    """A link is refused for reading and writing: replacing it would part it from its target."""
    make_session(tmp_path, name="target")
    (tmp_path / "s.jsonl").symlink_to("target")
    assert "symbolic link" in refused(tmp_path / "s.jsonl", IsALink)
    refused(tmp_path / "s.jsonl", IsALink, writing=False)


def test_a_folder_reached_through_a_link_is_fine(tmp_path: Path) -> None:
    """Only the file itself must not be a link."""
    (tmp_path / "real").mkdir()
    make_session(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    with open_session(tmp_path / "link" / "session.jsonl", writing=True) as session:
        assert session.path == tmp_path / "real" / "session.jsonl"


def test_hard_link(tmp_path: Path) -> None:
    """A second name would keep the old text; reading does not mind."""
    path = make_session(tmp_path)
    os.link(path, tmp_path / "other")
    assert "-samefile FILE' names them), or put a copy in its place: cp -p FILE COPY &&" in refused(path, IsALink)
    with open_session(path, writing=False) as session:
        assert session.reader().read() == OLD


def test_a_name_that_is_too_long_for_what_lies_beside(tmp_path: Path) -> None:
    """It is told before any work is done; reading does not mind."""
    limit = os.pathconf(tmp_path, "PC_NAME_MAX")
    path = make_session(tmp_path, name="s" * limit)
    over = re.search(r"its name is (\d+) bytes too long", refused(path, Unsupported))
    assert over
    with open_session(path, writing=False) as session:
        assert session.reader().read() == OLD
    path = path.rename(path.with_name("s" * (limit - int(over[1]) - 4)))
    assert compress(path) is not None
    assert path.read_bytes() == shortened(OLD)


def test_our_own_late_link_does_not_count(tmp_path: Path) -> None:
    """A run killed just before the swap does not make the session a linked file."""
    path = make_session(tmp_path)
    (tmp_path / ".sessioncompress").mkdir()
    os.link(path, late_state(path, 3, 4, 5).path(path))
    with open_session(path, writing=True):
        pass
    os.link(path, late_state(path, 3, 4, 5).path(path.with_name("other.jsonl")))
    refused(path, IsALink)


def test_other_kinds_of_files(tmp_path: Path) -> None:
    """Folders, pipes, sockets and devices are no sessions, and are not waited for."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "socket"))
        for name in ("folder", "pipe", "socket"):
            with pytest.raises(NotASession), open_session(tmp_path / name, writing=True):
                pass
    with pytest.raises(NotASession), open_session(Path("/dev/null"), writing=False):
        pass


def test_no_such_file(tmp_path: Path) -> None:
    """A missing file, or folder, is a plain failure."""
    assert "no such file" in refused(tmp_path / "none.jsonl", FileFailed)
    refused(tmp_path / "none" / "none.jsonl", FileFailed)


@linux
def test_open_for_writing_elsewhere(tmp_path: Path) -> None:
    """The error names the program that has the session open; reading does not mind."""
    path = make_session(tmp_path)
    with holding(path, os.O_WRONLY | os.O_APPEND) as pid:
        assert f"(process {pid})" in refused(path, InUse)
        with open_session(path, writing=False):
            pass
    with open_session(path, writing=True):
        pass


@linux
def test_a_program_that_appends_now_and_then_is_no_obstacle(tmp_path: Path) -> None:
    """Opening for a moment is not keeping open."""
    path = make_session(tmp_path)
    writer = path.open("ab")
    closing = threading.Timer(0.03, writer.close)
    closing.start()
    with open_session(path, writing=True):
        assert writer.closed
    closing.join()


def test_quiet_seconds(tmp_path: Path) -> None:
    """A session that changed a moment ago is refused if asked for; one that did not is not."""
    path = make_session(tmp_path)
    with open_session(path, writing=True, quiet_seconds=60):
        pass
    os.utime(path)
    assert "seconds ago" in refused(path, InUse, quiet_seconds=60)
    with open_session(path, writing=True, quiet_seconds=0):
        pass


def test_two_of_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for a while and is refused then; readers do not wait."""
    monkeypatch.setattr(lock, "LOCK_SECONDS", 0.1)
    path = make_session(tmp_path)
    with open_session(path, writing=True):
        assert "another sessioncompress" in refused(path, InUse)
        with open_session(path, writing=False):
            pass
    with open_session(path, writing=True):
        pass


def test_the_second_of_us_gets_the_new_file(tmp_path: Path) -> None:
    """Who waited for a lock on a file that was replaced meanwhile takes the new one."""
    path = make_session(tmp_path)
    seen = []

    def second() -> None:
        with open_session(path, writing=True) as session:
            seen.append(session.reader().read())

    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.05)
        (tmp_path / "new").write_bytes(b"new\n")
        (tmp_path / "new").replace(path)
    thread.join()
    assert seen == [b"new\n"]


def test_a_session_that_is_replaced_while_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock on a file that lies there no more is worth nothing."""
    path = make_session(tmp_path)
    take = lock.lock

    def late(fd: int) -> bool:
        if path.read_bytes() == OLD:
            (tmp_path / "new").write_bytes(b"new\n")
            (tmp_path / "new").replace(path)
        return take(fd)

    monkeypatch.setattr(lock, "lock", late)
    with open_session(path, writing=True) as session:
        assert session.reader().read() == b"new\n"


def test_the_lock_ends_with_the_process(tmp_path: Path) -> None:
    """A killed run leaves no lock behind."""
    path = make_session(tmp_path)
    script = (
        "import os, signal, sys, pathlib\nfrom sessioncompress.store.lock import open_session\n"
        "with open_session(pathlib.Path(sys.argv[1]), writing=True): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script, path], check=False).returncode == -9
    with open_session(path, writing=True):
        pass


def test_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the protocol does not hold nothing is written."""
    path = make_session(tmp_path)
    monkeypatch.setattr(sys, "platform", "win32")
    refused(path, Unsupported)


def test_appended(tmp_path: Path) -> None:
    """Appended bytes are counted; whatever else happens to the file is a refusal."""
    path = make_session(tmp_path)
    with open_session(path, writing=True) as session:
        session.reader().read()
        assert session.appended() == 0
        os.utime(path)
        assert session.appended() == 0
        with path.open("ab") as file:
            file.write(APPENDED)
        assert session.appended() == len(APPENDED)
        with path.open("r+b") as file:
            file.write(b"[")
        with pytest.raises(InUse, match="not only appended"):
            session.appended()


def test_a_cut_or_replaced_session_is_noticed(tmp_path: Path) -> None:
    """Truncation and a new file at the path are not appends."""
    path = make_session(tmp_path)
    with open_session(path, writing=True) as session:
        session.reader().read()
        os.truncate(path, 10)
        with pytest.raises(InUse, match="not only appended"):
            session.appended()
        (tmp_path / "new").write_bytes(OLD)
        (tmp_path / "new").replace(path)
        with pytest.raises(InUse, match="has replaced or deleted it"):
            session.appended()
        path.unlink()
        with pytest.raises(InUse, match="has replaced or deleted it"):
            session.appended()


def test_two_passes_that_differ_are_noticed(tmp_path: Path) -> None:
    """An overwrite between two passes is not taken for the session, even if size and times are as before."""
    path = make_session(tmp_path)
    with open_session(path, writing=True) as session:
        session.reader().read()
        with path.open("r+b") as file:
            file.write(b"[")
        session.reader().read()
        with pytest.raises(InUse):
            session.appended()


# Who has a file open for writing is known, whoever it is.


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
        monkeypatch.setattr(lock, "_ask_for_lease", lambda fd: OpenForWriting.UNKNOWN)


@linux
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (os.O_RDONLY, OpenForWriting.NO),
        (os.O_WRONLY, OpenForWriting.YES),
        (os.O_RDWR, OpenForWriting.YES),
        (os.O_WRONLY | os.O_APPEND, OpenForWriting.YES),
    ],
)
def test_another_process(file: Path, flags: int, answer: OpenForWriting) -> None:
    """A reader does not count, every kind of writer does, until it closes."""
    fd = os.open(file, os.O_RDONLY)
    with holding(file, flags) as pid:
        assert held(fd) is answer
        assert ([each.endswith(f"(process {pid})") for each in lock.holders(fd)] == [True]) is (
            answer is OpenForWriting.YES
        )
    assert held(fd) is OpenForWriting.NO
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
        assert held(fd) is OpenForWriting.YES
        new = os.open(file, os.O_RDONLY)
        assert held(new) is OpenForWriting.NO
        os.close(new)
    os.close(fd)


@linux
def test_waiting(file: Path) -> None:
    """A short append is waited for, a long one not longer than asked."""
    fd = os.open(file, os.O_RDONLY)
    started = time.monotonic()
    with holding(file, os.O_WRONLY):
        assert wait_until_free(fd, 0.05) is OpenForWriting.YES
    assert wait_until_free(fd, 5) is OpenForWriting.NO
    assert time.monotonic() - started < 2
    os.close(fd)


@linux
def test_asking_looks_at_no_process(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs the same however many there are: a lease tells, and /proc is for where there is none, and for names."""
    fd = os.open(file, os.O_RDONLY)
    monkeypatch.setattr(os, "listdir", None)
    monkeypatch.setattr(os, "scandir", None)
    assert held(fd) is OpenForWriting.NO
    os.close(fd)


def test_without_any_way_the_answer_is_unknown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system tells nothing, nothing is assumed."""
    monkeypatch.setattr(lock, "_ask_for_lease", lambda fd: OpenForWriting.UNKNOWN)
    listdir = os.listdir

    def no_proc(path: str) -> list[str]:
        if str(path) == "/proc":
            raise FileNotFoundError(2, "No such file or directory")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", no_proc)
    fd = os.open(file, os.O_RDONLY)
    assert held(fd) is OpenForWriting.UNKNOWN
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
