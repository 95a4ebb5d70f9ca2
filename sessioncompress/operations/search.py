"""Find a text in a session's conversation, and in the originals of what runs took out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from itertools import chain
from pathlib import Path

from msgspec import Struct

from sessioncompress.core import jsonl
from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.references import content_of
from sessioncompress.core.splice import CannotSplice
from sessioncompress.core.text import utf8
from sessioncompress.errors import SessionCompressError
from sessioncompress.formats.base import Entry
from sessioncompress.operations.matching import original_of
from sessioncompress.operations.sessions import given_title, title_in
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.rewrite import value_at
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import store_at
from sessioncompress.store.lock import open_session
from sessioncompress.store.originals import OriginalsReader

_SHOWN = 160
"""Maximum characters shown of a line, around the match."""
_MOST = 1000
"""Maximum matches in one session."""


class Hit(Struct, frozen=True, rename="camel"):
    """One line with a match: its turn, counted from 1, or None before the first, and the role of its author.

    `replaced` is set if the session no longer has the line, and its original does; `ref` is then the reference of the
    text that has it, or empty if it has none.
    """

    turn: int | None
    said: str
    line: str
    replaced: bool = False
    ref: str = ""


class SearchStats(Struct, frozen=True, rename="camel"):
    """The matches in one session.

    `cut` is set if there are more matches, `shortened` if it has markers whose originals could not be searched.
    `made_elsewhere` is set if there are matches and not all runs of the session's store are this user's on this
    machine. `agent`, `project`, `title` and `modified` are as in the list of sessions.
    """

    path: str
    packed: bool
    hits: tuple[Hit, ...]
    cut: bool = False
    shortened: bool = False
    made_elsewhere: bool = False
    agent: str = ""
    project: str = ""
    title: str = ""
    modified: float = 0


def search_session(path: Path, text: str, policy: Policy = BALANCED, *, packed: bool = False) -> SearchStats:
    """Find a text in a session's conversation, ignoring case. Raises SessionCompressError."""
    folded = text.casefold()
    # JSON escapes these two ASCII characters.
    plain = folded.encode() if folded.isascii() and folded.isprintable() and not set(folded) & {'"', "\\"} else b""
    hits: list[Hit] = []
    with open_session(path, writing=False) as session, _Originals(session.path, policy) as kept:
        form = reading.format_of(session, head=(head := reading.head_in(session)))
        reader, before = form.reader(), form.reader()
        if folded in (title := given_title(session, form, head)).casefold():
            hits.append(Hit(None, "title", title))
        turn, shortened = 0, False
        moved = ((*piece, False) for piece in kept.moved())
        there = ((*piece, True) for piece in jsonl.pieces_of(session.reader, session.size))
        for _, raw, whole, is_there in chain(moved, there):
            was = kept.of(raw) if whole else None
            shortened = shortened or (was is None and PREFIX_BYTES in raw)
            if not whole or (entry := jsonl.parse(raw)) is None:
                continue
            found: list[Hit] = []
            for said in reader.said(entry):
                turn += is_there and said.say is Say.PROMPT
                # Searching the bytes first is faster, because most lines don't match.
                if not plain or plain in raw.lower():
                    found += (Hit(turn or None, said.say.value, line, not is_there) for line in _lines(said, folded))
            if was is not None:
                left, found, entry = {each.line for each in found if is_there}, [], jsonl.parse(was) or {}
                texts: list[tuple[str, str]] | None = None
                for said in before.said(entry) if not plain or plain in was.lower() else ():
                    for each in _lines(said, folded):
                        if is_gone := each not in left:
                            texts = kept.texts(raw, entry) if texts is None else texts
                        ref = next((ref for ref, text in texts or () if is_gone and each in text), "")
                        found.append(Hit(turn or None, said.say.value, each, is_gone, ref))
            hits += found
            if len(hits) > _MOST:
                break
        return SearchStats(
            str(path),
            packed,
            tuple(hits[:_MOST]),
            len(hits) > _MOST,
            shortened,
            bool(hits) and not kept.journal.is_ours,
            form.name,
            form.named(head).project,
            title or (title_in(session, form, head) if hits else ""),
            session.stat.st_mtime,
        )


class _Originals(OriginalsReader):
    """Reads what runs took out of a session. What can't be read is passed over."""

    def __init__(self, path: Path, policy: Policy) -> None:
        store = store_at(path, policy)
        super().__init__(store.originals)
        self._journal_path, self.journal = store.journal, journals.Journal()
        with suppress(SessionCompressError):
            self.journal = journals.load(store.journal)

    def of(self, raw: bytes) -> bytes | None:
        """Return a line's original, or None if no run rewrote it."""
        if self.journal.counts[0] and (row := reading.row_of(raw, sha256(raw).digest(), self.journal)) is not None:
            record = self.journal.placed(row)
            with suppress(SessionCompressError):
                if record.place is not None:
                    return original_of(raw, record, self, self.journal, self._journal_path)
        return None

    def texts(self, raw: bytes, was: Entry) -> list[tuple[str, str]]:
        """Return the replaced texts of a line's original, each with its reference."""
        row, found = reading.row_of(raw, sha256(raw).digest(), self.journal), []
        rows = () if row is None else self.journal.originals(self.journal.original_of(row))
        for block in chain.from_iterable(map(self.journal.blocks_of, rows)):
            with suppress(CannotSplice, TypeError):
                content = content_of(value_at(was, block.path), block.kind)
                found.append((block.ref, content.decode(errors="replace")))
        return found

    def moved(self) -> Iterator[jsonl.Piece]:
        """Yield the pieces of the lines that `compact` moved out of the session."""
        for part in (part for each in self.journal.checkpoints if not each.ended for part in each.dropped):
            with suppress(SessionCompressError):
                lines = BytesIO(self.line(part.place, part.sha256))
                yield from jsonl.with_updates((0, raw, True) for raw in lines)


def _lines(said: Utterance, folded: str) -> Iterator[str]:
    """Yield the lines of a message that contain a text, each cut around the match; none of a repeated one."""
    for content in said.contents() if said.say is not Say.CARRIED else ():
        if folded not in content.casefold():
            continue
        for line in content.splitlines():
            at = line.casefold().find(folded)
            if at >= 0:
                start = max(0, min(at - _SHOWN // 4, len(line) - _SHOWN))
                yield utf8(line[start : start + _SHOWN])
