"""Many files: one failure stops no other, those in demand come last, and the exit code says the worst that happened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from sessioncompress.core import process
from sessioncompress.operations import outcome
from sessioncompress.operations.outcome import Outcome
from sessioncompress.pipeline.discover import Found

if TYPE_CHECKING:
    from sessioncompress.operations.schedule import Sized

T = TypeVar("T")

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
    return outcome.of(found, lambda: work(found))


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
        from sessioncompress.operations.progress import Progress

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
        from sessioncompress.operations.schedule import Schedule

        processes = min(self._jobs, len(todo)) if sum(each.size for each in sizes) > _LITTLE else 1
        schedule = Schedule(sizes, processes)
        order = iter(lambda: None if asked() else next(schedule, None), None)
        if processes == 1:
            for number in order:
                _, found, work = todo[number]
                yield number, outcome.of(found, work)
            return
        from sessioncompress.operations import pool

        yield from pool.results([pool.Task(found, work) for _, found, work in todo], order, processes, _IDLE)


def _settled(prepared: Outcome[Settled[T] | Callable[[], T]]) -> Outcome[T]:
    """Return what became of a file on which nothing is to be worked."""
    result = prepared.result.result if isinstance(prepared.result, Settled) else None
    return Outcome(prepared.found, result, prepared.error, prepared.passed_over)


def _sized(found: Found) -> Sized:
    """Return what the schedule goes by; of a file that is gone it matters not, since that ends the work on it."""
    from sessioncompress.operations.schedule import Sized

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
