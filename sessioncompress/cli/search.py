"""`search`: find what was said in sessions, packed ones too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Each, SessionCommand
from sessioncompress.cli.tables import echo_wrapped, is_seen, shown
from sessioncompress.core import jsonl
from sessioncompress.core.checkpoint import Said, Say
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.text import counted, printable, utf8
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.sessions import given_title
from sessioncompress.pipeline import reading
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_at
from sessioncompress.store.lock import open_session

_SHOWN = 160
"""Characters of a line that are shown, around what was found."""
_MOST = 1000
"""Places in one session."""


class Hit(Struct, frozen=True, rename="camel"):
    """One line in which a text was found: its turn, counted from 1, None above the first; and whose words it is of."""

    turn: int | None
    said: str
    line: str


class SearchStats(Struct, frozen=True, rename="camel"):
    """The places in one session that hold a text.

    `cut`: more places exist. `shortened`: some text was replaced. `made_elsewhere`: there are hits, and not all runs of
    the session's store are this user's, on this machine.
    """

    path: str
    packed: bool
    hits: tuple[Hit, ...]
    cut: bool = False
    shortened: bool = False
    made_elsewhere: bool = False


def search_session(path: Path, text: str, policy: Policy = BALANCED, *, packed: bool = False) -> SearchStats:
    """Find a text, in letters of either case, in what was said in a session. Raises SessionCompressError."""
    folded = text.casefold()
    # Of ASCII, JSON writes these two otherwise than they are said.
    plain = folded.encode() if folded.isascii() and folded.isprintable() and not set(folded) & {'"', "\\"} else b""
    hits: list[Hit] = []
    with open_session(path, writing=False) as session:
        form = reading.format_of(session, head=(head := reading.head_in(session)))
        reader = form.reader()
        if folded in (title := given_title(session, form, head)).casefold():
            hits.append(Hit(None, "title", title))
        turn, shortened = 0, False
        for _, raw, whole in jsonl.pieces_of(session.reader, session.size):
            shortened = shortened or PREFIX_BYTES in raw
            if not whole or (entry := jsonl.parse(raw)) is None:
                continue
            # Most lines do not hold it, and to look for it in their bytes is faster.
            may_hold = not plain or plain in raw.lower()
            for said in reader.said(entry):
                turn += said.say is Say.PROMPT
                if may_hold and said.say is not Say.CARRIED:
                    hits += (Hit(turn or None, said.say.value, line) for line in _lines(said, folded))
            if len(hits) > _MOST:
                break
    elsewhere = False
    if hits:
        # The search goes on without a store that cannot be read.
        with suppress(SessionCompressError):
            elsewhere = not journals.load(store_at(path, policy).journal).is_ours
    return SearchStats(str(path), packed, tuple(hits[:_MOST]), len(hits) > _MOST, shortened, elsewhere)


def _lines(said: Said, folded: str) -> Iterator[str]:
    """Yield the lines of what was said that hold a text, each cut to what stands around it."""
    for content in said.contents():
        if folded not in content.casefold():
            continue
        for line in content.splitlines():
            at = line.casefold().find(folded)
            if at >= 0:
                start = max(0, min(at - _SHOWN // 4, len(line) - _SHOWN))
                yield utf8(line[start : start + _SHOWN])


class Search(SessionCommand[SearchStats]):
    """Search what was said in sessions, packed ones too."""

    urls = packed = True
    first = (click.argument("text"),)
    flags = (options.JSON,)
    hands = ("text",)
    all_with = None

    @staticmethod
    def work(each: Each, text: str) -> SearchStats:
        return search_session(each.path, text, each.policy, packed=each.packed)

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
            turn = f"{path}turn {hit.turn:,}, " if hit.turn else path
            echo_wrapped(f"{begins}{turn}{hit.said}: {printable(hit.line)}")
        if stats.cut:
            echo_wrapped(f"{begins}{path}more lines match")

    def document(self, done: Done[SearchStats]) -> dict[str, Any]:
        return super().document(
            done._replace(files=[each for each in done.files if isinstance(each, dict) or each.hits])
        )

    def hints(self, done: Done[SearchStats]) -> None:
        super().hints(done._replace(results=[each for each in done.results if each.hits]))

    def end(self, done: Done[SearchStats]) -> None:
        found = [each for each in done.results if each.hits]
        hits = sum(len(each.hits) for each in found)
        least = "at least " if any(each.cut for each in found) else ""
        head = f"total: {least}{counted(hits, 'line', 'lines')} in {len(found):,} of "
        head += counted(len(done.results), "session", "sessions")
        if shortened := sum(each.shortened for each in done.results):
            have = counted(shortened, "session has markers", "sessions have markers")
            head += f" ({have} in place of text, which is not searched)"
        echo_wrapped(output.with_others(head, done.others))


search = Search.command("search 'rate limit' ~/.claude/projects")
