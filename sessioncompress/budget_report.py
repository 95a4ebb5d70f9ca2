"""What `budget` prints of sessions: a line each, a total, and the document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sessioncompress.printable import printable
from sessioncompress.report import json_safe
from sessioncompress.rules import Action
from sessioncompress.stats import BudgetStats
from sessioncompress.words import counted

SCHEMA = "sessioncompress.budget/1"

_OF = {
    "session": "as the session says",
    "policy": "by the policy",
    "table": "of that model",
    "fallback": "taken for a model that is not known",
}


def line(stats: BudgetStats) -> str:
    """Return the line of one session: what is due, and the numbers by which that was decided."""
    parts = [_tokens(stats), _window(stats), *_since(stats)]
    decision = f"{stats.decision}: {stats.reason} (rule {stats.rule})"
    return f"{printable(stats.path)}: {printable(decision)}; {', '.join(parts)}"


def _tokens(stats: BudgetStats) -> str:
    estimated = f"{stats.tokens_estimated:,} tokens estimated"
    if stats.tokens_recorded is None:
        return f"{estimated}, none recorded"
    stale = " before the last run or compaction" if stats.recorded_is_stale else ""
    return f"{stats.tokens_recorded:,} tokens recorded{stale}, {estimated}"


def _window(stats: BudgetStats) -> str:
    model = f" of {printable(stats.model)}" if stats.model else ""
    window = f"window{model} {stats.context_window:,} ({_OF[stats.limits_from]})"
    return f"{window}, {stats.usable:,} usable, {100 * stats.utilisation:.0f} % of the window in use"


def _since(stats: BudgetStats) -> Iterable[str]:
    yield counted(stats.messages, "message", "messages")
    if stats.messages_since is not None:
        seconds = f" in {stats.seconds_since:,.0f} seconds" if stats.seconds_since is not None else ""
        yield f"{stats.messages_since:,} since the last run{seconds}"


def total(all_stats: Sequence[BudgetStats]) -> str:
    """Return how many of several sessions have what due."""
    decided = [stats.decision for stats in all_stats]
    return ": " + ", ".join(f"{decided.count(action):,} {action}" for action in Action if action in decided)


def document(all_stats: Iterable[BudgetStats]) -> dict[str, Any]:
    """Return the `--json` document of `budget`."""
    return {"schema": SCHEMA, "files": [_file(stats) for stats in all_stats]}


def _file(stats: BudgetStats) -> dict[str, Any]:
    texts = {"path": stats.path, "format": stats.format, "model": stats.model, "limitsFrom": stats.limits_from}
    return {
        **json_safe(texts),
        **json_safe({"rule": stats.rule, "decision": stats.decision, "reason": stats.reason}),
        "tokens": stats.tokens,
        "tokensEstimated": stats.tokens_estimated,
        "tokensRecorded": stats.tokens_recorded,
        "recordedIsStale": stats.recorded_is_stale,
        "contextWindow": stats.context_window,
        "outputLimit": stats.output_limit,
        "usable": stats.usable,
        "utilisation": round(stats.utilisation, 4),
        "messages": stats.messages,
        "messagesSince": stats.messages_since,
        "secondsSince": stats.seconds_since,
    }
