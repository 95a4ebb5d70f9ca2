"""Work on many files: one failure stops no other, and the exit code is that of the worst."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TextIO, TypeVar

from sessioncompress.core import VERSION, process
from sessioncompress.errors import FileFailed, InUse, IsALink, NotASession, SessionCompressError, failed
from sessioncompress.pipeline.discover import Found

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")

_WORST_FIRST = (130, 5, 3, 4, 2, 1)
_LITTLE = 4 * 1024 * 1024
"""Bytes. Less than that is done before other processes have started."""
_IDLE = 0.1
"""Seconds between two checks for an interrupt and for progress to show."""
_STATE = "The session is as it was or as it will be, nothing in between."
_SAFE_PATH = "PYTHONSAFEPATH"


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
        return Outcome(found, error=failed(error, found.path, _STATE))
    except Exception as error:  # noqa: BLE001 - a bug that one file triggers must not cost the others their turn
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        at = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
        # Without Python's own message, which may quote the session.
        what = f"an error in sessioncompress {VERSION} ({type(error).__name__}{at})"
        remedy = "Please report this line, without the session."
        return Outcome(found, error=FileFailed(what, where=found.path, state=_STATE, remedy=remedy))


def each(files: Iterable[Found], work: Callable[[Found], T]) -> Iterator[Outcome[T]]:
    """Do the work for every file in order, and yield each outcome at once."""
    for found in files:
        yield outcome_of(found, lambda: work(found))  # noqa: B023 - called before the next one


def unless_in_use(work: Callable[[], T], skipped: Callable[..., T]) -> T:
    """Do the work on a session that the user did not name; one that its agent is at work on is left to the next run.

    `skipped` makes the result of that, with a `reason`.
    """
    try:
        return work()
    except InUse as error:
        return skipped(reason=error.what)


def worst(codes: Iterable[int]) -> int:
    """Return the most important of several exit codes."""
    present = set(codes)
    return next((code for code in _WORST_FIRST if code in present), 0)


class Settled(NamedTuple, Generic[T]):
    """A result that needed no work."""

    result: T


class Archive(Generic[T]):
    """Works on many files in up to `jobs` processes, and yields the outcomes in the order of the files.

    `prepare` returns a file's result, or work that can be sent to another process. After the first interrupt no file
    is begun; `left` then counts those. With `quiet` it shows no progress.
    """

    def __init__(
        self,
        files: Iterable[Found],
        prepare: Callable[[Found], Settled[T] | Callable[[], T]],
        jobs: int | None,
        *,
        quiet: bool = False,
    ) -> None:
        self._files = files
        self._prepare = prepare
        self._jobs = jobs
        self._quiet = quiet
        self._outcomes: list[Outcome[T] | None] = []
        self._given = 0
        self.left = 0
        self.interrupted = False

    def __iter__(self) -> Iterator[Outcome[T]]:
        places: list[int] = []
        tasks: list[Task[T]] = []
        for first in each(self._files, self._prepare):
            if callable(first.result):
                places.append(len(self._outcomes))
                tasks.append(Task(first.found, first.result))
                self._outcomes.append(None)
                continue
            result = first.result.result if first.result else None
            self._outcomes.append(Outcome(first.found, result, first.error, first.passed_over))
            yield from self._ready()
        if len(tasks) == 1:
            self._outcomes[places[0]] = outcome_of(*tasks[0])
        elif tasks:
            yield from self._worked_on(places, tasks)
        self.left = self._outcomes.count(None)
        yield from filter(None, self._outcomes[self._given :])

    def _ready(self) -> Iterator[Outcome[T]]:
        while self._given < len(self._outcomes) and (done := self._outcomes[self._given]) is not None:
            self._given += 1
            yield done

    def _worked_on(self, places: Sequence[int], tasks: Sequence[Task[T]]) -> Iterator[Outcome[T]]:
        sizes = [_sized(task.found) for task in tasks]
        size = sum(each.size for each in sizes)
        processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        # Windows cannot keep an interrupt from other processes.
        jobs = 1 if sys.platform == "win32" else self._jobs or processors
        processes = min(jobs, len(tasks)) if size > _LITTLE else 1
        schedule = Schedule(sizes, processes)
        progress = Progress(len(tasks), size, None if self._quiet else sys.stderr)
        with process.deferred() as asked:
            order = iter(lambda: None if asked() else next(schedule, None), None)
            in_turn = ((number, outcome_of(*tasks[number])) for number in order)
            # Closed at any end, so that no process outlives it.
            with closing(in_turn if processes == 1 else results(tasks, order, processes, _IDLE)) as outcomes:
                for done in outcomes:
                    if done is not None:
                        number, became = done
                        self._outcomes[places[number]] = became
                        progress.done(sizes[number].size)
                    for ready in self._ready():
                        progress.hide()
                        yield ready
                    progress.show()
            progress.hide()
            self.interrupted = asked()


class Sized(NamedTuple):
    """A file's size in bytes, and its time of change in nanoseconds."""

    size: int
    changed: int


def _sized(found: Found) -> Sized:
    try:
        status = os.lstat(found.path)
    except OSError:
        # It is gone, which the work on it will report.
        return Sized(0, 0)
    return Sized(status.st_size, status.st_mtime_ns)


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


def results(
    tasks: Sequence[Task[T]], order: Iterator[int], processes: int, seconds: float
) -> Generator[tuple[int, Outcome[T]] | None]:
    """Do the tasks in that order in other processes. If one dies, only the file that it worked on fails.

    Yield each task's index and outcome when it is done, and None after idle `seconds`. When the order ends, the running
    tasks are finished. Closing the generator kills the processes, which a commit survives. Neither pool of the standard
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
                    what = f"the process that worked on it ended ({how})"
                    remedy = "Run again; where memory is short, with --jobs 1."
                    found = tasks[number].found
                    done = Outcome(found, error=FileFailed(what, where=found.path, state=_STATE, remedy=remedy))
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
            worker.kill()
        for pipe, (worker, _) in workers.items():
            worker.join()
            pipe.close()
        raise


def _begun(pipes: list[Connection[Any, Any]]) -> tuple[Connection[Any, Any], Any]:
    """Start a process; return our end of its pipe, and the process. `pipes` are our ends of those of the others."""
    from multiprocessing import get_context

    # A fork of a process without threads is safe, and begins in a hundredth of the time; not so with the libraries
    # of macOS.
    forks = sys.platform == "linux" and threading.active_count() == 1
    context: Any = get_context("fork" if forks else "spawn")
    ours, theirs = context.Pipe()
    # A fork inherits our ends of all pipes. It would keep them open after us, and the other workers waiting.
    worker = context.Process(target=_work, args=(theirs, [ours, *pipes] if forks else []), daemon=True)
    # The terminal sends an interrupt to all processes, but we decide what ends. A new process inherits the mask.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = os.environ.get(_SAFE_PATH)
    # A new Python imports from the working folder otherwise, which may be anyone's.
    os.environ[_SAFE_PATH] = "1"
    try:
        worker.start()
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()
    return ours, worker


def _work(pipe: Connection[Any, Any], inherited: Sequence[Connection[Any, Any]]) -> None:
    for each in inherited:
        each.close()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(outcome_of(*pipe.recv()))
