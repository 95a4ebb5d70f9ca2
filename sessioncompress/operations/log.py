"""The policy's log: one JSON line for each session that a run opened."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson

from sessioncompress.core import VERSION, text
from sessioncompress.errors import FileFailed, failing
from sessioncompress.pipeline.stats import BudgetStats
from sessioncompress.policy.file import to_mapping
from sessioncompress.policy.model import Policy
from sessioncompress.store.disk import appending

SCHEMA = "sessioncompress.log/1"

_BEGIN = f'{{"schema":"{SCHEMA}"'.encode()

Note = Callable[[Mapping[str, Any], Iterable[str]], None]
"""Adds a run to the log: its data, and the policy keys to log as its thresholds."""


def judgment(budget: BudgetStats) -> dict[str, Any]:
    """Return the log fields for a session's budget."""
    return {
        "rule": budget.rule,
        "decision": budget.decision,
        "trigger": budget.reason,
        "messagesSince": budget.messages_since,
        "secondsSince": budget.seconds_since,
        "contextWindow": budget.context_window,
        "utilisation": round(budget.utilisation, 4),
        "safetyValve": budget.is_valve,
    }


def thresholds_of(policy: Policy, keys: Iterable[str]) -> dict[str, Any]:
    """Return the policy keys that are a run's thresholds."""
    given = to_mapping(policy)
    return {key: given[key] for key in keys}


@contextmanager
def noting(session: Path, policy: Policy, *, dry_run: bool) -> Iterator[Note]:
    """Open the policy's log before the session is touched; yield a function that logs a run (a no-op without a log).

    Raises FileFailed if the file isn't this user's log or can't be written. The message tells whether the session had
    been changed by then.
    """
    if policy.log_file is None or dry_run:
        yield lambda _did, _thresholds: None
        return
    file = session.parent / os.path.expanduser(policy.log_file)  # noqa: PTH111 - never raises
    as_it_was = f"{session} was not changed."
    done = f"{session} is done; only its line in the log is missing."

    def refuse(why: str) -> None:
        remedy = "Name another file, with --log or as logFile."
        raise FileFailed(f"{why}: nothing was added to it", where=file, state=as_it_was, remedy=remedy)

    def refuse_other(fd: int) -> None:
        # For example, a glob may have named a session.
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            refuse("it is not a regular file")
        if found.st_uid != os.geteuid():
            refuse("it belongs to another user")
        if os.pread(fd, len(_BEGIN), 0) not in (b"", _BEGIN):
            refuse("it is not a log of sessioncompress")

    with ExitStack() as opened:
        with failing(file, as_it_was):
            if file.is_symlink():
                refuse("it is a symbolic link")
            add = opened.enter_context(appending(file, refuse_other))

        def note(did: Mapping[str, Any], thresholds: Iterable[str]) -> None:
            with failing(file, done):
                record = {"schema": SCHEMA, "at": text.written_time(time.time()), "version": VERSION, **did}
                record["thresholds"] = thresholds_of(policy, thresholds)
                # Printable, so that nothing in it ends the line by any reader's definition.
                add(text.printable_json(orjson.dumps(record).decode()).encode() + b"\n")

        yield note
