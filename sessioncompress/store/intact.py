"""Whether the journal and the originals are, to the bit, as the runs wrote them."""

from __future__ import annotations

import os
from hashlib import sha256

from sessioncompress.errors import NOT_CHANGED, Damaged, failing
from sessioncompress.store import reading
from sessioncompress.store.beside import Beside
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import open_file


def refuse_if_changed(files: Beside, journal: Journal) -> None:
    """Raise Damaged where a bit of either is another than was written; FileFailed where there is none to read."""
    if journal.broken:
        raise Damaged(
            "what a run wrote to the journal is not the same any more",
            where=files.journal,
            line=journal.broken,
            state=NOT_CHANGED,
            remedy="Put the journal back from a backup. Until then restore compares every line with its SHA-256.",
        )
    if any(run.originals_sha256 for run in journal.runs):
        with failing(files.originals):
            _compare(files, journal)


def _compare(files: Beside, journal: Journal) -> None:
    fd = open_file(files.originals)
    try:
        start = 0
        for run in journal.runs:
            if run.originals_sha256 and _digest(fd, start, run.store_size) != run.originals_sha256:
                raise Damaged(
                    f"what a run wrote to bytes {start:,} to {run.store_size:,} is not the same any more",
                    where=files.originals,
                    state=NOT_CHANGED,
                    remedy="Put the file back from a backup.",
                )
            start = run.store_size
    finally:
        os.close(fd)


def _digest(fd: int, start: int, end: int) -> str:
    found = sha256()
    with reading.reader(fd, start, end) as file:
        while piece := file.read(reading.BUFFER):
            found.update(piece)
    return found.hexdigest()
