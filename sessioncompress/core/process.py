"""Handle interrupts, and run programs for the user within limits on time and output.

While we start up or shut down, an interrupt ends the process quietly; while we work, the work is notified.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import subprocess

    from _typeshed import ReadableBuffer

EXIT_CODE: Final = 130
RARELY: Final = 100_000
"""New objects between two cycle collections; Python's default is 700.

The values that a session is parsed into live until the run ends, and hardly any are in cycles.
"""


def ends_it() -> None:
    """Make an interrupt end the program from here on: no session is open, and a traceback would be of no use.

    If interrupts are ignored, as in a shell's background job, they stay ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def raised() -> Iterator[None]:
    """Make an interrupt raise KeyboardInterrupt in a block, even after ends_it() was called."""
    if signal.getsignal(signal.SIGINT) is not _end:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """Only record the first interrupt in a block that works on several files; raise on the next one.

    Yields a function that returns True once there was one.
    """
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if asked:
            signal.default_int_handler(number, frame)
        asked.append(number)
        # An interrupted write to the stream makes another write raise.
        with suppress(RuntimeError):
            if sys.stderr is not None:
                sys.stderr.write("\nFinishing the files in progress. Press Ctrl-C again to stop now.\n")
                sys.stderr.flush()

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    os._exit(EXIT_CODE)


_private: dict[str, int] = {}
"""Folders to delete before a signal ends us, each with the pid of its creator, because forks inherit this dict."""


@contextmanager
def emptied_at_a_signal(folder: str) -> Iterator[None]:
    """Delete a folder before SIGTERM or SIGHUP ends us in a block: no one else would find its content."""
    import threading

    # Only the main thread may set handlers, and one that is already set ends us in its own way.
    if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
        for each in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(each) is signal.SIG_DFL:
                signal.signal(each, _empty_and_end)
    _private[folder] = os.getpid()
    try:
        yield
    finally:
        del _private[folder]


def _empty_and_end(number: int, frame: FrameType | None) -> None:
    from shutil import rmtree

    del frame
    for folder, maker in list(_private.items()):
        # Another thread may keep writing until the process ends.
        for _ in range(3 if maker == os.getpid() else 0):
            rmtree(folder, ignore_errors=True)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


class _Raw(io.FileIO):
    """A stream that drops bytes it can no longer write, unless the work should end with its reader."""

    ends_with_its_reader = False
    """True if a failed write is an error."""
    failure = ""
    """Why bytes were dropped that the user may still want, such as a full disk."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write the bytes, or drop them if that fails."""
        try:
            return super().write(data)
        except OSError as error:
            # A terminal that is gone, with its hangup ignored, reports EIO instead of a broken pipe.
            is_gone = error.errno == errno.EIO and stat.S_ISCHR(os.fstat(self.fileno()).st_mode)
            if not (is_gone or isinstance(error, BrokenPipeError)):
                self.failure = error.strerror or type(error).__name__
            if self.ends_with_its_reader:
                raise BrokenPipeError from error
            return memoryview(data).nbytes


@contextmanager
def ending_with_its_reader() -> Iterator[None]:
    """Raise BrokenPipeError in a block that only reads sessions, as soon as no one reads stdout."""
    if (raw := _raw_stdout()) is None:
        yield
        return
    raw.ends_with_its_reader = True
    try:
        yield
    finally:
        # The rest of the buffer is dropped.
        raw.ends_with_its_reader = False


@contextmanager
def outliving_their_readers() -> Iterator[None]:
    """Let stdout and stderr drop what can't be written: `compress ARCHIVE | head` must not stop half-way.

    If a write failed for another reason, such as a full disk, the end of the block reports it and the program fails.
    """
    if sys.platform == "win32":  # has no such error, and its consoles are not files
        yield
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # it is None if it was closed from the start
            raw = io.BufferedWriter(_Raw(stream.fileno(), "w", closefd=False))
            kept = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
            setattr(sys, name, kept)
    code: str | int | None = None
    try:
        yield
    except SystemExit as ended:
        code = ended.code
    # An interrupt and damage matter more than lost output.
    if (failure := _unwritten()) and code not in (EXIT_CODE, 5):
        if sys.stderr is not None:
            lost = "Part of the output is lost; what was done to sessions stands. Send the output elsewhere."
            sys.stderr.write(f"stdout cannot be written: {failure}. {lost}\n")
        code = 3
    if code:
        sys.exit(code)


def _unwritten() -> str:
    """Flush stdout; return why part of it could not be written, or ""."""
    if sys.stdout is None:
        return ""
    with suppress(ValueError):  # it was closed
        sys.stdout.flush()
    raw = _raw_stdout()
    return raw.failure if raw else ""


def _raw_stdout() -> _Raw | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Raw) else None


class Ran(NamedTuple):
    """A program's output, and the reason why it doesn't count ("" if the program succeeded).

    `ended`: a signal to us ended it, so the caller must not continue in another way.
    """

    output: bytes
    failure: str = ""
    ended: bool = False


_LOOK = 0.05
"""Seconds between two checks for a reason to end a program."""
GRACE: Final = 2.0
"""Seconds that a program's processes have to exit by themselves after a signal that ends us."""


@contextmanager
def _noted() -> Iterator[list[int]]:
    """Only record signals that would end us in a block, and act on the first one after it. Ignored ones stay ignored.

    Whatever the block has started must be ended first, because no one else would. Only the main thread gets signals.
    """
    import threading

    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    ending = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
    handlers = {each: signal.getsignal(each) for each in ending}
    heeded = {each: handler for each, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    for each in heeded:
        signal.signal(each, lambda number, _: noted.append(number))
    # A worker process has interrupts blocked.
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, heeded)
    try:
        yield noted
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for each, handler in heeded.items():
            signal.signal(each, handler)
    if noted and not (noted[0] == signal.SIGINT and signal.SIGINT in mask):
        signal.raise_signal(noted[0])


def _must_end(noted: list[int]) -> bool:
    """True if a signal is to end us, or the process that this one works for is gone."""
    from multiprocessing import parent_process

    parent = parent_process()
    if not noted and parent is not None and parent.pid != os.getppid():
        noted.append(signal.SIGTERM)
    return bool(noted)


def _end_group(leader: subprocess.Popen[bytes], noted: Sequence[int]) -> None:
    """Ask a process group to exit and wait up to GRACE seconds, or until another signal arrives."""
    import time

    said, until = len(noted), time.monotonic() + GRACE
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader.pid, signal.SIGTERM)
        while time.monotonic() < until and len(noted) == said:
            leader.poll()
            os.killpg(leader.pid, 0)
            time.sleep(_LOOK)


def run(command: Sequence[str], given: bytes, *, seconds: float, most: int) -> Ran:
    """Run a program with `given` on its stdin. Its stderr is discarded because it may quote secrets.

    It gets its own process group, which is killed after `seconds`, after more than `most` bytes of output, and when the
    program exits, so that its children can't hold us up. A signal that ends us ends the group first.
    """
    with _noted() as noted:
        return _run(command, given, seconds, most, noted)


def _run(command: Sequence[str], given: bytes, seconds: float, most: int, noted: list[int]) -> Ran:
    import subprocess
    from threading import Thread
    from time import monotonic

    try:
        child = subprocess.Popen(  # noqa: S603 - the user's own command, and no shell reads it
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except (OSError, ValueError) as error:
        return Ran(b"", f"it could not be started ({getattr(error, 'strerror', '') or type(error).__name__})")
    source, sink = child.stdin, child.stdout
    assert source is not None
    assert sink is not None
    ends, output, failure = monotonic() + seconds, bytearray(), ""

    def write() -> None:
        with suppress(BrokenPipeError), source:
            source.write(given)

    def read() -> None:
        with sink:
            while len(output) <= most and (data := os.read(sink.fileno(), 1 << 16)):
                output.extend(data)

    threads = [Thread(target=each, daemon=True) for each in (write, read)]
    try:
        for each in threads:
            each.start()
        while not failure and child.poll() is None:
            if _must_end(noted):
                _end_group(child, noted)
                break
            if len(output) > most:
                break
            if monotonic() > ends:
                failure = f"it took longer than {seconds:g} seconds"
            with suppress(subprocess.TimeoutExpired):
                child.wait(_LOOK)
    finally:
        # It may have left children running.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        for each in threads:
            # A process that has left the group may still hold the pipe.
            each.join(GRACE)
    if noted:
        failure = "it was stopped together with sessioncompress"
    elif len(output) > most:
        failure = f"it printed more than {most:,} bytes"
    elif code and not failure:
        failure = f"it exited with status {code}" if code > 0 else f"signal {-code} stopped it"
    return Ran(bytes(output), failure, bool(noted))
