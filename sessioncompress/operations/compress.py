"""Compress one session end to end and log the run; judge a session by its budget."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sessioncompress.compressors.base import Ours
from sessioncompress.core import text
from sessioncompress.errors import FileFailed, Refused
from sessioncompress.formats import table
from sessioncompress.operations import log, reasons
from sessioncompress.operations.history import written_by
from sessioncompress.pipeline import reading, triage
from sessioncompress.pipeline.reading import Known, Stored
from sessioncompress.pipeline.run import Run, RunOptions, is_judged, status_left, with_pruning
from sessioncompress.pipeline.stats import BudgetStats, CompressionStats, Status, to_json
from sessioncompress.pipeline.totals import imitated
from sessioncompress.policy.model import BALANCED, Budget, Policy, Rule
from sessioncompress.store import git
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import has_leftovers, store_at
from sessioncompress.store.records import RunKind
from sessioncompress.store.recover import check

TOLD_AGAIN = "done by a worker that ended before it reported: tokens and blocks are not counted"
"""The reason of a session that this run wrote already."""
_TEXTS = ("path", "format", "status", "reason", "run")
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
    run_id: str = "",
) -> CompressionStats:
    """Compress a session in place; with `dry_run` only report the effect.

    `force` overrides only the size threshold and `min_saved_kb`. `form` names the format and overrides the detection;
    lines that can't be read as that format stay. With `named`, the user named this file: it is refused if it isn't a
    session, even if the policy skips it. Without `named` it was found in a folder, and is also refused if nothing
    identifies its agent. `run_id` is a result of core.text.run_id(), shared by all sessions of a run; by default the
    session gets its own. A session that this run already wrote is reported as written, because the worker that wrote it
    may have died. Raises SessionCompressError (see errors.py) with the session unchanged.
    """
    path = Path(path)
    if form:
        table.format_named(form)
    if (skipped := triage.skip(path, policy, force=force, form=form)) is not None:
        if triage.opens_anyway(path, skipped.status, named=named, mends=False):
            with reading.opened(path, writing=False, form=form) as session:
                reading.refuse_unless_session(session)
        if not dry_run:
            # An earlier version may have left wrong offsets in the agent's other files.
            reading.mended(path)
        return _told_again(skipped, path, policy, run_id)
    asked = RunOptions(policy, run_id or text.run_id(time.time()), dry_run, force)
    with (
        reading.opened(path, writing=not dry_run, quiet_seconds=policy.quiet_seconds, form=form) as session,
        log.noting(session.path, policy, dry_run=dry_run) as note,
        reading.with_store(session, policy, writing=not dry_run, adds=True) as stored,
    ):
        stats = _compress(stored, asked, named=named)
        stats = _told_again(stats, session.path, policy, run_id)
        note(_to_log(stats), _THRESHOLDS)
        return stats


def _told_again(stats: CompressionStats, path: Path, policy: Policy, run_id: str) -> CompressionStats:
    if stats.is_smaller or not run_id:
        return stats
    done = written_by(run_id, RunKind.COMPRESS, store_at(path, policy).journal)
    if done is None:
        return stats
    before = stats.original_size + done.saved
    found = {"original_size": before, "store_added": done.saved - done.saved_on_disk, "run": run_id}
    return replace(stats, status=Status.COMPRESSED, reason=TOLD_AGAIN, **found)


def rehearse_open(stored: Stored, policy: Policy) -> CompressionStats:
    """Do a dry run over an open session."""
    return _compress(stored, RunOptions(policy, text.run_id(time.time()), dry_run=True), named=True)


def rehearse(known: Known, policy: Policy, *, force: bool = False) -> CompressionStats:
    """Do a dry run over a session that was already read."""
    return _compress_known(known, RunOptions(policy, text.run_id(time.time()), dry_run=True, force=force))


def judge_open(known: Known, policy: Policy, *, to_compact: bool = False) -> BudgetStats:
    """Judge a session by its budget; with `to_compact`, decide whether a checkpoint is due."""
    from sessioncompress.pipeline.budget import judged

    path, found = known.session.path, known.session.stat
    settled = ""
    if not known.session.forced and not has_leftovers(path):
        settled = triage.why_settled(path, policy, found, turns_counted=True)
    # With this rule, a run prunes only if the policy does.
    prunes = policy.prune.enabled or not (to_compact and policy.budget.rule is Rule.DELIBERATE)

    saves = partial(_run_saves, known, policy, prunes=prunes)
    return judged(known, policy, saves, settled=settled, to_compact=to_compact)


def _run_saves(known: Known, policy: Policy, *, prunes: bool) -> int:
    """Return how many tokens a run, with or without pruning, would save in a session that was read."""
    trial = replace(policy, prune=replace(policy.prune, enabled=prunes), budget=Budget(), log_file=None)
    check(known.session, known.store, known.journal.lengths)
    found = rehearse(known, trial, force=True)
    if prunes and not policy.prune.enabled and not found.is_smaller:
        # As in _compress_known(): if pruning saves too little, a run without it may still pay.
        return _run_saves(known, policy, prunes=False)
    return found.tokens_before - found.tokens_after


def refuse_conflicts(known: Known) -> None:
    """Raise Refused if the session has git conflict markers: a run would change what the user must compare."""
    if any(facts.conflict for facts in known.survey.lines.facts):
        reading.refuse_in_merge(known.session)


def _compress(stored: Stored, asked: RunOptions, *, named: bool) -> CompressionStats:
    known = reading.read_session(stored, named=named)
    _refuse_if_older(known)
    stats = _compress_known(known, asked)
    # A run with this choice is meant to survive a squash, but it stores only the lines that it rewrites.
    in_commits = len(known.journal.blobs) if asked.policy.commit_originals is True else 0
    out_of_reach = _out_of_reach(known.journal, known.session.path)
    return replace(stats, blobs_out_of_reach=out_of_reach, blobs_in_commits=in_commits)


def _refuse_if_older(known: Known) -> None:
    """Raise Refused if the store lacks a run that rewrote lines: two stores would each have some of the originals."""
    if not (known.journal.runs and imitated(known.survey, Ours((known.journal,)))[0]):
        return
    from sessioncompress.operations.verify import since_runs

    if number := sum(each.later for each in since_runs(known).changed):
        remedy = (
            "Put that store in place of this one first, which it contains. If there is none, undo the edit; or restore "
            "the session and forget its store, which loses the originals of these lines."
        )
        raise Refused(reasons.older(number), where=known.session.path, remedy=remedy)


def _out_of_reach(journal: Journal, path: Path) -> int:
    """Count git blobs with originals that no commit of HEAD has, as after a squash; 0 in a shallow clone."""
    if not journal.blobs:
        return 0
    with suppress(FileFailed), closing(git.Blobs(path.parent)) as blobs:
        if blobs.top is not None and not blobs.is_shallow:
            return len(git.out_of_reach(journal.blobs, path))
    return 0


def _compress_known(known: Known, asked: RunOptions) -> CompressionStats:
    refuse_conflicts(known)
    budget = None
    if is_judged(asked.policy):
        from sessioncompress.pipeline.budget import judged

        budget = judged(known, asked.policy, partial(_run_saves, known, asked.policy, prunes=True))
    policy = with_pruning(asked.policy, budget)
    run = Run(known, asked, policy)
    if status := status_left(known, asked.policy, budget, force=asked.force):
        stats = run.left_alone(*status)
    else:
        stats = run.compress()
        if policy is not asked.policy and not stats.is_smaller:
            # The rule asked for pruning, which saves too little. A run without it may still pay.
            stats = Run(known, asked, asked.policy).compress()
    return replace(stats, budget=budget) if budget else stats


def _to_log(stats: CompressionStats) -> dict[str, Any]:
    told = to_json(stats)
    record = {key: told[key] for key in _TEXTS + _NUMBERS}
    if budget := stats.budget:
        record["messagesPreserved"] = max(budget.messages - stats.messages_changed, 0)
        record |= log.judgment(budget)
    return record
