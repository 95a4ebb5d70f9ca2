"""The value that a record of the journal names, looked up in its original line and compared with the record."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from xxhash import xxh3_64_hexdigest

from sessioncompress.core.marker import content_of
from sessioncompress.core.model import Kind
from sessioncompress.core.splice import CannotSplice
from sessioncompress.errors import NOT_CHANGED, Damaged
from sessioncompress.formats.base import Entry
from sessioncompress.pipeline.rewrite import value_at
from sessioncompress.store.records import BlockRecord

_TYPES: dict[Kind, type] = {Kind.ARGUMENT: str, Kind.RESULT: str, Kind.IMAGE: dict, Kind.ATTACHMENT: str}
"""What a value must be that goes back where a marker stands; of thinking none does, in a mirror only of a text."""


def recorded(original: Entry | None, block: BlockRecord, journal: Path) -> Any:
    """Return the value. Raises Damaged where the line holds none of that type, size and digest at its place."""
    # A value that is nested too deep to be written is a TypeError.
    with suppress(CannotSplice, TypeError):
        value = value_at(original or {}, block.path)
        if isinstance(value, _TYPES.get(block.kind, object)) and _agrees(content_of(value, block.kind), block):
            return value
    raise Damaged(
        f"the original of reference {block.ref} is not what the journal says",
        where=journal,
        state=NOT_CHANGED,
        remedy="Put the journal and the originals back from a backup.",
    )


def _agrees(content: bytes, block: BlockRecord) -> bool:
    return len(content) == block.bytes and xxh3_64_hexdigest(content) == block.xxh3
