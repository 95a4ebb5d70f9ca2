"""No line that a program appends while we work is lost, however it appends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import InUse, SessionCompressError
from sessioncompress.store import disk as real_disk
from sessioncompress.store import lock
from sessioncompress.store.lock import OpenForWriting
from tests.unit.store.test_lock import linux
from tests.unit.store.tools import (
    APPENDED,
    MTIME,
    OLD,
    compress,
    disk,
    in_a_child,
    left_over,
    make_session,
    restore,
    shortened,
    swap,
    without_exchange,
)

NEW = shortened(OLD)
LATER = b'{"id":"later"}\n'


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on a system that does not tell who has a file open."""
    monkeypatch.setattr(lock, "held", lambda fd: OpenForWriting.UNKNOWN)
    monkeypatch.setattr("sessioncompress.store.recover.held", lambda fd: OpenForWriting.UNKNOWN)


@pytest.fixture(autouse=True, params=["exchange", "replace"])
def _swapped_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put files in place by an exchange, and as where a file system knows none."""
    if request.param == "replace":
        monkeypatch.setattr(real_disk.System, "exchange", staticmethod(without_exchange))


def at_swaps(*actions: Callable[[], object]) -> Callable[[int, str, tuple[Any, ...]], None]:
    """Make a `before` that does something before the first swap, something else before the second, and so on."""
    left = list(actions)

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name == swap() and left:
            left.pop(0)()

    return before


def at_and_after(at: Callable[[], object], after: Callable[[], object]) -> Callable[..., None]:
    """Make a `before` that does something before the first swap, and something else at the first call after it."""
    left = [at, after]

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if len(left) == 1 or (name == swap() and len(left) == 2):
            left.pop(0)()

    return before


def append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)


BY_DESCRIPTOR = """
import sys, time
with open(sys.argv[1], "ab", buffering=0) as file:
    print(flush=True)
    for number in range(int(sys.argv[2])):
        file.write(b'{"fd":%d}\\n' % number)
        time.sleep(0.0002)
"""


@contextmanager
def appending(path: Path, count: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", BY_DESCRIPTOR, str(path), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        yield process
        assert process.wait() == 0


def test_an_append_at_the_moment_of_the_swap(tmp_path: Path) -> None:
    """A line that reached the old file only after the last look at it is in the new one; nothing else remains."""
    path = make_session(tmp_path)
    with disk(at_swaps(lambda: append(path, APPENDED))):
        assert compress(path) == len(NEW + APPENDED)
    assert path.read_bytes() == NEW + APPENDED
    assert path.stat().st_mtime_ns > MTIME
    assert left_over(tmp_path) == []


def test_a_writer_that_opened_before_and_writes_after_the_swap(tmp_path: Path) -> None:
    """A slow append is waited for, and drained."""
    path = make_session(tmp_path)
    opened: list[int] = []

    def write() -> None:
        os.write(opened[0], APPENDED)
        os.close(opened[0])

    def slowly() -> None:
        opened.append(os.open(path, os.O_WRONLY | os.O_APPEND))

    with disk(at_and_after(slowly, write)):
        compress(path)
    assert path.read_bytes() == NEW + APPENDED
    assert left_over(tmp_path) == []


def test_both_files_grew(tmp_path: Path) -> None:
    """What reached the old file comes before what reached the new one: pi takes the last line for the leaf."""
    path = make_session(tmp_path)
    with disk(at_and_after(lambda: append(path, APPENDED), lambda: append(path, LATER))):
        compress(path)
    assert path.read_bytes() == NEW + APPENDED + LATER
    assert left_over(tmp_path) == []
    restore(path)
    assert path.read_bytes() == OLD + APPENDED + LATER


def test_appends_at_every_swap(tmp_path: Path) -> None:
    """Draining swaps again, and that swap is drained too."""
    path = make_session(tmp_path)
    lines = [b'{"id":"late-%d"}\n' % number for number in range(4)]
    with disk(at_swaps(*(lambda line=line: append(path, line) for line in lines))):
        compress(path)
    assert path.read_bytes() == NEW + b"".join(lines)
    assert left_over(tmp_path) == []


def test_half_a_line_before_the_swap(tmp_path: Path) -> None:
    """A line that was written in two parts, one on each side of the swap, is one line."""
    path = make_session(tmp_path)
    with disk(at_swaps(lambda: append(path, APPENDED[5:]))):
        compress(path, before_commit=lambda: append(path, APPENDED[:5]))
    assert path.read_bytes() == NEW + APPENDED


@pytest.mark.parametrize(
    ("late", "reached"),
    [
        (APPENDED[:5], APPENDED[5:]),
        (APPENDED + LATER[:5], LATER[5:]),
        (APPENDED, LATER[:5]),
        (APPENDED[:5], APPENDED[5:] + LATER),
    ],
    ids=["a line", "the second line", "only of the second line, which begins alike", "and a line"],
)
def test_half_a_line_at_the_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bytes, reached: bytes) -> None:
    """What reached the old file too late to be taken with it comes right before what reached the new one."""
    path, call, first = make_session(tmp_path), getattr(real_disk.System, swap()), [True]

    def swapped(*arguments: Path) -> None:
        if is_first := bool(first):
            append(path, late)
            first.clear()
        call(*arguments)
        if is_first:
            append(path, reached)

    monkeypatch.setattr(real_disk.System, swap(), staticmethod(swapped))
    compress(path)
    assert path.read_bytes() == NEW + late + reached


@linux
def test_a_writer_that_keeps_the_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets its file back, with what reached the new one; the error names it, and the next run is as good as ever."""
    monkeypatch.setattr("sessioncompress.store.swap.HOLD_SECONDS", 0.05)
    path = make_session(tmp_path)
    held: list[int] = []
    inode = path.stat().st_ino

    def after() -> None:
        append(path, LATER)
        os.write(held[0], APPENDED)

    def at() -> None:
        held.append(os.open(path, os.O_WRONLY | os.O_APPEND))

    with disk(at_and_after(at, after)), pytest.raises(InUse, match=rf"process {os.getpid()}.*not changed"):
        compress(path)
    os.write(held[0], b"more\n")
    assert path.stat().st_ino == inode
    assert path.read_bytes() == OLD + APPENDED + LATER + b"more\n"
    assert left_over(tmp_path) == []
    os.close(held[0])
    compress(path)
    assert path.read_bytes() == shortened(OLD) + APPENDED + LATER + b"more\n"
    assert left_over(tmp_path) == []


@pytest.mark.usefixtures("unseen")
def test_a_link_that_must_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody tells who writes, the old file stays and each run brings what came late; after an hour it goes."""
    path = make_session(tmp_path)
    with path.open("ab", buffering=0) as writer:
        compress(path)
        assert len(left_over(tmp_path)) == 1
        append(path, LATER)
        assert compress(path) is None
        assert path.read_bytes() == NEW + LATER
        writer.write(APPENDED + b'{"half')
        assert compress(path) is None
        assert path.read_bytes() == NEW + APPENDED + LATER
        writer.write(b'":1}\n')
    assert compress(path) is None
    assert path.read_bytes() == NEW + APPENDED + b'{"half":1}\n' + LATER
    append(path, OLD.replace(b'"id":"', b'"id":"second-'))
    compress(path)
    later = time.time() + 4000
    monkeypatch.setattr(time, "time", lambda: later)
    with disk() as seam:
        assert compress(path) is None
    assert set(seam.calls) == {"unlink"}
    assert left_over(tmp_path) == []


@pytest.mark.usefixtures("unseen")
def test_a_link_after_the_agent_put_its_own_file_there(tmp_path: Path) -> None:
    """What comes late goes to the end of whatever is the session now, as lines of their own."""
    path = make_session(tmp_path)
    with path.open("ab", buffering=0) as writer:
        compress(path)
        (tmp_path / "other").write_bytes(b'{"id":"other"}')
        (tmp_path / "other").replace(path)
        writer.write(APPENDED)
    compress(path)
    assert path.read_bytes() == b'{"id":"other"}\n' + APPENDED


@pytest.mark.usefixtures("unseen")
def test_an_unseen_writer_that_keeps_writing(tmp_path: Path) -> None:
    """If the old file keeps growing it is put back, though nobody tells who writes to it."""
    path = make_session(tmp_path)
    with appending(path, 4000) as process:
        assert process.stdout is not None
        process.stdout.readline()
        inode = path.stat().st_ino
        with pytest.raises(InUse, match="keeps writing"):
            compress(path)
        assert path.stat().st_ino == inode
    compress(path)
    assert path.read_bytes() == NEW + b"".join(b'{"fd":%d}\n' % number for number in range(4000))


@pytest.mark.parametrize("killed", [False, True], ids=["full disk", "kill"])
def test_harm_while_draining(tmp_path: Path, killed: bool) -> None:
    """A run that fails or dies while lines reach the old file loses none of them; the next one brings each once."""
    path = make_session(tmp_path)
    appends = [lambda path, line=line: append(path, line) for line in (APPENDED, LATER)]
    with disk(at_swaps(*(partial(each, path) for each in appends))) as seam:
        compress(path)
    for number in range(seam.calls.index(swap()), len(seam.calls)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = make_session(folder)
        late = at_swaps(*(partial(each, path) for each in appends))

        def harm(found: int, name: str, arguments: tuple[Any, ...], number: int = number, late: Any = late) -> None:
            late(found, name, arguments)
            if killed and found == number:
                os.kill(os.getpid(), signal.SIGKILL)
            if found >= number:
                raise OSError(28, "No space left on device")

        def work(path: Path = path, harm: Any = harm) -> None:
            with disk(harm):
                compress(path)

        if killed:
            assert in_a_child(work) == signal.SIGKILL
        else:
            with pytest.raises(SessionCompressError):
                work()
        compress(path)
        appended = path.read_bytes().removeprefix(NEW)
        assert appended in (APPENDED, APPENDED + LATER)
        assert left_over(folder) == []
        restore(path)
        assert path.read_bytes() == OLD + appended
