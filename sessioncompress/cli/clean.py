"""`clean`: delete what runs that ended left behind, and originals where the user says so."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessioncompress.cli.options import (
    ANY_PATH,
    CONFIG,
    DAYS,
    JSON,
    THEIR_FOLDER,
    amount,
    errors_end_it,
    policies_of,
    tell_of_two_stores,
)
from sessioncompress.cli.output import echo_json
from sessioncompress.errors import SessionCompressError

if TYPE_CHECKING:
    from sessioncompress.operations.clean import CleanStats


@click.command(epilog="Example: sessioncompress clean ~/.pi/agent/sessions")
@click.argument("paths", nargs=-1, required=True, type=ANY_PATH)
@click.option("--yes", is_flag=True, help="Do it; without this it only says what would go.")
@click.option(
    "--older-than",
    metavar="AGE",
    callback=amount(DAYS, "90d"),
    help="Also delete the originals of sessions whose last run is older, as in 90d.",
)
@click.option(
    "--max-size",
    metavar="SIZE",
    callback=amount({"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}, "500MB"),
    help="Also delete the oldest originals until the rest is no larger in all, as in 500MB.",
)
@CONFIG
@THEIR_FOLDER
@JSON
@errors_end_it
def clean(
    paths: Sequence[Path],
    yes: bool,
    older_than: int | None,
    max_size: int | None,
    config: Path | None,
    backup_dir: Path | None,
    as_json: bool,
) -> None:
    """Delete what runs that ended left behind; originals by a limit, or of a session that you name and that is gone."""
    from itertools import chain

    from sessioncompress.cli import clean_report
    from sessioncompress.operations import batch
    from sessioncompress.operations.clean import Limits, clean_one, plan_clean
    from sessioncompress.pipeline.discover import Found
    from sessioncompress.pipeline.relatives import Kin

    policies = policies_of(config, None, {"backup_dir": backup_dir})
    planned = plan_clean(paths, policies.of, Limits(older_than, max_size))
    decisions = {each.holding.session: each for each in planned.decisions}
    for each in planned.decisions:
        tell_of_two_stores(each.holding.session, each.holding.policy)
    found = chain(planned.unread, (Found(path, named=True) for path in decisions))
    done: list[CleanStats] = []
    failed: list[tuple[str, SessionCompressError]] = []
    codes: set[int] = set()
    kin = Kin()
    said: set[str] = set()
    for outcome in batch.each(found, lambda found: clean_one(decisions[found.path], kin, dry_run=not yes)):
        codes.add(outcome.exit_code)
        if outcome.error is not None:
            failed.append((str(outcome.found.path), outcome.error))
            if (text := clean_report.failed_line(outcome.error)) not in said:
                # What is wrong with a policy file is the same for all its sessions.
                said.add(text)
                click.echo(text, err=True)
        elif outcome.result is not None:
            done.append(outcome.result)
            if not as_json:
                click.echo(clean_report.line(outcome.result, dry_run=not yes))
    if as_json:
        echo_json(clean_report.document(done, failed, dry_run=not yes))
    else:
        lying = [each.holding.size for each in planned.decisions if each.holding.size]
        click.echo(clean_report.total_line(done, len(failed), lying, dry_run=not yes))
    sys.exit(batch.worst(codes))
