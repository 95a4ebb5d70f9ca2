"""A rewrite leaves the old session or the new one, and with the new one its originals; whatever fails, whenever."""

from __future__ import annotations

import errno
import gc
import os
import signal
import stat
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.errors import Damaged, FileFailed, InUse, Unsupported
from sessioncompress.store import disk as real_disk
from sessioncompress.store.commit import CountingSink, Rewrite
from sessioncompress.store.layout import Lengths, store_in
from sessioncompress.store.lock import open_session
from sessioncompress.store.recover import recover
from tests.unit.store.tools import (
    APPENDED,
    ERRNOS,
    MTIME,
    OLD,
    compress,
    disk,
    everything,
    failing_at,
    in_a_child,
    left_over,
    make_session,
    names_of_descriptors,
    originals_of,
    read_lengths,
    restore,
    shortened,
    steps_of,
)

NEW = shortened(OLD)
SECOND = OLD.replace(b'"id":"', b'"id":"second-')


def count_calls(tmp_path: Path, *, runs: int) -> int:
    """Return how many calls that change the disk the last of some runs makes."""
    path = make_session(tmp_path)
    for number in range(runs):
        if number:
            append(path, SECOND)
        with disk() as seam:
            compress(path)
    return len(seam.calls)


def append(path: Path, content: bytes) -> None:
    """Append to a session as pi does."""
    with path.open("ab") as file:
        file.write(content)


def check_old_or_new(path: Path, old: bytes) -> None:
    """Check that the session is the old one, or the new one with its originals."""
    content = path.read_bytes()
    assert content in (old, shortened(old))
    assert b"".join(originals_of(path, content.splitlines(keepends=True))).endswith(SECOND if SECOND in old else OLD)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_compress_and_restore(tmp_path: Path) -> None:
    """Bytes, mode and time of the session come back; beside it only originals and journal remain."""
    path = make_session(tmp_path)
    assert compress(path) == len(NEW)
    assert path.read_bytes() == NEW
    assert (path.stat().st_mtime_ns, stat.S_IMODE(path.stat().st_mode), path.stat().st_nlink) == (MTIME, 0o640, 1)
    store = store_in(path)
    files = {str(each.relative_to(tmp_path)) for each in (store.work, store.folder, store.originals, store.journal)}
    assert set(everything(tmp_path)) == {"session.jsonl"} | files
    append(path, APPENDED)
    os.utime(path, ns=(MTIME, MTIME + 1))
    restore(path)
    assert path.read_bytes() == OLD + APPENDED
    assert path.stat().st_mtime_ns == MTIME + 1


def test_modes_under_an_open_umask(tmp_path: Path) -> None:
    """What holds a session's text is private from the moment it exists."""
    path = make_session(tmp_path)
    modes = set()

    def look(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        for found in (tmp_path / ".sessioncompress").rglob("*"):
            if found.is_file():
                modes.add(stat.S_IMODE(found.stat().st_mode))

    before = os.umask(0)
    try:
        with disk(look):
            compress(path)
    finally:
        os.umask(before)
    # The new session gets the old one's mode before it is put in place, and not a moment earlier.
    assert modes == {0o600, 0o640}
    store = store_in(path)
    assert {stat.S_IMODE(each.stat().st_mode) for each in (store.work, store.folder)} == {0o700}


@names_of_descriptors
def test_the_order_of_writes(tmp_path: Path) -> None:
    """Originals and journal are flushed before the swap, links before and after it; this order is the argument."""
    path = make_session(tmp_path)
    with steps_of(("write", "fsync", "utime", "link", "exchange", "replace", "unlink")) as steps:
        compress(path)
    assert steps == [
        f"fsync {tmp_path.name}", "fsync .sessioncompress",
        "write .zst", "write .temp-",
        "fsync .zst", "fsync local-",
        "write .history", "fsync .history", "fsync local-",
        "link session.jsonl", "fsync .sessioncompress",
        "utime .temp-", "fsync .temp-", "exchange .temp-", "unlink .temp-", f"fsync {tmp_path.name}",
        "unlink .late-",
    ]  # fmt: skip


@names_of_descriptors
def test_the_order_of_taking_back(tmp_path: Path) -> None:
    """No journal ever names originals that are gone, also where a kill ends the undoing."""
    path = make_session(tmp_path)
    compress(path)
    append(path, SECOND)

    def fail(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "exchange":
            raise OSError(errno.EIO, "Input/output error")

    with steps_of(("exchange", "truncate"), fail) as steps, pytest.raises(FileFailed):
        compress(path)
    assert steps[steps.index("exchange .temp-") + 1 :] == ["truncate .history", "truncate .zst"]


def test_leaving_without_commit(tmp_path: Path) -> None:
    """A run that finds its gain too small leaves nothing, neither on a first nor on a later run."""
    path = make_session(tmp_path)
    for _ in range(2):
        before = everything(tmp_path)
        with open_session(path, writing=True) as session:
            files = store_in(session.path)
            with Rewrite(session, files, read_lengths(files)) as rewrite:
                rewrite.write(session.reader().read())
                rewrite.keep(os.urandom(5 << 20))
                rewrite.finish()
        assert everything(tmp_path) == before
        compress(path)


@pytest.mark.parametrize(("size", "writes"), [(1 << 20, False), (5 << 20, True)], ids=["small", "large"])
def test_what_is_measured_and_dropped(tmp_path: Path, size: int, writes: bool) -> None:
    """A small draft and its originals are on disk only when the run is known to pay; of a large one nothing stays."""
    path = make_session(tmp_path)
    for _ in range(2):
        before = everything(tmp_path)
        with disk() as seam, open_session(path, writing=True) as session:
            files = store_in(session.path)
            with Rewrite(session, files, read_lengths(files)) as rewrite:
                rewrite.write(b"x" * size)
                rewrite.keep(os.urandom(size))
                lengths = read_lengths(files)
                measured = rewrite.measure()
                assert measured.size == size
                assert measured.originals_size > lengths.originals + size
        assert bool(seam.calls) == writes
        assert everything(tmp_path) == before
        compress(path)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Keep the garbage collector away."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("dry", [False, True], ids=["run", "dry run"])
def test_what_does_not_pay_is_freed_at_once(tmp_path: Path, dry: bool) -> None:
    """Until the collector comes a run over an archive would hold the drafts of hundreds of sessions."""
    path = make_session(tmp_path)
    with open_session(path, writing=True) as session:
        sink = CountingSink(Lengths()) if dry else Rewrite(session, store_in(session.path), Lengths())
        with sink:
            sink.write(NEW)
            sink.keep(OLD)
            sink.measure()
        left = weakref.ref(sink)
        del sink
        assert left() is None


@pytest.mark.usefixtures("uncollected")
def test_a_commit_leaves_nothing_to_the_collector(tmp_path: Path) -> None:
    """The first one loads what the later ones use."""
    path = make_session(tmp_path)
    compress(path)
    append(path, SECOND)
    gc.collect()
    compress(path)
    assert gc.collect() == 0


def test_what_is_measured_is_what_is_written(tmp_path: Path) -> None:
    """The sizes, the places and the digest are those of the finished files."""
    path = make_session(tmp_path)
    with open_session(path, writing=True) as session:
        files = store_in(session.path)
        with Rewrite(session, files, read_lengths(files)) as rewrite:
            rewrite.write(NEW)
            rewrite.keep(OLD)
            measured = rewrite.measure()
            assert rewrite.finish()._replace(digest="") == measured
            assert rewrite.reader().read() == NEW
            assert files.originals.stat().st_size == measured.originals_size
            assert sha256(files.originals.read_bytes()).hexdigest() == measured.originals_sha256


def test_nothing_to_do_writes_nothing(tmp_path: Path) -> None:
    """A second run changes nothing on the disk, not even for a moment."""
    path = make_session(tmp_path)
    compress(path)
    with disk() as seam:
        assert compress(path) is None
        with open_session(path, writing=True) as session, Rewrite(session, store_in(path), Lengths()):
            pass
    assert seam.calls == []


def test_finish_comes_before_commit(tmp_path: Path) -> None:
    """A draft that was not read back is never put in place."""
    path = make_session(tmp_path)
    with (
        open_session(path, writing=True) as session,
        Rewrite(session, store_in(path), Lengths()) as rewrite,
        pytest.raises(RuntimeError),
    ):
        rewrite.commit([])


def failed_at(number: int, path: Path, *, ever_after: bool = False) -> None:
    """Let one call that changes the disk fail, or all from that one on; what is said of the session must be true.

    Of the system's errors one after the other: nothing that is done goes by which of them it is.
    """
    old, before = path.read_bytes(), everything(path.parent)
    with disk(failing_at(number, ERRNOS[(number + ever_after) % len(ERRNOS)], ever_after=ever_after)):
        try:
            compress(path)
        except (FileFailed, Unsupported) as error:
            told_unchanged, remedy = "not changed" in str(error), error.remedy
        else:
            told_unchanged, remedy = False, "none is needed"
    assert remedy
    is_unchanged = path.read_bytes() == old
    assert is_unchanged == told_unchanged
    assert ever_after or not is_unchanged or everything(path.parent) == before


def interrupted_at(number: int, path: Path, *, after: bool) -> None:
    """Let Ctrl-C meet a call that changes the disk; no temp file is left."""

    def interrupt(found: int, name: str, arguments: tuple[Any, ...]) -> None:
        if found == number:
            if after and name in ("link", "unlink", "exchange"):
                getattr(real_disk.System, name)(*arguments)
            raise KeyboardInterrupt

    with disk(interrupt), pytest.raises(KeyboardInterrupt):
        compress(path)
    assert not [name for name in left_over(path.parent) if ".temp-" in name]


def killed_at(number: int, path: Path) -> None:
    """Run until just before one call that changes the disk, and be killed there."""

    def kill(found: int, name: str, arguments: tuple[Any, ...]) -> None:
        if found == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        with disk(kill):
            compress(path)

    assert in_a_child(work) == signal.SIGKILL


HARMS: dict[str, Callable[[int, Path], None]] = {
    "kill": killed_at,
    "interrupt before the call": partial(interrupted_at, after=False),
    "interrupt after the call": partial(interrupted_at, after=True),
    "an error": failed_at,
    "errors from then on": partial(failed_at, ever_after=True),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
@pytest.mark.parametrize("runs", [1, 2], ids=["first run", "second run"])
def test_harm_at_any_call(tmp_path: Path, harm: Callable[[int, Path], None], runs: int) -> None:
    """The session is old or new; if it is new its originals restore it; a later run cleans up and goes on."""
    (tmp_path / "count").mkdir()
    for number in range(count_calls(tmp_path / "count", runs=runs)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = make_session(folder)
        if runs == 2:
            compress(path)
            append(path, SECOND)
            os.utime(path, ns=(MTIME, MTIME))
        old = path.read_bytes()
        harm(number, path)
        check_old_or_new(path, old)
        compress(path)
        assert path.read_bytes() == shortened(old)
        assert left_over(folder) == []
        restore(path)
        assert path.read_bytes() == OLD + SECOND * (runs - 1)


def flipping(part: str) -> Callable[[int, str, tuple[Any, ...]], None]:
    """Make a `before` that flips a bit of what was written to a file of that name, before it is flushed."""

    def flip(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        written = name == "fsync" and part in Path(f"/proc/self/fd/{arguments[0]}").readlink().name
        if written and (byte := os.pread(arguments[0], 1, 20)):
            os.pwrite(arguments[0], bytes([byte[0] ^ 4]), 20)

    return flip


@names_of_descriptors
@pytest.mark.parametrize("part", [".zst", ".history"])
def test_a_disk_that_corrupts_the_backup(tmp_path: Path, part: str) -> None:
    """What does not read back as written is noticed before the session is touched, and taken away."""
    path = make_session(tmp_path)
    before = everything(tmp_path)
    with disk(flipping(part)), pytest.raises(Damaged, match="read back"):
        compress(path)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "written",
    [lambda data: data[:-1], lambda data: bytes([data[0] ^ 4]) + data[1:]],
    ids=["less than it says", "something else"],
)
def test_a_disk_that_lies_about_what_it_wrote(tmp_path: Path, written: Callable[[bytes], bytes]) -> None:
    """It is noticed by reading the new file back."""
    path = make_session(tmp_path)
    before = everything(tmp_path)

    class Lying(real_disk.System):
        """Says of every write that it wrote all."""

        @staticmethod
        def write(fd: int, data: Any, /) -> int:
            os.write(fd, written(bytes(data)))
            return len(data)

    real_disk.system = Lying()
    try:
        with pytest.raises(FileFailed, match="read back"):
            compress(path)
    finally:
        real_disk.system = real_disk.System()
    assert everything(tmp_path) == before


def test_short_writes_are_completed(tmp_path: Path) -> None:
    """A write may take a part only; the rest follows."""
    path = make_session(tmp_path)

    class Slow(real_disk.System):
        """Takes at most seven bytes at once."""

        @staticmethod
        def write(fd: int, data: Any, /) -> int:
            return os.write(fd, data[:7])

    real_disk.system = Slow()
    try:
        compress(path)
    finally:
        real_disk.system = real_disk.System()
    restore(path)
    assert path.read_bytes() == OLD


def test_a_flush_that_failed_is_not_repeated(tmp_path: Path) -> None:
    """After a failed fsync a second one would lie: the run ends there, but for taking back what it added."""
    path = make_session(tmp_path)
    with disk() as seam:
        compress(path)
    flushes = [number for number, name in enumerate(seam.calls) if name == "fsync"]
    for number, call in enumerate(flushes):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = make_session(folder)
        with disk(failing_at(call, errno.EIO)) as failed, pytest.raises(FileFailed):
            compress(path)
        assert set(failed.calls[call + 1 :]) <= {"unlink", "rmdir", "truncate", "fsync"}


def test_no_hard_links(tmp_path: Path) -> None:
    """Without hard links an appended line could get lost, so nothing is done there."""
    path = make_session(tmp_path)
    before = everything(tmp_path)

    def refuse(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "link":
            raise PermissionError(errno.EPERM, "Operation not permitted")

    with disk(refuse), pytest.raises(Unsupported, match="hard link"):
        compress(path)
    assert everything(tmp_path) == before


def test_lines_appended_before_the_swap(tmp_path: Path) -> None:
    """What was appended while we worked is in the new session, which is as young as the append."""
    path = make_session(tmp_path)
    assert compress(path, before_commit=lambda: append(path, APPENDED)) == len(NEW + APPENDED)
    assert path.read_bytes() == NEW + APPENDED
    assert path.stat().st_mtime_ns > MTIME
    restore(path)
    assert path.read_bytes() == OLD + APPENDED


@pytest.mark.parametrize("change", ["overwrite", "cut", "replace", "remove"])
def test_any_other_change_before_the_swap(tmp_path: Path, change: str) -> None:
    """A session that was changed otherwise stays as the other program left it, and the backup as it was."""
    path = make_session(tmp_path)
    expected: list[bytes | None] = []

    def before_commit() -> None:
        if change == "overwrite":
            path.write_bytes(b"[" + OLD[1:])
        elif change == "cut":
            os.truncate(path, 100)
        elif change == "replace":
            (tmp_path / "other").write_bytes(OLD)
            (tmp_path / "other").replace(path)
        else:
            path.unlink()
        expected.append(path.read_bytes() if path.exists() else None)

    with pytest.raises(InUse):
        compress(path, before_commit=before_commit)
    assert everything(tmp_path) == ({"session.jsonl": expected[0]} if expected[0] is not None else {})


def test_a_short_store_is_refused(tmp_path: Path) -> None:
    """A store that lost bytes is not appended to."""
    path = make_session(tmp_path)
    compress(path)
    append(path, SECOND)
    files = store_in(path)
    os.truncate(files.originals, 10)
    before = everything(tmp_path)
    with pytest.raises(Damaged, match="missing"):
        compress(path)
    with open_session(path, writing=True) as session:
        rewrite = Rewrite(session, files, read_lengths(files))
        rewrite.write(b"x")
        rewrite.keep(b"y")
        with pytest.raises(Damaged, match="missing"), rewrite:
            rewrite.finish()
    assert everything(tmp_path) == before
    with open_session(path, writing=True) as session, pytest.raises(Damaged):
        recover(session, files, read_lengths(files))
