"""Whether the journal and the originals are, to the bit, as the runs wrote them."""

from __future__ import annotations

import os
from hashlib import sha256
from itertools import pairwise

from sessioncompress.errors import NOT_CHANGED, Damaged, failing
from sessioncompress.store import reading
from sessioncompress.store.beside import Beside
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import open_file

_FRAME = b"\x28\xb5\x2f\xfd"
"""How every zstd frame begins."""


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


def ends_where_it_says(files: Beside, journal: Journal) -> bool:
    """Say whether the originals that the journal's runs wrote end where it says, and more may follow from there on.

    The last run's are compared with its SHA-256; of a journal of version 0.1.0 only what follows is looked at: a frame,
    or the nothing that a power cut leaves where one was to be.
    """
    spans = pairwise([0, *(run.store_size for run in journal.runs)])
    last = next(
        ((run, start) for run, (start, end) in reversed(list(zip(journal.runs, spans, strict=True))) if end > start),
        None,
    )
    if last is None:
        return True
    run, start = last
    fd = open_file(files.originals)
    try:
        if run.originals_sha256:
            return digest(fd, start, run.store_size) == run.originals_sha256
        following = os.pread(fd, len(_FRAME), run.store_size)
    finally:
        os.close(fd)
    return _FRAME.startswith(following) or not following.strip(b"\0")


def _compare(files: Beside, journal: Journal) -> None:
    fd = open_file(files.originals)
    try:
        start = 0
        for run in journal.runs:
            if run.originals_sha256 and digest(fd, start, run.store_size) != run.originals_sha256:
                raise Damaged(
                    f"what a run wrote to bytes {start:,} to {run.store_size:,} is not the same any more",
                    where=files.originals,
                    state=NOT_CHANGED,
                    remedy="Put the file back from a backup.",
                )
            start = run.store_size
    finally:
        os.close(fd)


def digest(fd: int, start: int, end: int) -> str:
    """Return the SHA-256 of a span of a file, or of what there is of it."""
    found = sha256()
    with reading.reader(fd, start, end) as file:
        while piece := file.read(reading.BUFFER):
            found.update(piece)
    return found.hexdigest()
