"""One session, end to end: open it, read what is to be read, ask whether anything is due, and run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from sessioncompress.pipeline import due, reading, triage
from sessioncompress.pipeline.incremental import NotFinished, Part, behind
from sessioncompress.pipeline.log import logging
from sessioncompress.pipeline.run import Asked, Run
from sessioncompress.pipeline.summary import BudgetStats, CompressionStats, Status
from sessioncompress.policy.model import BALANCED, Budget, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.journal import Journal
from sessioncompress.store.last_run import last_run
from sessioncompress.store.layout import Beside, store_of
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.recover import check, recover


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
        if not due.is_judged(policy):
            return None
        return due.judge(part, policy, lambda: pruning_saves(self._session, policy, self._asked.form))

    def _stats_of(self, part: Part, budget: BudgetStats | None) -> CompressionStats:
        asked = self._asked.policy
        policy = due.with_pruning(asked, budget)
        run = Run(part, self._beside, self._asked, policy)
        if reason := due.not_due(part, asked, budget, force=self._asked.force):
            return run.skipped(reason)
        if policy.prune.enabled and part.prefix.size:
            # Which results are old enough shows only in all of it.
            raise NotFinished
        stats = run.compress()
        if stats.is_smaller or policy is asked:
            return stats
        # A rule asked for what would save too little: what a run does without it may pay.
        return Run(part, self._beside, self._asked, asked).compress()
