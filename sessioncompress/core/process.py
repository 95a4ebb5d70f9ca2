"""Processes: what an interrupt does to ours, and programs that are run for a user, within a time and a size.

While ours starts and ends an interrupt ends it quietly, while it works the work is told.
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
"""New objects between two looks for circles of them, where Python looks after 700.

What a session is read into lives until the run ends, and next to nothing of it is in circles.
"""


def ends_it() -> None:
    """Let an interrupt end the program from here on: nothing of a session is open, and a traceback says nothing.

    Where interrupts are ignored, as in the background of a shell, they stay ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def raised() -> Iterator[None]:
    """Let an interrupt raise KeyboardInterrupt for a block, as it does anyway unless ends_it() was called."""
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
    """Only note the first interrupt in a block that works on several files; raise the next one.

    Yields a function that says whether there was one.
    """
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if asked:
            signal.default_int_handler(number, frame)
        asked.append(number)
        # In the middle of a write to the stream there can be no other.
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
"""Folders that are to be emptied before a signal ends us, each with the process that made it: forks inherit this."""


@contextmanager
def emptied_at_a_signal(folder: str) -> Iterator[None]:
    """Remove a folder before SIGTERM or SIGHUP ends us in a block: nobody else would find what lies in it."""
    # Imported here: a run with nothing to do needs none of it.
    import threading

    # Only a main thread may, and who handles one otherwise ends us in its own way.
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
        # Another thread may go on writing until the process ends.
        for _ in range(3 if maker == os.getpid() else 0):
            rmtree(folder, ignore_errors=True)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


class _Raw(io.FileIO):
    """A stream of the process that takes for written what cannot be written any more, unless the work ends then."""

    ends_with_its_reader = False
    """Whether what cannot be written is an error."""
    failure = ""
    """Why bytes were dropped that somebody may still want, as of a full disk."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write the bytes, or drop them where that cannot be."""
        try:
            return super().write(data)
        except OSError as error:
            # A terminal that is gone, where its hangup is ignored, is no broken pipe.
            is_gone = error.errno == errno.EIO and stat.S_ISCHR(os.fstat(self.fileno()).st_mode)
            if not (is_gone or isinstance(error, BrokenPipeError)):
                self.failure = error.strerror or type(error).__name__
            if self.ends_with_its_reader:
                raise BrokenPipeError from error
            return memoryview(data).nbytes


@contextmanager
def ending_with_its_reader() -> Iterator[None]:
    """Raise BrokenPipeError in a block that only reads sessions, as soon as nobody reads stdout."""
    if (raw := _raw_stdout()) is None:
        yield
        return
    raw.ends_with_its_reader = True
    try:
        yield
    finally:
        # What is left in a buffer is dropped.
        raw.ends_with_its_reader = False


@contextmanager
def outliving_their_readers() -> Iterator[None]:
    """Let stdout and stderr drop what cannot be written: `compress ARCHIVE | head` must not end half-way.

    Where the disk was full, or the like, that is said at the end of the block, and the program fails.
    """
    if sys.platform == "win32":  # has no such error, and consoles that are no files
        yield
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # one that was closed from the start is None
            raw = io.BufferedWriter(_Raw(stream.fileno(), "w", closefd=False))
            kept = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
            setattr(sys, name, kept)
    code: str | int | None = None
    try:
        yield
    except SystemExit as ended:
        code = ended.code
    # An interrupt and damage say more than that the output is lost.
    if (failure := _unwritten()) and code not in (EXIT_CODE, 5):
        if sys.stderr is not None:
            lost = "Part of the output is lost; what was done to sessions stands. Send the output elsewhere."
            sys.stderr.write(f"stdout cannot be written: {failure}. {lost}\n")
        code = 3
    if code:
        sys.exit(code)


def _unwritten() -> str:
    """Write what is left of stdout; say why part of it could not be written."""
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
    """What a program printed, and why that does not count: empty where it ended well.

    `ended`: a signal to us ended it, so that nothing is to be done in its place.
    """

    output: bytes
    failure: str = ""
    ended: bool = False


_LOOK = 0.05
"""Seconds between two looks whether something ends a program."""
GRACE: Final = 2.0
"""Seconds that the processes of a program have to end by themselves, after a signal that ends us."""


@contextmanager
def _noted() -> Iterator[list[int]]:
    """Only note the signals that end us in a block, and heed the first one behind it; those that are ignored stay so.

    What was begun in the block has to be ended first: nobody else would. Only a main thread gets signals.
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
    # A process that works for another one has interrupts blocked.
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
    """Tell whether a signal ends us, or the process for which this one works is gone, which is like one."""
    from multiprocessing import parent_process

    parent = parent_process()
    if not noted and parent is not None and parent.pid != os.getppid():
        noted.append(signal.SIGTERM)
    return bool(noted)


def _end_group(leader: subprocess.Popen[bytes], noted: Sequence[int]) -> None:
    """Ask a group of processes to end, and wait for that; not for long, and not if a signal comes once more."""
    import time

    said, until = len(noted), time.monotonic() + GRACE
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader.pid, signal.SIGTERM)
        while time.monotonic() < until and len(noted) == said:
            leader.poll()
            os.killpg(leader.pid, 0)
            time.sleep(_LOOK)


def run(command: Sequence[str], given: bytes, *, seconds: float, most: int) -> Ran:
    """Run a program with something on its stdin; nobody sees its stderr, which may quote what is secret.

    It has a process group of its own, which is killed after so many seconds, after more than `most` bytes of output,
    and when the program ends: what it began must not hold us up. A signal that ends us ends the group first.
    """
    with _noted() as noted:
        return _run(command, given, seconds, most, noted)


def _run(command: Sequence[str], given: bytes, seconds: float, most: int, noted: list[int]) -> Ran:
    # Imported here: hardly any run needs them.
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
        # It may have left others behind.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        for each in threads:
            # What has left the group may still hold the pipe.
            each.join(GRACE)
    if noted:
        failure = "it was stopped together with sessioncompress"
    elif len(output) > most:
        failure = f"it printed more than {most:,} bytes"
    elif code and not failure:
        failure = f"it exited with status {code}" if code > 0 else f"signal {-code} stopped it"
    return Ran(bytes(output), failure, bool(noted))
