"""`search`: find what was said in sessions, packed ones too."""

from __future__ import annotations

import sys
from functools import partial

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.choosing import Chosen, choosing
from sessioncompress.cli.tables import echo_wrapped, is_seen, shown
from sessioncompress.core.text import counted, printable
from sessioncompress.operations import batch
from sessioncompress.operations.search import SearchStats, search_session
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.search/1"


@click.command(cls=options.ReadOnly, epilog="Example: sessioncompress search 'rate limit' ~/.claude/projects")
@click.argument("text")
@choosing(options.JSON, urls=True, packed=True, or_all=lambda _: True)
def search(chosen: Chosen, text: str) -> None:
    """Search for a text in what was said in sessions, packed ones too."""
    if not text:
        raise click.UsageError("the text is empty")

    def say(stats: SearchStats) -> None:
        if chosen.as_json:
            return
        packed = " (packed)" if stats.packed else ""
        # In a terminal the path stands once, above what was found.
        path, begins = f"{printable(stats.path)}{packed}: ", ""
        if is_seen() and stats.hits:
            click.echo(shown(f"{stats.path}{packed}"))
            path, begins = "", "  "
        for hit in stats.hits:
            echo_wrapped(f"{begins}{path}turn {hit.turn:,}, {hit.said}: {printable(hit.line)}")
        if stats.cut:
            echo_wrapped(f"{begins}{path}more lines match")

    plain = output.told(
        batch.each(chosen.sessions(), lambda found: options.on(found, partial(search_session, text=text))()), say
    )
    stored = output.told(chosen.each_packed(lambda _, copy: search_session(copy, text, packed=True)), say)
    done = output.both(plain, stored)
    found = [each for each in done.results if each.hits]
    if chosen.as_json:
        output.echo_json({"schema": SCHEMA, "files": [to_json(each) for each in found]})
    else:
        hits = sum(len(each.hits) for each in found)
        least = "at least " if any(each.cut for each in found) else ""
        head = f"total: {least}{counted(hits, 'line', 'lines')} in {len(found):,} of "
        head += counted(len(done.results), "session", "sessions")
        if shortened := sum(each.shortened for each in done.results):
            head += f" ({shortened:,} compressed: what was replaced in them is not searched)"
        echo_wrapped(output.with_others(head, done.others))
    sys.exit(done.exit_code)
