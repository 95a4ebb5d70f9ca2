"""Rules that decide whether a session is due. Each maps one situation to one decision and touches no files.

| rule | origin | decides by |
|---|---|---|
| size | GitClaw | the file's size in bytes, or its turns |
| gencode | gencode 0.4 | the window minus room for the answer |
| omp | oh-my-pi | the same with a reserve, measured again after a simulated pruning |
| eunice | eunice | a request that failed because it did not fit |
| deliberate | a Gemini CLI design | tokens, after enough messages and seconds; always at a share of the window |
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.core import text
from sessioncompress.core.lines import EVERY, messages_of, tokens_of, turns_of
from sessioncompress.core.text import KB
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.reading import Known
from sessioncompress.pipeline.stats import Action, BudgetStats
from sessioncompress.pipeline.totals import LINES, TURNS, is_since, noted
from sessioncompress.pipeline.usage import ANY, answers, characters_per_token, limits_of
from sessioncompress.policy.model import Budget, Limits, Policy, Rule

_DID_NOT_FIT = re.compile(
    r"resource_exhausted|context[ _]length|context[ _](?:window|size)|prompt (?:is )?too long|prompt length is"
    r"|input (?:is|was) too long|input length|request_too_large|request too large|too many tokens|token limit"
    r"|(?:input|prompt) token count|reduce the length of the messages|too large for model|exceeds the limit of [\d,]+",
    re.IGNORECASE,
)
"""Vendors' error texts for a request that exceeds the model's context."""

_SLOWED_DOWN = re.compile(r"rate.?limit|too many requests|throttl", re.IGNORECASE)
"""Rate-limit errors. They may mention tokens too, so they must not count as "did not fit"."""

_TOO_MANY = re.compile(r"\b429\b")
_QUOTA = re.compile("quota", re.IGNORECASE)


Decision = tuple[Action, str]
"""The action, and the reason in one sentence."""


class Situation(Struct, frozen=True, dict=True):
    """The input of a rule: sizes in bytes, other amounts in tokens, messages, turns or seconds.

    The `since_*` fields count from the last run and are None if there was none. `settled` is the reason why another run
    would change nothing, or empty if it might. `error` is the newest answer's error, or empty if it succeeded or a run
    came later; `cut_short` follows the same rule. Only rules that measure the effect of pruning call `pruning_saves`.
    """

    size: int
    turns: int
    tokens: int
    model: Limits
    messages: int
    since_turns: int | None
    since_messages: int | None
    since_seconds: float | None
    settled: str
    error: str
    pruning_saves: Callable[[], int]
    cut_short: bool = False

    @cached_property
    def after_pruning(self) -> int:
        """Number of tokens left after pruning."""
        return max(self.tokens - self.pruning_saves(), 0)


def usable(model: Limits, budget: Budget) -> int:
    """Return the number of tokens at which the rule acts, as derived from the model's window."""
    window = model.window
    if budget.rule is Rule.GENCODE:
        return max(window - min(model.output, budget.reserved_output_tokens), 0)
    if budget.rule is Rule.DELIBERATE:
        return window * budget.safety_percent // 100
    if budget.rule is not Rule.OMP:
        return window
    if budget.threshold_tokens is not None:
        return min(budget.threshold_tokens, window)
    if budget.threshold_percent is not None:
        return window * budget.threshold_percent // 100
    share = window * budget.reserve_percent // 100
    left = window - max(share, budget.reserve_tokens)
    return left if left > 0 else window - share


def did_not_fit(error: str) -> bool:
    """True if a request failed because it exceeded the model's context."""
    if _TOO_MANY.search(error) and _QUOTA.search(error):
        return True
    return bool(_DID_NOT_FIT.search(error)) and ("RESOURCE_EXHAUSTED" in error or not _SLOWED_DOWN.search(error))


def _by_size(situation: Situation, policy: Policy) -> Decision:
    sizes = f"{situation.size / KB:,.0f} KB, sizeThresholdKB {policy.size_threshold_kb:,}"
    turns = situation.turns if situation.since_turns is None else situation.since_turns
    if policy.every_turns is not None and turns >= policy.every_turns:
        return Action.COMPRESS, f"{turns:,} turns since the last run, everyTurns {policy.every_turns:,}"
    if situation.settled:
        return Action.NONE, f"{situation.settled} ({sizes})"
    if small := triage.too_small(situation.size, policy, force=False):
        return Action.NONE, small
    return Action.COMPRESS, f"the file is over its threshold: {sizes}"


def _by_gencode(situation: Situation, policy: Policy) -> Decision:
    most, least = usable(situation.model, policy.budget), policy.prune.prune_minimum
    if situation.tokens <= most:
        return Action.NONE, f"{situation.tokens:,} tokens in use are within the {most:,} usable"
    over = f"{situation.tokens:,} tokens in use are over the {most:,} usable"
    if situation.tokens > least:
        return Action.PRUNE, f"{over} and over pruneMinimum {least:,}"
    return Action.COMPACT, f"{over}, but not over pruneMinimum {least:,}"


def _by_omp(situation: Situation, policy: Policy) -> Decision:
    most = usable(situation.model, policy.budget)
    if situation.tokens <= most:
        return Action.NONE, f"{situation.tokens:,} tokens in use are within the threshold of {most:,}"
    over = f"{situation.tokens:,} tokens in use are over the threshold of {most:,}"
    if situation.after_pruning <= most:
        return Action.PRUNE, f"{over}; pruning leaves about {situation.after_pruning:,}"
    return Action.COMPACT, f"{over}, and about {situation.after_pruning:,} would be left after pruning"


def _by_eunice(situation: Situation, policy: Policy) -> Decision:
    target = policy.budget.target_tokens
    if not situation.error:
        return Action.NONE, "no answer failed since the last run because the context was too long"
    if not did_not_fit(situation.error):
        return Action.NONE, "the newest answer failed, but not because the context was too long"
    failed, left = (
        "the newest answer failed because the context was too long",
        f"leaves about {situation.after_pruning:,} tokens",
    )
    if situation.after_pruning < target:
        return Action.PRUNE, f"{failed}; pruning {left}"
    return Action.COMPACT, f"{failed}, and pruning {left}, not under targetTokens {target:,}"


def _by_deliberation(situation: Situation, policy: Policy) -> Decision:
    budget = policy.budget
    valve = usable(situation.model, budget)
    tokens = f"{situation.tokens:,} tokens in use"
    if situation.tokens >= valve:
        return _unless_done(situation, f"{tokens} are at least {budget.safety_percent} % of the window")
    if situation.tokens < budget.act_tokens:
        return Action.NONE, f"{tokens} are under actTokens {budget.act_tokens:,}"
    messages = situation.messages if situation.since_messages is None else situation.since_messages
    if messages < budget.act_messages:
        return Action.NONE, f"{tokens}, but only {messages:,} messages, under actMessages {budget.act_messages:,}"
    seconds = situation.since_seconds
    if seconds is not None and seconds < budget.act_seconds:
        what = f"{seconds:,.0f} seconds since the last run, under actSeconds {budget.act_seconds:,.0f}"
        return Action.NONE, f"{tokens}, but only {what}"
    return _unless_done(situation, f"{tokens} and {messages:,} messages are enough to act")


def _unless_done(situation: Situation, why: str) -> Decision:
    """Suggest a compaction if the last run left nothing to remove, else a run."""
    if situation.settled:
        return Action.COMPACT, f"{why}, and the last run left it that way"
    return Action.COMPRESS, why


def decide(situation: Situation, policy: Policy) -> Decision:
    """Apply the policy's rule and return the action and its reason."""
    rules = {
        Rule.SIZE: _by_size,
        Rule.GENCODE: _by_gencode,
        Rule.OMP: _by_omp,
        Rule.EUNICE: _by_eunice,
        Rule.DELIBERATE: _by_deliberation,
    }
    return rules[policy.budget.rule](situation, policy)


def decide_on_compacting(situation: Situation, policy: Policy) -> Decision:
    """Apply the policy's rule, and ask for a compaction if a `compress` run would not be enough.

    Clear first, summarize second: a checkpoint is due only if the rule would still act after such a run. oh-my-pi also
    compacts if an answer exceeded the context or was cut short.
    """
    action, reason = decide(situation, policy)
    if policy.budget.rule is Rule.OMP and action == Action.NONE:
        if did_not_fit(situation.error):
            return Action.COMPACT, "the newest answer failed because the context was too long"
        if situation.cut_short:
            return Action.COMPACT, "the newest answer was cut off at its length limit"
    # These rules choose `prune` only if it is enough.
    if action in (Action.NONE, Action.COMPACT) or policy.budget.rule in (Rule.OMP, Rule.EUNICE):
        return action, reason
    left = replace(situation, tokens=situation.after_pruning)
    reason = f"{reason}; compress leaves about {left.tokens:,}"
    return (action if decide(left, policy)[0] == Action.NONE else Action.COMPACT), reason


def judged(
    known: Known, policy: Policy, pruning_saves: Callable[[], int], *, settled: str = "", to_compact: bool = False
) -> BudgetStats:
    """Judge a session against its budget.

    `pruning_saves` returns how many tokens pruning would save the model; only some rules call it. `settled` is the
    result of triage.why_settled(). With `to_compact`, decide whether a checkpoint is due.
    """
    read, run, found = known.survey, known.journal.last_run, answers(known.survey)
    newest = next((each for each in reversed(found.answers) if each.usage), None)
    is_stale = newest is not None and (found.behind is None or not is_since(newest, run))
    recorded = newest.usage.context if newest and newest.usage else None
    model = next((each.model for each in reversed(found.answers) if each.model), "")
    estimated = tokens_of(read, characters_per_token(model))
    limits = limits_of(model, policy.budget.models)
    source = "policy" if limits in policy.budget.models else "fallback" if limits.pattern == ANY else "table"
    if source != "policy" and (window := next((each.window for each in reversed(found.answers) if each.window), 0)):
        limits, source = Limits(limits.pattern, window, min(limits.output, window)), "session"
    turns = turns_of(read)
    ran_at = None if run is None else text.said_time(run.at)
    last = found.answers[-1] if found.answers else None
    situation = Situation(
        size=read.size,
        turns=turns,
        tokens=estimated if recorded is None or is_stale else recorded + (found.behind or 0),
        model=limits,
        messages=messages_of(read),
        since_turns=None if run is None else max(turns - noted(run, TURNS), 0),
        since_messages=None if run is None else messages_of(read, EVERY[noted(run, LINES) :]),
        since_seconds=None if ran_at is None else max(time.time() - ran_at, 0),
        settled=settled,
        # A later run changed what the next request holds, so an older error no longer applies.
        error=last.error if last is not None and is_since(last, run) else "",
        pruning_saves=pruning_saves,
        cut_short=last is not None and last.cut_short and is_since(last, run),
    )
    action, reason = (decide_on_compacting if to_compact else decide)(situation, policy)
    return BudgetStats(
        str(known.session.path),
        known.form.name,
        policy.budget.rule.value,
        action.value,
        reason,
        tokens=situation.tokens,
        tokens_estimated=estimated,
        tokens_recorded=recorded,
        recorded_is_stale=is_stale,
        model=model,
        context_window=limits.window,
        output_limit=limits.output,
        limits_from=source,
        usable=usable(limits, policy.budget),
        messages=situation.messages,
        messages_since=situation.since_messages,
        seconds_since=situation.since_seconds,
    )
