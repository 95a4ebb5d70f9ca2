"""Markers in a session that has no journal: it was moved, copied or cloned without what they name."""

from __future__ import annotations

from sessioncompress import files
from sessioncompress.errors import NOT_CHANGED, NotASession, Refused
from sessioncompress.jsonl import pieces
from sessioncompress.marker import PREFIX_BYTES, references
from sessioncompress.rewrite import value_at
from sessioncompress.store.beside import Beside
from sessioncompress.store.lock import OpenSession
from sessioncompress.survey import parse
from sessioncompress.words import counted


def refuse_if_marked(session: OpenSession, beside: Beside) -> None:
    """Raise Refused where a session without a journal has markers: it was moved or copied without what they name."""
    markers = count_markers(session)
    if markers:
        raise Refused(
            f"{counted(markers, 'marker stands', 'markers stand')} in it, but no journal lies beside it under its name",
            where=session.path,
            state=NOT_CHANGED,
            remedy="If it was moved or renamed, name its old path, or if it is a copy the other session: "
            f"'restore --from-markers --originals OTHER'. Or put its two files here as {beside.journal} and "
            f"{beside.originals.name}, or name their folder with --backup-dir.",
        )


def count_markers(session: OpenSession) -> int:
    """Return in how many places of a session a marker stands as we write it: one in a text, and it names an original.

    A text that quotes one looks the same; more than one in a text is a quote for certain. 0 for what is no session.
    """
    try:
        reader = files.format_of(session).reader()
    except NotASession:
        return 0
    with session.reader() as file:
        marked = (raw for _, raw, whole in pieces(file, session.size) if whole and PREFIX_BYTES in raw)
        read = ((raw, entry) for raw in marked if (entry := parse(raw)) is not None)
        texts = (value_at(entry, it.path) for raw, entry in read for it in reader.line(raw, entry).blocks if it.marked)
        return sum(len(references(text)) == 1 for text in texts)
