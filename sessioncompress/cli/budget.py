"""`budget`: how full the model's context window is, and what is due."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from sessioncompress.cli.options import (
    BACKUP_DIR,
    CONFIG,
    FORMAT,
    JSON,
    PATHS,
    PRESET,
    RULE,
    errors_end_it,
    policies_of,
    tell_of_two_stores,
)
from sessioncompress.cli.output import echo_json, echo_total, for_each
from sessioncompress.core.text import counted, printable
from sessioncompress.pipeline.budget import Action
from sessioncompress.pipeline.summary import BudgetStats, to_json

SCHEMA = "sessioncompress.budget/1"

_BY = {
    "session": "as the session says",
    "policy": "by the policy",
    "table": "by our table",
    "fallback": "taken for a model that is not known",
}


def line(stats: BudgetStats) -> str:
    """Format one session: what is due and why, and the numbers behind that."""
    decision = f"{stats.decision}: {stats.reason} (rule {stats.rule})"
    model = f"{printable(stats.model)}, " if stats.model else ""
    window = f"{stats.context_window:,} ({model}{_BY[stats.limits_from]})"
    parts = [f"{stats.tokens:,} tokens of a window of {window} in use, {100 * stats.utilisation:.0f} %"]
    if stats.usable != stats.context_window:
        parts.append(f"{stats.usable:,} usable")
    if stats.tokens_recorded is None:
        parts.append("estimated, none recorded")
    elif stats.recorded_is_stale:
        parts.append(f"estimated, {stats.tokens_recorded:,} recorded before the last run or compaction")
    else:
        parts.append(f"recorded, {stats.tokens_estimated:,} estimated")
    parts.append(counted(stats.messages, "message", "messages"))
    if stats.messages_since is not None:
        seconds = stats.seconds_since
        ago = f" {counted(round(seconds), 'second', 'seconds')} ago" if seconds is not None else ""
        parts.append(f"{stats.messages_since:,} since the last run{ago}")
    return f"{printable(stats.path)}: {printable(decision)}; {', '.join(parts)}"


def total(all_stats: Sequence[BudgetStats]) -> str:
    """Count the decisions over several sessions."""
    decided = [stats.decision for stats in all_stats]
    return ": " + ", ".join(f"{decided.count(action):,} {action}" for action in Action if action in decided)


def document(all_stats: Iterable[BudgetStats]) -> dict[str, Any]:
    """Build the `--json` document of `budget`."""
    files = [to_json(stats) | {"utilisation": round(stats.utilisation, 4)} for stats in all_stats]
    return {"schema": SCHEMA, "files": files}


@click.command(epilog="Example: sessioncompress budget --rule omp session.jsonl")
@PATHS
@RULE
@CONFIG
@PRESET
@BACKUP_DIR
@FORMAT
@JSON
@errors_end_it
def budget(
    paths: Sequence[Path],
    rule: str | None,
    config: Path | None,
    preset: str | None,
    backup_dir: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Say how full the model's context window is and what is due; exit 1 where something is. Change nothing."""
    from sessioncompress.operations import batch
    from sessioncompress.operations.sessions import budget_session

    policies = policies_of(config, preset, {"backup_dir": backup_dir, "rule": rule})

    def work(path: Path) -> BudgetStats:
        policy = policies.of(path)
        tell_of_two_stores(path, policy)
        return replace(budget_session(path, policy, form=form), path=str(path))

    done = for_each(paths, work)
    if as_json:
        echo_json(document(done.results))
    else:
        for each in done.results:
            click.echo(line(each))
        echo_total(paths, len(done.results), total(done.results), done.others)
    due = any(each.decision != "none" for each in done.results)
    sys.exit(batch.worst({done.exit_code, int(due)}))
