"""Files of ours whose session is gone: it was deleted, moved or renamed without them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sessioncompress.errors import failing
from sessioncompress.store import durable
from sessioncompress.store.beside import Beside, session_of
from sessioncompress.store.folder import tidy
from sessioncompress.store.late import late_links, stale_drafts


def sessions_gone(folder: Path, files: Beside) -> Iterator[Path]:
    """Yield the sessions of a folder that are gone while files still lie there, or in its backup folder, for them.

    `files` are those of any session of that folder.
    """
    with failing(files.folder, state=""):
        names = sorted(os.listdir(files.folder)) if files.folder.is_dir() else []
    paths = {folder / name: None for each in names if (name := session_of(files, each))}
    yield from (path for path in paths if not os.path.lexists(path))


def forget_gone(session: Path, files: Beside) -> None:
    """Remove all that lies beside a session that is gone, and what was to be carried over into it."""
    with failing(session, state=""):
        for path in (*remains(session, files), files.originals, files.journal):
            durable.remove(path)
        tidy(files.work)


def remains(session: Path, files: Beside) -> list[Path]:
    """Return what else runs on a session that is gone have left: its temp files and late links."""
    late = [each.path(files.work, session) for states in late_links(files.work, session).values() for each in states]
    return [*stale_drafts(files.work, session), *late]
