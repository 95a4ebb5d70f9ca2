"""`stats`: where the bytes of sessions are, and what would be saved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from sessioncompress.cli import options, output
from sessioncompress.operations import batch, wording
from sessioncompress.operations.sessions import SessionStats, inspect_session
from sessioncompress.pipeline.discover import Found


@click.command(cls=options.Command, epilog="Example: sessioncompress stats session.jsonl")
@options.choosing(options.JOBS, options.JSON)
@options.CONFIG
@options.PRESET
@options.BACKUP_DIR
@options.FORMAT
def stats(
    chosen: options.Chosen, config: Path | None, preset: str | None, backup_dir: Path | None, form: str | None
) -> None:
    """Show where the bytes are, and what would be saved; change nothing."""
    policies = options.policies_of(config, preset, backup_dir=backup_dir)

    def prepare(found: Found) -> Callable[[], SessionStats]:
        policy = policies.of(found.path)
        options.tell_of_two_stores(found.path, policy)
        return partial(inspect_session, found.path, policy, form=form)

    done = output.told(batch.Archive(chosen.sessions(), prepare, chosen.jobs))
    if chosen.by_options:
        output.tell_of_opencode(chosen.agent)
    results = [replace(each, would=replace(each.would, path=each.path)) for each in done.results]
    if chosen.as_json:
        output.echo_json(wording.sessions_document(results))
    else:
        for each in results:
            for text in wording.session_lines(each):
                click.echo(text)
        output.echo_total(chosen, len(results), wording.sessions_total(results), done.others)
    sys.exit(done.exit_code)
