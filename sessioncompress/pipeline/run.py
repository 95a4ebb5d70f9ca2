"""One run over what was read of a session: whether it is due, then plan, rewrite, check, commit; and its record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.core import VERSION, text
from sessioncompress.core.jsonl import parse, parse_any
from sessioncompress.core.lines import Survey, turns_of
from sessioncompress.core.model import NO_PREFIX, Prefix
from sessioncompress.core.references import References
from sessioncompress.core.splice import CannotSplice
from sessioncompress.core.text import KB
from sessioncompress.formats.base import Entry
from sessioncompress.pipeline import check, reading, triage
from sessioncompress.pipeline.incremental import (
    NotFinished,
    Part,
    can_follow,
    clashing,
    digest_of_prefix,
    prefix_of,
)
from sessioncompress.pipeline.plan import Plan, in_question, plan
from sessioncompress.pipeline.rewrite import Applied, rewrite
from sessioncompress.pipeline.summary import (
    LINES,
    MESSAGES,
    TURNS,
    BudgetStats,
    CompressionStats,
    Status,
    advice,
    all_messages,
    boundary_of,
    counted,
    imitated,
    noted,
    too_few_tokens,
    why,
    with_changes,
)
from sessioncompress.policy.file import differences
from sessioncompress.policy.model import BALANCED, Policy, Rule
from sessioncompress.store.commit import DryRun, Finished, Rewrite
from sessioncompress.store.journal import Journal, clash
from sessioncompress.store.layout import Beside
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import UNKNOWN_IN_CALLS, LineRecord, RunRecord, readable, sealed


def judge(part: Part, policy: Policy, saves: Callable[[], int], *, as_left: bool = False) -> BudgetStats:
    """Judge what is read of a session; `saves` says how many tokens pruning would save the model.

    Raises NotFinished if that does not show what the session stands against.
    """
    # Imported here, as below, because hardly any policy has a rule.
    from sessioncompress.pipeline.budget import judged
    from sessioncompress.pipeline.usage import answers

    session, known = part.session, part.known
    if part.prefix.size:
        found = answers(part.read(session.reader, session.size), known.survey, known.form)
        if not any(each.usage and each.model for each in found.answers):
            # The model, and with it the window, may be named in what no run reads again.
            raise NotFinished
    else:
        found = reading.read_answers(session, known)
    run = part.journal.runs[-1] if part.journal.runs else None
    path, form = str(session.path), known.form.name
    return judged(known.survey, found, run, policy, saves, path=path, form=form, as_left=as_left)


def is_judged(policy: Policy) -> bool:
    """Tell whether a run must know how a session stands against its budget: its rule asks, or its log tells."""
    return policy.budget.rule is not Rule.SIZE or policy.log_file is not None


def not_due(part: Part, policy: Policy, budget: BudgetStats | None, *, force: bool) -> str:
    """Word why nothing is due; empty if something is. With `force` something always is."""
    if reason := triage.may_be_cached(part.session.stat, policy):
        return reason
    if policy.budget.rule is not Rule.SIZE:
        from sessioncompress.pipeline.budget import Action

        waits = budget is not None and budget.decision == Action.NONE and not force
        return f"{budget.reason} (rule {budget.rule})" if budget and waits else ""
    size = part.session.size
    before = noted(part.journal.runs[-1], TURNS) if part.journal.runs else 0
    waits = policy.every_turns is None or turns_of(part.known.survey) - before < policy.every_turns
    return triage.too_small(size, policy) if waits and triage.is_small(size, policy, force=force) else ""


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
    """What is asked of a run: a policy, only to rehearse, to save however little (`force`), to read as one format."""

    policy: Policy
    dry_run: bool = False
    force: bool = False
    form: str | None = None


class _Attempt(NamedTuple):
    """One try at a session: what was planned, what was applied, and what it comes to, in bytes.

    `added` is what the run adds to the store, `gain` what it frees in all. The digest of what `run` finishes is put in
    last; it changes no size.
    """

    view: View
    plan: Plan
    applied: Applied
    finished: Finished
    run: RunRecord
    left_alone: frozenset[int]
    added: int
    gain: int

    def journal(self) -> Iterator[bytes]:
        """Yield what the run appends to the journal."""
        return sealed(self.applied.records.encode(), self.run)


class Run:
    """One run over a session that is open, or over what of it no earlier run finished.

    `policy` is the one to go by, if a rule made another one of that which was asked for.
    """

    def __init__(self, part: Part, beside: Beside, asked: Asked, policy: Policy) -> None:
        self._part, self._known, self._journal = part, part.known, part.journal
        self._session = part.session
        self._beside = beside
        self._asked = asked
        self._policy = policy
        self._where = str(part.session.path)
        self._begun = int(time.time() * 1000)
        self._ours = Ours((self._journal,))
        self._originals: OriginalsReader | None = None
        self._strangers = self._strange_calls = 0
        """The texts, and the arguments of calls, with markers that are older than the journal."""
        if not self._journal.runs and any(block.marked for line in self._known.survey.lines for block in line.blocks):
            # Imported here because few sessions hold any.
            from sessioncompress.pipeline.markers import markers_of

            self._strangers, self._strange_calls, _ = markers_of(self._session, self._asked.form)

    def skipped(self, reason: str) -> CompressionStats:
        """Count a session that is let alone."""
        return replace(self._stats(self._view()), status=Status.SKIPPED, reason=reason)

    def compress(self) -> CompressionStats:
        """Rewrite the session, unless nothing of it pays. Raises NotFinished if more of it has to be read.

        Tries until no line that bears no change is left in the plan; the second try is nearly always the last.
        """
        part, known = self._part, self._known
        # A line whose original was not kept is not changed again where originals are kept: none could be shown.
        kept = self._policy.keep_backup
        left_alone = {number for number, record in known.rewritten.items() if record.place is None and kept}
        least = 1 if self._asked.force else max(self._policy.min_saved_kb * KB, 1)
        with ExitStack() as self._open:
            while True:
                view = self._view()
                planned = plan(view, self._are_ours(), frozenset(left_alone))
                if not planned:
                    return self._unchanged(view, 0)
                with self._sink() as sink:
                    dry = isinstance(sink, DryRun)
                    stream = part.read(self._session.reader, self._session.size) if dry else part.copied(planned)
                    applied = Applied(view, planned, known.rewritten, self._journal, sink, self._where, self._original)
                    applied.run(stream)
                    left_alone |= applied.left_alone
                    if applied.again:
                        continue
                    reason = too_few_tokens(view, applied) if applied.changed else ""
                    if not applied.changed or reason:
                        return self._unchanged(view, 0, reason)
                    attempt = self._measured(view, planned, applied, sink.measure(), frozenset(left_alone))
                    if attempt.gain < least:
                        return self._unchanged(view, max(attempt.gain, 0))
                    if part.prefix.size and not can_follow(attempt.run.prefix):
                        # The next run would read all of it, and find more to do though nothing was added.
                        raise NotFinished
                    if isinstance(sink, Rewrite):
                        sink.finish()
                        attempt = attempt._replace(run=self._with_digest(attempt, sink))
                    if restless := self._verify(attempt, sink):
                        left_alone |= restless
                        continue
                    return self._commit(attempt, sink)

    def _view(self) -> View:
        return View(self._known.survey, self._policy, self._known.form, self._ours, self._begun)

    def _are_ours(self, changed: Iterable[int] = ()) -> bytes:
        """For each line whether it is our own rewriting."""
        flags = bytearray(len(self._known.survey.lines))
        for number in chain(self._known.rewritten, changed):
            flags[number] = True
        return bytes(flags)

    def _sink(self) -> Rewrite | DryRun:
        if self._asked.dry_run:
            return DryRun(self._journal.lengths, self._part.prefix.size)
        commit_originals = self._policy.commit_originals
        return Rewrite(self._session, self._beside, self._journal.lengths, commit_originals=commit_originals)

    def _original(self, record: LineRecord) -> Entry | None:
        """Read the original of a line that an earlier run rewrote."""
        if record.place is None:
            return None
        if self._originals is None:
            self._originals = self._open.enter_context(OriginalsReader(self._beside.originals))
        return parse_any(self._originals.line(record.place, record.sha256))

    def _measured(
        self, view: View, planned: Plan, applied: Applied, finished: Finished, left_alone: frozenset[int]
    ) -> _Attempt:
        read = self._known.survey
        run = RunRecord(
            at=text.written_time(time.time()),
            version=VERSION,
            policy=differences(self._asked.policy),
            original_size=self._session.size,
            compressed_size=finished.size,
            store_size=finished.originals_size,
            boundary=self._part.prefix.lines + boundary_of(view),
            stats={
                # So that the next run knows what came since.
                TURNS: turns_of(read),
                LINES: self._part.prefix.lines + len(read.lines),
                MESSAGES: all_messages(read, self._journal.runs[-1] if self._journal.runs else None),
                "linesChanged": len(applied.changed),
                "removedBytes": applied.removed,
            }
            | ({UNKNOWN_IN_CALLS: self._strange_calls} if self._strange_calls else {}),
            records=(len(applied.records), applied.records.blocks),
            originals_sha256=finished.originals_sha256,
            session_id=self._known.session_id,
            modified=self._session.stat.st_mtime_ns,
            start=self._journal.size,
            prefix=self._prefix(view, applied, finished.size),
        )
        run = readable(run, self._beside.journal)
        journal_size = applied.records.size + sum(map(len, sealed((), run)))
        added = finished.originals_size - self._journal.store_size + journal_size
        gain = self._session.size - finished.size - added
        return _Attempt(view, planned, applied, finished, run, left_alone, added, gain)

    def _prefix(self, view: View, applied: Applied, size: int) -> Prefix:
        """Find what the run finishes, to be noted for the next one, unless that may find another format in it.

        Its digest is still to come.
        """
        if self._asked.form is not None:
            return NO_PREFIX
        markers, in_calls = imitated(view.survey._replace(lines=applied.lines), applied.ours)
        ours = self._are_ours(applied.changed)
        return prefix_of(self._part, view, applied.lines, size, ours, (markers, self._newer(in_calls)))

    def _with_digest(self, attempt: _Attempt, sink: Rewrite) -> RunRecord:
        """Put in the digest of what the run finishes. Raises NotFinished if what was not read clashes."""
        prefix, unread, applied = attempt.run.prefix, self._part.prefix.size, attempt.applied
        if not prefix.size:
            return attempt.run
        clashes = clashing(attempt.view, applied.lines, applied.changed) if unread else None
        with sink.reader() as file:
            digest = digest_of_prefix(file, prefix.size, unread, clashes)
        return attempt.run._replace(prefix=prefix._replace(digest=digest))

    def _verify(self, attempt: _Attempt, sink: Rewrite | DryRun) -> set[int]:
        """Check the new session's structure; find the lines that a second run over it would change."""
        applied = attempt.applied
        check.check(
            self._known.survey.lines,
            applied.lines,
            attempt.view.standing,
            applied.changed,
            self._where,
            attempt.view.is_free,
            first=self._part.prefix.lines,
        )
        # Every line is still what it was, by the same id and behind the same parent: they hang together as before.
        found = Survey(applied.lines, self._known.survey.shape, attempt.finished.size, self._part.prefix)
        view = replace(attempt.view, survey=found, ours=applied.ours)
        second = plan(view, self._are_ours(applied.changed), attempt.left_alone)
        if not second or isinstance(sink, DryRun):
            return set()
        # A plan may offer again what turned out to bear no change: only lines of which something would come count.
        made = Journal()
        for record in applied.records.of(frozenset(second)):
            made.add(record)
        view = replace(view, ours=Ours((self._journal, made)))
        restless = set()
        for number, raw, _ in self._part.read(sink.reader, found.size):
            changes = second.get(number)
            entry = parse(raw) if changes else None
            if changes and entry is not None:
                with suppress(CannotSplice):
                    if rewrite(raw, entry, changes, view, References().refer) is not None:
                        restless.add(number)
        return restless

    def _commit(self, attempt: _Attempt, sink: Rewrite | DryRun) -> CompressionStats:
        view, applied, policy = attempt.view, attempt.applied, self._policy
        # More turns than usual were to stay whole, and tokens may have kept them from it.
        more_turns = policy.turn_threshold_before_compress > BALANCED.turn_threshold_before_compress
        surprises = more_turns and policy.protect_tokens is not None
        explained = surprises or attempt.gain < self._session.size * _LITTLE
        removable, protected = in_question(view, range(len(view.lines)))
        stats = replace(
            with_changes(self._stats(view), view, attempt.plan, applied),
            removable_bytes=removable,
            protected_bytes=protected,
            compressed_size=attempt.finished.size,
            status=Status.WOULD_COMPRESS if self._asked.dry_run else Status.COMPRESSED,
            backup_added=attempt.added,
            originals_size=attempt.finished.originals_size,
            reason=advice(view, protected) if explained else "",
            backup_size=self._journal.size + self._journal.store_size + attempt.added,
        )
        if isinstance(sink, DryRun):
            return stats
        if self._part.prefix.size and clash(self._beside, attempt.journal()):
            raise NotFinished
        committed = sink.commit(attempt.journal())
        return replace(stats, compressed_size=committed.size)

    def _unchanged(self, view: View, gain: int, reason: str = "") -> CompressionStats:
        removable, protected = in_question(view, range(len(view.lines)))
        stats = replace(self._stats(view), removable_bytes=removable, protected_bytes=protected)
        reason = why(view, protected, gain, reason)
        if not self._known.seen:
            reason = f"it does not look like a session of the format {self._known.form.name}; {reason}"
        return replace(stats, reason=reason)

    def _stats(self, view: View) -> CompressionStats:
        """Count the session as it is. Markers older than the journal are no imitations of ours."""
        stats = counted(view, self._where, self._journal.size + self._journal.store_size)
        return replace(
            stats,
            originals_size=self._journal.store_size,
            imitated_in_calls=self._newer(stats.imitated_in_calls),
            markers_without_journal=self._strangers,
        )

    def _newer(self, in_calls: int) -> int:
        """Count the markers in calls that came after the journal was begun."""
        return max(in_calls - (self._strange_calls or self._journal.unknown_in_calls), 0)
