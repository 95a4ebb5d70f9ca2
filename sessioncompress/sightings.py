"""Which sessions lie in the folders that we know, whatever their files are called: what was moved is not gone."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sessioncompress import homes
from sessioncompress.discover import Found
from sessioncompress.errors import FileFailed, IsALink, NotASession, failed
from sessioncompress.formats.base import Name
from sessioncompress.heads import KEPT, name_of, references_of
from sessioncompress.seek import every_file, leads_nowhere

_GOOD_SECONDS = 1.0
"""So long a look that was taken before a deletion is good for the next one."""

_NOTHING = Name()


@dataclass(frozen=True, slots=True)
class Sightings:
    """The sessions that were found, by name and place, and the files and folders that could not be read.

    `packed` are files without a header that go by the name of a session that is asked for, and more.
    """

    seen: tuple[tuple[Name, Path], ...] = ()
    packed: tuple[Path, ...] = ()
    unread: tuple[Found, ...] = ()

    def session(self, session_ids: Collection[str]) -> Path | None:
        """Return where a session with one of these ids lies."""
        return next((path for name, path in self.seen if name.id in session_ids), None)

    def archived(self, file: str) -> Path | None:
        """Return what may be the session of that file in another form, `session.jsonl.gz` say."""
        return next((path for path in self.packed if path.name.startswith(file)), None)

    def fork(self, session_ids: Collection[str], file: str) -> Path | None:
        """Return where a session lies that says it was forked from that one: its markers name originals of it."""
        forks = ((each, path) for name, path in self.seen for each in name.parents)
        return next((path for parent, path in forks if _names(parent, session_ids, file)), None)

    @property
    def forks(self) -> tuple[Path, ...]:
        """Return where sessions lie that were forked from any other."""
        return tuple(path for name, path in self.seen if name.parents)


class Lookout:
    """Looks for sessions in the folders, below them, and where agents keep theirs; reads no header twice.

    `names` are the files of the sessions that are asked for.
    """

    def __init__(self, folders: Iterable[Path], names: Iterable[str]) -> None:
        self._places = list(dict.fromkeys([*folders, *_known_places()]))
        self._names = tuple(names)
        self._heads: dict[tuple[int, ...], Name] = {}
        self._references: dict[tuple[int, ...], set[str]] = {}
        self._again: tuple[float, Sightings] | None = None
        self.first = self._look()

    def again(self) -> Sightings:
        """Look once more, before anything is deleted: a session may have come back under another name."""
        if self._again is None or time.monotonic() - self._again[0] > _GOOD_SECONDS:
            found = self._look()
            self._again = time.monotonic(), found
        return self._again[1]

    def fork_with(self, references: set[str], forks: Iterable[Path]) -> Path | None:
        """Return which of the forks has a marker that names one of these references. Raises FileFailed.

        The one that it was forked from may be gone, and have been a fork itself, or have had another name.
        """
        for path in forks:
            with suppress(FileNotFoundError, NotASession, IsALink):
                key = _key(path.stat())
                if key not in self._references:
                    self._references[key] = references_of(path)
                if references & self._references[key]:
                    return path
        return None

    def _look(self) -> Sightings:
        seen, packed, unread = [], [], []
        for found in every_file(self._places):
            try:
                if found.error is not None:
                    raise found.error
                name = self._name(found.path)
            except FileFailed as error:
                unread.append(Found(found.path, named=False, error=error))
                continue
            if name.id or name.parents:
                seen.append((name, found.path))
            elif found.path.name.startswith(self._names):
                packed.append(found.path)
        return Sightings(tuple(seen), tuple(packed), tuple(unread))

    def _name(self, path: Path) -> Name:
        """Return the name in a file's header, an empty one where it is no session. Raises FileFailed."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            # What is no link was deleted meanwhile.
            if path.is_symlink() and (error := leads_nowhere(path).error):
                raise error from None
            return _NOTHING
        except OSError as error:
            if error.errno == errno.ELOOP:
                return _NOTHING
            raise failed(error, path, KEPT) from error
        key = _key(found)
        if key not in self._heads:
            self._heads[key] = _read(path) if stat.S_ISREG(found.st_mode) else _NOTHING
        return self._heads[key]


def _read(path: Path) -> Name:
    with suppress(NotASession, IsALink):
        return name_of(path)
    return _NOTHING


def _key(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes with a file's content."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _known_places() -> list[Path]:
    """Return where sessions lie that no path names."""
    places: list[Path] = []
    with suppress(FileNotFoundError):
        here = Path.cwd()
        places += (each for up in (here, *here.parents) for each in homes.below(up))
    return [*places, *homes.agent_roots()]


def _names(parent: str, session_ids: Collection[str], file: str) -> bool:
    """Say whether a path may name a session: by its file, or by the id that agents put at the end of its name."""
    name = parent.replace("\\", "/").rpartition("/")[2]
    return name == file or name.removesuffix(".jsonl").endswith(tuple(session_ids))
