"""`budget`: how full the model's context window is, and what is due."""

from __future__ import annotations

from typing import Any

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Each, SessionCommand, Words
from sessioncompress.core.text import counted, printable
from sessioncompress.operations.sessions import budget_session
from sessioncompress.pipeline.budget import Action
from sessioncompress.pipeline.summary import BudgetStats

_BY = {
    "session": "from the session",
    "policy": "from the policy",
    "table": "from our table",
    "fallback": "assumed, since the model is unknown",
}


def line(stats: BudgetStats) -> str:
    """Format one session: how full the window is, what is due and why, and the numbers behind that."""
    model = f"{printable(stats.model)}, " if stats.model else ""
    window = f"{stats.context_window:,} tokens ({model}{_BY[stats.limits_from]})"
    full = f"{100 * stats.utilisation:.0f} % of the window in use, {stats.tokens:,} of {window}"
    decision = f"{stats.decision}: {stats.reason}; rule {stats.rule}"
    parts = []
    if stats.usable != stats.context_window:
        parts.append(f"{stats.usable:,} usable")
    if stats.tokens_recorded is None:
        parts.append("estimated, none recorded")
    elif stats.recorded_is_stale:
        parts.append(f"estimated, {stats.tokens_recorded:,} recorded before the last run or compaction")
    else:
        parts.append(f"{stats.tokens_recorded:,} recorded, {stats.tokens_estimated:,} estimated")
    parts.append(counted(stats.messages, "message", "messages"))
    if stats.messages_since is not None:
        seconds = stats.seconds_since
        ago = f" {counted(round(seconds), 'second', 'seconds')} ago" if seconds is not None else ""
        parts.append(f"{stats.messages_since:,} since the last run{ago}")
    return f"{printable(stats.path)}: {full}; {printable(decision)}; {', '.join(parts)}"


class Budget(SessionCommand[BudgetStats]):
    """Show how full the model's context window is; exit 1 if something is due. Change nothing."""

    takes = (options.RULE, options.CONFIG, options.PRESET, options.BACKUP_DIR, options.FORMAT)
    notes = output.tell_of_others

    @staticmethod
    def work(each: Each, form: str | None) -> BudgetStats:
        return budget_session(each.path, each.policy, form=form)

    def words(self, stats: BudgetStats) -> Words:
        short = f"{printable(stats.path)}: {stats.decision}: {printable(stats.reason)}"
        return Words(line(stats), short, (stats.decision, stats.reason) if stats.decision == Action.NONE else None)

    def file(self, stats: BudgetStats) -> dict[str, Any]:
        return super().file(stats) | {"utilisation": round(stats.utilisation, 4)}

    def total(self, done: Done[BudgetStats]) -> list[str]:
        decided = [stats.decision for stats in done.results]
        actions = [f"{decided.count(action):,} {action}" for action in Action if action in decided]
        return [output.total(len(decided), f": {', '.join(actions)}", done.others)]

    def codes(self, done: Done[BudgetStats]) -> list[int]:
        return [int(stats.decision != Action.NONE) for stats in done.results]


budget = Budget.command("budget --rule omp session.jsonl")
