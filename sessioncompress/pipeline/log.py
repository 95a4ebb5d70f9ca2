"""The log of runs: one JSON line for each session that a run opened, in a file of the user's, and nowhere else."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from sessioncompress.core import text
from sessioncompress.core.text import printable_json, utf8
from sessioncompress.core.version import VERSION
from sessioncompress.errors import FileFailed
from sessioncompress.pipeline.summary import BudgetStats, CompressionStats
from sessioncompress.policy.file import to_mapping
from sessioncompress.policy.model import Policy
from sessioncompress.store.disk import appending

SCHEMA = "sessioncompress.log/1"

_BEGIN = f'{{"schema":"{SCHEMA}"'.encode()
_THRESHOLDS = ("sizeThresholdKB", "everyTurns", "minSavedKB", "idleSeconds", "prune", "budget")


@contextmanager
def logging(session: Path, policy: Policy) -> Iterator[Callable[[CompressionStats], None]]:
    """Open the policy's log, if it names one, before the session is touched; give what notes a run over it there.

    Raises FileFailed where what lies there is no log of the user's, where it cannot be opened, or, with the session
    changed by then, not be written.
    """
    if policy.log_file is None:
        yield _nowhere
        return
    file = session.parent / os.path.expanduser(policy.log_file)  # noqa: PTH111 - leaves a home that is not there as it is
    as_it_was = f"{session} is not changed."
    done = f"What was done with {session} stands; only the line that tells of it is missing."
    with ExitStack() as opened:
        with _failing(file, as_it_was):
            if file.is_symlink():
                raise _no_log("it is a symbolic link", file, as_it_was)
            add = opened.enter_context(appending(file, partial(_refuse_other, file, as_it_was)))

        def note(stats: CompressionStats) -> None:
            with _failing(file, done):
                add(line(stats, policy, time.time()))

        yield note


def _refuse_other(file: Path, state: str, fd: int) -> None:
    """Raise FileFailed where what was opened is no log of this user's: a session, say, that a glob put there."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise _no_log("it is not a regular file", file, state)
    if found.st_uid != os.geteuid():
        raise _no_log("it belongs to another user", file, state)
    if os.pread(fd, len(_BEGIN), 0) not in (b"", _BEGIN):
        raise _no_log("this is no log of sessioncompress", file, state)


def _no_log(why: str, file: Path, state: str) -> FileFailed:
    remedy = "Name another file, with --log or as logFile."
    return FileFailed(f"{why}: nothing is added to it", where=file, state=state, remedy=remedy)


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
    """Return the line that tells of a run; no text in it can end it, for any reader's idea of a line."""
    return printable_json(orjson.dumps(_record(stats, policy, now)).decode()).encode() + b"\n"


def _record(stats: CompressionStats, policy: Policy, now: float) -> dict[str, Any]:
    given = to_mapping(policy)
    return {
        "schema": SCHEMA,
        "at": text.written_time(now),
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
