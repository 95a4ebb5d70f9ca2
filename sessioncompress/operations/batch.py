"""Work on many files and yield results in order. One failure stops no other; the worst exit code counts."""

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
from sessioncompress.core.text import MB
from sessioncompress.errors import OLD_OR_NEW, FileFailed, IsALink, NotASession, SessionCompressError, failed
from sessioncompress.pipeline.discover import Found

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

T = TypeVar("T")

_LITTLE = 4 * MB
"""Bytes. Less work than this is done before other processes have started."""

TICK = 0.1
"""Seconds between two looks at what has ended."""
PASSED_OVER = "passed over (not sessions, or links)"


class Outcome(NamedTuple, Generic[T]):
    """The result for one file, or the error that ended it. `passed_over`: found in a folder, but not a session."""

    found: Found
    result: T | None = None
    error: SessionCompressError | None = None
    passed_over: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code if this were the only file."""
        return 0 if self.error is None or self.passed_over else self.error.exit_code


class Task(NamedTuple, Generic[T]):
    """A file, and its work, which can be sent to another process."""

    found: Found
    work: Callable[[], T]


def outcome_of(found: Found, work: Callable[[], T]) -> Outcome[T]:
    """Do the work on a file. Every error except an interrupt becomes the outcome."""
    if found.error is not None:
        return Outcome(found, error=found.error)
    try:
        return Outcome(found, work())
    except SessionCompressError as error:
        path = found.path
        if error.where == os.path.join(os.path.realpath(path.parent), path.name):  # noqa: PTH118 - must not resolve the name
            # Use the path as the user typed it, like all other lines about the file.
            error.where = str(path)
        # Only the file itself may be silently skipped. A problem with a file next to it is reported.
        is_none = isinstance(error, NotASession) or (isinstance(error, IsALink) and str(error.where) == str(path))
        return Outcome(found, error=error, passed_over=is_none and not found.named)
    except OSError as error:
        return Outcome(found, error=failed(error, found.shown, OLD_OR_NEW))
    except Exception as error:  # noqa: BLE001 - a bug triggered by one file must not stop the others
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        at = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
        # Leave out Python's own message, which may quote the session.
        what = f"an error in sessioncompress {VERSION} ({type(error).__name__}{at})"
        remedy = "Please report this line, without the session."
        return Outcome(found, error=FileFailed(what, where=found.shown, state=OLD_OR_NEW, remedy=remedy))


def each(files: Iterable[Found], work: Callable[[Found], T]) -> Iterator[Outcome[T]]:
    """Do the work on each file in order, and yield each outcome immediately."""
    for found in files:
        yield outcome_of(found, lambda: work(found))  # noqa: B023 - called before the next iteration


def worst(codes: Iterable[int]) -> int:
    """Return the most important exit code."""
    present = set(codes)
    return next((code for code in (130, 5, 3, 4, 2, 1) if code in present), 0)


Results = Callable[[Sequence[Task[Any]], Iterator[int], int], Generator[tuple[int, Outcome[Any]] | None]]
"""Runs tasks like results()."""
Engine = Callable[[], AbstractContextManager[tuple[int, Results]]]
"""Opens a place to work, and yields how many files it works on at once and how to run tasks."""


class Archive(Generic[T]):
    """Works on many files in up to `jobs` processes or an `engine`, and yields outcomes in the files' order.

    `prepare` returns a file's result, or work to send to another process. After the first interrupt no new file is
    started, and `left` is the number of unstarted files; otherwise it is None. `quiet` hides the progress.
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
        # On Windows, other processes can't be shielded from an interrupt.
        jobs = 1 if sys.platform == "win32" else self._jobs or processors
        jobs = min(jobs, len(tasks)) if size > _LITTLE else 1
        own: tuple[int, Results] = jobs, _in_turn if jobs == 1 else results
        engine = self._engine or (lambda: nullcontext(own))
        progress = Progress(left := len(tasks), size, None if self._quiet else sys.stderr)
        with process.deferred() as asked, engine() as (processes, work):
            schedule = iter(scheduled(sizes, processes))
            order = iter(lambda: None if asked() else next(schedule, None), None)
            # Always closed at the end, so that no process survives.
            with closing(work(tasks, order, processes)) as outcomes:
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
    """A file's or object's size in bytes, and its modification time in nanoseconds."""

    size: int
    changed: int


def sized(found: Found) -> Sized:
    """Look up a file's size and time."""
    if found.remote is not None:
        return Sized(found.remote.size, found.remote.changed_ns)
    try:
        status = os.lstat(found.path)
    except OSError:
        # The file is gone; the work will report it.
        return Sized(0, 0)
    return Sized(status.st_size, status.st_mtime_ns)


def scheduled(files: Sequence[Sized], processes: int) -> list[int]:
    """Order the indexes of files, oldest first.

    Files of at least one process's share of the total are first: at the end, they would leave the other processes idle.
    """
    in_all = sum(each.size for each in files) if processes > 1 else math.inf
    return sorted(range(len(files)), key=lambda at: (files[at].size * processes < in_all, files[at].changed))


_FIRST, _AGAIN = 1.0, 0.1
_FIRST_LINE = _NEXT_LINE = 5.0
"""Seconds. Shorter runs show no progress."""
_BAR, _LEAST_BAR = 20, 10
_MINUTE = 60


class Progress:
    """Counts finished files and bytes, and shows them from time to time."""

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
        from shutil import get_terminal_size

        line = self._fitting(parts, get_terminal_size().columns - 1)
        self._write("\r" + line.ljust(self._shown))
        self._shown = len(line)

    def _fitting(self, parts: Sequence[str], room: int) -> str:
        """Put a bar before as many of the parts as fit."""
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
    """Format the progress as parts, most important first: share done, time left, then details."""
    share = 100 * done // size if size else 100
    parts = [f"{share} %", f"{done_files:,} of {files:,} files", f"{done / MB:,.1f} of {size / MB:,.1f} MB"]
    if done and seconds:
        minutes, rest = divmod(round((size - done) * seconds / done), _MINUTE)
        hours, minutes = divmod(minutes, _MINUTE)
        left = f"{minutes} min {rest} s" if minutes else f"{rest} s"
        if hours:
            left = f"{hours} h {minutes} min"
        parts[1:1] = [f"{left} left"]
        parts.append(f"{done / MB / seconds:,.1f} MB/s")
    return parts


def _in_turn(
    tasks: Sequence[Task[T]], order: Iterator[int], _processes: int
) -> Generator[tuple[int, Outcome[T]] | None]:
    yield from ((number, outcome_of(*tasks[number])) for number in order)


def results(tasks: Sequence[Task[T]], order: Iterator[int], processes: int) -> Generator[tuple[int, Outcome[T]] | None]:
    """Run the tasks in that order in other processes; yield (index, outcome), or None after TICK without one.

    Only as many tasks are started as there are processes. If a process dies, all are ended, which commits survive. Each
    task that was running gets one more try, and from then on tasks run one at a time. When the order ends, the running
    tasks are finished. Closing the generator ends the processes.
    """
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
            ready = wait(at_work, TICK, FIRST_COMPLETED).done
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
            # Give a user's program that it runs time to end.
            worker.join(process.GRACE + 1)
            worker.kill()
        raise
    finally:
        if pool is not None:
            pool.shutdown()


def _died(found: Found, code: int) -> Outcome[Any]:
    how = f"by the signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    what, remedy = f"the process working on it ended ({how})", "Run again; if memory is short, use --jobs 1."
    return Outcome(found, error=FileFailed(what, where=found.shown, state=OLD_OR_NEW, remedy=remedy))


def _context() -> BaseContext:
    from multiprocessing import get_context

    # Forking a process without threads is safe, and starts a hundred times faster. This isn't true of macOS libraries,
    # or of obstore, whose threads Python doesn't see.
    forks = sys.platform == "linux" and threading.active_count() == 1 and "obstore" not in sys.modules
    return get_context("fork" if forks else "spawn")


@contextmanager
def _starting() -> Iterator[None]:
    """Start processes with interrupts blocked and a safe import path, which they inherit."""
    # The terminal sends an interrupt to all processes, but this one decides what ends.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with safe_path():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def safe_path() -> Iterator[None]:
    """Keep a new Python from importing from the working folder, which anyone may control."""
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
    """Set up a worker process."""
    # Only a fork inherits this from its parent.
    gc.set_threshold(process.RARELY)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process, after its current file, if its parent is killed. Otherwise the pool would wait forever."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        with _WORKING:
            os._exit(1)


def _work(task: Task[T]) -> Outcome[T]:
    with _WORKING:
        return outcome_of(*task)
