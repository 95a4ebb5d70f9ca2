"""Every file in folders where a session may be, through links too; what cannot be looked into is told."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from sessioncompress.discover import Found, failures
from sessioncompress.errors import FileFailed
from sessioncompress.heads import KEPT
from sessioncompress.store.beside import FOLDER
from sessioncompress.store.late import is_ours


def every_file(places: Iterable[Path]) -> Iterator[Found]:
    """Yield every file in the folders and below, each folder once, whatever name leads to it.

    No folder is passed over, in our own only what we wrote: a session may have been moved into any. With an `error`
    it is what could not be looked into: a folder that may not be read, a link to what is not there now, perhaps on a
    disk that is off, or one to a folder above all that is looked through.
    """
    walked: set[str] = set()
    for place in places:
        if (link := _dangling(place)) is not None:
            yield leads_nowhere(link)
        elif os.path.isfile(place):  # noqa: PTH113 - Path.is_file() raises where a folder above may not be entered
            yield Found(place, named=False)
        elif _may_be_there(place):
            yield from _walk(place, walked)


def leads_nowhere(link: Path) -> Found:
    """Return the link, with the error that says what may be behind it."""
    what = "this link leads to what is not there now: a session may lie there"
    error = FileFailed(what, where=link, state=KEPT, remedy="Remove it, or put back what it leads to.")
    return Found(link, named=False, error=error)


def _walk(place: Path, walked: set[str]) -> Iterator[Found]:
    unreadable: list[OSError] = []
    for here, folders, names in os.walk(place, onerror=unreadable.append, followlinks=True):
        yield from failures(unreadable)
        real = os.path.realpath(here)
        if real in walked:
            folders.clear()
            continue
        walked.add(real)
        above = [name for name in folders if _leads_above(here, name, real, walked)]
        yield from (_refused(Path(here) / name) for name in above)
        folders[:] = sorted(set(folders) - set(above))
        others = itertools.filterfalse(is_ours, names) if os.path.basename(real) == FOLDER else names  # noqa: PTH119
        yield from (Found(Path(here) / name, named=False) for name in sorted(others))
    yield from failures(unreadable)


def _leads_above(here: str, name: str, real: str, walked: set[str]) -> bool:
    """Say whether a link leads to a folder above this one: through it all would be walked, of a system perhaps."""
    path = os.path.join(here, name)  # noqa: PTH118 - of every folder that is walked
    if not os.path.islink(path):  # noqa: PTH114
        return False
    target = os.path.realpath(path)
    return target not in walked and os.path.commonpath([target, real]) == target


def _refused(link: Path) -> Found:
    what = "this link leads to a folder above it, through which all would be looked at"
    error = FileFailed(what, where=link, state=KEPT, remedy="Remove it, or name that folder too.")
    return Found(link, named=False, error=error)


def _dangling(place: Path) -> Path | None:
    """Return the link on the way to a place that leads nowhere now."""
    if os.path.lexists(place) and not place.is_symlink():
        return None
    links = (each for each in (place, *place.parents) if os.path.islink(each))  # noqa: PTH114 - see every_file()
    return next((each for each in links if not os.path.exists(each)), None)  # noqa: PTH110


def _may_be_there(place: Path) -> bool:
    """Say whether anything may lie there; where that is not to be known, reading it will fail, and tell."""
    try:
        place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
