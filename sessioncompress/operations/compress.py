"""Compress one session, end to end, and note the run in the policy's log."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from msgspec.structs import replace

from sessioncompress.core import VERSION, text
from sessioncompress.errors import FileFailed
from sessioncompress.pipeline import reading, triage
from sessioncompress.pipeline.incremental import NotFinished, Part, behind
from sessioncompress.pipeline.run import Asked, Run, is_judged, judge, not_due, with_pruning
from sessioncompress.pipeline.summary import CompressionStats, Status, to_json
from sessioncompress.policy.file import to_mapping
from sessioncompress.policy.model import BALANCED, Budget, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.disk import appending
from sessioncompress.store.journal import last_run
from sessioncompress.store.layout import Store, store_of
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.recover import check, recover

SCHEMA = "sessioncompress.log/1"

_BEGIN = f'{{"schema":"{SCHEMA}"'.encode()
_TEXTS = ("path", "format", "status", "reason")
_NUMBERS = ("originalSize", "compressedSize", "tokensBefore", "tokensAfter", "messagesChanged")
_THRESHOLDS = ("sizeThresholdKB", "everyTurns", "minSavedKB", "idleSeconds", "prune", "budget")


def compress_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    dry_run: bool = False,
    force: bool = False,
    form: str | None = None,
    named: bool = True,
) -> CompressionStats:
    """Compress a session in place, or with `dry_run` only find out what that would do.

    `force` lifts the size threshold and `min_saved_kb`, nothing else. `form` names the format and overrides the
    detection; lines that are not understood as such stay. With `named`, the user named this file: it is refused if it
    is no session, even if the policy skips it. Otherwise it was found in a folder, and is also refused if nothing
    shows its agent. Raises SessionCompressError (see errors.py) with the session unchanged.
    """
    path = Path(path)
    if (skipped := triage.skip(path, policy, force=force, form=form)) is not None:
        if named and skipped.status is Status.SKIPPED and not triage.is_plainly_session(path):
            with open_session(path, writing=False) as session:
                reading.refuse_unless_session(session, form)
        return skipped
    asked = Asked(policy, dry_run=dry_run, force=force, form=form)
    with open_session(path, writing=not dry_run, quiet_seconds=policy.quiet_seconds) as session, ExitStack() as opened:
        store = store_of(session.path, policy)
        note = None
        if policy.log_file is not None and not dry_run:
            note = opened.enter_context(_log(session.path, policy, policy.log_file))
        stats = _compress(session, store, asked, named=named)
        if note is not None:
            note(stats)
        return stats


def rehearse_open(
    session: OpenSession, store: Store, policy: Policy, form: str | None = None, *, force: bool = False
) -> CompressionStats:
    """Do a dry run over an open session, read as a whole."""
    return _compress_whole(session, store, Asked(policy, dry_run=True, force=force, form=form), named=True)


def pruning_saves(session: OpenSession, store: Store, policy: Policy, form: str | None = None) -> int:
    """Return how many tokens a run with pruning would save in an open session."""
    pruning = replace(policy, prune=replace(policy.prune, enabled=True), budget=Budget(), log_file=None)
    found = rehearse_open(session, store, pruning, form, force=True)
    return found.tokens_before - found.tokens_after


def refuse_in_merge(part: Part) -> None:
    """Raise Refused if git's conflict markers stand in the session: a run would change what is to be compared."""
    if any(facts.conflict for facts in part.known.survey.lines.facts):
        reading.refuse_in_merge(part.session)


def _compress(session: OpenSession, store: Store, asked: Asked, *, named: bool) -> CompressionStats:
    """Read only what follows the part that an earlier run finished, if possible; else read the session as a whole."""
    if asked.form is None:
        last = last_run(store)
        (check if asked.dry_run else recover)(session, store, (last or journals.load(store.journal)).lengths)
        # Recovery cuts what a killed run appended, so that the newest whole run may end the journal only now.
        last = last or last_run(store)
        part = None if last is None else behind(session, last, asked.policy, named=named)
        if part is not None:
            with suppress(NotFinished):
                return _compress_part(part, store, asked)
    return _compress_whole(session, store, asked, named=named)


def _compress_whole(session: OpenSession, store: Store, asked: Asked, *, named: bool) -> CompressionStats:
    journal = journals.load(store.journal)
    (check if asked.dry_run else recover)(session, store, journal.lengths)
    known = reading.read_session(session, journal, asked.form, named=named)
    return _compress_part(Part(session, known, journal), store, asked)


def _compress_part(part: Part, store: Store, asked: Asked) -> CompressionStats:
    refuse_in_merge(part)
    budget = None
    if is_judged(asked.policy):
        budget = judge(part, asked.policy, lambda: pruning_saves(part.session, store, asked.policy, asked.form))
    policy = with_pruning(asked.policy, budget)
    run = Run(part, store, asked, policy)
    if reason := not_due(part, asked.policy, budget, force=asked.force):
        stats = run.skipped(reason)
    elif policy.prune.enabled and part.prefix.size:
        # Only the whole session shows which results are old enough.
        raise NotFinished
    else:
        stats = run.compress()
        if policy is not asked.policy and not stats.is_smaller:
            # The rule asked for pruning, which would save too little. A run without it may still pay.
            stats = Run(part, store, asked, asked.policy).compress()
    if part.prefix.size and (asked.dry_run or stats.status is not Status.COMPRESSED):
        part.check()
    return replace(stats, budget=budget) if budget else stats


@contextmanager
def _log(session: Path, policy: Policy, log_file: str) -> Iterator[Callable[[CompressionStats], None]]:
    """Open the policy's log before the session is touched; yield a function that adds a run to it.

    Raises FileFailed if the file is no log of this user, or cannot be written; the message says whether the session
    was changed by then.
    """
    file = session.parent / os.path.expanduser(log_file)  # noqa: PTH111 - leaves a home that is not there as it is
    as_it_was = f"{session} is not changed."
    done = f"What was done with {session} stands; only the line that tells of it is missing."

    def refuse(why: str) -> None:
        remedy = "Name another file, with --log or as logFile."
        raise FileFailed(f"{why}: nothing is added to it", where=file, state=as_it_was, remedy=remedy)

    def refuse_other(fd: int) -> None:
        # A glob may have named a session, say.
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            refuse("it is not a regular file")
        if found.st_uid != os.geteuid():
            refuse("it belongs to another user")
        if os.pread(fd, len(_BEGIN), 0) not in (b"", _BEGIN):
            refuse("this is no log of sessioncompress")

    with ExitStack() as opened:
        with _failing(file, as_it_was):
            if file.is_symlink():
                refuse("it is a symbolic link")
            add = opened.enter_context(appending(file, refuse_other))

        def note(stats: CompressionStats) -> None:
            with _failing(file, done):
                add(_log_line(stats, policy))

        yield note


@contextmanager
def _failing(file: Path, state: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"the log cannot be written: {(error.strerror or str(error)).lower()}"
        remedy = "Name a file that can be written, with --log or as logFile."
        raise FileFailed(what, where=file, state=state, remedy=remedy) from error


def _log_line(stats: CompressionStats, policy: Policy) -> bytes:
    given, told = to_mapping(policy), to_json(stats)
    record: dict[str, Any] = {"schema": SCHEMA, "at": text.written_time(time.time()), "version": VERSION}
    record |= {key: told[key] for key in _TEXTS + _NUMBERS}
    if budget := stats.budget:
        record |= {
            "rule": budget.rule,
            "decision": budget.decision,
            "trigger": budget.reason,
            "messagesPreserved": max(budget.messages - stats.messages_changed, 0),
            "messagesSince": budget.messages_since,
            "secondsSince": budget.seconds_since,
            "contextWindow": budget.context_window,
            "utilisation": round(budget.utilisation, 4),
        }
    record["thresholds"] = {key: given[key] for key in _THRESHOLDS}
    # Printable, so that no text in it ends the line, by any reader's idea of a line.
    return text.printable_json(orjson.dumps(record).decode()).encode() + b"\n"
