"""`search`: find text in the conversations of sessions, including packed ones, and in their originals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Job, SessionCommand
from sessioncompress.cli.tables import cut, echo_wrapped, is_seen, pasted, titled, width
from sessioncompress.core.text import age, counted, printable, quote, written_time
from sessioncompress.operations.search import Hit, SearchStats, search_session
from sessioncompress.operations.sessions import folder_of

_EACH, _ALL = 10, 100
"""Maximum matches printed of each session and of all, if there are several."""


class Search(SessionCommand[SearchStats]):
    """Search sessions, packed ones and replaced text too."""

    urls = packed = True
    first = (click.argument("text"),)
    flags = (options.JSON,)
    hands = ("text",)
    all_with = None
    _shown = 0
    """Matches that were printed, equal ones together in one line."""
    _printed = 0
    """Lines that were printed."""
    _has_original = False
    """True if one of them was in an original."""

    @staticmethod
    def work(job: Job, text: str) -> SearchStats:
        return search_session(job.path, text, job.policy, packed=job.packed)

    def refuse(self) -> None:
        if not self.given.text:
            raise click.UsageError("the text is empty")

    def say(self, stats: SearchStats) -> None:
        if self.silent:
            return
        # A file that was read five times has the same line five times.
        alike: dict[str, list[Hit]] = {}
        for hit in stats.hits:
            alike.setdefault(hit.line, []).append(hit)
        hits = list(alike.values())[: None if self.chosen.is_one else min(_EACH, _ALL - self._printed)]
        self._printed += len(hits)
        shown = sum(map(len, hits))
        self._shown += shown
        self._has_original |= any(first.replaced for first, *_ in hits)
        if not hits:
            return
        packed = " (packed)" if stats.packed else ""
        # In a terminal, print the session once above its matches, and its path whole, so that it can be copied.
        path, begins = f"{printable(stats.path)}{packed}: ", ""
        if is_seen():
            about = f"{stats.agent}, {age(stats.modified)}{', packed' if stats.packed else ''}"
            title = titled(printable(stats.title), folder_of(stats.project)) or printable(Path(stats.path).name)
            click.echo(f"{cut(title, width() - len(about) - 3, at_end=True)} ({about})")
            click.echo(f"  {pasted(stats.path)}")
            path, begins = "", "  "
        for hit, *again in hits:
            turn = f"{path}turn {hit.turn:,}, " if hit.turn else path
            replaced = f" (original{f' {hit.ref}' if hit.ref else ''})" if hit.replaced else ""
            times = f" ({1 + len(again):,} times)" if again else ""
            echo_wrapped(f"{begins}{turn}{hit.said}{replaced}{times}: {printable(' '.join(hit.line.split()))}")
        if more := len(stats.hits) - shown:
            least = "at least " if stats.cut else ""
            echo_wrapped(f"{begins}{path}{least}{counted(more, 'more line matches', 'more lines match')}")
        elif stats.cut:
            echo_wrapped(f"{begins}{path}more lines match")

    def file(self, stats: SearchStats) -> dict[str, Any]:
        return super().file(stats) | {"modified": written_time(stats.modified)}

    def document(self, done: Done[SearchStats]) -> dict[str, Any]:
        return super().document(
            done._replace(files=[each for each in done.files if isinstance(each, dict) or each.hits])
        )

    def hints(self, done: Done[SearchStats]) -> None:
        super().hints(done._replace(results=[each for each in done.results if each.hits]))
        if self._has_original:
            brings = "'sessioncompress show REFERENCE SESSION' prints the text, 'restore SESSION' brings it back"
            echo_wrapped(f"(original REFERENCE): no longer in the session, but in its store; {brings}", err=True)
        if not self.silent and (more := sum(len(each.hits) for each in done.results) - self._shown):
            lines = counted(more, "line is", "lines are")
            search = f"'sessioncompress search {quote(self.given.text)} SESSION'"
            echo_wrapped(f"{lines} not shown: {search} shows those of one session, and --json all", err=True)

    def end(self, done: Done[SearchStats]) -> None:
        found = [each for each in done.results if each.hits]
        hits = sum(len(each.hits) for each in found)
        least = "at least " if any(each.cut for each in found) else ""
        head = f"total: {least}{counted(hits, 'line', 'lines')} in {len(found):,} of "
        head += counted(len(done.results), "session", "sessions")
        if shortened := sum(each.shortened for each in done.results):
            have = counted(shortened, "session has markers", "sessions have markers")
            head += f" ({have} whose originals are not here, or cannot be read, and are not searched)"
        echo_wrapped(output.with_others(head, done.others))


search = Search.command("search 'rate limit' ~/.claude/projects")
