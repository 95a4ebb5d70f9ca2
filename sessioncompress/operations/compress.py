"""One session, end to end: open it, read what is to be read, ask whether anything is due, and run."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from msgspec.structs import replace

from sessioncompress.core import VERSION, text
from sessioncompress.core.text import printable_json, utf8
from sessioncompress.errors import FileFailed
from sessioncompress.pipeline import reading, triage
from sessioncompress.pipeline.incremental import NotFinished, Part, behind
from sessioncompress.pipeline.run import Asked, Run, is_judged, judge, not_due, with_pruning
from sessioncompress.pipeline.summary import BudgetStats, CompressionStats, Status
from sessioncompress.policy.file import to_mapping
from sessioncompress.policy.model import BALANCED, Budget, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.disk import appending
from sessioncompress.store.journal import Journal
from sessioncompress.store.last_run import last_run
from sessioncompress.store.layout import Beside, store_of
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.recover import check, recover

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


def compress_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    dry_run: bool = False,
    force: bool = False,
    form: str | None = None,
    named: bool = True,
) -> CompressionStats:
    """Rewrite a session in place, or with `dry_run` find out what that would do.

    `force` lifts the size threshold and `min_saved_kb`, nothing else. `form` names the format, whatever the file
    looks like: what is not understood as such stays. A file that was `named` is refused where it is no session,
    whatever the policy says of it; one that was only met in a folder, also where it names no agent. Returns the
    statistics; raises SessionCompressError (see errors.py) with the session unchanged.
    """
    path = Path(path)
    if (skipped := triage.skip(path, policy, force=force, form=form)) is not None:
        if named and skipped.status is Status.SKIPPED and not triage.is_plainly_session(path):
            with open_session(path, writing=False) as session:
                reading.refuse_unless_session(session, form)
        return skipped
    with (
        open_session(path, writing=not dry_run, quiet_seconds=policy.quiet_seconds) as session,
        logging(session.path, replace(policy, log_file=None) if dry_run else policy) as note,
    ):
        beside = store_of(session.path, policy)
        stats = _Session(
            session, beside, Asked(policy, dry_run=dry_run, force=force, form=form), named=named
        ).compress()
        note(stats)
        return stats


def rehearse_open(
    session: OpenSession, policy: Policy, form: str | None = None, *, force: bool = False
) -> CompressionStats:
    """Find out the same of a session that is open already."""
    beside = store_of(session.path, policy)
    return _Session(session, beside, Asked(policy, dry_run=True, force=force, form=form), named=True).whole()


def pruning_saves(session: OpenSession, policy: Policy, form: str | None = None) -> int:
    """Return how many tokens a run that prunes would save the model of a session that is open already."""
    pruning = replace(policy, prune=replace(policy.prune, enabled=True), budget=Budget(), log_file=None)
    found = rehearse_open(session, pruning, form, force=True)
    return found.tokens_before - found.tokens_after


def refuse_in_merge(part: Part) -> None:
    """Raise Refused where git could not merge the session: a run would make what is to be compared another."""
    if any(facts.conflict for facts in part.known.survey.lines.facts):
        reading.refuse_in_merge(part.session)


class _Session:
    """One open session, and what is asked of it."""

    def __init__(self, session: OpenSession, beside: Beside, asked: Asked, *, named: bool) -> None:
        self._session = session
        self._beside = beside
        self._asked = asked
        self._named = named

    def compress(self) -> CompressionStats:
        """Begin behind what an earlier run finished, where that can be; else read the session as a whole."""
        last = self._last_run() if self._asked.form is None else None
        part = None if last is None else behind(self._session, last, self._asked.policy, named=self._named)
        if part is not None:
            with suppress(NotFinished):
                return self._over(part)
        return self.whole()

    def _last_run(self) -> Journal | None:
        """Return the newest run alone, after what a killed run left has been undone."""
        last = last_run(self._beside)
        self._recover(journals.load(self._beside.journal) if last is None else last)
        return last or last_run(self._beside)

    def whole(self) -> CompressionStats:
        """Read the session as a whole."""
        journal = journals.load(self._beside.journal)
        self._recover(journal)
        known = reading.read_session(self._session, journal, self._asked.form, named=self._named)
        return self._over(Part(self._session, known, journal))

    def _recover(self, journal: Journal) -> None:
        (check if self._asked.dry_run else recover)(self._session, self._beside, journal.lengths)

    def _over(self, part: Part) -> CompressionStats:
        refuse_in_merge(part)
        budget = self._judge(part)
        stats = replace(self._stats_of(part, budget), budget=budget)
        if part.prefix.size and (self._asked.dry_run or stats.status is not Status.COMPRESSED):
            part.check()
        return stats

    def _judge(self, part: Part) -> BudgetStats | None:
        """Judge the session, where anybody asks."""
        policy = self._asked.policy
        if not is_judged(policy):
            return None
        return judge(part, policy, lambda: pruning_saves(self._session, policy, self._asked.form))

    def _stats_of(self, part: Part, budget: BudgetStats | None) -> CompressionStats:
        asked = self._asked.policy
        policy = with_pruning(asked, budget)
        run = Run(part, self._beside, self._asked, policy)
        if reason := not_due(part, asked, budget, force=self._asked.force):
            return run.skipped(reason)
        if policy.prune.enabled and part.prefix.size:
            # Which results are old enough shows only in all of it.
            raise NotFinished
        stats = run.compress()
        if stats.is_smaller or policy is asked:
            return stats
        # A rule asked for what would save too little: what a run does without it may pay.
        return Run(part, self._beside, self._asked, asked).compress()
