"""Work on many sessions in a Dask cluster: on workers of one machine or of several, which see the same file system.

Nothing of dask is imported, and no connection made, before there is work to do. A task whose worker died is given to
another: the session's lock and its journal see to it that none is changed twice.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

from sessioncompress.core import VERSION, process
from sessioncompress.errors import FileFailed, UsageError
from sessioncompress.operations.batch import STATE, Engine, Outcome, Results, Task, outcome_of, safe_path

if TYPE_CHECKING:
    from distributed import Client

_NOTHING_DONE = "Nothing was done."
_CONNECT = 10
"""Seconds to wait for a scheduler, and for the first of its workers."""
_PATIENCE = 60.0
"""Seconds to wait for a scheduler that does not answer any more, or for a worker where none is left."""
_NO_ANSWER = "the scheduler no longer answers"
_LOOK = 1.0
"""Seconds between two looks at the workers."""
_SETTINGS: dict[str, Any] = {
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    # Nobody looks at what these measure, in each process and many times a second.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    # It would have the C library give memory back after each line, to ask for it again.
    "distributed.nanny.pre-spawn-environ": {},
    # Here, too, a fork of a process without threads is safe. All workers then import the library once.
    "distributed.worker.multiprocessing-method": "forkserver" if sys.platform == "linux" else "spawn",
}
"""What differs from dask's own in a cluster of this command's."""


def engine(scheduler: str | None, workers: int | None) -> Engine:
    """Make the engine that works on a scheduler's cluster, or on one of so many workers here, which ends with the work.

    Raises UsageError where the packages for it are missing.
    """
    if find_spec("distributed") is None:
        remedy = "Install them with the extra [cluster], as the README says."
        raise UsageError("--engine dask needs packages that are not installed", state=_NOTHING_DONE, remedy=remedy)
    return partial(_opened, scheduler, workers)


@contextmanager
def _opened(scheduler: str | None, workers: int | None) -> Iterator[tuple[int, Results]]:
    """Connect, and close all that was opened at any end."""
    # Imported here: it takes a second.
    import distributed

    # What matters of it is said by us; the rest, with Python's own traces, helps nobody.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        if scheduler is None:
            where = "the cluster on this machine"
            try:
                client = stack.enter_context(_local(stack, workers or os.cpu_count() or 1))
            except (OSError, RuntimeError) as error:
                what = f"its workers could not be started ({type(error).__name__})"
                remedy = "Run again; if memory is short, with fewer workers, or without --engine."
                raise FileFailed(what, where=where, state=_NOTHING_DONE, remedy=remedy) from error
        else:
            where = scheduler
            remedy = "Check the address, as in tcp://host:8786, and that 'dask scheduler' runs there."
            try:
                client = stack.enter_context(distributed.Client(scheduler, timeout=_CONNECT, set_as_default=False))
                client.wait_for_workers(1, timeout=_CONNECT)
            except (OSError, ValueError, TypeError, RuntimeError) as error:
                what = f"the scheduler cannot be reached, or has no worker ({type(error).__name__})"
                raise UsageError(what, where=where, state=_NOTHING_DONE, remedy=remedy) from error
        found: Mapping[str, Any] = client.run(_version, on_error="return")
        for address, version in found.items():
            if version != VERSION:
                raise _another(address, version if isinstance(version, str) else "", VERSION)
        yield max(sum(client.nthreads().values()), 1), partial(_results, client, where)


def _local(stack: ExitStack, workers: int) -> Client:
    """Start a cluster of processes that only this user reaches, by a certificate of its own; return its client."""
    import dask
    import distributed
    from distributed.security import Security

    # As long as there are workers: one may be replaced by another.
    stack.enter_context(safe_path())
    # The terminal sends an interrupt to all processes, but we decide what ends. A new process inherits this.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with dask.config.set(_SETTINGS):
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                security=Security.temporary(),
                silence_logs=logging.CRITICAL,
            )
            stack.callback(cluster.close)
            return distributed.Client(cluster, set_as_default=False)
    finally:
        signal.signal(signal.SIGINT, handler)


def _version() -> str:
    return VERSION


def _another(worker: str, version: str, here: str) -> UsageError:
    has = f"sessioncompress {version}" if version else "no sessioncompress it can import"
    what = f"this worker has {has}, but this machine has {here}"
    remedy = "Install the same version for the scheduler and all its workers."
    return UsageError(what, where=worker, state=STATE, remedy=remedy)


def _done(task: bytes, version: str) -> Outcome[Any]:
    """Do a task in a worker, which may have come after we looked at all of them."""
    if version != VERSION:
        from distributed import get_worker

        raise _another(get_worker().address, VERSION, version)
    # The worker may be another's, and does other work before and after.
    before = gc.get_threshold()
    gc.set_threshold(process.RARELY)
    try:
        return outcome_of(*pickle.loads(task))  # noqa: S301 - whoever reaches a worker can have it do anything
    finally:
        gc.set_threshold(*before)


def _results(
    client: Client, where: str, tasks: Sequence[Task[Any]], order: Iterator[int], processes: int, seconds: float
) -> Generator[tuple[int, Outcome[Any]] | None]:
    """Do the tasks as batch.results() does, on the workers of a scheduler; those that come later have their share.

    Raises FileFailed where the scheduler is lost, or all workers are.
    """
    pool = client.get_executor(pure=False)
    at_work: dict[Future[Outcome[Any]], int] = {}
    looked = seen = monotonic()
    while True:
        # Each worker has its next task there when it is done with one.
        for number in islice(order, max(2 * processes - len(at_work), 0)):
            # As bytes: dask would look for tasks of its own inside.
            at_work[pool.submit(_done, pickle.dumps(tasks[number]), VERSION)] = number
        if not at_work:
            return
        ready = wait(at_work, seconds, FIRST_COMPLETED).done
        if not ready:
            yield None
        for future in ready:
            number = at_work.pop(future)
            yield number, _outcome(future, tasks[number], where)
        if monotonic() - looked > _LOOK:
            looked, now = monotonic(), 0
            with suppress(OSError, TimeoutError):
                now = sum(client.nthreads().values()) if client.status == "running" else 0
            if now:
                processes, seen = now, looked
            elif looked - seen > _PATIENCE:
                raise _lost(where, "no worker is left" if client.status == "running" else _NO_ANSWER)


def _outcome(future: Future[Outcome[Any]], task: Task[Any], where: str) -> Outcome[Any]:
    """Return what became of a task, also where no worker could do it."""
    from distributed import KilledWorker

    try:
        return future.result()
    except UsageError:
        raise
    except CancelledError as error:
        raise _lost(where, _NO_ANSWER) from error
    except KilledWorker:
        what = "every worker that tried it ended"
        remedy = "Run again; if memory is short, with fewer workers."
    except Exception as error:  # noqa: BLE001 - what one worker cannot do must not cost the other sessions their turn
        # Without Python's own message, which may quote the session.
        what = f"the worker failed ({type(error).__name__})"
        remedy = "Check that the same packages are installed for the scheduler and all its workers, and run again."
    return Outcome(task.found, error=FileFailed(what, where=task.found.path, state=STATE, remedy=remedy))


def _lost(where: str, what: str) -> FileFailed:
    state = "Every session is either as before or completely rewritten."
    return FileFailed(what, where=where, state=state, remedy="Run again to go on.")
