"""Whether the journal and the originals are, to the bit, as the runs wrote them."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from shlex import quote

from sessioncompress.errors import NOT_CHANGED, Damaged, failing
from sessioncompress.store import reading
from sessioncompress.store.journal import ONE_SIDE, Journal
from sessioncompress.store.layout import Beside
from sessioncompress.store.lock import open_file
from sessioncompress.store.originals import FRAME_MAGIC


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
    with failing(files.originals):
        changed = _first_changed(files.originals, journal)
    if changed is not None:
        start, end = changed
        raise Damaged(
            f"what a run wrote to bytes {start:,} to {end:,} is not the same any more",
            where=files.originals,
            state=NOT_CHANGED,
            remedy="Put the file back from a backup.",
        )


def _first_changed(originals: Path, journal: Journal) -> tuple[int, int] | None:
    """Return where the originals begin and end of the first run whose SHA-256 is not that of what is there."""
    spans = [(run.originals_sha256, start, run.store_size) for run, start in journal.spans if run.originals_sha256]
    if not spans:
        return None
    fd = open_file(originals)
    try:
        return next(((start, end) for wanted, start, end in spans if digest(fd, start, end) != wanted), None)
    finally:
        os.close(fd)


def refuse_if_of_another(files: Beside, journal: Journal) -> None:
    """Raise Damaged where the journal is not that of these originals: what lies behind its end is no trace then.

    Cutting it off would leave a frame without its end, and no line in it could be read again.
    """
    if not _ends_where_it_says(files, journal):
        raise Damaged(
            f"it is not the journal of {files.originals.name}, which does not end, nor go on, where the journal says",
            where=files.journal,
            state="The session and its originals are not changed.",
            remedy="Put the journal that was written with them back, or the originals that belong to this one. "
            f"{ONE_SIDE} 'zstd -dc {quote(files.originals.name)}' prints all that are there.",
        )


def _ends_where_it_says(files: Beside, journal: Journal) -> bool:
    """Say whether the originals that the journal's runs wrote end where it says, and more may follow from there on.

    The last run's are compared with its SHA-256; of a journal of version 0.1.0 only what follows is looked at: a frame,
    or the nothing that a power cut leaves where one was to be.
    """
    last = next(((run, start) for run, start in reversed(list(journal.spans)) if run.store_size > start), None)
    if last is None:
        return True
    run, start = last
    fd = open_file(files.originals)
    try:
        wanted: str = run.originals_sha256
        if wanted:
            return digest(fd, start, run.store_size) == wanted
        following = os.pread(fd, len(FRAME_MAGIC), run.store_size)
    finally:
        os.close(fd)
    return FRAME_MAGIC.startswith(following) or not following.strip(b"\0")


def digest(fd: int, start: int, end: int) -> str:
    """Return the SHA-256 of a span of a file, or of what there is of it."""
    found = sha256()
    with reading.reader(fd, start, end) as file:
        while piece := file.read(reading.BUFFER):
            found.update(piece)
    return found.hexdigest()
