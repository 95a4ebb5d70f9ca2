"""Which sessions lie in the folders that we know, whatever their files are called: what was moved is not gone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from sessioncompress import homes
from sessioncompress.discover import Found, discover
from sessioncompress.errors import FileFailed, IsALink, NotASession, failed
from sessioncompress.formats import detect, head_of
from sessioncompress.formats.base import Name
from sessioncompress.store.lock import open_file

_HEAD_BYTES = 64 * 1024
"""In so many bytes a session's header stands; nothing else of it is read."""


@dataclass(frozen=True, slots=True)
class Sightings:
    """The sessions that were found, by name and place, and the files and folders that could not be read."""

    seen: tuple[tuple[Name, Path], ...] = ()
    unread: tuple[Found, ...] = ()

    def session(self, session_id: str) -> Path | None:
        """Return where the session with that id lies."""
        return next((path for name, path in self.seen if name.id == session_id), None)

    def fork(self, session_id: str, file: str) -> Path | None:
        """Return where a session lies that was forked from that one: its markers name originals of the other."""
        return next((path for name, path in self.seen if {session_id, file} & _named(name.parent)), None)


def look(folders: Iterable[Path]) -> Sightings:
    """Read the header of every session in the folders, below them, and where agents keep theirs."""
    seen, unread = [], []
    with suppress(FileNotFoundError):
        here = Path.cwd()
        folders = [*folders, *(each for up in (here, *here.parents) for each in homes.below(up))]
    places = [*folders, *homes.agent_roots()]
    for found in discover(filter(_may_be_there, places), ending=""):
        try:
            if found.error is not None:
                raise found.error
            name = _name(found.path)
            if name.id or name.parent:
                seen.append((name, found.path))
        except FileFailed as error:
            unread.append(Found(found.path, named=False, error=error))
    return Sightings(tuple(seen), tuple(unread))


def _may_be_there(place: Path) -> bool:
    """Say whether anything may lie there; where that is not to be known, reading it will fail, and tell."""
    try:
        place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _name(path: Path) -> Name:
    """Return the name in a file's header, an empty one where it is no session. Raises FileFailed."""
    # What was deleted meanwhile, or is a link to nothing or to itself, or no regular file, holds no session.
    with suppress(FileNotFoundError, NotASession, IsALink):
        try:
            fd = open_file(Path(os.path.realpath(path)))
            try:
                head = head_of(BytesIO(os.pread(fd, _HEAD_BYTES, 0)))
            finally:
                os.close(fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise failed(error, path, "Nothing of what lies beside sessions that are gone is deleted.") from error
        form = detect(head)
        return form.named(head) if form else Name()
    return Name()


def _named(parent: str) -> set[str]:
    """Return what a path may name a session by: its file, and the id that agents put behind the last `_` of it."""
    return set(_parts(parent)) - {""}


def _parts(parent: str) -> Iterator[str]:
    file = parent.replace("\\", "/").rpartition("/")[2]
    yield file
    yield file.removesuffix(".jsonl").rpartition("_")[2]
