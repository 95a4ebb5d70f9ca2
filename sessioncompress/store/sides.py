"""How a journal shows that git put two sides together in it, and the one error that says so."""

from __future__ import annotations

import os
from pathlib import Path

from sessioncompress.errors import NOT_CHANGED, Met
from sessioncompress.store.beside import originals_of

_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")


def is_conflict_marker(raw: bytes) -> bool:
    """Say whether a line is one of those that git puts around what it could not merge."""
    return raw.startswith(_MARKERS)


def met(journal: str | os.PathLike[str], how: str, line: int | None = None) -> Met:
    """Make the error for two sides that both went on from the same originals and journal."""
    path = Path(journal)
    three = f"SESSION {originals_of(path).name} {path.name}"
    return Met(
        f"git has put two sides together here, which both went on from the same originals: {how}",
        where=path,
        line=line,
        state=NOT_CHANGED,
        remedy=f"Take all three files of one side: 'git checkout --ours -- {three}' (or --theirs) while the merge is "
        f"not committed, 'git checkout HEAD^1 -- {three}' (or HEAD^2) after that. To keep what both sides have, do so "
        "for each in turn and run 'sessioncompress restore' on it: restored sessions can be merged.",
    )
