"""`stats`: where the bytes of sessions are, and what would be saved."""

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
    errors_end_it,
    policies_of,
    tell_of_two_stores,
)
from sessioncompress.cli.output import echo_json, echo_total, for_each

if TYPE_CHECKING:
    from sessioncompress.operations.sessions import SessionStats


@click.command(epilog="Example: sessioncompress stats session.jsonl")
@PATHS
@CONFIG
@PRESET
@BACKUP_DIR
@FORMAT
@JSON
@errors_end_it
def stats(
    paths: Sequence[Path],
    config: Path | None,
    preset: str | None,
    backup_dir: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Show where the bytes of sessions are and what would be saved; change nothing."""
    from sessioncompress.operations import report
    from sessioncompress.operations.sessions import inspect_session

    policies = policies_of(config, preset, {"backup_dir": backup_dir})

    def work(path: Path) -> SessionStats:
        policy = policies.of(path)
        tell_of_two_stores(path, policy)
        done = inspect_session(path, policy, form=form)
        return replace(done, path=str(path), would=replace(done.would, path=str(path)))

    done = for_each(paths, work)
    if as_json:
        echo_json(report.sessions_document(done.results))
    else:
        for each in done.results:
            for text in report.session_lines(each):
                click.echo(text)
        echo_total(paths, len(done.results), report.sessions_total(done.results), done.others)
    sys.exit(done.exit_code)
