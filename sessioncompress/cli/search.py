"""`search`: find what was said in sessions, packed ones too."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from sessioncompress.cli import options, output
from sessioncompress.core.text import counted, printable
from sessioncompress.operations import batch
from sessioncompress.operations.packed import each_packed, packed_anywhere, packed_in
from sessioncompress.operations.search import SearchStats, search_session
from sessioncompress.operations.sessions import Selection, sessions
from sessioncompress.pipeline.discover import discover
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.search/1"


@click.command(cls=options.Command, epilog="Example: sessioncompress search 'rate limit' ~/.claude/projects")
@click.argument("text")
@options.PATHS_OR_NONE
@options.JSON
def search(text: str, paths: Sequence[Path], as_json: bool) -> None:
    """Find a text in what was said in sessions, packed ones too: in PATHS, or all agents'; change nothing."""
    if not text:
        raise click.UsageError("the text is empty")

    def say(stats: SearchStats) -> None:
        if as_json:
            return
        packed = " (packed)" if stats.packed else ""
        for hit in stats.hits:
            click.echo(printable(f"{stats.path}{packed}: turn {hit.turn:,}, {hit.said}: {hit.line}"))
        if stats.cut:
            click.echo(printable(f"{stats.path}{packed}: more lines hold it"))

    files = discover(paths) if paths else sessions(Selection())
    packed = packed_in(paths) if paths else packed_anywhere()
    plain = output.told(batch.each(files, lambda found: search_session(found.path, text)), say)
    stored = output.told(each_packed(packed, lambda _, copy: search_session(copy, text, packed=True)), say)
    done = output.both(plain, stored)
    found = [each for each in done.results if each.hits]
    if as_json:
        output.echo_json({"schema": SCHEMA, "files": [to_json(each) for each in found]})
    else:
        hits = sum(len(each.hits) for each in found)
        head = f"total: {counted(hits, 'line', 'lines')} in {len(found):,} of "
        click.echo(output.with_others(head + counted(len(done.results), "session", "sessions"), done.others))
    sys.exit(done.exit_code)
