"""The records of a run under way: given back as they were added, and found by their line."""

from __future__ import annotations

import pytest

from sessioncompress.core.model import Kind
from sessioncompress.store.originals import Place
from sessioncompress.store.records import BlockRecord, LineRecord, PendingRecords

NUMBERS = [3, 4, 900, 70_000]
BLOCK = BlockRecord("0" * 12, 3, ("message", "content", 0, "text"), Kind.RESULT, "bash", "c1", 9, 1, "0" * 16)


def original(number: int) -> bytes:
    """Return a digest for a line."""
    return number.to_bytes(32, "big")


def rewritten(number: int) -> bytes:
    """Return another one."""
    return original(number)[::-1]


@pytest.fixture
def pending() -> PendingRecords:
    """Four lines: one kept now, one kept earlier, one without an original, and one without blocks."""
    records = PendingRecords()
    records.add(3, original(3), rewritten(3), Place(100, 0, 7), BLOCK.encode())
    records.add(4, original(4), rewritten(4), Place(0, 8, 9), BLOCK.encode() * 2)
    records.add(900, original(900), rewritten(900), None, BLOCK.encode())
    records.add(70_000, original(70_000), rewritten(70_000), Place(100, 7, 5), b"")
    return records


def test_records_are_written_with_the_places_of_their_originals(pending: PendingRecords) -> None:
    """Each line's record, then those of its blocks."""
    there = [Place(100, 0, 7), Place(0, 8, 9), None, Place(100, 7, 5)]
    blocks = [1, 2, 1, 0]
    written = b"".join(pending.encode())
    assert written == b"".join(
        LineRecord(original(number).hex(), place, rewritten(number).hex(), edit=True).encode() + BLOCK.encode() * count
        for number, place, count in zip(NUMBERS, there, blocks, strict=True)
    )
    assert pending.size == len(written)
    assert (len(pending), pending.blocks) == (4, 4)


def test_records_of_some_lines(pending: PendingRecords) -> None:
    """A run that does not pay is rehearsed with them."""
    assert list(pending.of({4, 70_000})) == [
        LineRecord(original(4).hex(), Place(0, 8, 9), rewritten(4).hex(), edit=True),
        BLOCK,
        BLOCK,
        LineRecord(original(70_000).hex(), Place(100, 7, 5), rewritten(70_000).hex(), edit=True),
    ]
