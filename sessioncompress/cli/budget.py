"""`budget`: how sessions stand against their model's context window, and what is due."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from sessioncompress.pipeline.summary import BudgetStats


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
    from sessioncompress.cli import budget_report
    from sessioncompress.operations import batch
    from sessioncompress.operations.stats import budget_session

    policies = policies_of(config, preset, {"backup_dir": backup_dir, "rule": rule})

    def work(path: Path) -> BudgetStats:
        policy = policies.of(path)
        tell_of_two_stores(path, policy)
        return replace(budget_session(path, policy, form=form), path=str(path))

    done = for_each(paths, work)
    if as_json:
        echo_json(budget_report.document(done.results))
    else:
        for each in done.results:
            click.echo(budget_report.line(each))
        echo_total(paths, len(done.results), budget_report.total(done.results), done.others)
    due = any(each.decision != "none" for each in done.results)
    sys.exit(batch.worst({done.exit_code, int(due)}))
