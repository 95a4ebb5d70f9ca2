"""Several files at once, each in one of a few processes; one that dies costs the file it was at, and no other.

Neither pool of the standard library bears that: one waits forever for what a dead process was at, the other ends all
processes with it, whatever they were writing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from msgspec import Struct

from sessioncompress.operations import batch
from sessioncompress.operations.batch import Outcome
from sessioncompress.pipeline.discover import Found

T = TypeVar("T")

_SAFE_PATH = "PYTHONSAFEPATH"


class Task(Struct, Generic[T], frozen=True):
    """A file and what is to be done with it: a callable that another process can be sent."""

    found: Found
    work: Callable[[], T]

    def done(self) -> Outcome[T]:
        """Do it."""
        return batch.outcome_of(self.found, self.work)


class _Worker(Struct):
    """A process, our end of the pipe to it, and the number of the task that it is at."""

    process: Any
    pipe: Connection[Any, Any]
    number: int


def results(
    tasks: Sequence[Task[T]], order: Iterator[int], processes: int, seconds: float
) -> Iterator[tuple[int, Outcome[T]] | None]:
    """Do the tasks in that order; yield the number of each that is done with its outcome, None after idle `seconds`.

    An order that ends early is heeded: what is at work then is finished. Who stops asking ends the processes at once.
    """
    crew = _Crew(tasks)
    try:
        for number in _first(order, processes):
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


def _first(order: Iterator[int], most: int) -> Iterator[int]:
    for _ in range(most):
        if (number := next(order, None)) is not None:
            yield number


@contextmanager
def _away_from_the_working_folder() -> Iterator[None]:
    """Let a Python that is started meanwhile import nothing from the working folder, which may be anyone's clone."""
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
    """The processes at work."""

    def __init__(self, tasks: Sequence[Task[T]]) -> None:
        self._tasks = tasks
        # A fork of a process without threads is safe, and begins in a hundredth of the time; not so with the libraries
        # of macOS.
        self._forks = sys.platform == "linux" and threading.active_count() == 1
        self._context: Any = get_context("fork" if self._forks else "spawn")
        self.workers: list[_Worker] = []

    def begin(self, number: int) -> None:
        """Start a process with a task."""
        ours, theirs = self._context.Pipe()
        # A fork holds our ends of all pipes: it would keep them open when we are gone, and the others waiting.
        inherited = [ours, *(worker.pipe for worker in self.workers)] if self._forks else []
        process = self._context.Process(target=_work, args=(theirs, inherited), daemon=True)
        # The terminal sends an interrupt to all of them: it is for us to decide what ends. A new process inherits that.
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
        """Return who is done, or dead, after so many seconds at most."""
        pipes = wait([worker.pipe for worker in self.workers], seconds)
        return [worker for worker in self.workers if worker.pipe in pipes]

    def outcome(self, worker: _Worker) -> Outcome[T]:
        """Return what became of the task of one who is ready."""
        try:
            done: Outcome[T] = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            return batch.killed_outcome(self._tasks[worker.number].found, _how(worker.process.exitcode))
        return done

    def go_on(self, worker: _Worker, number: int | None) -> None:
        """Give a worker, or where it is dead a new one, the next task; without one let it go."""
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
        """End all at once: what they write bears that."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.process.join()
            worker.pipe.close()

    def _send(self, worker: _Worker) -> None:
        with suppress(OSError):  # it is dead: that is found out when it is asked what became of the task
            worker.pipe.send(self._tasks[worker.number])


def _work(pipe: Connection[Any, Any], inherited: Sequence[Connection[Any, Any]]) -> None:
    """Do one task after the other until no more comes, or nobody is there to hear of it."""
    for each in inherited:
        each.close()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(pipe.recv().done())


def _how(code: int | None) -> str:
    """Say how a process ended."""
    if code is not None and code < 0:
        return f"by the signal {signal.Signals(-code).name}"
    return f"with exit code {code}"
