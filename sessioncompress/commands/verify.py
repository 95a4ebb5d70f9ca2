"""`verify`: check sessions, and that every original is there and right."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessioncompress.commands.options import CONFIG, FORMAT, JSON, PATHS, THEIR_FOLDER, errors_end_it, policy_for
from sessioncompress.commands.output import echo_json, echo_total, for_each

if TYPE_CHECKING:
    from sessioncompress.stats import VerifyStats


@click.command(epilog="Example: sessioncompress verify session.jsonl")
@PATHS
@CONFIG
@THEIR_FOLDER
@FORMAT
@JSON
@errors_end_it
def verify(
    paths: Sequence[Path], config: Path | None, backup_dir: Path | None, form: str | None, as_json: bool
) -> None:
    """Check sessions and that every original is there and right; exit 5 if not."""
    from dataclasses import replace

    from sessioncompress import report
    from sessioncompress.audit import verify_session

    def work(path: Path) -> VerifyStats:
        done = verify_session(path, policy_for(path, config, None, {"backup_dir": backup_dir}), form=form)
        done = replace(done, path=str(path))
        if not as_json:
            click.echo(report.verified(done))
        return done

    done = for_each(paths, work)
    if as_json:
        echo_json(report.verify_document(done.results))
    else:
        echo_total(paths, len(done.results), report.verified_total(done.results), done.others)
    sys.exit(done.exit_code)
