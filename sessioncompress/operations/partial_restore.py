"""Restore in part: whole lines where possible, elsewhere the value of each marker of ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from sessioncompress.core.jsonl import parse, parse_any, pieces_of
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.model import JsonPath, Kind, Line
from sessioncompress.core.splice import CannotSplice, splice
from sessioncompress.core.text import counted, unreadable
from sessioncompress.errors import Unreadable
from sessioncompress.formats.base import Entry, Format
from sessioncompress.operations.show import of_another, original_of, recorded
from sessioncompress.pipeline.reading import read_line
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import BlockRecord, LineRecord


class Whole(NamedTuple):
    """The rewritten lines that can be restored as a whole, by number, and those with unreadable originals."""

    lines: dict[int, LineRecord]
    unreadable: set[int]


def whole_lines(
    session: OpenSession, form: Format, swaps: Mapping[int, LineRecord], originals: OriginalsReader, journal: Path
) -> Whole:
    """Find the rewritten lines that can become their originals.

    The original must be kept and readable. A call's id that was cut in the call and its result comes back in all lines
    that name it, or in none. Raises Damaged if an original is of another entry.
    """
    kept = {number: record for number, record in swaps.items() if record.place}
    cut, unreadable = {}, set()
    for number, ids in _cut_ids(session, form, kept, originals, journal):
        if ids is None:
            unreadable.add(number)
            del kept[number]
        else:
            cut[number] = ids
    stuck = _named_elsewhere(session, form, kept, cut) if cut else set()
    while parted := [number for number, ids in cut.items() if ids & stuck]:
        for number in parted:
            stuck |= cut.pop(number)
            del kept[number]
    return Whole(kept, unreadable)


def _cut_ids(
    session: OpenSession, form: Format, kept: Mapping[int, LineRecord], originals: OriginalsReader, journal: Path
) -> Iterator[tuple[int, set[str] | None]]:
    """Yield each line whose original has longer ids, with its ids now; None if the original cannot be read."""
    for number, raw in _lines(session):
        record = kept.get(number)
        if record:
            try:
                original = original_of(raw, record, originals, journal)
            except Unreadable:
                yield number, None
                continue
            now, then = _ids(form, raw), _ids(form, original)
            if len(now) != len(then):
                raise of_another(journal)
            ids = {one for one, other in zip(now, then, strict=True) if one != other}
            if ids:
                yield number, ids


def _named_elsewhere(
    session: OpenSession, form: Format, kept: Mapping[int, LineRecord], cut: Mapping[int, set[str]]
) -> set[str]:
    ids = set[str]().union(*cut.values())
    return {each for number, raw in _lines(session) if number not in kept for each in _ids(form, raw) if each in ids}


def _lines(session: OpenSession) -> Iterator[tuple[int, bytes]]:
    return ((number, raw) for number, raw, whole in pieces_of(session.reader, session.size) if whole)


def _ids(form: Format, raw: bytes) -> list[str]:
    line = read_line(raw, form.reader())
    return [*(call.id for call in line.calls), line.answers]


class PutBack:
    """Restores the `whole` lines, and in others each value whose replacement has the digest of one of ours.

    `rewritten` are the session's rewritten and missing lines; None if the journal is another session's.
    """

    def __init__(
        self,
        form: Format,
        journal: Journal,
        originals: OriginalsReader,
        where: Path,
        whole: Whole,
        rewritten: tuple[Mapping[int, LineRecord], Sequence[LineRecord]] | None,
    ) -> None:
        self._form = form
        self._journal = journal
        self._originals = originals
        self._where = where
        self._whole = whole.lines
        self._unreadable = whole.unreadable
        self.is_own = rewritten is not None
        self._rewritten, self._missing = rewritten or ({}, ())
        self._in_part = 0
        self._forms: dict[str, LineRecord | None] = {}
        # Many markers may stand for values of one line.
        self._original = lru_cache(maxsize=2)(self._read)
        self.changed = 0
        self.unclear = 0

    def lines(self, stream: Iterator[tuple[int, bytes, bool]]) -> Iterator[bytes]:
        """Yield every line, with what can be put back."""
        for number, raw, whole in stream:
            record = self._whole.get(number)
            if record and record.place:
                self.changed += 1
                yield self._originals.line(record.place, record.sha256)
            else:
                new = self._line(number, raw) if whole and PREFIX_BYTES in raw else raw
                record = self._rewritten.get(number)
                if record and record.place and new is not raw:
                    self._note(record._replace(rewritten=sha256(new).hexdigest()))
                self._in_part += new is not raw and not self._journal.originals(sha256(new).digest())
                yield new

    def forms(self, taken: Journal) -> list[LineRecord]:
        """Return records of the lines that were restored in part, except those that could be taken for another's."""
        known = (record for record in self._forms.values() if record)
        return [record for record in known if taken.rewriting(bytes.fromhex(record.rewritten)) is None]

    def _note(self, record: LineRecord) -> None:
        is_one = self._forms.setdefault(record.rewritten, record) == record
        self._forms[record.rewritten] = record if is_one else None

    @property
    def unreadable(self) -> str:
        """Describe the lines with unreadable originals; empty if there are none."""
        return unreadable(self._unreadable)

    @property
    def left(self) -> list[str]:
        """Describe what stays: lines with unreadable originals, and markers that may be of several originals."""
        stay = counted(self.unclear, "marker that could stand", "markers that could stand")
        unclear = f"{stay} for more than one original {'stays' if self.unclear == 1 else 'stay'}"
        return [each for each in (self.unreadable, unclear if self.unclear else "") if each]

    @property
    def inexact(self) -> str:
        """Describe the rewritten lines that did not come back, or only in part; empty if all did."""
        known = len(self._rewritten) + len(self._missing)
        gone = max(known - self.changed, 0)
        parts = [f"{gone:,} did not come back"] if gone else []
        parts += [f"{self._in_part:,} came back in part"] if self._in_part else []
        if not parts:
            return ""
        never = sum(record.place is None for record in self._rewritten.values())
        why = [f"of {never:,} no original was kept"] if never else []
        if self._in_part or gone > never + len(self._unreadable):
            why.append("thinking and mirrors leave no marker")
        of = f"of {known:,} rewritten lines " if known else ""
        return of + " and ".join(parts) + (f" ({'; '.join(why)})" if why else "") + ": the session is not exact"

    def _line(self, number: int, raw: bytes) -> bytes:
        entry = parse(raw)
        if entry is None:
            return raw
        values: dict[JsonPath, object] = {}
        line = self._form.reader().line(raw, entry)
        for block in line.blocks:
            found = self._journal.replaced((block.digest, block.kind, block.call)) if block.marked else ()
            if found:
                originals = self._originals_of(number, line, map(self._journal.block, found))
                values |= self._value(block.path, originals)
        if not values:
            return raw
        try:
            new, _ = splice(raw, entry, values)
        except CannotSplice:
            return raw
        self.changed += 1
        return new

    def _value(self, path: JsonPath, found: Sequence[tuple[Kind, object]]) -> dict[JsonPath, object]:
        if len(found) != 1:
            self.unclear += len(found) > 1
            return {}
        ((kind, value),) = found
        # An image's marker is the text of the part that stands in its place: the whole part goes back.
        return {path[:-1] if kind is Kind.IMAGE else path: value}

    def _originals_of(
        self, number: int, of: Line, found: Iterable[tuple[LineRecord, BlockRecord]]
    ) -> list[tuple[Kind, object]]:
        """Return the values that a replacement may stand for; none if one of them cannot be read."""
        values: list[tuple[Kind, object]] = []
        known, unknown = set(), set()
        for line, block in found:
            if line.place is None:
                continue
            try:
                original, original_id = self._original(line)
            except Unreadable:
                unknown.add(block.xxh3)
                continue
            # A later call of the same id may have printed its marker. Forks and migrations keep the ids of entries;
            # before a migration there may have been none.
            if original is not None and (not of.id or original_id in ("", of.id, of.facts.copy_of or of.id)):
                value = block.kind, recorded(original, block, self._where)
                known.add(block.xxh3)
                values += [value] if value not in values else []
        if unknown <= known:
            return values
        self._unreadable.add(number)
        return []

    def _read(self, line: LineRecord) -> tuple[Entry | None, str]:
        assert line.place is not None
        raw = self._originals.line(line.place, line.sha256)
        return parse_any(raw), read_line(raw, self._form.reader()).id
