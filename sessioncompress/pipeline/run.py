"""Run over a session that was read: check whether it is due, then plan, rewrite, check, commit and record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.compressors.names import Visible
from sessioncompress.core import VERSION, jsonl, text
from sessioncompress.core.lines import Survey, gap, messages_of, tokens_of, turns_of
from sessioncompress.core.model import JsonPath, Kind
from sessioncompress.core.references import References
from sessioncompress.core.splice import CannotSplice
from sessioncompress.pipeline import totals, triage
from sessioncompress.pipeline.plan import Plan, check, in_question, plan
from sessioncompress.pipeline.reading import Known
from sessioncompress.pipeline.rewrite import Applied, names_of_results, rewrite
from sessioncompress.pipeline.stats import Action, BudgetStats, CompressionStats, Status
from sessioncompress.pipeline.usage import characters_per_token
from sessioncompress.policy.model import BALANCED, Policy, Rule, differences
from sessioncompress.store.commit import Finished, Rewrite, Sink, sink_for
from sessioncompress.store.journal import Journal
from sessioncompress.store.originals import Committed, OriginalsReader
from sessioncompress.store.records import UNKNOWN_IN_CALLS, RunKind, RunRecord, decode, readable, sealed


def is_judged(policy: Policy) -> bool:
    """True if a run needs the session's budget: its rule or its log uses it."""
    return policy.budget.rule is not Rule.SIZE or policy.log_file is not None


def status_left(known: Known, policy: Policy, budget: BudgetStats | None, *, force: bool) -> tuple[Status, str] | None:
    """Return the status and reason if nothing is due in a session, else None. With `force`, it is always due."""
    if reason := triage.may_be_cached(known.session.stat, policy):
        return Status.SKIPPED, reason
    if policy.budget.rule is not Rule.SIZE:
        # After a checkpoint, the lines it summarizes can go, even if the model now reads little.
        follows_checkpoint = known.journal.has_checkpoint and known.journal.runs[-1].writes_checkpoint
        due = force or follows_checkpoint
        waits = budget is not None and budget.decision == Action.NONE and not due
        return (Status.SKIPPED, f"{budget.reason} (rule {budget.rule})") if budget and waits else None
    before = totals.noted(known.journal.runs[-1], totals.TURNS) if known.journal.runs else 0
    if policy.every_turns is not None and turns_of(known.survey) - before >= policy.every_turns:
        return None
    if reason := triage.too_small(known.session.size, policy, force=force):
        return Status.SKIPPED, reason
    if force or known.session.forced is not None:
        return None
    reason = triage.why_settled(known.session.path, policy, known.session.stat, turns_counted=True)
    return (Status.UNCHANGED, reason) if reason else None


def with_pruning(policy: Policy, budget: BudgetStats | None) -> Policy:
    """Return the policy for a decision: enables pruning if the rule asks for it, even if the policy disables it."""
    if budget is None or policy.prune.enabled or policy.budget.rule is Rule.SIZE:
        return policy
    if budget.decision not in (Action.PRUNE, Action.COMPACT):
        return policy
    return replace(policy, prune=replace(policy.prune, enabled=True))


_LITTLE = 0.25
"""If a run gains less than this share of the session, it reports how much the recent context holds."""


class RunOptions(NamedTuple):
    """The parameters of a run. `run_id` identifies the command's run over all its sessions.

    `dry_run` changes nothing, and `force` accepts any gain.
    """

    policy: Policy
    run_id: str
    dry_run: bool = False
    force: bool = False


class _Attempt(NamedTuple):
    """The result of one attempt, in bytes: `added` is what the store grows by, `gain` what the run frees in total.

    `run` gets its digest when the session is finished; that doesn't change its size.
    """

    view: View
    plan: Plan
    applied: Applied
    finished: Finished
    run: RunRecord
    added: int
    gain: int


class Run:
    """One run over an open session.

    `policy` is the effective policy; it differs from the requested one if a rule changed it.
    """

    def __init__(self, known: Known, asked: RunOptions, policy: Policy) -> None:
        self._known, self._session, self._journal = known, known.session, known.journal
        self._store = known.store
        self._asked = asked
        self._policy = policy
        self._where = str(known.session.path)
        self._per_token = characters_per_token(self._known.newest.model)
        """Characters per token."""
        self._ours = Ours((self._journal,))
        self._strangers = self._strange_calls = 0
        """Number of texts, and of call arguments, with markers that are older than the journal."""
        if not self._journal.runs and any(block.marked for line in self._known.survey.lines for block in line.blocks):
            from sessioncompress.pipeline.relatives import strangers_of

            found = strangers_of(self._session, self._journal)
            self._strangers, self._strange_calls = len(found), sum(each.key[1] is Kind.ARGUMENT for each in found)

    def left_alone(self, status: Status, reason: str) -> CompressionStats:
        """Return the statistics of a session in which nothing is due."""
        view = View(self._known.survey, self._policy, self._known.form, self._ours)
        return replace(self._stats(view), status=status, reason=reason)

    def compress(self) -> CompressionStats:
        """Rewrite the session if it pays.

        Repeats until no line in the plan refuses its change; the second attempt is nearly always the last.
        """
        known, policy = self._known, self._policy
        # If this run keeps originals, skip lines whose original was not kept: no original could be shown.
        rewritten = known.rewritten.items() if policy.keep_backup else ()
        left_alone = {number for number, record in rewritten if record.place is None}
        # The journal would take what a run makes of such a line for a later form of the rewritten one.
        left_alone |= known.rewritten.agents_own
        begun = int(time.time() * 1000)
        least = 1 if self._asked.force else max(policy.min_saved_kb * text.KB, 1)
        indexes: Mapping[tuple[int, JsonPath], Visible] = {}
        committed = None
        with OriginalsReader(self._store.originals) as originals:
            while True:
                view = View(known.survey, policy, known.form, self._ours, begun)
                planned = plan(view, known.rewritten.rows, left_alone)
                if not planned:
                    return self._unchanged(view, 0)
                # Keep the indexes of the first attempt; a later one only leaves some out.
                indexes = indexes or names_of_results(known, view, planned)
                view.indexes = indexes
                if policy.commit_originals == "history" and committed is None:
                    wanted = frozenset(view.lines[number].digest for number in planned)
                    committed = Committed(
                        self._session.path,
                        self._store.folder,
                        view.lines[0].digest,
                        wanted,
                        waits=not self._asked.force,
                    )
                lengths, dry_run = self._journal.lengths, self._asked.dry_run
                with sink_for(self._session, self._store, lengths, dry_run=dry_run) as sink:
                    applied = Applied(view, planned, known, sink, originals, committed)
                    applied.run(known.pieces())
                    left_alone |= applied.left_alone
                    if applied.again:
                        continue
                    reason = totals.too_few_tokens(view, applied) if applied.changed else ""
                    if applied.waiting and not applied.changed:
                        reason = f"{text.counted(applied.waiting, 'line waits', 'lines wait')} until a commit has them"
                    if not applied.changed or reason:
                        return self._unchanged(view, 0, reason)
                    attempt = self._measured(view, planned, applied, sink.measure())
                    if attempt.gain < least:
                        return self._unchanged(view, max(attempt.gain, 0))
                    attempt = attempt._replace(run=attempt.run._replace(digest=sink.finish().digest))
                    if restless := self._verify(attempt, sink, left_alone):
                        left_alone |= restless
                        continue
                    return self._commit(attempt, sink)

    def _measured(self, view: View, planned: Plan, applied: Applied, finished: Finished) -> _Attempt:
        read, written = self._known.survey, applied.changed.values()
        run = RunRecord(
            at=text.written_time(time.time()),
            version=VERSION,
            policy=differences(self._asked.policy),
            original_size=self._session.size,
            compressed_size=finished.size,
            store_size=finished.originals_size,
            boundary=totals.boundary_of(view),
            stats={
                # Lets the next run count what was added since.
                totals.TURNS: turns_of(read),
                totals.LINES: len(read.lines),
                totals.MESSAGES: messages_of(read),
                "linesChanged": len(applied.changed),
                "removedBytes": applied.removed,
            }
            | ({UNKNOWN_IN_CALLS: self._strange_calls} if self._strange_calls else {}),
            records=(lines := sum(map(bool, written)), sum(map(len, written)) - lines),
            originals_sha256=finished.originals_sha256,
            session_id=self._known.session_id,
            modified=self._session.stat.st_mtime_ns,
            digest="0" * 32,
            id=self._asked.run_id,
            command=RunKind.COMPRESS,
            again=tuple(applied.claimed),
        )
        run = readable(run, self._store.journal)
        journal_size = sum(map(len, sealed(applied.encoded(), run, self._store.journal, self._journal.size)))
        added = finished.originals_size - self._journal.store_size + journal_size
        gain = self._session.size - finished.size - added
        return _Attempt(view, planned, applied, finished, run, added, gain)

    def _verify(self, attempt: _Attempt, sink: Sink, left_alone: set[int]) -> set[int]:
        """Check the new session's structure, and return the lines that a second run would change again."""
        view, applied, read = attempt.view, attempt.applied, self._known.survey
        check(view, applied.lines, applied.changed, self._where)
        # Each line keeps its id and parent, so the old shape still holds.
        found = Survey(applied.lines, read.shape, attempt.finished.size)
        view = replace(view, survey=found, ours=applied.ours)
        second = plan(view, frozenset(self._known.rewritten.rows).union(applied.changed), left_alone)
        if not second or not isinstance(sink, Rewrite):
            return set()
        # A plan may propose changes that have no effect, so count only lines that would really change.
        made = Journal()
        for number in second:
            for raw in applied.changed.get(number, ()):
                record = decode(raw)
                assert not isinstance(record, RunRecord)
                made.add(record)
        view = replace(view, ours=Ours((self._journal, made)))
        restless = set()
        for number, raw, _ in jsonl.pieces_of(sink.reader, found.size):
            changes = second.get(number)
            entry = jsonl.parse(raw) if changes else None
            if changes and entry is not None:
                with suppress(CannotSplice):
                    if rewrite(raw, entry, changes, view, References().refer) is not None:
                        restless.add(number)
        return restless

    def _commit(self, attempt: _Attempt, sink: Sink) -> CompressionStats:
        view, applied, run, policy = attempt.view, attempt.applied, attempt.run, self._policy
        # The user protected more turns than the default, but the token limit may have cut that short.
        more_turns = policy.turn_threshold_before_compress > BALANCED.turn_threshold_before_compress
        surprises = more_turns and policy.protect_tokens is not None
        explained = surprises or attempt.gain < self._session.size * _LITTLE
        before = self._stats(view)
        stats = replace(
            before,
            status=Status.WOULD_COMPRESS if self._asked.dry_run else Status.COMPRESSED,
            reason=totals.advice(view, before.protected_bytes) if explained else "",
            compressed_size=attempt.finished.size,
            store_size=before.store_size + attempt.added,
            originals_size=attempt.finished.originals_size,
            store_added=attempt.added + self._journal.unaccounted,
            **totals.replaced(applied.counts),
            tool_results_cleared=applied.cleared,
            redundancies_eliminated=applied.redundancies,
            tokens_after=tokens_of(view.survey._replace(lines=applied.lines), self._per_token),
            tokens_uncached=totals.uncached(view, attempt.plan, applied, self._per_token),
            removed_bytes=applied.removed,
            lines_changed=len(applied.changed),
            messages_changed=messages_of(view.survey, frozenset(applied.changed)),
        )
        size = sink.commit(sealed(applied.encoded(), run, self._store.journal, self._journal.size))
        return replace(stats, compressed_size=size, run="" if self._asked.dry_run else run.id)

    def _unchanged(self, view: View, gain: int, reason: str = "") -> CompressionStats:
        """Return the statistics of a session that doesn't pay, with the reason and advice."""
        stats = self._stats(view)
        # Another run may have compressed it while this one waited for the lock.
        reason = reason or f"nothing {'more ' if self._known.rewritten.rows else ''}worth removing"
        if gain:
            # Round down, so that the figure stays below the limit.
            saved = gain * 10 // text.KB / 10
            reason = f"it would save only {saved:,.1f} KB, less than minSavedKB {view.policy.min_saved_kb:,}"
        if not self._known.seen:
            reason = f"it does not look like a session of the format {self._known.form.name}; {reason}"
        return replace(stats, reason=text.joined(reason, totals.advice(view, stats.protected_bytes)))

    def _stats(self, view: View) -> CompressionStats:
        """Return the session's statistics before any change. Markers older than the journal don't count as imitated."""
        found, journal = view.survey, self._journal
        markers, in_calls = totals.imitated(found, view.ours)
        # In calls, only markers newer than the journal count.
        older = totals.noted(journal.runs[0], UNKNOWN_IN_CALLS) if journal.runs else self._strange_calls
        tokens = tokens_of(found, self._per_token)
        removable, protected = in_question(view, range(len(view.lines)))
        return CompressionStats(
            self._where,
            format=view.form.name,
            original_size=found.size,
            compressed_size=found.size,
            store_size=journal.size + journal.store_size,
            originals_size=journal.store_size,
            lines=len(found.lines),
            lines_not_understood=len(found.lines.opaque()),
            imitated_markers=markers,
            imitated_in_calls=max(in_calls - older, 0),
            markers_without_journal=self._strangers,
            turns=turns_of(found),
            gap_at=(gap(found.lines, found.shape.live) or -1) + 1,
            tokens_before=tokens,
            tokens_after=tokens,
            tokens_recorded=totals.recorded_now(self._known.newest, journal),
            removable_bytes=removable,
            protected_bytes=protected,
        )
