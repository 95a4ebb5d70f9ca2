"""`verify`: check sessions, and that every original is there and right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from sessioncompress.cli import cluster, options, output
from sessioncompress.cli.choosing import Chosen, choosing, with_stores
from sessioncompress.operations import batch, wording
from sessioncompress.operations.verify import VerifyStats, verify_session
from sessioncompress.pipeline.discover import Found


@click.command(cls=options.ReadOnly, epilog="Example: sessioncompress verify session.jsonl")
@choosing(options.JOBS, options.JSON, options.QUIET, options.VERBOSE, gone=True, urls=True, packed=True)
@options.CONFIG
@options.THEIR_FOLDER
@options.FORMAT
@cluster.ENGINE
def verify(chosen: Chosen, config: Path | None, backup_dir: Path | None, form: str | None) -> None:
    """Check sessions, and that every original is there; exit 5 if not."""
    policies = options.policies_of(config, backup_dir=backup_dir)
    found = with_stores(chosen, policies)

    def prepare(each: Found) -> Callable[[], VerifyStats]:
        return options.on(each, partial(verify_session, policy=options.policy_of(each, policies), form=form))

    run = batch.Archive(found, prepare, chosen.jobs, chosen.engine, quiet=chosen.quiet)
    lines = output.Lines(chosen)

    def say(stats: VerifyStats) -> None:
        said = wording.verified(stats)
        # What is right and nothing more is in the total.
        if wording.noticed(stats) or stats.lines_not_understood:
            lines.changed(said, lambda: said)
        else:
            lines.left(said)

    packed = chosen.each_packed(lambda _, copy: verify_session(copy, form=form))
    done = output.both(output.told(run, say), output.told(packed, say))
    output.tell_of_rollouts(chosen.agent, chosen.paths, quiet=chosen.quiet or bool(chosen.urls))
    if chosen.as_json:
        output.echo_json(wording.verify_document(done.results))
    lines.end([output.total(len(done.results), wording.verified_total(done.results), done.others)])
    sys.exit(done.exit_code)
