"""`unpack`: bring packed sessions back to their places."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from sessioncompress.cli import options, output
from sessioncompress.core.text import OBJECT_STORES, counted, kb, printable
from sessioncompress.operations.packed import UnpackStats, meant_by, unpack_sessions
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.unpack/1"


@click.command(cls=options.Command, epilog="Example: sessioncompress unpack ~/.pi/agent/sessions")
@click.argument("what", nargs=-1, required=True, metavar="ID|PATH|TITLE...")
@options.DRY_RUN
@options.JSON
def unpack(what: Sequence[str], dry_run: bool, as_json: bool) -> None:
    """Bring packed sessions back byte for byte, by their ids, titles or paths; in object stores by URLs."""
    if "" in what:
        raise click.UsageError("a name is empty; '.' is the working folder. Nothing was done")

    urls = [each for each in what if each.startswith(OBJECT_STORES)]
    if urls and len(urls) < len(what):
        raise click.UsageError("name sessions in object stores and those on a disk in different runs")

    def say(stats: UnpackStats) -> None:
        if not as_json:
            click.echo(printable(f"{stats.path}: {stats.status}, {kb(stats.size)}"))

    if urls:
        # Imported here: most packs lie on a disk.
        from sessioncompress.operations import cloud_packed

        done = output.told(cloud_packed.unpack(urls, dry_run=dry_run), say)
    else:
        done = output.told(unpack_sessions(meant_by(what), dry_run=dry_run), say)
    if as_json:
        files = [to_json(each) for each in done.results]
        output.echo_json({"schema": SCHEMA, "dryRun": dry_run, "files": files})
    else:
        verb = "would unpack" if dry_run else "unpacked"
        head = f"total: {verb} {counted(len(done.results), 'session', 'sessions')}"
        said = f"{head}, {kb(sum(each.size for each in done.results))}"
        click.echo(output.with_others(said, done.others))
    sys.exit(done.exit_code)
