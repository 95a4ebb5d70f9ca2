"""What lies behind the committed bytes beside a session: the trace of a killed run, or what the session needs."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from sessioncompress.errors import NOT_CHANGED, Damaged
from sessioncompress.store import journal as journals
from sessioncompress.store.beside import Beside, Lengths
from sessioncompress.store.growing import too_short
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import LONGEST_LINE, readable_lines

FORGOTTEN: Final = 1
"""Bytes of a journal that forget() was about to delete: no run leaves it so short, and no space is needed for it."""


def refuse_if_needed(session: OpenSession, files: Beside, lengths: Lengths) -> None:
    """Raise Damaged unless what is committed is there, and the session can do without what lies behind it.

    The session's own lines are the witness. A run that was killed before its commit has not replaced the session:
    each original that it kept still stands there, and no line that it meant to write does. In any other case the
    journal has lost the record of a run. Where nothing lies behind, no file is opened.
    """
    originals, journal = size_of(files.originals), size_of(files.journal)
    if originals and journal is None:
        raise Damaged(
            "the journal of these originals is missing",
            where=files.originals,
            state=NOT_CHANGED,
            remedy=f"Put {files.journal.name} back, or move the originals away.",
        )
    for path, size, committed in (
        (files.originals, originals or 0, lengths.originals),
        (files.journal, journal or 0, lengths.journal),
    ):
        if size < committed:
            raise too_short(path, size, committed)
    behind = Lengths(originals or 0, journal or 0) != lengths and journal != FORGOTTEN
    needed = _needed(session, files, lengths) if behind else 0
    if needed:
        raise Damaged(
            f"it has lost the record of a run that replaced {needed:,} {'line' if needed == 1 else 'lines'} of the "
            "session",
            where=files.journal,
            state="The session and its originals are not changed.",
            remedy=f"Put the journal back from a backup. 'zstd -dc {files.originals.name}' prints the originals; "
            "'sessioncompress forget' deletes them.",
        )


def size_of(path: Path) -> int | None:
    """Return a file's length, or None where there is none."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return None


def _needed(session: OpenSession, files: Beside, lengths: Lengths) -> int:
    """Return how many lines a run replaced whose records are not committed."""
    kept = {sha256(line).digest() for line in readable_lines(files.originals, lengths.originals)}
    written = {bytes.fromhex(record.rewritten) for record in journals.uncommitted(files.journal, lengths.journal)}
    standing = {digest for line in _lines(session) if (digest := sha256(line).digest()) in kept or digest in written}
    return max(len(kept - standing), len(written & standing))


def _lines(session: OpenSession) -> Iterator[bytes]:
    """Yield the session's whole lines, but for those that are too long to be kept."""
    begins = True
    with session.reader() as file:
        for piece in iter(lambda: file.readline(LONGEST_LINE), b""):
            ends = piece.endswith(b"\n")
            if begins and ends:
                yield piece
            begins = ends
