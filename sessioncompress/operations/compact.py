"""Write a checkpoint into a session: cut, summarize, write in the agent's own form, check, commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import field
from msgspec.structs import replace

from sessioncompress.checkpoints import merge
from sessioncompress.checkpoints.cut import NoCut, find_cut, for_the_model
from sessioncompress.checkpoints.merge import Title
from sessioncompress.checkpoints.notes import Besides
from sessioncompress.core import text
from sessioncompress.core.checkpoint import EXTRACTIVE, Checkpoint, Cut, Summary
from sessioncompress.core.jsonl import holds
from sessioncompress.core.lines import EVERY, messages_of, tokens_of
from sessioncompress.errors import Refused, SessionCompressError, UsageError, failing
from sessioncompress.operations import goals, log
from sessioncompress.operations.compress import TOLD_AGAIN, judge_open
from sessioncompress.operations.draft import Opened, opened
from sessioncompress.operations.goals import NO_GOAL, Goal
from sessioncompress.operations.history import written_by
from sessioncompress.operations.old_part import WENT_ON, Latest, OldPart, find_latest
from sessioncompress.operations.summarizer import Answered
from sessioncompress.operations.user_commands import CANCELED, others_sum_up, summed_up, tell_after
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.relatives import strangers_of
from sessioncompress.pipeline.stats import Action, BudgetStats, Status, Summarized, to_json
from sessioncompress.pipeline.totals import LINES, noted, recorded_now
from sessioncompress.policy.model import BALANCED, CutRule, Policy, Rule
from sessioncompress.store.layout import last_line, store_at
from sessioncompress.store.records import RunKind, RunRecord, decode

MANUAL = "manual"
"""The trigger of a run that didn't ask the budget."""

_THRESHOLDS = ("idleSeconds", "budget", "compact")
_TOLD = (
    *("tokensBefore", "tokensAfter", "tokensSummary", "tokensSent"),
    *("messagesBefore", "messagesKept", "messagesCompacted"),
    *("strategy", "goalMethod", "by", "model", "modelFailure", "cost"),
    *("trigger", "tokensSince", "messagesSince", "multiplier"),
)


class CompactStats(Summarized, frozen=True, rename="camel"):
    """The result of `compact`, or with `dry_run` the expected one. Sizes are bytes; tokens are estimates.

    `tokens_before` and `tokens_after` are what the model reads. `tokens_recorded` is the agent's recorded usage of the
    newest request and answer, or None if it recorded none since the last run or compaction. `lines_dropped` counts old
    lines, or messages of a document, that were moved to the originals. `splits_turn` is set if the kept part starts
    inside a turn. `strategy` is the cut rule. `trigger` is why the run acted: the budget's reason, or "manual".
    `goal_method` tells how the goal was found. `tokens_since` and `messages_since` count from the last run, and are
    None if there was none. `goal` heads the summary. `unheeded` lists parts of the goal and the instructions that had
    no effect or were not written. `markers_without_journal` counts previews that were summarized because their
    originals are missing.
    """

    tokens_recorded: int | None = None
    messages_before: int = 0
    messages_kept: int = 0
    messages_compacted: int = 0
    lines_dropped: int = 0
    splits_turn: bool = False
    strategy: str = ""
    goal_method: str = ""
    trigger: str = ""
    tokens_since: int | None = None
    messages_since: int | None = None
    multiplier: float = 0
    thresholds: Mapping[str, Any] = field(default_factory=dict)
    goal: str = ""
    unheeded: tuple[str, ...] = ()
    markers_without_journal: int = 0
    budget: BudgetStats | None = None

    @property
    def is_compacted(self) -> bool:
        """True if a checkpoint was written, or would be with `dry_run`."""
        return self.status in (Status.COMPACTED, Status.WOULD_COMPACT)


def compact_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    dry_run: bool = False,
    sends: bool = True,
    if_due: bool = False,
    drop_dead: bool = False,
    form: str | None = None,
    named: bool = True,
    run_id: str = "",
    goal: Goal = NO_GOAL,
) -> CompactStats:
    """Write a checkpoint into a session in place; with `dry_run` only report the effect.

    `policy.compact` sets the cut and the summary's size; `policy.summarizer` may name a model to write it. With
    `if_due`, act only if the rule of `policy.budget` asks for a summary and a `compress` run would not be enough. With
    `drop_dead`, move the summarized lines out of the session to the originals. A `goal` heads the summary. `form`,
    `named` and `run_id` as in compress_session(). A session that was found in a folder and can't have a checkpoint is
    skipped. The policy's before-command is asked first, and its after-command told once the session is closed. A dry
    run also asks the before-command, and the model if `sends`. Raises SessionCompressError with the session unchanged:
    Refused if we write no checkpoints for the agent, UsageError if `if_due` has no rule to apply, FileFailed if a
    command fails, or a model without which nothing may be written.
    """
    path = Path(path)
    if not policy.enabled:
        return CompactStats(str(path), status=Status.SKIPPED, reason=triage.SWITCHED_OFF)
    if if_due:
        refuse_size(path, policy)
    with (
        opened(path, policy, writing=not dry_run, form=form, named=named, run_id=run_id) as session,
        log.noting(session.session.path, policy, dry_run=dry_run) as note,
    ):
        budget = None
        if if_due or policy.log_file is not None:
            budget = judge_open(session.known, policy, to_compact=if_due)
        compaction = _Compaction(session, budget if if_due else None, goal, drop_dead=drop_dead, named=named)
        stats = replace(compaction.run(dry_run=dry_run, sends=sends), budget=budget)
        told = to_json(stats)
        record = {key: told[key] for key in ("path", "format", "status", "reason", "run")}
        record |= {"originalSize": stats.size_before, "compressedSize": stats.size_after}
        record |= log.judgment(budget) if budget else {}
        note(record | {key: told[key] for key in _TOLD if key in told}, _THRESHOLDS)
    warning = tell_after(policy, stats.path, stats.format, stats.run, stats.summary, compaction.record)
    return replace(stats, warning=warning)


def why_unchanged(path: Path, policy: Policy, *, again: bool) -> str:
    """Return why compact_session() leaves a session unchanged, if that is known without reading it all; else empty.

    `again` means that one compacted before may be cut again. Raises FileFailed.
    """
    with failing(path):
        found = path.lstat()
        if reason := triage.may_be_cached(found, policy):
            return reason
        rules = policy.compact
        least = max(rules.min_dead_tokens, rules.min_saved_tokens)
        # At least half of these tokens stay.
        least += rules.keep_tokens // 2 if rules.keep is CutRule.TOKENS else 0
        if found.st_size < least * text.CHARACTERS_PER_TOKEN and not _has_picture(path):
            return "nothing is old enough to summarize"
    with suppress(OSError, ValueError, KeyError, TypeError, SessionCompressError):
        run = decode(last_line(store_at(path, policy).journal))
        if not again and isinstance(run, RunRecord) and run.command == RunKind.COMPACT:
            came = found.st_size - run.compressed_size
            is_little = 0 <= came < rules.min_dead_tokens * text.CHARACTERS_PER_TOKEN
            if is_little and not _has_picture(path, run.compressed_size):
                return "too little was said since it was compacted"
    return ""


def _has_picture(path: Path, start: int = 0) -> bool:
    """True if a file may have a picture after byte `start`, which may cost a model more than its bytes."""
    with path.open("rb") as file:
        file.seek(start)
        return holds(file, b"image", b"pdf")


def refuse_size(path: Path, policy: Policy) -> None:
    """Raise UsageError if the policy's rule is `size`, which can't tell whether a checkpoint is due."""
    if policy.budget.rule is not Rule.SIZE:
        return
    others = [f'"{rule}"' for rule in Rule if rule is not Rule.SIZE]
    what = 'the budget\'s rule is "size", which does not say when to write a summary'
    remedy = f"Name a rule with --rule, or as budget.rule of the policy: {', '.join(others[:-1])} or {others[-1]}."
    raise UsageError(what, where=path, remedy=remedy)


class _Compaction:
    """One checkpoint for one open session."""

    record = b""
    """The journal's record of it, once written."""

    def __init__(
        self, session: Opened, budget: BudgetStats | None, goal: Goal, *, drop_dead: bool, named: bool
    ) -> None:
        self._session, self._budget, self._drop_dead, self._named = session, budget, drop_dead, named
        self._rules, self._goal = session.policy.compact, goal

    def run(self, *, dry_run: bool, sends: bool) -> CompactStats:
        """Write the checkpoint, unless it isn't due, nothing can be cut, or too little is saved."""
        session = self._session
        if (done := written_by(session.run_id, RunKind.COMPACT, session.store.journal)) is not None:
            before, status = session.session.size + done.saved, Status.COMPACTED
            return replace(self._unchanged(TOLD_AGAIN), status=status, size_before=before, run=session.run_id)
        if reason := triage.may_be_cached(session.session.stat, session.policy) or _why_no_summary(self._budget):
            return replace(self._unchanged(reason), status=Status.SKIPPED)
        self._goal = goals.found_in(session, self._goal)
        found = self._cut()
        if isinstance(found, NoCut):
            return self._left(found.reason)
        besides = Besides(self._goal.text, self._goal.instructions)
        old = OldPart(session, found.old, budget=session.budget(found.old), splits=found.splits, besides=besides)
        told: Answered | None = Answered(old.extract)
        if others_sum_up(session.policy):
            # Check first, so that nothing is sent or asked for a session that is refused or saves too little.
            rehearsed = self._write(found, old, Answered(old.extract), dry_run=True)
            if not rehearsed.is_compacted:
                return rehearsed
            kind = "split-turn" if found.splits else "first"
            told = summed_up(old, kind, self._rules.keep, found.kept, dry_run=dry_run, sends=sends)
            if old.went_on():
                return replace(self._unchanged(WENT_ON), status=Status.SKIPPED)
        if told is None:
            return replace(self._unchanged(CANCELED), status=Status.SKIPPED)
        return self._write(found, old, told, dry_run=dry_run)

    def _left(self, reason: str) -> CompactStats:
        """Leave the session unchanged, and warn if its existing summary lacks the goal."""
        unheeded: tuple[str, ...] = ()
        if self._latest is not None and (goal := self._goal.text):
            earlier = merge.parse(self._latest.summary)
            if earlier is None or f"- > {goal}" not in earlier.rows(Title.GOAL):
                again = "run 'sessioncompress restore' on it, then compact it again"
                unheeded = (f"the goal was not written, since the session was compacted before: {again}",)
        rewritten = self._session.known.rewritten.rows.keys()
        # A restore would also remove our summary.
        if self._latest is None and not rewritten.isdisjoint(for_the_model(self._session.read)):
            reason += "; compress has already shortened it: restore it first, compact it, then compress it again"
        return replace(self._unchanged(reason), unheeded=unheeded)

    def _write(self, found: Cut, old: OldPart, told: Answered, *, dry_run: bool) -> CompactStats:
        """Write the checkpoint with a summary, unless it saves too little."""
        session, read = self._session, self._session.read
        before = tokens_of(read)
        kept = text.estimate(sum(read.lines[number].reads for number in found.kept))
        after = kept + text.estimate(len(told.summary.text))
        summary = told.summary._replace(tokens_before=before, tokens_after=after)
        try:
            made = self._checkpoint(found, summary)
        except Refused as why:
            if self._named:
                raise
            # For example a subagent's session; agents' folders have many.
            return replace(self._unchanged(why.what), status=Status.SKIPPED)
        with session.draft(made, found, dry_run=dry_run) as draft:
            tokens = tokens_of(draft.read)
            kept_messages = messages_of(read, frozenset(found.kept))
            unchanged = self._unchanged()
            stats = replace(
                unchanged,
                status=Status.WOULD_COMPACT if dry_run else Status.COMPACTED,
                reason=self._why_this_cut(),
                lines_dropped=draft.dropped,
                messages_kept=kept_messages,
                messages_compacted=unchanged.messages_before - kept_messages,
                splits_turn=found.splits,
                goal=old.notes.goal,
                unheeded=tuple(self._unheeded(old, summary)),
                markers_without_journal=self._strangers(),
                **told.stats(session, draft),
            )
            # Count four characters per token, like all numbers of the policy. Never write a checkpoint that saves
            # nothing: the journal identifies checkpoints by their lines, and it could equal the existing one.
            least = max(self._rules.min_saved_tokens, 1)
            if (saved := before - tokens) < least:
                few = f"it would save only {saved:,} tokens (4 characters each)"
                return self._left(f"{few}, less than minSavedTokens {least:,}")
            if dry_run:
                return stats
            method, tokens_now = self._goal.method, (before, tokens)
            size = session.commit(
                draft, summary, self._rules.keep, tokens_now, RunKind.COMPACT, goal=method, trigger=stats.trigger
            )
            self.record = draft.record
            return replace(stats, size_after=size, run=session.run_id)

    def _strangers(self) -> int:
        """Count the texts with a marker whose original is in no store here."""
        session = self._session
        if session.known.journal.runs or not any(block.marked for line in session.read.lines for block in line.blocks):
            return 0
        return len(strangers_of(session.session, session.known.journal))

    def _why_this_cut(self) -> str:
        """Report that the goal chose the cut, or that the session is cut again; else empty."""
        chosen = self._session.policy.compact
        if self._latest is not None and self._latest.is_newest(chosen):
            return "it was compacted before; this keeps less of what was kept then"
        if not self._goal.text or self._rules is chosen:
            return ""
        without = f"--keep {chosen.keep} (compact.keep) keeps as much as without a goal"
        return f"with a goal, only the newest request and what came after it stay; {without}"

    def _unheeded(self, old: OldPart, summary: Summary) -> Iterator[str]:
        """Report which of goal and instructions had no effect, and what the summary has instead."""
        goal = self._goal
        if goal.source is not None and not goal.text:
            is_todo = goal.source is goals.GoalSource.TODO
            what = "its todo list has no open items" if is_todo else "it has no user request"
            yield f"{what}: {'the goal of the earlier summary stays' if old.notes.goal else 'the summary has no goal'}"
        if goal.instructions and summary.by == EXTRACTIVE and not old.heeds:
            yield "the instructions share no word with the session, so they change nothing in the summary"

    @cached_property
    def _latest(self) -> Latest | None:
        """Our checkpoint, if the model reads it."""
        return find_latest(self._session)

    def _checkpoint(self, found: Cut, summary: Summary) -> Checkpoint:
        """Write a summary in the agent's own form. Raises Refused."""
        session = self._session
        with session.refusing():
            made = session.form.checkpoint(session.written, found, summary)
            # In some documents the old part is always removed.
            if self._drop_dead and made and not made.stays.union(made.removed).issuperset(found.old):
                made = session.form.dropping(session.written, found, made)
        if made is None:
            what = f"compact can't write a summary for {session.form.name} sessions yet"
            remedy = "Run 'sessioncompress compress' instead, which makes it smaller."
            raise session.refused(what, remedy)
        return made

    def _cut(self) -> Cut | NoCut:
        """Cut by the goal if it chooses, else by the policy, also if the goal finds no cut (for example, one request).

        A session that was just compacted is cut again only by an explicitly requested rule. It is never cut again by
        the same share, because a share always takes some of what a checkpoint left.
        """
        session, chosen = self._session, self._rules
        if (latest := self._latest) is not None and latest.is_newest(chosen):
            is_same_share = chosen.keep is CutRule.SHARE and latest.record.rule == CutRule.SHARE
            if self._goal.chooses_cut or is_same_share:
                return NoCut(self._why_it_stays(latest, is_same_share=is_same_share))
        for rules in dict.fromkeys((goals.rules_for(chosen, self._goal), chosen)):
            self._rules = rules
            found = find_cut(session.read, rules, splits=session.form.splits_turns)
            if isinstance(found, Cut):
                break
        return found

    def _why_it_stays(self, latest: Latest, *, is_same_share: bool) -> str:
        """Report that too little was added since a checkpoint, and how to get another one."""
        read, rules = self._session.read, self._rules
        said = "nothing was"
        if latest.since:
            said = f"{latest.since:,} tokens (4 characters each), under minDeadTokens {rules.min_dead_tokens:,}, were"
        found = NoCut("") if is_same_share else find_cut(read, rules, splits=self._session.form.splits_turns)
        less = f"--keep {rules.keep} (compact.keep) leaves less, or " if isinstance(found, Cut) else ""
        return f"{said} said since it was compacted; {less}restore it first to compact it differently"

    def _unchanged(self, reason: str = "") -> CompactStats:
        session, runs = self._session, self._session.known.journal.runs
        read, run = session.read, runs[-1] if runs else None
        size, tokens = session.session.size, tokens_of(read, session.per_token)
        messages = messages_of(read, frozenset(for_the_model(read)))
        since = None if run is None or run.restored else EVERY[noted(run, LINES) :]
        return CompactStats(
            session.where,
            session.form.name,
            reason=reason,
            size_before=size,
            size_after=size,
            tokens_before=tokens,
            tokens_after=tokens,
            tokens_recorded=recorded_now(session.known.newest, session.known.journal),
            messages_before=messages,
            messages_kept=messages,
            strategy=self._rules.keep,
            goal_method=self._goal.method,
            multiplier=session.policy.budget.frequency_multiplier,
            thresholds=log.thresholds_of(session.policy, _THRESHOLDS),
            trigger=self._budget.reason if self._budget else MANUAL,
            tokens_since=None if since is None else tokens_of(read, session.per_token, since),
            messages_since=None if since is None else messages_of(read, since),
        )


def _why_no_summary(budget: BudgetStats | None) -> str:
    """Return why a budget asks for no summary; empty if it does, or without a budget."""
    if budget is None or budget.decision == Action.COMPACT:
        return ""
    enough = "" if budget.decision == Action.NONE else ": compress is enough"
    return f"{budget.reason} (rule {budget.rule}){enough}"
