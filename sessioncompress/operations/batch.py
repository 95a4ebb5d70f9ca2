"""Work on many files, in order and as shown: one failure stops no other, and the exit code is that of the worst."""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TextIO, TypeVar, cast

from sessioncompress.core import VERSION, process
from sessioncompress.errors import FileFailed, IsALink, NotASession, SessionCompressError, failed
from sessioncompress.pipeline.discover import Found

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

T = TypeVar("T")

_LITTLE = 4 * 1024 * 1024
"""Bytes. Less than that is done before other processes have started."""
STATE = "The session is either as before or completely rewritten."
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
        # What is wrong beside a session is told.
        is_none = isinstance(error, NotASession) or (isinstance(error, IsALink) and str(error.where) == str(path))
        return Outcome(found, error=error, passed_over=is_none and not found.named)
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
            schedule = iter(scheduled(sizes, processes))
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


class Sized(NamedTuple):
    """Size of a file or an object in bytes, and its time of change in nanoseconds."""

    size: int
    changed: int


def sized(found: Found) -> Sized:
    """Look up a file's size and time."""
    if found.remote is not None:
        return Sized(found.remote.size, found.remote.changed_ns)
    try:
        status = os.lstat(found.path)
    except OSError:
        # It is gone, which the work on it will report.
        return Sized(0, 0)
    return Sized(status.st_size, status.st_mtime_ns)


def scheduled(files: Sequence[Sized], processes: int) -> list[int]:
    """Order the indexes of files, the oldest first.

    A file that would keep one process busy as long as all of them keep the others comes at once: as the last one it
    would leave the other processes idle.
    """
    in_all = sum(each.size for each in files) if processes > 1 else math.inf
    return sorted(range(len(files)), key=lambda at: (files[at].size * processes < in_all, files[at].changed))


_FIRST, _AGAIN = 1.0, 0.1
_FIRST_LINE = _NEXT_LINE = 5.0
"""Seconds. Shorter runs show no progress."""
_BAR, _LEAST_BAR = 20, 10
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
        parts = said(self._done_files, self._files, self._done, self._size, now - self._begun)
        if not self._terminal:
            self._next = now + _NEXT_LINE
            self._write(", ".join(parts) + "\n")
            return
        self._next = now + _AGAIN
        # Imported here because most runs end before there is anything to show.
        from shutil import get_terminal_size

        line = self._fitting(parts, get_terminal_size().columns - 1)
        self._write("\r" + line.ljust(self._shown))
        self._shown = len(line)

    def _fitting(self, parts: Sequence[str], room: int) -> str:
        """Put a bar before as many of the parts as leave room for it."""
        for number in range(len(parts), 0, -1):
            text = ", ".join(parts[:number])
            bar = min(room - len(text) - len("[] "), _BAR)
            if bar >= _LEAST_BAR:
                full = bar * self._done // max(self._size, 1)
                return f"[{'#' * full}{'.' * (bar - full)}] {text}"
        return parts[0][: max(room, 0)]

    def hide(self) -> None:
        """Clear the terminal's line before other output."""
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")
            self._shown = 0
            self._next = min(self._next, monotonic() + _AGAIN)

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


def said(done_files: int, files: int, done: int, size: int, seconds: float) -> list[str]:
    """Format the progress in parts, what matters most first: the share, the time that the rest will take, the rest."""
    share = 100 * done // size if size else 100
    parts = [f"{share} %", f"{done_files:,} of {files:,} files", f"{done / _MB:,.1f} of {size / _MB:,.1f} MB"]
    if done and seconds:
        minutes, rest = divmod(round((size - done) * seconds / done), _MINUTE)
        hours, minutes = divmod(minutes, _MINUTE)
        left = f"{minutes} min {rest} s" if minutes else f"{rest} s"
        if hours:
            left = f"{hours} h {minutes} min"
        parts[1:1] = [f"{left} left"]
        parts.append(f"{done / _MB / seconds:,.1f} MB/s")
    return parts


def _in_turn(
    tasks: Sequence[Task[T]], order: Iterator[int], processes: int, seconds: float
) -> Generator[tuple[int, Outcome[T]] | None]:
    del processes, seconds
    yield from ((number, outcome_of(*tasks[number])) for number in order)


def results(
    tasks: Sequence[Task[T]], order: Iterator[int], processes: int, seconds: float
) -> Generator[tuple[int, Outcome[T]] | None]:
    """Do the tasks in that order in other processes; yield each one's index and outcome, and None after idle `seconds`.

    No more tasks are given out than there are processes. Where one of these dies, all end with it, which commits
    survive: each task that was at work has one more try, and from then on they are done one by one. When the order
    ends, the running tasks are finished. Closing the generator ends the processes.
    """
    # Imported here because only runs over many files need it.
    from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
    from multiprocessing import active_children

    pool: ProcessPoolExecutor | None = None
    workers: list[BaseProcess] = []
    at_work: dict[Future[Outcome[T]], int] = {}
    again: list[int] = []
    tried: set[int] = set()
    try:
        while True:
            while len(at_work) < processes and (number := again.pop(0) if again else next(order, None)) is not None:
                with _starting():
                    pool = pool or ProcessPoolExecutor(processes, _context(), _begin)
                    try:
                        future = pool.submit(_work, tasks[number])
                    except BrokenExecutor as error:
                        (future := Future()).set_exception(error)
                at_work[future] = number
                workers = workers or active_children()
            if not at_work:
                return
            ready = wait(at_work, seconds, FIRST_COMPLETED).done
            if not ready:
                yield None
            if pool is not None and any(isinstance(each.exception(), BrokenExecutor) for each in ready):
                pool.shutdown()
                code = next((each.exitcode for each in workers if each.exitcode), 0)
                ready, pool, workers, processes = set(at_work), None, [], 1
            for future in ready:
                number = at_work.pop(future)
                if not isinstance(future.exception(), BrokenExecutor):
                    yield number, future.result()
                elif number not in tried:
                    tried.add(number)
                    again.append(number)
                else:
                    yield number, _died(tasks[number].found, code)
    except BaseException:
        workers = active_children()
        for worker in workers:
            worker.terminate()
        for worker in workers:
            # A program that it runs for the user has its time to end.
            worker.join(process.GRACE + 1)
            worker.kill()
        raise
    finally:
        if pool is not None:
            pool.shutdown()


def _died(found: Found, code: int) -> Outcome[Any]:
    how = f"by the signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    what, remedy = f"the process working on it ended ({how})", "Run again; if memory is short, use --jobs 1."
    return Outcome(found, error=FileFailed(what, where=found.shown, state=STATE, remedy=remedy))


def _context() -> BaseContext:
    from multiprocessing import get_context

    # A fork of a process without threads is safe, and begins in a hundredth of the time; not so with the libraries
    # of macOS, nor with obstore, whose threads Python does not know.
    forks = sys.platform == "linux" and threading.active_count() == 1 and "obstore" not in sys.modules
    return get_context("fork" if forks else "spawn")


@contextmanager
def _starting() -> Iterator[None]:
    """Have processes begin with what a new process inherits: interrupts blocked, and a safe path for imports."""
    # The terminal sends an interrupt to all processes, but we decide what ends.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with safe_path():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def safe_path() -> Iterator[None]:
    """Have a new Python not import from the working folder, which may be anyone's."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


_WORKING = threading.Lock()


def _begin() -> None:
    """Set up a process that works for another one."""
    # Only a fork has it from its parent.
    gc.set_threshold(process.RARELY)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process behind the file at work when that for which it works was killed: the pool would wait forever."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        with _WORKING:
            os._exit(1)


def _work(task: Task[T]) -> Outcome[T]:
    with _WORKING:
        return outcome_of(*task)
