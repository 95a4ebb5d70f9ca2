"""No line that a program appends while we work is lost, however it appends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import InUse, SessionCompressError
from sessioncompress.store import disk as real_disk
from sessioncompress.store import lock
from sessioncompress.store.layout import store_in
from sessioncompress.store.lock import Held
from tests.unit.store.test_holders import linux
from tests.unit.store.tools import (
    APPENDED,
    MTIME,
    OLD,
    compress,
    disk,
    everything,
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
    monkeypatch.setattr(lock, "held", lambda fd: Held.UNKNOWN)
    monkeypatch.setattr("sessioncompress.store.recover.held", lambda fd: Held.UNKNOWN)


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


def after_swap(action: Callable[[], object]) -> Callable[[int, str, tuple[Any, ...]], None]:
    """Make a `before` that does something at the first call after the first swap."""
    swapped: list[bool] = []

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if swapped == [True]:
            swapped.append(True)
            action()
        if name == swap() and not swapped:
            swapped.append(True)

    return before


def append(path: Path, line: bytes) -> None:
    """Append as pi does: open, write, close."""
    with path.open("ab") as file:
        file.write(line)


def test_an_append_at_the_moment_of_the_swap(tmp_path: Path) -> None:
    """A line that reached the old file only after the last look at it is in the new one; nothing else remains."""
    path = make_session(tmp_path)
    with disk(at_swaps(lambda: append(path, APPENDED))):
        done = compress(path)
    assert done is not None
    assert path.read_bytes() == NEW + APPENDED
    assert (done.size, done.appended) == (len(NEW + APPENDED), len(APPENDED))
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

    swapping = at_swaps(slowly)
    late = after_swap(write)

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        late(number, name, arguments)
        swapping(number, name, arguments)

    with disk(before):
        compress(path)
    assert path.read_bytes() == NEW + APPENDED
    assert left_over(tmp_path) == []


def test_both_files_grew(tmp_path: Path) -> None:
    """What reached the old file comes before what reached the new one: pi takes the last line for the leaf."""
    path = make_session(tmp_path)
    swapping = at_swaps(lambda: append(path, APPENDED))
    late = after_swap(lambda: append(path, LATER))

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        late(number, name, arguments)
        swapping(number, name, arguments)

    with disk(before):
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


@linux
def test_a_writer_that_keeps_the_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets its file back, with what reached the new one; the error names it, and the next run is as good as ever."""
    monkeypatch.setattr("sessioncompress.store.swap.HOLD_SECONDS", 0.05)
    path = make_session(tmp_path)
    held: list[int] = []
    inode = path.stat().st_ino
    swapping = at_swaps(lambda: held.append(os.open(path, os.O_WRONLY | os.O_APPEND)))

    def after() -> None:
        append(path, LATER)
        os.write(held[0], APPENDED)

    late = after_swap(after)

    def before(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        late(number, name, arguments)
        swapping(number, name, arguments)

    with disk(before), pytest.raises(InUse, match=rf"process {os.getpid()}.*not changed"):
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
    with appending(BY_DESCRIPTOR, path, 4000) as process:
        assert process.stdout is not None
        process.stdout.readline()
        inode = path.stat().st_ino
        with pytest.raises(InUse, match="keeps writing"):
            compress(path)
        assert path.stat().st_ino == inode
    compress(path)
    assert path.read_bytes() == NEW + b"".join(b'{"fd":%d}\n' % number for number in range(4000))


def test_errors_while_draining(tmp_path: Path) -> None:
    """A disk that fills up after the swap loses no line: it waits in the link for the next run."""
    path = make_session(tmp_path)
    with disk(at_swaps(lambda: append(path, APPENDED))) as seam:
        compress(path)
    first_swap = seam.calls.index(swap())
    for number in range(first_swap + 1, len(seam.calls)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = make_session(folder)
        late = at_swaps(lambda path=path: append(path, APPENDED))  # type: ignore[misc]

        def fail(found: int, name: str, arguments: tuple[Any, ...], number: int = number, late: Any = late) -> None:
            late(found, name, arguments)
            if found >= number:
                raise OSError(28, "No space left on device")

        with disk(fail), pytest.raises(SessionCompressError):
            compress(path)
        compress(path)
        assert path.read_bytes() == NEW + APPENDED
        assert left_over(folder) == []
        restore(path)
        assert path.read_bytes() == OLD + APPENDED


def test_kills_while_draining(tmp_path: Path) -> None:
    """A run killed anywhere while lines reach the old file loses none of them; the next run brings each once."""
    path = make_session(tmp_path)
    lines = [APPENDED, LATER]
    with disk(at_swaps(*(lambda line=line: append(path, line) for line in lines))) as seam:
        compress(path)
    first_swap = seam.calls.index(swap())
    for number in range(first_swap, len(seam.calls)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = make_session(folder)
        if os.fork() == 0:
            late = at_swaps(*(lambda path=path, line=line: append(path, line) for line in lines))

            def kill(found: int, name: str, arguments: tuple[Any, ...], number: int = number, late: Any = late) -> None:
                late(found, name, arguments)
                if found == number:
                    os.kill(os.getpid(), signal.SIGKILL)

            with disk(kill):
                compress(path)
            os._exit(0)
        assert os.wait()[1] == signal.SIGKILL
        compress(path)
        appended = path.read_bytes().removeprefix(NEW)
        assert appended in (APPENDED, APPENDED + LATER)
        assert left_over(folder) == []


LINES = 800
BY_PATH = """
import sys, time
for number in range(int(sys.argv[2])):
    with open(sys.argv[1], "ab") as file:
        file.write(b'{"path":%d}\\n' % number)
    time.sleep(0.0002)
"""
BY_DESCRIPTOR = """
import sys, time
with open(sys.argv[1], "ab", buffering=0) as file:
    print(flush=True)
    for number in range(int(sys.argv[2])):
        file.write(b'{"fd":%d}\\n' % number)
        time.sleep(0.0002)
"""


@contextmanager
def appending(script: str, path: Path, count: int) -> Iterator[subprocess.Popen[bytes]]:
    """Let another process append numbered lines during a block."""
    command = [sys.executable, "-c", script, str(path), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        yield process
        assert process.wait() == 0


@pytest.mark.parametrize("scripts", [[BY_PATH], [BY_DESCRIPTOR], [BY_PATH, BY_DESCRIPTOR]], ids=["path", "fd", "both"])
@pytest.mark.parametrize("seen", [pytest.param(True, marks=linux), False], ids=["seen", "unseen"])
def test_live_appenders(tmp_path: Path, scripts: list[str], seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressing and restoring again and again while programs append loses and doubles no line of theirs."""
    if not seen:
        monkeypatch.setattr(lock, "held", lambda fd: Held.UNKNOWN)
        monkeypatch.setattr("sessioncompress.store.recover.held", lambda fd: Held.UNKNOWN)
    # Who closes at once is waited for, even where a busy machine holds it up: what it left would be in the next run's
    # hands, which keeps every line but not their order. Who keeps the file open is soon given up.
    monkeypatch.setattr("sessioncompress.store.swap.HOLD_SECONDS", 5 if scripts == [BY_PATH] else 0.02)
    path = make_session(tmp_path)
    rounds = 0
    with ExitStack() as stack:
        processes = [stack.enter_context(appending(script, path, LINES)) for script in scripts]
        while any(process.poll() is None for process in processes):
            with suppress(InUse):
                compress(path)
                restore(path)
                rounds += 1
    for _ in range(2):
        restore(path)
    lines = path.read_bytes().removeprefix(OLD).splitlines(keepends=True)
    kinds = [b"path" if script == BY_PATH else b"fd" for script in scripts]
    wanted = [b'{"%s":%d}\n' % (kind, number) for number in range(LINES) for kind in kinds]
    assert sorted(lines) == sorted(wanted)
    if scripts == [BY_PATH]:
        assert rounds
        assert not seen or lines == wanted
    assert not seen or left_over(tmp_path) == []


def test_everything_beside_counts(tmp_path: Path) -> None:
    """After a run without a writer nothing but the originals and the journal lies beside the session."""
    path = make_session(tmp_path)
    compress(path)
    beside = {name: content for name, content in everything(tmp_path).items() if name != "session.jsonl" and content}
    store = store_in(path)
    assert sorted(beside) == [str(each.relative_to(tmp_path)) for each in (store.journal, store.originals)]
