"""Markers in a session that has no journal: it was moved, copied or cloned without what they name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from sessioncompress import files
from sessioncompress.errors import NOT_CHANGED, NotASession, Refused
from sessioncompress.jsonl import pieces
from sessioncompress.marker import PREFIX_BYTES, references, stands_in
from sessioncompress.model import Kind
from sessioncompress.rewrite import value_at
from sessioncompress.store.beside import Beside
from sessioncompress.store.lock import OpenSession
from sessioncompress.survey import parse
from sessioncompress.words import counted


class Markers(NamedTuple):
    """In how many texts of a session a marker stands as we write it; how many in calls, and how many name nothing."""

    texts: int = 0
    in_calls: int = 0
    nameless: int = 0


NONE: Final = Markers()


def markers_of(session: OpenSession) -> Markers:
    """Count a session's markers; none in what is no session."""
    found = list(_marked(session))
    kinds = [kind for kind, _ in found]
    return Markers(len(found), kinds.count(Kind.ARGUMENT), sum(not named for _, named in found))


def refuse_if_marked(session: OpenSession, beside: Beside) -> None:
    """Raise Refused where a session without a journal has markers: it was moved or copied without what they name."""
    markers = markers_of(session)
    if markers.texts:
        raise Refused(
            f"{counted(markers.texts, 'marker stands', 'markers stand')} in it, but no journal lies beside it under "
            "its name",
            where=session.path,
            state=NOT_CHANGED,
            remedy=_way_out(markers, beside),
        )


def _way_out(markers: Markers, beside: Beside) -> str:
    elsewhere = (
        "If it was moved or renamed, name its old path, or if it is a copy the other session: "
        f"'restore --from-markers --originals OTHER'. Or put its two files here as {beside.journal} and "
        f"{beside.originals.name}, or name their folder with --backup-dir."
    )
    if not markers.nameless:
        return elsewhere
    never = (
        f"{counted(markers.nameless, 'marker names', 'markers name')} no original, since none was kept (keepBackup: "
        "false): only a copy of the session can bring back what they stand for."
    )
    return never if markers.nameless == markers.texts else f"{elsewhere} {never}"


def _marked(session: OpenSession) -> Iterator[tuple[Kind, list[str]]]:
    """Yield the texts in which a marker stands as we write it: of what kind, and the references named there."""
    try:
        reader = files.format_of(session).reader()
    except NotASession:
        return
    with session.reader() as file:
        marked = (raw for _, raw, whole in pieces(file, session.size) if whole and PREFIX_BYTES in raw)
        for raw in marked:
            entry = parse(raw)
            for block in reader.line(raw, entry).blocks if entry is not None else ():
                text = value_at(entry or {}, block.path) if block.marked else ""
                if stands_in(text, in_arguments=block.kind is Kind.ARGUMENT):
                    yield block.kind, references(text)
