"""`verify`: check sessions, and that every original is there and right."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from sessioncompress.cli import options, output
from sessioncompress.operations import batch, wording
from sessioncompress.operations.verify import verify_session


@click.command(cls=options.Command, epilog="Example: sessioncompress verify session.jsonl")
@options.PATHS_OR_GONE
@options.INCLUDE
@options.EXCLUDE
@options.JOBS
@options.CONFIG
@options.THEIR_FOLDER
@options.FORMAT
@options.JSON
def verify(
    paths: Sequence[Path],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    jobs: int | None,
    config: Path | None,
    backup_dir: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Check sessions and that every original is there and right; exit 5 if not."""
    policies = options.policies_of(config, backup_dir=backup_dir)
    found = options.sessions_with_stores(paths, policies, include, exclude)
    run = batch.Archive(found, lambda each: partial(verify_session, each.path, policies.of(each.path), form=form), jobs)
    done = output.told(run, lambda stats: None if as_json else click.echo(wording.verified(stats)))
    if as_json:
        output.echo_json(wording.verify_document(done.results))
    else:
        output.echo_total(paths, len(done.results), wording.verified_total(done.results), done.others)
    sys.exit(done.exit_code)
