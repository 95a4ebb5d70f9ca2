"""Count rewritten lines that were altered since: they tell damage from an older state of a session."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from sessioncompress.core.jsonl import Piece, is_readable, parse, pieces_of
from sessioncompress.core.marker import PREFIX_BYTES, adds_up, references
from sessioncompress.core.model import Line, OurKey
from sessioncompress.errors import NotASession
from sessioncompress.formats.base import Entry, Format
from sessioncompress.formats.values import entry_of
from sessioncompress.operations.show import begin_alike, identity
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.rewrite import value_at
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord

_STRETCH: Final = 32
"""Bytes. A marker is longer, so that no line without one is this near to a line with one."""
_LONG_ENOUGH: Final = 64
"""Bytes. Many lines begin with fewer equal bytes."""
_NAMED: Final = re.compile(r"\b([0-9a-f]{12,64})(?=\]|; the tool)")
"""The reference at the end of a marker."""
_MOST_TWINS: Final = 16 << 20
"""Bytes of rewritten lines that are kept for comparison."""
_MOST_COMPARED: Final = 1 << 18
"""Comparisons. Each line may be of the size of each that is kept."""


def altered(
    session: OpenSession,
    journal: Journal,
    found: reading.RewrittenLines,
    missing: Sequence[LineRecord],
    originals: Path,
    form: str | None,
) -> int:
    """Count the rewritten lines of a session that were changed or cut off since.

    `found` and `missing` are what find() returned; all other lines are known by their SHA-256. If no line is altered,
    the session is an older state of itself, or lines were deleted, and the others can be restored exactly. In a file
    that is no session, or has another id, all missing lines count. Raises Unreadable if a missing line's original,
    which would have to be compared, cannot be read.

    Of what a restore took back no line is looked for: whoever changed it since changed what the agent wrote.
    """
    missing = [each for each in missing if not journal.is_of(bytes.fromhex(each.sha256), found.taken_back)]
    fewer = found.fewer.union(record.sha256 for record in missing)
    if not fewer:
        return 0
    known = None
    with suppress(NotASession):
        known = reading.format_of(session, form)
    twins = _Twins(known, session, journal, {bytes.fromhex(digest) for digest in fewer})
    gone = [record for record in missing if record.sha256 not in twins.digests]
    if known is None:
        read = pieces_of(session.reader, session.size)
        return len(gone) + sum(whole and twins.are_near(raw) for _, raw, whole in read)
    name = known.named(reading.head_in(session))
    if gone and name.id and journal.session_ids and name.id not in journal.session_ids:
        return len(gone)
    lost = _Lost(known, journal, gone, twins, originals)
    return sum(map(lost.stands_in, pieces_of(session.reader, session.size)))


class _Twins:
    """The remaining lines of originals that had several copies; `digests` are the SHA-256 of these originals.

    An id alone does not identify the other copies: an agent writes an entry again as it grows, or numbers its calls
    anew in each answer, and an older state of a session holds some of these. So a line counts as an altered copy if it
    differs from one in a few bytes, is the beginning of one, or has a marker that names the same original.
    """

    def __init__(self, form: Format | None, session: OpenSession, journal: Journal, fewer: Container[bytes]) -> None:
        self.digests: set[str] = set()
        self._names: set[str | int] = set()
        self._lines: set[bytes] = set()
        held = 0
        for _, raw, whole in pieces_of(session.reader, session.size):
            if not whole:
                continue
            digest = sha256(raw).digest()
            row = reading.row_of(raw, digest, journal)
            newest = reading.original_in(raw, digest, row, journal)
            if newest is None or journal.original_of(newest) not in fewer:
                continue
            self.digests.add(journal.original_of(newest).hex())
            if form is not None and (entry := _entry(raw)) is not None:
                self._names.add(_name(form.reader().line(raw, entry), entry))
            text = raw.removesuffix(b"\n")
            if row is not None and text not in self._lines and held + len(text) <= _MOST_TWINS:
                self._lines.add(text)
                held += len(text)
        self._left = _MOST_COMPARED
        self._sorted = sorted(self._lines)
        self._by_size: dict[int, list[bytes]] = {}
        for text in self._sorted:
            self._by_size.setdefault(len(text) // _STRETCH, []).append(text)
        rows = (row for digest in self.digests for row in journal.originals(bytes.fromhex(digest)))
        self._references = {block.ref for row in rows for block in journal.blocks_of(row)}

    def are_near(self, raw: bytes) -> bool:
        """Tell whether a line differs in a few bytes from one that is kept, or is the beginning of one.

        Where too many would have to be compared it counts as one: then nothing is restored, and nothing is lost.
        """
        text = raw.removesuffix(b"\n")
        at = bisect_left(self._sorted, text)
        if len(text) >= _LONG_ENOUGH and any(each.startswith(text) for each in self._sorted[at : at + 1]):
            return True
        size = len(text) // _STRETCH
        twins = (each for about in (size - 1, size, size + 1) for each in self._by_size.get(about, ()))
        for each in twins:
            self._left -= 1
            if not self._left:
                return True
            if PREFIX_BYTES in each or begin_alike(text, each):
                before = _alike(text, each)
                behind = _alike(text[before:][::-1], each[before:][::-1])
                if max(len(text), len(each)) - before - behind < _STRETCH:
                    return True
        return False

    def are_named(self, raw: bytes, line: Line, entry: Entry) -> bool:
        if not self._references:
            return False
        is_one = _name(line, entry) in self._names
        text = raw.decode(errors="replace")
        # Tools print whole markers, with other text around them. Only a broken marker counts without the id.
        if not self._references.isdisjoint(set(_NAMED.findall(text)).difference(references(text))):
            return is_one or not line.id
        if not is_one:
            return False
        with suppress(ValueError, TypeError, LookupError, RecursionError):
            texts = [value_at(entry, block.path) for block in line.blocks if block.marked]
            return any(adds_up(text) and not self._references.isdisjoint(references(text)) for text in texts)
        return False


class _Lost:
    """The missing originals, by the ids and replacements that show an altered line."""

    def __init__(
        self, form: Format, journal: Journal, gone: Sequence[LineRecord], twins: _Twins, originals: Path
    ) -> None:
        self._form = form
        self._journal = journal
        self._twins = twins
        self._gone = bool(gone)
        self._digests = {record.sha256 for record in gone} | twins.digests
        self._ours = {bytes.fromhex(line) for each in journal.checkpoints for line in each.lines}
        """What we wrote, which may name any original."""
        self._known: dict[OurKey, bool] = {}
        """What _stands_for() found, of replacements that many values have."""
        self._entries: set[str | int] = set()
        self._heads: set[bytes] = set()
        kept = [(record.place, record.sha256) for record in gone if record.place]
        if kept:
            with closing(OriginalsReader(originals)) as reader:
                for place, digest in sorted(kept):
                    raw = reader.line(place, digest)
                    self._heads.add(_head(raw))
                    if (entry := _entry(raw)) is not None:
                        self._entries.add(_name(form.reader().line(raw, entry), entry))

    def stands_in(self, piece: Piece) -> bool:
        _, raw, whole = piece
        if not whole or not raw.strip():
            return False
        for form in (raw,) if raw.endswith(b"\n") else (raw, raw + b"\n"):
            digest = sha256(form).digest()
            in_journal = self._journal.rewriting(digest) is not None or self._journal.original(digest) is not None
            if digest in self._ours or in_journal:
                return False
        if self._twins.are_near(raw):
            return True
        entry = _entry(raw)
        if entry is None:
            # Tools print what no parser reads: of such a line only its head tells, and nothing where it was cut off.
            return self._gone and (not raw.endswith(b"\n") or _head(raw) in self._heads)
        line = self._form.reader().line(raw, entry)
        if _name(line, entry) in self._entries:
            return True
        if any(self._stands_for((block.digest, block.kind, block.call)) for block in line.blocks if block.marked):
            return True
        return self._twins.are_named(raw, line, entry)

    def _stands_for(self, key: OurKey) -> bool:
        """Tell whether a replacement of ours stands for a value of a missing original."""
        if (known := self._known.get(key)) is None:
            rows = self._journal.replaced(key)
            known = any(self._journal.block(row)[0].sha256 in self._digests for row in rows)
            if len(rows) > 1:
                self._known[key] = known
        return known


def _entry(raw: bytes) -> Entry | None:
    # A message of a document has no LF.
    return parse(raw) or (entry_of(raw, ()) if is_readable(raw) else None)


def _name(line: Line, entry: Entry) -> str | int:
    return line.id or identity(entry)


def _head(raw: bytes) -> bytes:
    # Before the first object stand the type, and an id or a time.
    return raw[: raw.find(b"{", 1)]


def _alike(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
