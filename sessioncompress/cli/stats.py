"""`stats`: where the bytes of sessions are, and what would be saved."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import click
from msgspec.structs import replace

from sessioncompress.cli import options, output
from sessioncompress.operations import batch, report
from sessioncompress.operations.packed import each_packed, packed_in
from sessioncompress.operations.sessions import SessionStats, inspect_session
from sessioncompress.pipeline.discover import Found, discover


@click.command(cls=options.Command, epilog="Example: sessioncompress stats session.jsonl")
@options.PATHS
@options.CONFIG
@options.PRESET
@options.BACKUP_DIR
@options.FORMAT
@options.JSON
def stats(
    paths: Sequence[Path],
    config: Path | None,
    preset: str | None,
    backup_dir: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Show where the bytes of sessions are and what would be saved; change nothing."""
    policies = options.policies_of(config, preset, backup_dir=backup_dir)

    def work(found: Found) -> SessionStats:
        policy = policies.of(found.path)
        options.tell_of_two_stores(found.path, policy)
        done = inspect_session(found.path, policy, form=form)
        return replace(done, would=replace(done.would, path=str(found.path)))

    def work_packed(place: Path, copy: Path) -> SessionStats:
        done = inspect_session(copy, replace(policies.of(place), backup_dir=None), form=form)
        return replace(done, would=replace(done.would, path=str(place)))

    done = output.told(chain(batch.each(discover(paths), work), each_packed(packed_in(paths), work_packed)))
    if as_json:
        output.echo_json(report.sessions_document(done.results))
    else:
        for each in done.results:
            for text in report.session_lines(each):
                click.echo(text)
        output.echo_total(paths, len(done.results), report.sessions_total(done.results), done.others)
    sys.exit(done.exit_code)
