"""The log of runs: one JSON line for each session that a run opened, in a file of the user's, and nowhere else."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson

from sessioncompress.config import to_mapping
from sessioncompress.errors import NOT_CHANGED, FileFailed, UsageError
from sessioncompress.policy import Policy
from sessioncompress.printable import utf8
from sessioncompress.stats import BudgetStats, CompressionStats
from sessioncompress.store import times
from sessioncompress.store.append import appending
from sessioncompress.version import VERSION

SCHEMA = "sessioncompress.log/1"

_BEGIN = f'{{"schema":"{SCHEMA}"'.encode()
_DONE = "What was done with the session stands; only the line that tells of it is missing."
_THRESHOLDS = ("sizeThresholdKB", "everyTurns", "minSavedKB", "idleSeconds", "prune", "budget")


@contextmanager
def logging(session: Path, policy: Policy) -> Iterator[Callable[[CompressionStats], None]]:
    """Open the policy's log, if it names one, before the session is touched; give what notes a run over it there.

    Raises UsageError where what lies there is no log, FileFailed where it cannot be opened, or, with the session
    changed by then, not be written.
    """
    if policy.log_file is None:
        yield _nowhere
        return
    file = session.parent / os.path.expanduser(policy.log_file)  # noqa: PTH111 - leaves a home that is not there as it is
    with ExitStack() as opened:
        with _failing(file, NOT_CHANGED):
            _refuse_other(file)
            add = opened.enter_context(appending(file))

        def note(stats: CompressionStats) -> None:
            with _failing(file, _DONE):
                add(line(stats, policy, time.time()))

        yield note


def _refuse_other(file: Path) -> None:
    """Raise UsageError where something lies there that is no log of ours: a session, say, that a glob put there."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(fd, "rb") as there:
        begins = there.read(len(_BEGIN)) if stat.S_ISREG(os.fstat(fd).st_mode) else b"no file"
    if begins not in (b"", _BEGIN):
        what = "this is no log of sessioncompress: nothing is added to it"
        raise UsageError(what, where=file, state=NOT_CHANGED, remedy="Name another file, with --log or as logFile.")


def _nowhere(stats: CompressionStats) -> None:
    del stats


@contextmanager
def _failing(file: Path, state: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"the log cannot be written: {(error.strerror or str(error)).lower()}"
        remedy = "Name a file that can be written, with --log or as logFile."
        raise FileFailed(what, where=file, state=state, remedy=remedy) from error


def line(stats: CompressionStats, policy: Policy, now: float) -> bytes:
    """Return the line that tells of a run."""
    return orjson.dumps(_record(stats, policy, now), option=orjson.OPT_APPEND_NEWLINE)


def _record(stats: CompressionStats, policy: Policy, now: float) -> dict[str, Any]:
    given = to_mapping(policy)
    return {
        "schema": SCHEMA,
        "at": times.written(now),
        "version": VERSION,
        "path": utf8(stats.path),
        "format": stats.format,
        "status": stats.status.value,
        "reason": utf8(stats.reason),
        "originalSize": stats.original_size,
        "compressedSize": stats.compressed_size,
        "tokensBefore": stats.tokens_before,
        "tokensAfter": stats.tokens_after,
        "messagesChanged": stats.messages_changed,
        **(_judged(stats.budget, stats) if stats.budget else {}),
        "thresholds": {key: given[key] for key in _THRESHOLDS},
    }


def _judged(budget: BudgetStats, stats: CompressionStats) -> dict[str, Any]:
    return {
        "rule": budget.rule,
        "decision": budget.decision,
        "trigger": budget.reason,
        "messagesPreserved": max(budget.messages - stats.messages_changed, 0),
        "messagesSince": budget.messages_since,
        "secondsSince": budget.seconds_since,
        "contextWindow": budget.context_window,
        "utilisation": round(budget.utilisation, 4),
    }
