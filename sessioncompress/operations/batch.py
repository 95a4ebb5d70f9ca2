"""Many files: one failure stops no other, those in demand come last, and the exit code says the worst that happened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Generic, NamedTuple, TextIO, TypeVar

from sessioncompress.core import VERSION, process
from sessioncompress.errors import FileFailed, IsALink, NotASession, SessionCompressError, failed
from sessioncompress.pipeline.discover import Found

T = TypeVar("T")

_STATE = "The session is as it was or as it will be, nothing in between."


class Outcome(NamedTuple, Generic[T]):
    """What became of one file: a result, or the error that ended it. `passed_over`: met in a folder, not ours."""

    found: Found
    result: T | None = None
    error: SessionCompressError | None = None
    passed_over: bool = False

    @property
    def exit_code(self) -> int:
        """Return the code this file alone would end with."""
        return 0 if self.error is None or self.passed_over else self.error.exit_code


def outcome_of(found: Found, work: Callable[[], T]) -> Outcome[T]:
    """Do the work on a file; an error that ends it, ours or the system's, is what became of it."""
    if found.error is not None:
        return Outcome(found, error=found.error)
    try:
        return Outcome(found, work())
    except SessionCompressError as error:
        _name_as_typed(error, found.path)
        passed_over = not found.named and isinstance(error, NotASession | IsALink)
        return Outcome(found, error=error, passed_over=passed_over)
    except OSError as error:
        return Outcome(found, error=failed(error, found.path, _STATE))
    except Exception as error:  # noqa: BLE001 - an error of ours in one file must not cost the others their turn
        return Outcome(found, error=_unexpected(found, error))


def killed_outcome(found: Found, how: str) -> Outcome[T]:
    """Return what became of a file when the process that worked on it came to an end of its own."""
    what = f"the process that worked on it ended ({how})"
    remedy = "Run again; where memory is short, with --jobs 1."
    return Outcome(found, error=FileFailed(what, where=found.path, state=_STATE, remedy=remedy))


def _name_as_typed(error: SessionCompressError, path: Path) -> None:
    """Let an error of the file itself name it as its other lines do."""
    if error.where == os.path.join(os.path.realpath(path.parent), path.name):  # noqa: PTH118 - must not resolve the name
        error.where = str(path)


def _unexpected(found: Found, error: Exception) -> FileFailed:
    """Make the error for what should not happen; what Python says of it may hold text of the session, and stays out."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    at = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    return FileFailed(
        f"an error in sessioncompress {VERSION} ({type(error).__name__}{at})",
        where=found.path,
        state=_STATE,
        remedy="Please report this line, without the session.",
    )


class Sized(NamedTuple):
    """A file's size in bytes, and when it last changed."""

    size: int
    changed: int


class Schedule(Iterator[int]):
    """Gives each number of the files once, the oldest first.

    But a file that takes one process as long as all that is left takes all of them is begun at once: as the last one
    it would be worked on alone, with the other processes idle.
    """

    def __init__(self, files: Sequence[Sized], processes: int) -> None:
        self._files = files
        self._processes = processes
        by_age = sorted(range(len(files)), key=lambda number: (files[number].changed, number))
        self._oldest = iter(by_age)
        self._largest = sorted(by_age, key=lambda number: -files[number].size)[::-1]
        self._taken = bytearray(len(files))
        self._left = sum(each.size for each in files)

    def __next__(self) -> int:
        while self._largest and self._taken[self._largest[-1]]:
            self._largest.pop()
        if not self._largest:
            raise StopIteration
        number = self._largest[-1]
        if self._processes == 1 or self._files[number].size * self._processes < self._left:
            number = next(each for each in self._oldest if not self._taken[each])
        self._taken[number] = True
        self._left -= self._files[number].size
        return number


_FIRST, _AGAIN = 1.0, 0.1
_FIRST_LINE = _NEXT_LINE = 5.0
"""Seconds. What takes less says nothing of how far it is."""

_BAR = 20
_MB = 1024 * 1024
_MINUTE = 60


class Progress:
    """Counts the files and bytes that are done, and shows them where it is time to; nothing else writes to its line."""

    def __init__(self, files: int, size: int, stream: TextIO | None) -> None:
        self._files, self._size = files, size
        self._stream = stream
        self._terminal = stream is not None and stream.isatty()
        self._begun = monotonic()
        self._next = self._begun + (_FIRST if self._terminal else _FIRST_LINE)
        self._done_files = self._done = 0
        self._shown = 0

    def done(self, size: int) -> None:
        """Count a file of so many bytes."""
        self._done_files += 1
        self._done += size

    def show(self) -> None:
        """Show how far it is, where it was last shown long enough ago."""
        now = monotonic()
        if self._stream is None or now < self._next:
            return
        text = said(self._done_files, self._files, self._done, self._size, now - self._begun)
        if not self._terminal:
            self._next = now + _NEXT_LINE
            self._write(self._stream, text + "\n")
            return
        self._next = now + _AGAIN
        # Imported here because most runs end before there is anything to show.
        from shutil import get_terminal_size

        full = _BAR * self._done // max(self._size, 1)
        line = f"[{'#' * full}{'.' * (_BAR - full)}] {text}"[: get_terminal_size().columns - 1]
        self._write(self._stream, "\r" + line.ljust(self._shown))
        self._shown = len(line)

    def hide(self) -> None:
        """Clear the line of the terminal, so that something else can be written there."""
        if self._stream is not None and self._shown:
            self._write(self._stream, "\r" + " " * self._shown + "\r")
            self._shown = 0
            self._next = min(self._next, monotonic() + _AGAIN)

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()


def said(done_files: int, files: int, done: int, size: int, seconds: float) -> str:
    """Say how many files and bytes are done, how fast, and how long the rest will take at that rate."""
    share = 100 * done // size if size else 100
    parts = [f"{share} %", f"{done_files:,} of {files:,} files", f"{done / _MB:,.1f} of {size / _MB:,.1f} MB"]
    if done and seconds:
        parts += [f"{done / _MB / seconds:,.1f} MB/s", f"{_time((size - done) * seconds / done)} left"]
    return ", ".join(parts)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


_WORST_FIRST = (130, 5, 3, 4, 2, 1)
_LITTLE = 4 * 1024 * 1024
"""Bytes. Less than that is done before other processes have begun."""

_IDLE = 0.1
"""Seconds between two looks at whether there is an interrupt, or something to show."""


class Settled(NamedTuple, Generic[T]):
    """What is known of a file without any work."""

    result: T


def each(files: Iterable[Found], work: Callable[[Found], T]) -> Iterator[Outcome[T]]:
    """Do the work for every file, one after the other; yield what became of each as soon as it is done."""
    for found in files:
        yield _now(found, work)


def _now(found: Found, work: Callable[[Found], T]) -> Outcome[T]:
    return outcome_of(found, lambda: work(found))


class Archive(Generic[T]):
    """Works on many files in up to so many processes; gives what became of them in the order in which they were found.

    `prepare` is asked of each file what it comes to, or what is to be done to know: something that another process
    can be sent. The first interrupt ends it when the files at work are done; `left` then counts those not begun.
    """

    def __init__(
        self, files: Iterable[Found], prepare: Callable[[Found], Settled[T] | Callable[[], T]], jobs: int | None
    ) -> None:
        self._files = files
        self._prepare = prepare
        # Windows cannot keep an interrupt from other processes.
        self._jobs = 1 if sys.platform == "win32" else jobs or processors()
        self._outcomes: list[Outcome[T] | None] = []
        self._given = 0
        self.left = 0
        self.interrupted = False

    def __iter__(self) -> Iterator[Outcome[T]]:
        todo: list[tuple[int, Found, Callable[[], T]]] = []
        for place, found in enumerate(self._files):
            first = _now(found, self._prepare)
            if callable(first.result):
                todo.append((place, found, first.result))
                self._outcomes.append(None)
            else:
                self._outcomes.append(_settled(first))
                yield from self._ready()
        if todo:
            yield from self._worked_on(todo)
        self.left = self._outcomes.count(None)
        yield from filter(None, self._outcomes[self._given :])

    def _ready(self) -> Iterator[Outcome[T]]:
        """Yield what is known of the next files, up to the first of which nothing is known yet."""
        while self._given < len(self._outcomes) and (done := self._outcomes[self._given]) is not None:
            self._given += 1
            yield done

    def _worked_on(self, todo: Sequence[tuple[int, Found, Callable[[], T]]]) -> Iterator[Outcome[T]]:
        # Imported here, and others below, because what needs no work needs none of it.

        sizes = [_sized(found) for _, found, _ in todo]
        progress = Progress(len(todo), sum(each.size for each in sizes), sys.stderr)
        with process.deferred(len(todo) > 1) as asked:
            for done in self._done(todo, sizes, asked):
                if done is not None:
                    number, became = done
                    self._outcomes[todo[number][0]] = became
                    progress.done(sizes[number].size)
                for ready in self._ready():
                    progress.hide()
                    yield ready
                progress.show()
            progress.hide()
            self.interrupted = asked()

    def _done(
        self, todo: Sequence[tuple[int, Found, Callable[[], T]]], sizes: Sequence[Sized], asked: Callable[[], bool]
    ) -> Iterator[tuple[int, Outcome[T]] | None]:
        """Yield which of the files is done, and what became of it; None where none was for a while."""
        processes = min(self._jobs, len(todo)) if sum(each.size for each in sizes) > _LITTLE else 1
        schedule = Schedule(sizes, processes)
        order = iter(lambda: None if asked() else next(schedule, None), None)
        if processes == 1:
            for number in order:
                _, found, work = todo[number]
                yield number, outcome_of(found, work)
            return
        from sessioncompress.operations import pool

        yield from pool.results([pool.Task(found, work) for _, found, work in todo], order, processes, _IDLE)


def _settled(prepared: Outcome[Settled[T] | Callable[[], T]]) -> Outcome[T]:
    """Return what became of a file on which nothing is to be worked."""
    result = prepared.result.result if isinstance(prepared.result, Settled) else None
    return Outcome(prepared.found, result, prepared.error, prepared.passed_over)


def _sized(found: Found) -> Sized:
    """Return what the schedule goes by; of a file that is gone it matters not, since that ends the work on it."""
    try:
        status = os.lstat(found.path)
    except OSError:
        return Sized(0, 0)
    return Sized(status.st_size, status.st_mtime_ns)


def processors() -> int:
    """Return how many processors this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of several."""
    present = set(codes)
    return next((code for code in _WORST_FIRST if code in present), 0)
