"""`search`: find text in the conversations of sessions, including packed ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Each, SessionCommand
from sessioncompress.cli.tables import echo_wrapped, is_seen, pasted
from sessioncompress.core import jsonl
from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.text import counted, printable, quote, utf8
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.sessions import given_title
from sessioncompress.pipeline import reading
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_at
from sessioncompress.store.lock import open_session

_SHOWN = 160
"""Maximum characters shown of a line, around the match."""
_MOST = 1000
"""Maximum matches in one session."""
_EACH, _ALL = 10, 100
"""Maximum matches printed of each session and of all, if there are several."""


class Hit(Struct, frozen=True, rename="camel"):
    """One line with a match: its turn, counted from 1, or None before the first, and the role of its author."""

    turn: int | None
    said: str
    line: str


class SearchStats(Struct, frozen=True, rename="camel"):
    """The matches in one session.

    `cut` is set if there are more matches, `shortened` if some text was replaced. `made_elsewhere` is set if there are
    matches and not all runs of the session's store are this user's on this machine.
    """

    path: str
    packed: bool
    hits: tuple[Hit, ...]
    cut: bool = False
    shortened: bool = False
    made_elsewhere: bool = False


def search_session(path: Path, text: str, policy: Policy = BALANCED, *, packed: bool = False) -> SearchStats:
    """Find a text in a session's conversation, ignoring case. Raises SessionCompressError."""
    folded = text.casefold()
    # JSON escapes these two ASCII characters.
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
            # Searching the bytes first is faster, because most lines don't match.
            may_hold = not plain or plain in raw.lower()
            for said in reader.said(entry):
                turn += said.say is Say.PROMPT
                if may_hold and said.say is not Say.CARRIED:
                    hits += (Hit(turn or None, said.say.value, line) for line in _lines(said, folded))
            if len(hits) > _MOST:
                break
    elsewhere = False
    if hits:
        # Search even if the store can't be read.
        with suppress(SessionCompressError):
            elsewhere = not journals.load(store_at(path, policy).journal).is_ours
    return SearchStats(str(path), packed, tuple(hits[:_MOST]), len(hits) > _MOST, shortened, elsewhere)


def _lines(said: Utterance, folded: str) -> Iterator[str]:
    """Yield the lines of a message that contain a text, each cut around the match."""
    for content in said.contents():
        if folded not in content.casefold():
            continue
        for line in content.splitlines():
            at = line.casefold().find(folded)
            if at >= 0:
                start = max(0, min(at - _SHOWN // 4, len(line) - _SHOWN))
                yield utf8(line[start : start + _SHOWN])


class Search(SessionCommand[SearchStats]):
    """Search the conversations in sessions, packed ones too."""

    urls = packed = True
    first = (click.argument("text"),)
    flags = (options.JSON,)
    hands = ("text",)
    all_with = None
    _shown = 0
    """Matches that were printed."""

    @staticmethod
    def work(each: Each, text: str) -> SearchStats:
        return search_session(each.path, text, each.policy, packed=each.packed)

    def refuse(self) -> None:
        if not self.given.text:
            raise click.UsageError("the text is empty")

    def say(self, stats: SearchStats) -> None:
        if self.silent:
            return
        hits = stats.hits if self.chosen.is_one else stats.hits[: min(_EACH, _ALL - self._shown)]
        self._shown += len(hits)
        if not hits:
            return
        packed = " (packed)" if stats.packed else ""
        # In a terminal, print the path once above its matches, and whole, so that it can be copied.
        path, begins = f"{printable(stats.path)}{packed}: ", ""
        if is_seen():
            click.echo(printable(f"{pasted(stats.path)}{packed}"))
            path, begins = "", "  "
        for hit in hits:
            turn = f"{path}turn {hit.turn:,}, " if hit.turn else path
            echo_wrapped(f"{begins}{turn}{hit.said}: {printable(hit.line)}")
        if more := len(stats.hits) - len(hits):
            least = "at least " if stats.cut else ""
            echo_wrapped(f"{begins}{path}{least}{counted(more, 'more line matches', 'more lines match')}")
        elif stats.cut:
            echo_wrapped(f"{begins}{path}more lines match")

    def document(self, done: Done[SearchStats]) -> dict[str, Any]:
        return super().document(
            done._replace(files=[each for each in done.files if isinstance(each, dict) or each.hits])
        )

    def hints(self, done: Done[SearchStats]) -> None:
        super().hints(done._replace(results=[each for each in done.results if each.hits]))
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
            head += f" ({have} in place of text, which is not searched)"
        echo_wrapped(output.with_others(head, done.others))


search = Search.command("search 'rate limit' ~/.claude/projects")
