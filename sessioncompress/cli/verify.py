"""`verify`: check sessions, and that every original is there and right."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from sessioncompress.cli import options, output
from sessioncompress.operations import batch, report
from sessioncompress.operations.packed import each_packed, packed_in
from sessioncompress.operations.verify import VerifyStats, verify_session


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

    def say(stats: VerifyStats) -> None:
        if not as_json:
            click.echo(report.verified(stats))

    packed = each_packed(packed_in(paths), lambda _, copy: verify_session(copy, form=form))
    done = output.both(output.told(run, say), output.told(packed, say))
    if as_json:
        output.echo_json(report.verify_document(done.results))
    else:
        output.echo_total(paths, len(done.results), report.verified_total(done.results), done.others)
    sys.exit(done.exit_code)
