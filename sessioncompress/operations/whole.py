"""Which rewritten lines can go back whole where not all can: no call is parted from its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sessioncompress.core.jsonl import pieces_of
from sessioncompress.errors import Unreadable
from sessioncompress.formats.base import Format
from sessioncompress.operations.entries import of_another, original_of
from sessioncompress.pipeline.reading import read_line
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord


class Whole(NamedTuple):
    """The rewritten lines that can go back whole, by number, and those whose originals cannot be read."""

    lines: dict[int, LineRecord]
    unreadable: set[int]


def whole_lines(
    session: OpenSession, form: Format, swaps: Mapping[int, LineRecord], originals: OriginalsReader, journal: Path
) -> Whole:
    """Return those of a session's rewritten lines that can become their originals.

    An original must be kept, and readable. Where the id of a call was cut, it was cut in the call and in its result:
    the longer one comes back in all lines that name it, or in none. Raises Damaged where an original is of another
    entry.
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
    """Yield the lines whose originals have longer ids, with the ids as they are now; None: it cannot be read."""
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
    """Return which of the cut ids stand in lines that cannot become their originals."""
    ids = set[str]().union(*cut.values())
    return {each for number, raw in _lines(session) if number not in kept for each in _ids(form, raw) if each in ids}


def _lines(session: OpenSession) -> Iterator[tuple[int, bytes]]:
    return ((number, raw) for number, raw, whole in pieces_of(session.reader, session.size) if whole)


def _ids(form: Format, raw: bytes) -> list[str]:
    """Return the ids of the calls that a line makes or answers, as they stand there."""
    line = read_line(raw, form.reader())
    return [*(call.id for call in line.calls), line.answers]
