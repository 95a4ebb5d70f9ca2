"""Whether the original that a journal names for a rewritten line is of the same entry, before it takes its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sessioncompress.core.marker import PREFIX
from sessioncompress.errors import NOT_CHANGED, Damaged
from sessioncompress.formats.base import Entry
from sessioncompress.formats.openai_chat import CLEARED
from sessioncompress.formats.values import SMALLEST_BLOCK
from sessioncompress.pipeline.reading import parse_any
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord

_LONG_ENOUGH = 64
"""Bytes of a head that hold, besides the type, an id or a time."""


def original_of(raw: bytes, record: LineRecord, originals: OriginalsReader, journal: Path) -> bytes:
    """Return the original of a rewritten line that has one, with an LF where the line has one.

    Raises Damaged where it is that of another entry.
    """
    assert record.place is not None
    original = originals.line(record.place, record.sha256)
    if not begin_alike(raw, original) and identity(parse_any(raw)) != identity(parse_any(original)):
        raise of_another(journal)
    # A message that stood in a line of its own, and now among others.
    return original if raw.endswith(b"\n") else original.removesuffix(b"\n")


def identity(entry: Entry | None) -> int:
    """Return what tells entries apart that no rewriting changes: all but what is inside of objects and arrays.

    A text that is long, or was until a marker or an agent's own words took its place, may be replaced too.
    """
    return hash(tuple((key, value) for key, value in (entry or {}).items() if not _may_change(value)))


def _may_change(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) >= SMALLEST_BLOCK or PREFIX in value or CLEARED.fullmatch(value) is not None
    return isinstance(value, (dict, list))


def of_another(journal: Path) -> Damaged:
    """Make the error for a journal that mixes up two lines."""
    return Damaged(
        "it names the original of another entry for a line of the session",
        where=journal,
        state=NOT_CHANGED,
        remedy="Put the journal back from a backup.",
    )


def begin_alike(raw: bytes, original: bytes) -> bool:
    """Say whether the same id or time stands before the first object in both: most lines need no parsing."""
    start = raw.find(b"{", 1)
    return start >= _LONG_ENOUGH and raw[:start] == original[:start]
