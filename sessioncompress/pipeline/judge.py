"""How a session stands against its budget: what it holds, what its agent recorded of it, and what its rule decides."""

from __future__ import annotations

import time
from collections.abc import Callable

from sessioncompress.core import text
from sessioncompress.core.lines import Survey
from sessioncompress.core.model import Answer
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, estimate
from sessioncompress.core.turns import EVERY, messages_of, tokens_of, turns_of
from sessioncompress.pipeline.answers import Answers
from sessioncompress.pipeline.models import ANY, characters_per_token, limits_of
from sessioncompress.pipeline.rules import Situation, decide, usable
from sessioncompress.pipeline.stats import BudgetStats
from sessioncompress.pipeline.summary import TURNS, all_messages, known_lines, noted
from sessioncompress.policy.model import Budget, Limits, Policy
from sessioncompress.store.records import RunRecord

_MILLISECONDS = 1000


def judged(
    read: Survey,
    answers: Answers,
    run: RunRecord | None,
    policy: Policy,
    pruning_saves: Callable[[], int],
    *,
    path: str,
    form: str,
    as_left: bool = False,
) -> BudgetStats:
    """Judge a session, or what follows the part of it that `run`, its newest run, finished.

    `pruning_saves` says how many tokens of four characters pruning would save the model; only some rules ask.
    """
    if run is not None and run.restored:
        run = None
    newest = next((each for each in reversed(answers.answers) if each.usage), None)
    is_stale = newest is not None and (answers.behind is None or not _is_since(newest, run))
    recorded = newest.usage.context if newest and newest.usage else None
    model = _model(answers)
    each = characters_per_token(model)
    estimated = tokens_of(read, each)
    limits, source = _limits(model, answers, policy.budget)
    since = None if run is None else messages_of(read, EVERY[known_lines(read, run) :])
    turns = turns_of(read)
    situation = Situation(
        size=read.size,
        turns=turns,
        tokens=estimated if recorded is None or is_stale else recorded + (answers.behind or 0),
        model=limits,
        messages=all_messages(read, run),
        since_turns=None if run is None else max(turns - noted(run, TURNS), 0),
        since_messages=since,
        since_seconds=_seconds_since(run),
        as_left=as_left,
        error=_error(answers, run),
        pruning_saves=lambda: estimate(pruning_saves() * CHARACTERS_PER_TOKEN, each),
    )
    decision = decide(situation, policy)
    return BudgetStats(
        path,
        form,
        decision.rule.value,
        decision.action.value,
        decision.reason,
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


def _seconds_since(run: RunRecord | None) -> float | None:
    at = None if run is None else text.said_time(run.at)
    return None if at is None else max(time.time() - at, 0)


def _is_since(answer: Answer, run: RunRecord | None) -> bool:
    """Say whether an answer came after a run; of one whose time is not known nobody can say so."""
    if run is None:
        return True
    at = text.said_time(run.at)
    return at is not None and answer.at > at * _MILLISECONDS


def _error(answers: Answers, run: RunRecord | None) -> str:
    """Return what the newest answer failed with; a run since then has changed what the next request holds."""
    last = answers.answers[-1] if answers.answers else None
    return last.error if last is not None and _is_since(last, run) else ""


def _model(answers: Answers) -> str:
    return next((each.model for each in reversed(answers.answers) if each.model), "")


def _limits(model: str, answers: Answers, budget: Budget) -> tuple[Limits, str]:
    """Return what the session's model takes, and who says so."""
    known = limits_of(model, budget.models)
    window = next((each.window for each in reversed(answers.answers) if each.window), 0)
    if known in budget.models:
        return known, "policy"
    if window:
        return Limits(known.pattern, window, min(known.output, window)), "session"
    return known, "fallback" if known.pattern == ANY else "table"
