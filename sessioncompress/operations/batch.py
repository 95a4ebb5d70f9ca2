"""Work on many files: one failure stops no other, and the exit code is that of the worst."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Generic, NamedTuple, TextIO, TypeVar

from sessioncompress.core import process
from sessioncompress.operations.outcome import Outcome, outcome_of
from sessioncompress.pipeline.discover import Found

T = TypeVar("T")

_WORST_FIRST = (130, 5, 3, 4, 2, 1)
_LITTLE = 4 * 1024 * 1024
"""Bytes. Less than that is done before other processes have started."""

_IDLE = 0.1
"""Seconds between two checks for an interrupt and for progress to show."""


class Sized(NamedTuple):
    """A file's size in bytes, and its time of change in nanoseconds."""

    size: int
    changed: int


class Schedule(Iterator[int]):
    """Yields the index of each file once, the oldest first.

    A file that would keep one process busy as long as the rest keeps all of them comes at once: as the last one it
    would leave the other processes idle.
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
"""Seconds. Shorter runs show no progress."""

_BAR = 20
_MB = 1024 * 1024
_MINUTE = 60


class Progress:
    """Counts the files and bytes that are done, and shows them from time to time."""

    def __init__(self, files: int, size: int, stream: TextIO | None) -> None:
        self._files, self._size = files, size
        self._stream = stream
        self._terminal = stream is not None and stream.isatty()
        self._begun = monotonic()
        self._next = self._begun + (_FIRST if self._terminal else _FIRST_LINE)
        self._done_files = self._done = 0
        self._shown = 0

    def done(self, size: int) -> None:
        """Count a finished file of this many bytes."""
        self._done_files += 1
        self._done += size

    def show(self) -> None:
        """Show the progress, unless it was shown a moment ago."""
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
        """Clear the terminal's line before other output."""
        if self._stream is not None and self._shown:
            self._write(self._stream, "\r" + " " * self._shown + "\r")
            self._shown = 0
            self._next = min(self._next, monotonic() + _AGAIN)

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()


def said(done_files: int, files: int, done: int, size: int, seconds: float) -> str:
    """Format the progress, the rate, and the time that the rest will take."""
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


class Settled(NamedTuple, Generic[T]):
    """A result that needed no work."""

    result: T


def each(files: Iterable[Found], work: Callable[[Found], T]) -> Iterator[Outcome[T]]:
    """Do the work for every file in order, and yield each outcome at once."""
    for found in files:
        yield outcome_of(found, lambda: work(found))  # noqa: B023 - called before the next one


_Task = tuple[int, Found, Callable[[], T]]
"""Where its outcome belongs, the file, and the work."""


class Archive(Generic[T]):
    """Works on many files in up to `jobs` processes, and yields the outcomes in the order of the files.

    `prepare` returns a file's result, or work that can be sent to another process. After the first interrupt no file
    is begun; `left` then counts those.
    """

    def __init__(
        self, files: Iterable[Found], prepare: Callable[[Found], Settled[T] | Callable[[], T]], jobs: int | None
    ) -> None:
        self._files = files
        self._prepare = prepare
        self._jobs = jobs
        self._outcomes: list[Outcome[T] | None] = []
        self._given = 0
        self.left = 0
        self.interrupted = False

    def __iter__(self) -> Iterator[Outcome[T]]:
        todo: list[_Task[T]] = []
        for first in each(self._files, self._prepare):
            if callable(first.result):
                todo.append((len(self._outcomes), first.found, first.result))
                self._outcomes.append(None)
                continue
            result = first.result.result if first.result else None
            self._outcomes.append(Outcome(first.found, result, first.error, first.passed_over))
            yield from self._ready()
        if len(todo) == 1:
            ((place, found, work),) = todo
            self._outcomes[place] = outcome_of(found, work)
        elif todo:
            yield from self._worked_on(todo)
        self.left = self._outcomes.count(None)
        yield from filter(None, self._outcomes[self._given :])

    def _ready(self) -> Iterator[Outcome[T]]:
        while self._given < len(self._outcomes) and (done := self._outcomes[self._given]) is not None:
            self._given += 1
            yield done

    def _worked_on(self, todo: Sequence[_Task[T]]) -> Iterator[Outcome[T]]:
        sizes = [_sized(found) for _, found, _ in todo]
        progress = Progress(len(todo), sum(each.size for each in sizes), sys.stderr)
        with process.deferred() as asked:
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
        self, todo: Sequence[_Task[T]], sizes: Sequence[Sized], asked: Callable[[], bool]
    ) -> Iterator[tuple[int, Outcome[T]] | None]:
        """Yield the number and outcome of each finished file, and None after every idle moment."""
        # Windows cannot keep an interrupt from other processes.
        jobs = 1 if sys.platform == "win32" else self._jobs or processors()
        processes = min(jobs, len(todo)) if sum(each.size for each in sizes) > _LITTLE else 1
        schedule = Schedule(sizes, processes)
        order = iter(lambda: None if asked() else next(schedule, None), None)
        if processes == 1:
            for number in order:
                _, found, work = todo[number]
                yield number, outcome_of(found, work)
            return
        from sessioncompress.operations import pool

        yield from pool.results([pool.Task(found, work) for _, found, work in todo], order, processes, _IDLE)


def _sized(found: Found) -> Sized:
    try:
        status = os.lstat(found.path)
    except OSError:
        # It is gone, which the work on it will report.
        return Sized(0, 0)
    return Sized(status.st_size, status.st_mtime_ns)


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def worst(codes: Iterable[int]) -> int:
    """Return the most important of several exit codes."""
    present = set(codes)
    return next((code for code in _WORST_FIRST if code in present), 0)
