"""Markers that no journal beside a session knows: it was moved, copied or cloned without what they name."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple

from sessioncompress import files
from sessioncompress.documents import pieces_of
from sessioncompress.errors import NOT_CHANGED, Refused
from sessioncompress.marker import PREFIX_BYTES, adds_up, references, stands_in
from sessioncompress.model import Block, Kind
from sessioncompress.rewrite import value_at
from sessioncompress.store.beside import Beside
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.survey import parse
from sessioncompress.words import counted


class Markers(NamedTuple):
    """In how many texts of a session a marker stands as we write it; how many in calls, and how many name nothing."""

    texts: int = 0
    in_calls: int = 0
    nameless: int = 0


NONE: Final = Markers()
_DIGITS: Final = 12
"""A reference has at least so many digits of the XXH3-64 of what it names."""


def markers_of(session: OpenSession, form: str | None = None) -> Markers:
    """Count a session's markers; none in what is no session. `form` names its format where it is known."""
    found = [(block.kind, references(text)) for block, text in _marked(session, form)]
    kinds = [kind for kind, _ in found]
    return Markers(len(found), kinds.count(Kind.ARGUMENT), sum(not named for _, named in found))


def strangers_of(session: OpenSession, journal: Journal, form: str | None = None) -> int:
    """Count the texts with a marker as we write it that names what the session's own journal does not know.

    What stands in a line that the journal knows stood there before our run, and is content. Of the others nothing
    tells for certain whether another session, or another side of this one, was rewritten there, or a tool printed all
    of such a text: they are counted, and no command fails for them.
    """
    marked = _marked(session, form, journal)
    found = [(named[0], block) for block, text in marked if (named := references(text)) and adds_up(text)]
    known = {xxh3[:_DIGITS] for _, xxh3 in journal.references} if found else set()
    return sum(
        ref[:_DIGITS] not in known and (block.digest, block.kind, block.call) not in journal for ref, block in found
    )


def refuse_if_marked(session: OpenSession, beside: Beside, form: str | None = None) -> None:
    """Raise Refused where a session without a journal has markers: it was moved or copied without what they name."""
    markers = markers_of(session, form)
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
        f"{beside.originals.name}, or name their folder with --backup-dir. Where 'clean' or 'forget' deleted them, "
        "they are gone."
    )
    if not markers.nameless:
        return elsewhere
    never = (
        f"{counted(markers.nameless, 'marker names', 'markers name')} no original, since none was kept (keepBackup: "
        "false): only a copy of the session can bring back what they stand for."
    )
    return never if markers.nameless == markers.texts else f"{elsewhere} {never}"


def _marked(session: OpenSession, form: str | None, journal: Journal | None = None) -> Iterator[tuple[Block, str]]:
    """Yield the texts in which a marker stands as we write it, but for lines that a journal knows; with the blocks."""
    try:
        reader = files.format_of(session, form).reader()
    except Refused:
        return
    for raw in (raw for _, raw, whole in pieces_of(session.reader, session.size) if whole and PREFIX_BYTES in raw):
        entry = None if journal and _knows(journal, sha256(raw).digest()) else parse(raw)
        for block in reader.line(raw, entry).blocks if entry is not None else ():
            text = value_at(entry or {}, block.path) if block.marked else ""
            if stands_in(text, in_arguments=block.kind is Kind.ARGUMENT):
                yield block, text


def _knows(journal: Journal, digest: bytes) -> bool:
    return journal.rewriting(digest) is not None or bool(journal.originals(digest))
