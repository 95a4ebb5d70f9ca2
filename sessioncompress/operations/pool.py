"""A pool of processes. If one dies, only the file that it worked on fails.

Neither pool of the standard library does that: one waits forever for the task of a dead process, the other kills all
processes with it, whatever they were writing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from msgspec import Struct

from sessioncompress.errors import FileFailed
from sessioncompress.operations.outcome import STATE, Outcome, outcome_of
from sessioncompress.pipeline.discover import Found

T = TypeVar("T")

_SAFE_PATH = "PYTHONSAFEPATH"


class Task(Struct, Generic[T], frozen=True):
    """A file, and work that can be sent to another process."""

    found: Found
    work: Callable[[], T]

    def done(self) -> Outcome[T]:
        """Do the work here."""
        return outcome_of(self.found, self.work)


class _Worker(Struct):
    """A process, our end of its pipe, and the index of its task."""

    process: Any
    pipe: Connection[Any, Any]
    number: int


def results(
    tasks: Sequence[Task[T]], order: Iterator[int], processes: int, seconds: float
) -> Iterator[tuple[int, Outcome[T]] | None]:
    """Do the tasks in that order. Yield each one's index and outcome when it is done, and None after idle `seconds`.

    When the order ends, the running tasks are finished. Closing the generator kills the processes.
    """
    crew = _Crew(tasks)
    try:
        for number in islice(order, processes):
            crew.begin(number)
        while crew.workers:
            ready = crew.ready(seconds)
            if not ready:
                yield None
            for worker in ready:
                number, done = worker.number, crew.outcome(worker)
                crew.go_on(worker, next(order, None))
                yield number, done
    except BaseException:
        crew.kill()
        raise


@contextmanager
def _away_from_the_working_folder() -> Iterator[None]:
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


class _Crew(Generic[T]):
    def __init__(self, tasks: Sequence[Task[T]]) -> None:
        self._tasks = tasks
        # A fork of a process without threads is safe, and begins in a hundredth of the time; not so with the libraries
        # of macOS.
        self._forks = sys.platform == "linux" and threading.active_count() == 1
        self._context: Any = get_context("fork" if self._forks else "spawn")
        self.workers: list[_Worker] = []

    def begin(self, number: int) -> None:
        ours, theirs = self._context.Pipe()
        # A fork inherits our ends of all pipes. It would keep them open after us, and the other workers waiting.
        inherited = [ours, *(worker.pipe for worker in self.workers)] if self._forks else []
        process = self._context.Process(target=_work, args=(theirs, inherited), daemon=True)
        # The terminal sends an interrupt to all processes, but we decide what ends. A new process inherits the mask.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with _away_from_the_working_folder():
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()
        self.workers.append(_Worker(process, ours, number))
        self._send(self.workers[-1])

    def ready(self, seconds: float) -> list[_Worker]:
        pipes = wait([worker.pipe for worker in self.workers], seconds)
        return [worker for worker in self.workers if worker.pipe in pipes]

    def outcome(self, worker: _Worker) -> Outcome[T]:
        try:
            done: Outcome[T] = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            return _killed(self._tasks[worker.number].found, worker.process.exitcode)
        return done

    def go_on(self, worker: _Worker, number: int | None) -> None:
        """Give a worker its next task, or replace it if it died; without a task let it go."""
        if number is not None and worker.process.exitcode is None:
            worker.number = number
            self._send(worker)
            return
        worker.pipe.close()
        worker.process.join()
        self.workers = [each for each in self.workers if each is not worker]
        if number is not None:
            self.begin(number)

    def kill(self) -> None:
        """End all at once. A commit survives that."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.process.join()
            worker.pipe.close()

    def _send(self, worker: _Worker) -> None:
        with suppress(OSError):  # it is dead, which outcome() notices
            worker.pipe.send(self._tasks[worker.number])


def _work(pipe: Connection[Any, Any], inherited: Sequence[Connection[Any, Any]]) -> None:
    for each in inherited:
        each.close()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(pipe.recv().done())


def _killed(found: Found, code: int | None) -> Outcome[T]:
    how = f"with exit code {code}" if code is None or code >= 0 else f"by the signal {signal.Signals(-code).name}"
    what = f"the process that worked on it ended ({how})"
    remedy = "Run again; where memory is short, with --jobs 1."
    return Outcome(found, error=FileFailed(what, where=found.path, state=STATE, remedy=remedy))
