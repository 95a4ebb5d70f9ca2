"""Work on many sessions in a Dask cluster, on workers of one or more machines that share a file system.

Nothing of dask is imported, and no connection made, before there is work. If a worker dies, its task moves to another
one. The session's lock and journal prevent it from being changed twice.
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
from sessioncompress.errors import EACH_OLD_OR_NEW, NOTHING_DONE, OLD_OR_NEW, FileFailed, UsageError
from sessioncompress.operations.batch import TICK, Engine, Outcome, Results, Task, outcome_of, safe_path

if TYPE_CHECKING:
    from distributed import Client

_CONNECT = 10
"""Seconds to wait for a scheduler and its first worker."""
_PATIENCE = 60.0
"""Seconds to wait for a scheduler that stopped answering, or for a new worker if none is left."""
_NO_ANSWER = "the scheduler no longer answers"
_NOT_STARTED = (OSError, RuntimeError, AssertionError)
"""Errors that dask raises. The last one if its own thread gets no processor for 10 seconds on a busy machine."""
_LOOK = 1.0
"""Seconds between checks of the workers."""
_SETTINGS: dict[str, Any] = {
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    # No one reads these measurements, which every process takes many times a second.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    # By default, the C library would return memory after each line, only to request it again.
    "distributed.nanny.pre-spawn-environ": {},
    # Forking a process without threads is safe here too, and all workers share one import of the library.
    "distributed.worker.multiprocessing-method": "forkserver" if sys.platform == "linux" else "spawn",
}
"""Our changes to dask's defaults in a cluster that this command starts."""


def engine(scheduler: str | None, workers: int | None) -> Engine:
    """Return the engine for a scheduler's cluster, or for a temporary local cluster with this many workers.

    Raises UsageError if the required packages are missing.
    """
    if find_spec("distributed") is None:
        remedy = "Install them with the extra [cluster], as the README says."
        raise UsageError("--engine dask needs packages that are not installed", state=NOTHING_DONE, remedy=remedy)
    return partial(_opened, scheduler, workers)


@contextmanager
def _opened(scheduler: str | None, workers: int | None) -> Iterator[tuple[int, Results]]:
    # Imported here because it is an optional dependency.
    import distributed

    # We report what matters. The rest, with Python's tracebacks, helps no one.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        if scheduler is None:
            where = "the cluster on this machine"
            try:
                client = stack.enter_context(_local(stack, workers or os.cpu_count() or 1))
            except _NOT_STARTED as error:
                what = f"its workers could not be started ({type(error).__name__})"
                remedy = "Run again; if memory is short, with fewer workers, or without --engine."
                raise FileFailed(what, where=where, state=NOTHING_DONE, remedy=remedy) from error
        else:
            where = scheduler
            remedy = "Check the address, as in tcp://host:8786, and that 'dask scheduler' runs there."
            try:
                client = stack.enter_context(distributed.Client(scheduler, timeout=_CONNECT, set_as_default=False))
                client.wait_for_workers(1, timeout=_CONNECT)
            except (*_NOT_STARTED, ValueError, TypeError) as error:
                what = f"the scheduler cannot be reached, or has no worker ({type(error).__name__})"
                raise UsageError(what, where=where, state=NOTHING_DONE, remedy=remedy) from error
        found: Mapping[str, Any] = client.run(_version, on_error="return")
        for address, version in found.items():
            if version != VERSION:
                raise _another(address, version if isinstance(version, str) else "", VERSION)
        yield max(sum(client.nthreads().values()), 1), partial(_results, client, where)


def _local(stack: ExitStack, workers: int) -> Client:
    """Start a local cluster that only this user can reach, with its own certificate; return its client."""
    import dask
    import distributed
    from distributed.security import Security

    # Kept while there are workers, because dask may replace one.
    stack.enter_context(safe_path())
    # The terminal sends an interrupt to all processes, but this one decides what ends. New processes inherit this.
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
    return UsageError(what, where=worker, state=OLD_OR_NEW, remedy=remedy)


def _done(task: bytes, version: str) -> Outcome[Any]:
    """Do a task in a worker, which may have joined after our version check."""
    if version != VERSION:
        from distributed import get_worker

        raise _another(get_worker().address, VERSION, version)
    # The worker may be shared, and do other work before and after.
    before = gc.get_threshold()
    gc.set_threshold(process.RARELY)
    try:
        return outcome_of(*pickle.loads(task))  # noqa: S301 - access to a worker means full control anyway
    finally:
        gc.set_threshold(*before)


def _results(
    client: Client, where: str, tasks: Sequence[Task[Any]], order: Iterator[int], processes: int
) -> Generator[tuple[int, Outcome[Any]] | None]:
    """Run the tasks as batch.results() does, on a scheduler's workers. Workers that join later also get tasks.

    Raises FileFailed if the scheduler or all workers are lost.
    """
    pool = client.get_executor(pure=False)
    at_work: dict[Future[Outcome[Any]], int] = {}
    looked = seen = monotonic()
    while True:
        # Queue two tasks per worker, so that none waits for its next one.
        for number in islice(order, max(2 * processes - len(at_work), 0)):
            # As bytes, so that dask doesn't search it for its own tasks.
            at_work[pool.submit(_done, pickle.dumps(tasks[number]), VERSION)] = number
        if not at_work:
            return
        ready = wait(at_work, TICK, FIRST_COMPLETED).done
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
    """Return a task's outcome, even if no worker could do it."""
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
    except Exception as error:  # noqa: BLE001 - one worker's failure must not stop the other sessions
        # Leave out Python's own message, which may quote the session.
        what = f"the worker failed ({type(error).__name__})"
        remedy = "Check that the same packages are installed for the scheduler and all its workers, and run again."
    return Outcome(task.found, error=FileFailed(what, where=task.found.path, state=OLD_OR_NEW, remedy=remedy))


def _lost(where: str, what: str) -> FileFailed:
    return FileFailed(what, where=where, state=EACH_OLD_OR_NEW, remedy="Run again to go on.")
