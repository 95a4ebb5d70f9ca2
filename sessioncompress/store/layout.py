"""Where the files that belong to a session lie, and how long they are; nothing is opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = ".sessioncompress"
_ENDINGS = (".json", ".jsonl")
JOURNAL = ".refs.jsonl"
"""What ends the name of a journal."""
_ZST = ".zst"
ENDINGS = (JOURNAL, _ZST)
"""What ends the names of a session's files in the store."""
_UNNAMED = ".session"
"""Stands in a journal's name for a session whose own name has no ending that we know."""


class Beside(NamedTuple):
    """The files of one session.

    `folder` holds `originals` and `journal`; `work` takes temp files and late links and is always on the
    session's own file system, so that a rename and a hard link work. Without a backup folder they are the same.
    """

    folder: Path
    originals: Path
    journal: Path
    work: Path


class Lengths(NamedTuple):
    """How many bytes of each file are committed, by the last run record; what lies behind is from a crash."""

    originals: int = 0
    journal: int = 0


def beside(session: Path, backup_dir: Path | None = None) -> Beside:
    """Name the files beside a session, or in a backup folder that sessions of many folders share."""
    work = work_folder(session)
    refs = f"{_stem(session.name)}{JOURNAL}"
    compressed = f"{session.name}{_ZST}"
    if backup_dir is None:
        return Beside(work, work / compressed, work / refs, work)
    home = _home(session.parent)
    return Beside(backup_dir, backup_dir / f"{home}{compressed}", backup_dir / f"{home}{refs}", work)


def owners(files: Beside, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield which files in the folder of `files` belong to a session of theirs, each with the name of that one.

    Left out is what is none of ours, or of a session of another folder, or would be of what no file is called.
    """
    # Looked up once: that follows every link on the way.
    home = _home(files.work.parent)
    for name in names:
        if session := _session_of(files, name, home):
            yield name, session


def _session_of(files: Beside, name: str, home: str) -> str:
    if name.startswith(home) != files.originals.name.startswith(home):
        return ""
    originals = originals_of(Path(name)).name if name.endswith(JOURNAL) else name
    return named(originals.removeprefix(home).removesuffix(_ZST)) if originals.endswith(_ZST) else ""


def named(session: str) -> str:
    """Return what may be the name of a session; empty for `.` and `..`, which are always folders."""
    return "" if session in (os.curdir, os.pardir) else session


def work_folder(session: Path) -> Path:
    """Name the folder beside the session that takes temp files and late links."""
    return session.parent / FOLDER


def originals_of(journal: Path) -> Path:
    """Name the originals that belong to a journal."""
    stem = journal.name.removesuffix(JOURNAL)
    if stem.endswith(_UNNAMED):
        return journal.with_name(f"{stem.removesuffix(_UNNAMED)}.zst")
    return journal.with_name(f"{stem}.zst" if stem.endswith(_ENDINGS) else f"{stem}.jsonl.zst")


def session_beside(journal: Path) -> str:
    """Return the name of the session that a journal in a folder beside it belongs to."""
    return named(originals_of(journal).name.removesuffix(_ZST))


def size_of(path: Path) -> int | None:
    """Return a file's length in bytes, or None where there is none."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return None


def _home(folder: Path) -> str:
    """Return what tells the sessions of one folder from those of others in a backup folder."""
    # Imported here: only a backup folder needs it, and a run with nothing to do is faster without.
    from hashlib import sha256

    return sha256(os.fsencode(folder.resolve())).hexdigest()[:12] + "-"


def _stem(name: str) -> str:
    """Cut `.jsonl`, unless what remains would end like the stem of another session; no two names have one stem."""
    stem = name.removesuffix(".jsonl")
    if not name.endswith(_ENDINGS):
        return f"{name}{_UNNAMED}"
    return name if name.endswith(".json") or stem == "" or stem.endswith((*_ENDINGS, _UNNAMED)) else stem
