"""One background thread that works on what it is given, one piece behind."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from threading import Thread


class Worker:
    """Calls `work` on each piece in a thread, started with the first one.

    What the work raises comes out of the next put() or of finish().
    """

    def __init__(self, work: Callable[[bytearray], None]) -> None:
        self._work = work
        self._queue: Queue[bytearray | None] = Queue()
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def put(self, piece: bytearray) -> None:
        """Hand over a piece; waits until the one before is done."""
        self._queue.join()
        self._raise_error()
        if self._thread is None:
            self._thread = Thread(target=self._run, daemon=True)
            self._thread.start()
        self._queue.put(piece)

    def finish(self) -> None:
        """Wait until every piece is done."""
        self._end_thread()
        self._raise_error()

    def stop(self) -> None:
        """End the thread without doing what is left."""
        self._work = _nothing
        self._end_thread()

    def _run(self) -> None:
        while (piece := self._queue.get()) is not None:
            # After an error the queue is still emptied, so that nobody waits on it forever.
            if self._error is None:
                try:
                    self._work(piece)
                except BaseException as error:  # noqa: BLE001, raised again where the caller waits
                    self._error = error
            self._queue.task_done()

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


def _nothing(_: bytearray) -> None:
    """Stand in for the work that is not wanted any more."""
