"""One run over what was read of a session: whether it is due, then plan, rewrite, check, commit; and its record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.compressors.names import Index
from sessioncompress.core import VERSION, jsonl, text
from sessioncompress.core.lines import Survey, gap, messages_of, tokens_of, turns_of
from sessioncompress.core.model import JsonPath, Kind
from sessioncompress.core.references import References
from sessioncompress.core.splice import CannotSplice
from sessioncompress.pipeline import summary, triage
from sessioncompress.pipeline.plan import Plan, check, in_question, plan
from sessioncompress.pipeline.reading import Known
from sessioncompress.pipeline.rewrite import Applied, names_of_results, rewrite
from sessioncompress.pipeline.summary import BudgetStats, CompressionStats, Status
from sessioncompress.pipeline.usage import answers, characters_per_token
from sessioncompress.policy.model import BALANCED, Policy, Rule, differences
from sessioncompress.store.commit import DryRun, Finished, Rewrite
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Store
from sessioncompress.store.originals import Committed, OriginalsReader
from sessioncompress.store.records import UNKNOWN_IN_CALLS, Command, RunRecord, decode, readable, sealed


def judge(
    known: Known, policy: Policy, saves: Callable[[], int], *, settled: str = "", to_compact: bool = False
) -> BudgetStats:
    """Judge a session; `saves` says how many tokens pruning would save the model.

    `settled` as triage.settled() says it, `to_compact` as in judged().
    """
    # Imported here, as below, because hardly any policy has a rule.
    from sessioncompress.pipeline.budget import judged

    found = answers(known.survey)
    run = known.journal.runs[-1] if known.journal.runs else None
    if run is not None and known.journal.has_checkpoint:
        # Also behind a restore: what a request held before the checkpoint is not what the next one will.
        run = run._replace(restored=False)
    path, form = str(known.session.path), known.form.name
    return judged(known.survey, found, run, policy, saves, path=path, form=form, settled=settled, to_compact=to_compact)


def is_judged(policy: Policy) -> bool:
    """Tell whether a run must know how a session stands against its budget: its rule asks, or its log tells."""
    return policy.budget.rule is not Rule.SIZE or policy.log_file is not None


def not_due(
    known: Known, policy: Policy, budget: BudgetStats | None, *, force: bool, form: str | None
) -> tuple[Status, str] | None:
    """Return the status of a session in which nothing is due, and why; with `force` something always is."""
    if reason := triage.may_be_cached(known.session.stat, policy):
        return Status.SKIPPED, reason
    if policy.budget.rule is not Rule.SIZE:
        from sessioncompress.pipeline.budget import Action

        # What a checkpoint stands for can go, though what the model reads is little then.
        follows_checkpoint = known.journal.has_checkpoint and known.journal.runs[-1].writes_checkpoint
        due = force or follows_checkpoint
        waits = budget is not None and budget.decision == Action.NONE and not due
        return (Status.SKIPPED, f"{budget.reason} (rule {budget.rule})") if budget and waits else None
    before = summary.noted(known.journal.runs[-1], summary.TURNS) if known.journal.runs else 0
    if policy.every_turns is not None and turns_of(known.survey) - before >= policy.every_turns:
        return None
    if reason := triage.too_small(known.session.size, policy, force=force):
        return Status.SKIPPED, reason
    if force or form is not None:
        return None
    reason = triage.settled(known.session.path, policy, known.session.stat, turns_counted=True)
    return (Status.UNCHANGED, reason) if reason else None


def with_pruning(policy: Policy, budget: BudgetStats | None) -> Policy:
    """Choose the policy that a decision calls for: pruning, where the rule wants it, though the policy has it off."""
    if budget is None or policy.prune.enabled or policy.budget.rule is Rule.SIZE:
        return policy
    from sessioncompress.pipeline.budget import Action

    if budget.decision not in (Action.PRUNE, Action.COMPACT):
        return policy
    return replace(policy, prune=replace(policy.prune, enabled=True))


_LITTLE = 0.25
"""A run that gains less than this share of the session says what the recent context holds."""


class Asked(NamedTuple):
    """What is asked of a run: a policy, only to rehearse, to save however little (`force`), to read as one format.

    `run_id` is that of the command's run over all its sessions.
    """

    policy: Policy
    run_id: str
    dry_run: bool = False
    force: bool = False
    form: str | None = None


class _Attempt(NamedTuple):
    """What one try comes to, in bytes: `added` is what the run adds to the store, `gain` what it frees in all.

    The digest in `run` is put in when the session is finished; it changes no size.
    """

    view: View
    plan: Plan
    applied: Applied
    finished: Finished
    run: RunRecord
    added: int
    gain: int


class Run:
    """One run over a session that is open.

    `policy` is the one to go by, if a rule made another one of that which was asked for.
    """

    def __init__(self, known: Known, store: Store, asked: Asked, policy: Policy) -> None:
        self._known, self._session, self._journal = known, known.session, known.journal
        self._store = store
        self._asked = asked
        self._policy = policy
        self._where = str(known.session.path)
        self._each = characters_per_token(self._known.newest.model)
        """The characters of a token."""
        self._ours = Ours((self._journal,))
        self._strangers = self._strange_calls = 0
        """The texts, and the arguments of calls, with markers that are older than the journal."""
        if not self._journal.runs and any(block.marked for line in self._known.survey.lines for block in line.blocks):
            # Imported here because few sessions hold any.
            from sessioncompress.pipeline.relatives import strangers_of

            found = strangers_of(self._session, self._journal, self._asked.form)
            self._strangers, self._strange_calls = len(found), sum(each.key[1] is Kind.ARGUMENT for each in found)

    def left_alone(self, status: Status, reason: str) -> CompressionStats:
        """Count a session in which nothing is due."""
        view = View(self._known.survey, self._policy, self._known.form, self._ours)
        return replace(self._stats(view), status=status, reason=reason)

    def compress(self) -> CompressionStats:
        """Rewrite the session, unless nothing of it pays.

        Tries until no line that bears no change is left in the plan; the second try is nearly always the last.
        """
        known, policy = self._known, self._policy
        # A line whose original was not kept is not changed again where originals are kept: none could be shown.
        rewritten = known.rewritten.items() if policy.keep_backup else ()
        left_alone = {number for number, record in rewritten if record.place is None}
        begun = int(time.time() * 1000)
        least = 1 if self._asked.force else max(policy.min_saved_kb * text.KB, 1)
        indexes: Mapping[tuple[int, JsonPath], Index] = {}
        committed = None
        with OriginalsReader(self._store.originals) as originals:
            while True:
                view = View(known.survey, policy, known.form, self._ours, begun)
                planned = plan(view, known.rewritten.rows, left_alone)
                if not planned:
                    return self._unchanged(view, 0)
                # What a second try leaves out leaves its names out.
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
                lengths = self._journal.lengths
                dry_run = self._asked.dry_run
                sink = DryRun(lengths) if dry_run else Rewrite(self._session, self._store, lengths)
                with sink:
                    applied = Applied(view, planned, known, sink, originals, committed)
                    applied.run(known.pieces())
                    left_alone |= applied.left_alone
                    if applied.again:
                        continue
                    reason = summary.too_few_tokens(view, applied) if applied.changed else ""
                    if applied.waiting and not applied.changed:
                        reason = f"{text.counted(applied.waiting, 'line waits', 'lines wait')} until a commit has them"
                    if not applied.changed or reason:
                        return self._unchanged(view, 0, reason)
                    attempt = self._measured(view, planned, applied, sink.measure())
                    if attempt.gain < least:
                        return self._unchanged(view, max(attempt.gain, 0))
                    if isinstance(sink, Rewrite):
                        run = attempt.run._replace(digest=sink.finish().digest)
                        attempt = attempt._replace(run=run)
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
            boundary=summary.boundary_of(view),
            stats={
                # So that the next run knows what came since.
                summary.TURNS: turns_of(read),
                summary.LINES: len(read.lines),
                summary.MESSAGES: messages_of(read),
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
            command=Command.COMPRESS,
            again=tuple(applied.claimed),
        )
        run = readable(run, self._store.journal)
        journal_size = sum(map(len, sealed(applied.encoded(), run, self._store.journal, self._journal.size)))
        added = finished.originals_size - self._journal.store_size + journal_size
        gain = self._session.size - finished.size - added
        return _Attempt(view, planned, applied, finished, run, added, gain)

    def _verify(self, attempt: _Attempt, sink: Rewrite | DryRun, left_alone: set[int]) -> set[int]:
        """Check the new session's structure; find the lines that a second run over it would change."""
        view, applied, read = attempt.view, attempt.applied, self._known.survey
        check(view, applied.lines, applied.changed, self._where)
        # Every line is still what it was, by the same id and behind the same parent: they hang together as before.
        found = Survey(applied.lines, read.shape, attempt.finished.size)
        view = replace(view, survey=found, ours=applied.ours)
        second = plan(view, frozenset(self._known.rewritten.rows).union(applied.changed), left_alone)
        if not second or isinstance(sink, DryRun):
            return set()
        # A plan may offer again what turned out to bear no change: only lines of which something would come count.
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

    def _commit(self, attempt: _Attempt, sink: Rewrite | DryRun) -> CompressionStats:
        """Write the run to the journal and put the new session in its place."""
        view, applied, run, policy = attempt.view, attempt.applied, attempt.run, self._policy
        # More turns than usual were to stay whole, and tokens may have kept them from it.
        more_turns = policy.turn_threshold_before_compress > BALANCED.turn_threshold_before_compress
        surprises = more_turns and policy.protect_tokens is not None
        explained = surprises or attempt.gain < self._session.size * _LITTLE
        before = self._stats(view)
        stats = replace(
            before,
            status=Status.WOULD_COMPRESS if self._asked.dry_run else Status.COMPRESSED,
            reason=summary.advice(view, before.protected_bytes) if explained else "",
            compressed_size=attempt.finished.size,
            store_size=before.store_size + attempt.added,
            originals_size=attempt.finished.originals_size,
            store_added=attempt.added + self._journal.unaccounted,
            **summary.replaced(applied.counts),
            tool_results_cleared=applied.cleared,
            redundancies_eliminated=applied.redundancies,
            tokens_after=tokens_of(view.survey._replace(lines=applied.lines), self._each),
            tokens_uncached=summary.uncached(view, attempt.plan, applied, self._each),
            removed_bytes=applied.removed,
            lines_changed=len(applied.changed),
            messages_changed=messages_of(view.survey, frozenset(applied.changed)),
        )
        if isinstance(sink, DryRun):
            return stats
        size = sink.commit(sealed(applied.encoded(), run, self._store.journal, self._journal.size))
        return replace(stats, compressed_size=size, run=run.id)

    def _unchanged(self, view: View, gain: int, reason: str = "") -> CompressionStats:
        """Count a session in which nothing would pay, and word why not and what would help."""
        stats = self._stats(view)
        # Another run may have compressed it while this one waited.
        reason = reason or f"nothing {'more ' if self._known.rewritten.rows else ''}worth removing"
        if gain:
            # Rounded down: it is less.
            saved = gain * 10 // text.KB / 10
            reason = f"it would save only {saved:,.1f} KB, less than minSavedKB {view.policy.min_saved_kb:,}"
        if not self._known.seen:
            reason = f"it does not look like a session of the format {self._known.form.name}; {reason}"
        return replace(stats, reason=text.joined(reason, summary.advice(view, stats.protected_bytes)))

    def _stats(self, view: View) -> CompressionStats:
        """Count the session as it is. Markers older than the journal are no imitations of ours."""
        found, journal = view.survey, self._journal
        markers, in_calls = summary.imitated(found, view.ours)
        # In calls those count that came after the journal was begun.
        older = summary.noted(journal.runs[0], UNKNOWN_IN_CALLS) if journal.runs else self._strange_calls
        tokens = tokens_of(found, self._each)
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
            tokens_recorded=summary.recorded_now(self._known.newest, journal),
            removable_bytes=removable,
            protected_bytes=protected,
        )
