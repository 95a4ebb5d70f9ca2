"""`budget`: how full the model's context window is, and what is due."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from sessioncompress.cli import cluster, options, output
from sessioncompress.cli.choosing import Chosen, choosing
from sessioncompress.core.text import counted, printable
from sessioncompress.operations import batch
from sessioncompress.operations.sessions import budget_session
from sessioncompress.pipeline.budget import Action
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import BudgetStats, to_json

SCHEMA = "sessioncompress.budget/1"

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


@click.command(cls=options.ReadOnly, epilog="Example: sessioncompress budget --rule omp session.jsonl")
@choosing(options.JOBS, options.JSON, options.QUIET, options.VERBOSE)
@options.RULE
@options.CONFIG
@options.PRESET
@options.BACKUP_DIR
@options.FORMAT
@cluster.ENGINE
def budget(
    chosen: Chosen, rule: str | None, config: Path | None, preset: str | None, backup_dir: Path | None, form: str | None
) -> None:
    """Show how full the model's context window is; exit 1 if something is due. Change nothing."""
    policies = options.policies_of(config, preset, backup_dir=backup_dir, rule=rule)

    def prepare(found: Found) -> Callable[[], BudgetStats]:
        policy = policies.of(found.path)
        options.tell_of_two_stores(found.path, policy)
        return partial(budget_session, found.path, policy, form=form)

    lines = output.Lines(chosen)

    def say(stats: BudgetStats) -> None:
        if stats.decision == Action.NONE:
            lines.left(line(stats), stats.decision, stats.reason)
        else:
            lines.changed(line(stats), lambda: f"{printable(stats.path)}: {stats.decision}: {printable(stats.reason)}")

    done = output.told(batch.Archive(chosen.sessions(), prepare, chosen.jobs, chosen.engine, quiet=chosen.quiet), say)
    output.tell_of_others(chosen)
    if chosen.as_json:
        files = [to_json(stats) | {"utilisation": round(stats.utilisation, 4)} for stats in done.results]
        output.echo_json({"schema": SCHEMA, "files": files})
    decided = [stats.decision for stats in done.results]
    actions = [f"{decided.count(action):,} {action}" for action in Action if action in decided]
    lines.end([output.total(len(decided), f": {', '.join(actions)}", done.others)])
    due = any(stats.decision != "none" for stats in done.results)
    sys.exit(batch.worst({done.exit_code, int(due)}))
