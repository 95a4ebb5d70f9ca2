"""`search`: find what was said in sessions, packed ones too."""

from __future__ import annotations

from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Each, SessionCommand
from sessioncompress.cli.tables import echo_wrapped, is_seen, shown
from sessioncompress.core.text import counted, printable
from sessioncompress.operations.search import SearchStats, search_session


class Search(SessionCommand[SearchStats]):
    """Search what was said in sessions, packed ones too."""

    urls = packed = True
    parallel = False
    first = (click.argument("text"),)
    flags = (options.JSON,)
    hands = ("text",)
    all_with = None

    @staticmethod
    def work(each: Each, text: str) -> SearchStats:
        return search_session(each.path, text, packed=each.packed)

    def refuse(self) -> None:
        if not self.given.text:
            raise click.UsageError("the text is empty")

    def say(self, stats: SearchStats) -> None:
        if self.silent:
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

    def document(self, done: Done[SearchStats]) -> dict[str, Any]:
        return super().document(
            done._replace(files=[each for each in done.files if isinstance(each, dict) or each.hits])
        )

    def end(self, done: Done[SearchStats]) -> None:
        found = [each for each in done.results if each.hits]
        hits = sum(len(each.hits) for each in found)
        least = "at least " if any(each.cut for each in found) else ""
        head = f"total: {least}{counted(hits, 'line', 'lines')} in {len(found):,} of "
        head += counted(len(done.results), "session", "sessions")
        if shortened := sum(each.shortened for each in done.results):
            head += f" ({shortened:,} compressed: what was replaced in them is not searched)"
        echo_wrapped(output.with_others(head, done.others))


search = Search.command("search 'rate limit' ~/.claude/projects")
