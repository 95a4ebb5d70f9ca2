"""How a journal shows that git put two sides together in it, and the one error that says so."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from sessioncompress.errors import NOT_CHANGED, Met
from sessioncompress.store.layout import FOLDER, originals_of, session_beside

_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")


def is_conflict_marker(raw: bytes) -> bool:
    """Say whether a line is one of those that git puts around what it could not merge."""
    return raw.startswith(_MARKERS)


def met(journal: str | os.PathLike[str], how: str, line: int | None = None) -> Met:
    """Make the error for two sides that both went on from the same originals and journal."""
    path = Path(journal)
    return Met(
        f"two sides stand together here, put so by git or from a backup, which went on from the same originals: {how}",
        where=path,
        line=line,
        state=NOT_CHANGED,
        remedy=_way_out(Path(os.path.abspath(path))),  # noqa: PTH100 - of Path.absolute() a `..` would stay
    )


def _way_out(journal: Path) -> str:
    """Name the git commands that bring back one side, from whatever folder they are called.

    By commits: where git merged a file by itself, `--ours` means what it made of both.
    """
    folder = journal.parent
    store = [originals_of(journal).name, journal.name]
    session, path = "SESSION", " SESSION is its path."
    if folder.name == FOLDER:
        session, path = quote(session_beside(journal)), ""
        folder, store = folder.parent, [f"{FOLDER}/{name}" for name in store]
    git = f"git -C {quote(str(folder))}"
    three = " ".join([session, *map(quote, store)])
    return (
        "Take all three files of one side. While a merge or rebase is not done, with "
        f"{git} checkout HEAD -- {three} (the other side: MERGE_HEAD instead of HEAD, in a rebase REBASE_HEAD). "
        f"When it is done, {git} log --all --reflog --full-history --oneline -- {quote(store[1])} lists the commits of "
        f"both sides; take from the last one of a side: {git} checkout COMMIT -- {three} (COMMIT is its number).{path} "
        "To keep what both sides have, do so for each in turn, run 'sessioncompress restore' on it and keep a copy: "
        "restored sessions can be merged. Where no git was at work, put the file back that goes with the other."
    )
