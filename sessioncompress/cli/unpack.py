"""`unpack`: bring packed sessions back to their places."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.tables import Column, echo_table, echo_wrapped, shown, with_tilde
from sessioncompress.core.text import OBJECT_STORES, counted, kb, printable
from sessioncompress.operations.packed import AT_PLACE, Ambiguous, Packed, UnpackStats, meant_by, unpack_sessions
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.unpack/1"
_COLUMNS = (Column("session"), Column("agent"), Column("changed"), Column("title", may_be_cut=True))
_MOST_LISTED = 10
"""Sessions that a name may mean."""


@click.command(cls=options.Command, epilog="Example: sessioncompress unpack ~/.pi/agent/sessions")
@click.argument("what", nargs=-1, required=True, metavar="ID|PATH|TITLE...")
@options.DRY_RUN
@options.JSON
def unpack(what: Sequence[str], dry_run: bool, as_json: bool) -> None:
    """Bring packed sessions back byte for byte; by id, title or path, or by URL in object stores."""
    if "" in what:
        raise click.UsageError("a name is empty; use '.' for the working folder. Nothing was done")

    urls = [each for each in what if each.startswith(OBJECT_STORES)]
    if urls and len(urls) < len(what):
        raise click.UsageError("local paths and URLs of object stores can't be combined; use one run for each")

    def say(stats: UnpackStats) -> None:
        if not as_json:
            why = ": it is in its place already, not packed" if stats.status == AT_PLACE else ""
            title = f": {printable(stats.title)}" if stats.title else ""
            echo_wrapped(f"{shown(stats.path)}: {stats.status}{why}, {kb(stats.size)}{title}")

    there: list[UnpackStats] = []
    if urls:
        # Imported here: most packs lie on a disk.
        from sessioncompress.operations import cloud_packed

        done = output.told(cloud_packed.unpack(urls, dry_run=dry_run), say)
    else:
        try:
            packed = meant_by(what, there.append)
        except Ambiguous as error:
            _end_with_names(error)
        for stats in there:
            say(stats)
        done = output.told(unpack_sessions(packed, dry_run=dry_run), say)
    if as_json:
        files = [to_json(each) for each in (*there, *done.results)]
        output.echo_json({"schema": SCHEMA, "dryRun": dry_run, "files": files})
    else:
        verb = "would unpack" if dry_run else "unpacked"
        head = f"total: {verb} {counted(len(done.results), 'session', 'sessions')}"
        said = f"{head}, {kb(sum(each.size for each in done.results))}"
        echo_wrapped(output.with_others(said, {AT_PLACE: len(there)} | done.others))
    sys.exit(done.exit_code)


def _end_with_names(error: Ambiguous) -> NoReturn:
    """Print what a name may mean, the newest first, each by what means it alone."""
    echo_wrapped(str(error), err=True)
    ids = Counter(each.entry.id for each in error.found)

    def row(each: Packed) -> tuple[str, ...]:
        # A fork of some agents has the id of its parent.
        name = each.entry.id if ids[each.entry.id] == 1 and each.entry.id else with_tilde(str(each.place))
        return tuple(map(printable, (name, each.entry.agent, each.entry.modified[:10], each.entry.title)))

    newest = sorted(error.found, key=lambda each: each.entry.members[0].mtime_ns, reverse=True)
    echo_table(_COLUMNS, [row(each) for each in newest[:_MOST_LISTED]], err=True)
    if (more := len(newest) - _MOST_LISTED) > 0:
        click.echo(f"and {more:,} more; 'sessioncompress sessions' lists them", err=True)
    sys.exit(error.exit_code)
