"""Two stores that met through git, told apart from damage: both sides went on from the same originals and journal."""

from __future__ import annotations

from pathlib import Path

from sessioncompress.errors import SessionCompressError, failing
from sessioncompress.store.damage import first_changed
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import originals_of, size_of
from sessioncompress.store.originals import FRAME_BYTES, AnotherLine, OriginalsReader
from sessioncompress.store.sides import met


def refuse_if_another_sides(journal: Path, loaded: Journal) -> None:
    """Raise Met where the originals are sound, but those of another run than the one that this journal names.

    They have another length then, and where a run begins in the originals the other side has a frame too: it
    decompresses, its checksum is right, and other lines stand in it, or it ends where none of that run does. What
    rots, or is cut off, does not look like that.
    """
    originals = originals_of(journal)
    if loaded.broken or size_of(originals) in (None, loaded.store_size):
        return
    if any(_is_anothers(originals, loaded, row) for row in _beginnings(loaded)) or _ends_elsewhere(originals, loaded):
        raise met(journal, "the originals beside it are those of other runs than it names")


def _beginnings(loaded: Journal) -> list[int]:
    """Return the line record at which each run that kept originals begins."""
    first: dict[int, int] = {}
    for row in loaded.kept:
        place = loaded.line(row).place
        if place is not None:
            first.setdefault(place.frame, row)
    starts = dict.fromkeys(start for _, start in loaded.spans)
    return [first[start] for start in starts if start in first]


def _is_anothers(originals: Path, loaded: Journal, row: int) -> bool:
    record = loaded.line(row)
    assert record.place is not None
    try:
        with OriginalsReader(originals) as reader:
            reader.line(record.place, record.sha256)
    except AnotherLine:
        return True
    except SessionCompressError:
        pass
    return False


def _ends_elsewhere(originals: Path, loaded: Journal) -> bool:
    """Say whether the frames of the first run that is not there as it was written are sound, and none of its own.

    Where both sides kept the same lines first, only how many more tells them apart.
    """
    try:
        with failing(originals):
            position, end = first_changed(originals, loaded) or (0, 0)
        with OriginalsReader(originals) as reader:
            while position < end:
                content, position = reader.frame(position)
                # Every frame but the last one of a run is full.
                if position > end or (position < end and content < FRAME_BYTES):
                    return True
    except SessionCompressError:
        pass
    return False
