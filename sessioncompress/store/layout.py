"""Where the files that belong to a session lie, and how long they are; nothing is opened."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from sessioncompress.errors import NOT_CHANGED, FileFailed, Refused, UsageError
from sessioncompress.policy.model import Policy

FOLDER = ".sessioncompress"
PACKS = "packs"
ARCHIVE = ".tar.zst"
JOURNAL = ".refs.jsonl"
_ZST = ".zst"
ENDINGS = (JOURNAL, _ZST)
"""End the names of a store's files."""
_ENDINGS = (".json", ".jsonl")
_UNNAMED = ".session"
"""Stands in a journal's name for a session whose own name has no ending that we know."""


class Store(NamedTuple):
    """The files of one session.

    `folder` holds `originals` and `journal`; `work` takes temp files and late links and is always on the
    session's own file system, so that a rename and a hard link work. Without a backup folder they are the same.
    """

    folder: Path
    originals: Path
    journal: Path
    work: Path


class Lengths(NamedTuple):
    """The bytes of each file that the last run record commits; what lies behind them is from a crash."""

    originals: int = 0
    journal: int = 0


def store_in(session: Path, backup_dir: Path | None = None) -> Store:
    """Name the files beside a session, or in a backup folder that sessions of many folders share."""
    # A journal's name is without `.jsonl`, unless what remains would end like that of another session's journal.
    stem = session.name.removesuffix(".jsonl")
    if not session.name.endswith(_ENDINGS):
        stem += _UNNAMED
    elif stem == "" or stem.endswith((*_ENDINGS, _UNNAMED)):
        stem = session.name
    work = session.parent / FOLDER
    folder, home = (work, "") if backup_dir is None else (backup_dir, _home(session.parent))
    return Store(folder, folder / f"{home}{session.name}{_ZST}", folder / f"{home}{stem}{JOURNAL}", work)


def owners(store: Store, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names that belong to a session in the folder of `store`, each with the name of that session."""
    # Looked up once: that follows every link on the way.
    home = _home(store.work.parent)
    shared = store.originals.name.startswith(home)
    for name in names:
        originals = originals_of(Path(name)).name if name.endswith(JOURNAL) else name
        if name.startswith(home) == shared and originals.endswith(_ZST):
            session = originals.removeprefix(home).removesuffix(_ZST)
            # `.` and `..` are always folders.
            if session not in ("", os.curdir, os.pardir):
                yield name, session


def originals_of(journal: Path) -> Path:
    """Name the originals of a journal."""
    stem = journal.name.removesuffix(JOURNAL)
    if stem.endswith(_UNNAMED):
        return journal.with_name(f"{stem.removesuffix(_UNNAMED)}.zst")
    return journal.with_name(f"{stem}.zst" if stem.endswith(_ENDINGS) else f"{stem}.jsonl.zst")


def status_of(path: Path) -> os.stat_result | None:
    """Look up a name without following a link; None where there is nothing."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def size_of(path: Path) -> int | None:
    """Look up a file's length in bytes; None where there is no file."""
    found = status_of(path)
    return None if found is None else found.st_size


def _home(folder: Path) -> str:
    """Tell the sessions of one folder from those of others in a backup folder."""
    # Imported here: only a backup folder needs it, and a run with nothing to do is faster without.
    from hashlib import sha256

    return sha256(os.fsencode(folder.resolve())).hexdigest()[:12] + "-"


def store_at(path: Path, policy: Policy) -> Store:
    """Name the files of a session's store; a relative `backupDir` counts from its folder. Raises UsageError."""
    if not policy.backup_dir:
        return store_in(path)
    folder = path.parent / backup_folder(policy.backup_dir, path)
    # The system knows no way through a folder that is gone, not even up and out of it.
    return store_in(path, folder if path.parent.exists() else Path(os.path.normpath(folder)))


def store_of(path: Path, policy: Policy) -> Store:
    """Name the files of a session's store, for a command that works on it.

    Raises Refused where nothing of the session is in the backup folder, but its store is beside it: a second store
    would make what the first one holds pass for lost.
    """
    store = store_at(path, policy)
    there = store_in_own_folder(path, policy)
    if there is None or holds(store):
        return store
    remedy = (
        "Run without --backup-dir (where your configuration has backupDir, with a --config file of "
        "'{\"session\": {\"backupDir\": null}}'), also to 'restore' and 'forget' it first. Or move its two files: "
        f"{there.originals.name} to {store.originals}, and {there.journal.name} to {store.journal}."
    )
    what = f"its originals are in {there.folder}, not in the backup folder {store.folder}"
    raise Refused(what, where=path, state=NOT_CHANGED, remedy=remedy)


def store_in_own_folder(path: Path, policy: Policy) -> Store | None:
    """Name the store beside a session whose policy has a backup folder; None where there is none."""
    there = store_in(path)
    return there if policy.backup_dir and holds(there) else None


def holds(store: Store) -> bool:
    """Tell whether originals or journal are there."""
    return os.path.lexists(store.originals) or os.path.lexists(store.journal)


def backup_folder(named: str, where: Path) -> Path:
    """Expand the `~` of a policy's backup folder. Raises UsageError where nobody has that home."""
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        what = f"the policy's backupDir is {named!r}, but there is no such home folder"
        raise UsageError(what, where=where, state=NOT_CHANGED, remedy="Name a folder that exists.") from error


def state_folder() -> Path:
    """Name our folder in `XDG_STATE_HOME`, which counts only where it is absolute.

    Raises FileFailed where no home is known: the working folder may be anyone's project.
    """
    named = os.environ.get("XDG_STATE_HOME", "")
    home = named if os.path.isabs(named) else at_home("~/.local/state")  # noqa: PTH117 - as in the line below
    return Path(home, "sessioncompress")


def at_home(named: str) -> Path:
    """Expand a path that may begin with `~`. Raises FileFailed where that is nobody's home."""
    path = os.path.expanduser(named)  # noqa: PTH111 - that of a Path raises what is no error of the system
    if named.startswith("~") and not os.path.isabs(path):  # noqa: PTH117
        raise FileFailed("no home folder is known", where=named, state="Nothing was changed.", remedy="Set HOME.")
    return Path(path)


_LEFT_OVER = re.compile(r"(.+)\.(?:late-[0-9a-f-]+|temp-[0-9a-f]{8})", re.DOTALL)
LONGEST = 1 << 20
"""Bytes: no run record is longer."""
_TICK = 2_000_000_000
"""Nanoseconds. A file system may give two changes that are no further apart the same time."""


def last_line(journal: Path) -> bytes:
    """Read the last line, with its LF; empty where the file does not end with a whole one. Raises OSError."""
    fd = os.open(journal, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        size = os.fstat(fd).st_size
        step = 1 << 12
        while True:
            data = os.pread(fd, step, max(size - step, 0))
            lines = data.splitlines(keepends=True)
            if len(lines) > 1 or step >= min(size, LONGEST):
                return lines[-1] if lines and lines[-1].endswith(b"\n") and step < LONGEST else b""
            step *= 16
    finally:
        os.close(fd)


def sessions_named(work: Path) -> frozenset[str]:
    """List the sessions whose late links and drafts lie in a folder. Raises OSError."""
    try:
        names = os.listdir(work)
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    # Hardly any name is one, and in a folder of thousands this is asked for each session.
    likely = [name for name in names if ".late-" in name or ".temp-" in name]
    sessions = {found[1] for found in map(_LEFT_OVER.fullmatch, likely) if found}
    return frozenset(sessions - {os.curdir, os.pardir})


def has_leftovers(session: Path) -> bool:
    """Tell whether a run left late links or drafts of a session, which the next one recovers first. Raises OSError.

    This is asked before the session is locked. The folder of thousands is listed once, not once for each, until its
    time of change is another.
    """
    work = session.parent / FOLDER
    try:
        changed = work.stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return False
    is_settled = time.time_ns() - changed > _TICK
    return session.name in (_listed(work, changed) if is_settled else sessions_named(work))


@lru_cache(maxsize=1)
def _listed(work: Path, _changed: int) -> frozenset[str]:
    return sessions_named(work)


def is_archive(path: Path) -> bool:
    """Tell by its name and place whether a file is the archive of a pack."""
    folder = Path(os.path.realpath(path.parent))
    return path.name.endswith(ARCHIVE) and (folder.parent.name, folder.name) == (FOLDER, PACKS)
