"""Work on many files: one failure stops no other, and the exit code is that of the worst."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from sessioncompress.core import VERSION, process
from sessioncompress.errors import FileFailed, IsALink, NotASession, SessionCompressError, failed
from sessioncompress.operations.schedule import Progress, Schedule, sized
from sessioncompress.pipeline.discover import Found

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")

_LITTLE = 4 * 1024 * 1024
"""Bytes. Less than that is done before other processes have started."""
STATE = "The session is either as before or completely rewritten."
SAFE_PATH = "PYTHONSAFEPATH"
PASSED_OVER = "passed over (not sessions, or links)"


class Outcome(NamedTuple, Generic[T]):
    """The result for one file, or the error that ended it. `passed_over`: found in a folder, and no session."""

    found: Found
    result: T | None = None
    error: SessionCompressError | None = None
    passed_over: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code if this were the only file."""
        return 0 if self.error is None or self.passed_over else self.error.exit_code


class Task(NamedTuple, Generic[T]):
    """A file, and work that can be sent to another process."""

    found: Found
    work: Callable[[], T]


def outcome_of(found: Found, work: Callable[[], T]) -> Outcome[T]:
    """Do the work on a file. Every error but an interrupt becomes the outcome."""
    if found.error is not None:
        return Outcome(found, error=found.error)
    try:
        return Outcome(found, work())
    except SessionCompressError as error:
        path = found.path
        if error.where == os.path.join(os.path.realpath(path.parent), path.name):  # noqa: PTH118 - must not resolve the name
            # As the user typed it, like all other lines about the file.
            error.where = str(path)
        return Outcome(found, error=error, passed_over=not found.named and isinstance(error, NotASession | IsALink))
    except OSError as error:
        return Outcome(found, error=failed(error, found.shown, STATE))
    except Exception as error:  # noqa: BLE001 - a bug that one file triggers must not cost the others their turn
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        at = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
        # Without Python's own message, which may quote the session.
        what = f"an error in sessioncompress {VERSION} ({type(error).__name__}{at})"
        remedy = "Please report this line, without the session."
        return Outcome(found, error=FileFailed(what, where=found.shown, state=STATE, remedy=remedy))


def each(files: Iterable[Found], work: Callable[[Found], T]) -> Iterator[Outcome[T]]:
    """Do the work for every file in order, and yield each outcome at once."""
    for found in files:
        yield outcome_of(found, lambda: work(found))  # noqa: B023 - called before the next one


def worst(codes: Iterable[int]) -> int:
    """Return the most important of several exit codes."""
    present = set(codes)
    return next((code for code in (130, 5, 3, 4, 2, 1) if code in present), 0)


Results = Callable[[Sequence[Task[Any]], Iterator[int], int, float], Generator[tuple[int, Outcome[Any]] | None]]
"""What does tasks as results() does them."""
Engine = Callable[[], AbstractContextManager[tuple[int, Results]]]
"""Opens a place of work, and says how many files it works on at once."""


class Archive(Generic[T]):
    """Works on many files in up to `jobs` processes, or in an `engine`; yields the outcomes in the order of the files.

    `prepare` returns a file's result, or work that can be sent to another process. After the first interrupt no file
    is begun; `left` then counts those, else it is None. With `quiet` it shows no progress.
    """

    def __init__(
        self,
        files: Iterable[Found],
        prepare: Callable[[Found], T | Callable[[], T]],
        jobs: int | None,
        engine: Engine | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self._files, self._prepare, self._jobs, self._engine = files, prepare, jobs, engine
        self._quiet = quiet
        self._done: dict[int, Outcome[T]] = {}
        self._given = 0
        self.left: int | None = None

    def __iter__(self) -> Iterator[Outcome[T]]:
        places: list[int] = []
        tasks: list[Task[T]] = []
        for place, first in enumerate(each(self._files, self._prepare)):
            if callable(first.result):
                places.append(place)
                tasks.append(Task(first.found, first.result))
            else:
                self._done[place] = cast("Outcome[T]", first)
                yield from self._ready()
        if len(tasks) == 1 and self._engine is None:
            self._done[places[0]] = outcome_of(*tasks[0])
        elif tasks:
            yield from self._worked_on(places, tasks)
        yield from (self._done[place] for place in sorted(self._done))

    def _ready(self) -> Iterator[Outcome[T]]:
        while (done := self._done.pop(self._given, None)) is not None:
            self._given += 1
            yield done

    def _worked_on(self, places: Sequence[int], tasks: Sequence[Task[T]]) -> Iterator[Outcome[T]]:
        sizes = [sized(task.found) for task in tasks]
        size = sum(each.size for each in sizes)
        processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        # Windows cannot keep an interrupt from other processes.
        jobs = 1 if sys.platform == "win32" else self._jobs or processors
        jobs = min(jobs, len(tasks)) if size > _LITTLE else 1
        own: tuple[int, Results] = jobs, _in_turn if jobs == 1 else results
        engine = self._engine or (lambda: nullcontext(own))
        progress = Progress(left := len(tasks), size, None if self._quiet else sys.stderr)
        with process.deferred() as asked, engine() as (processes, work):
            schedule = Schedule(sizes, processes)
            order = iter(lambda: None if asked() else next(schedule, None), None)
            # Closed at any end, so that no process outlives it. Ten times a second it yields None.
            with closing(work(tasks, order, processes, 0.1)) as outcomes:
                for done in outcomes:
                    if done is not None:
                        number, became = done
                        self._done[places[number]] = became
                        left -= 1
                        progress.done(sizes[number].size)
                    for ready in self._ready():
                        progress.hide()
                        yield ready
                    progress.show()
            progress.hide()
            self.left = left if asked() else None


def _in_turn(
    tasks: Sequence[Task[T]], order: Iterator[int], processes: int, seconds: float
) -> Generator[tuple[int, Outcome[T]] | None]:
    del processes, seconds
    yield from ((number, outcome_of(*tasks[number])) for number in order)


def results(
    tasks: Sequence[Task[T]], order: Iterator[int], processes: int, seconds: float
) -> Generator[tuple[int, Outcome[T]] | None]:
    """Do the tasks in that order in other processes. If one dies, only the file that it worked on fails.

    Yield each task's index and outcome when it is done, and None after idle `seconds`. When the order ends, the running
    tasks are finished. Closing the generator ends the processes, which a commit survives. Neither pool of the standard
    library will do: one waits forever for the task of a dead process, the other kills all processes with it, whatever
    they were writing.
    """
    # Imported here because only runs over many files need it.
    from multiprocessing.connection import wait

    # A process and the index of its task, by our end of its pipe.
    workers: dict[Any, tuple[Any, int]] = {}

    def give(pipe: Any, worker: Any, number: int) -> None:
        workers[pipe] = worker, number
        with suppress(OSError):  # it is dead, which reading from the pipe will show
            pipe.send(tasks[number])

    try:
        for number in islice(order, processes):
            give(*_begun(list(workers)), number)
        while workers:
            ready: list[Any] = wait(list(workers), seconds)
            if not ready:
                yield None
            for pipe in ready:
                worker, number = workers[pipe]
                try:
                    done = pipe.recv()
                except (EOFError, OSError):
                    worker.join()
                    code = worker.exitcode
                    how = f"by the signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                    what = f"the process working on it ended ({how})"
                    remedy = "Run again; if memory is short, use --jobs 1."
                    found = tasks[number].found
                    done = Outcome(found, error=FileFailed(what, where=found.shown, state=STATE, remedy=remedy))
                following = next(order, None)
                if following is not None and worker.exitcode is None:
                    give(pipe, worker, following)
                else:
                    pipe.close()
                    worker.join()
                    del workers[pipe]
                    if following is not None:
                        give(*_begun(list(workers)), following)
                yield number, done
    except BaseException:
        for worker, _ in workers.values():
            worker.terminate()
        for pipe, (worker, _) in workers.items():
            # A program that it runs for the user has its time to end.
            worker.join(process.GRACE + 1)
            worker.kill()
            worker.join()
            pipe.close()
        raise


def _begun(pipes: list[Connection[Any, Any]]) -> tuple[Connection[Any, Any], Any]:
    """Start a process; return our end of its pipe, and the process. `pipes` are our ends of those of the others."""
    from multiprocessing import get_context

    # A fork of a process without threads is safe, and begins in a hundredth of the time; not so with the libraries
    # of macOS, nor with obstore, whose threads Python does not know.
    forks = sys.platform == "linux" and threading.active_count() == 1 and "obstore" not in sys.modules
    context: Any = get_context("fork" if forks else "spawn")
    ours, theirs = context.Pipe()
    # A fork inherits our ends of all pipes. It would keep them open after us, and the other workers waiting.
    worker = context.Process(target=_work, args=(theirs, [ours, *pipes] if forks else []), daemon=True)
    # The terminal sends an interrupt to all processes, but we decide what ends. A new process inherits the mask.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = os.environ.get(SAFE_PATH)
    # A new Python imports from the working folder otherwise, which may be anyone's.
    os.environ[SAFE_PATH] = "1"
    try:
        worker.start()
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()
    return ours, worker


def _work(pipe: Connection[Any, Any], inherited: Sequence[Connection[Any, Any]]) -> None:
    for each in inherited:
        each.close()
    # Only a fork has it from its parent.
    gc.set_threshold(process.RARELY)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(outcome_of(*pipe.recv()))
