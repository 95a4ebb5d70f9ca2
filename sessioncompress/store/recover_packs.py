"""Be alone with a folder's packs, and put right what a killed run left: forward where a pack is certain, else back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from sessioncompress.errors import NOT_CHANGED, Damaged, FileFailed, Refused, Unsupported, failing
from sessioncompress.store import disk
from sessioncompress.store.folder import refuse_linked_folder, tidy
from sessioncompress.store.late_links import stale_drafts
from sessioncompress.store.layout import ARCHIVE, FOLDER, PACKS, sessions_named, status_of
from sessioncompress.store.lock import Held, held, open_file, wait_for_lock
from sessioncompress.store.machine import make_key
from sessioncompress.store.pack import INDEX, Entry, State, is_same
from sessioncompress.store.packing import (
    Pack,
    aside_of,
    certain_packs,
    put_aside_back,
    remove_store,
)
from sessioncompress.store.places import NEW, TEMP, Disk, Place, is_below, packs_of

_LOCK_SECONDS: Final = 5.0


@contextmanager
def alone(at: Place) -> Iterator[None]:
    """Keep other runs of ours from a place's packs, and put right what a killed run left there.

    In a bucket each write has its condition instead. Raises InUse, IsALink, Unsupported, FileFailed.
    """
    if not isinstance(at, Disk):
        yield
        return
    root = at.root
    if os.name != "posix":
        raise Unsupported("writing is supported on Linux and macOS only", where=root, state=NOT_CHANGED)
    make_key()
    folder = packs_of(root)
    with failing(root):
        for each in (root / FOLDER, folder.parent, folder):
            refuse_linked_folder(each)
        # Not the folder of the packs itself: that may go, and is locked for a moment where git is to see nothing in it.
        with disk.closing(disk.open_folder(root)) as fd:
            wait_for_lock(fd, _LOCK_SECONDS, folder, "another sessioncompress is working on the packs there")
            disk.make_folder(folder)
            try:
                _settle(root)
                yield
            finally:
                # The folder of packs, and ours, go where nothing is in them.
                for each in Disk(root).folders():
                    tidy(each)
                tidy(root / FOLDER)


def _settle(root: Path) -> None:
    """Finish what a killed run began: forward where its pack was certain, else back."""
    for folder in (packs_of(root), root / FOLDER / PACKS):
        if folder.is_dir() and not folder.is_symlink():
            _settle_in(folder)
    left_in = cache(sessions_named)
    for pack in certain_packs(Disk(root)):
        left = {}
        for entry in pack.index.entries:
            path = pack.place(entry)
            # What cannot be deleted costs no other session; it stays for a later run.
            with suppress(OSError):
                if path.name in left_in(path.parent / FOLDER) and is_below(root, path):
                    _remove_drafts(path, [root / member.path for member in entry.members])
                if _settled(pack, entry) is State.LEFT:
                    left[entry.path] = State.LEFT
        if left:
            pack.mark(left)
        pack.drop_if_done()
        for work in {pack.place(entry).parent / FOLDER for entry in pack.index.entries}:
            if work.is_dir() and is_below(root, work):
                tidy(work)


def _settle_in(folder: Path) -> None:
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if name.endswith(NEW):
            made = path.with_name(name.removesuffix(NEW) + INDEX)
            archive = path.with_name(name.removesuffix(NEW) + ARCHIVE)
            # It is written when the archive has been read back, and before that has its name.
            if os.path.lexists(archive) and not os.path.lexists(made):
                disk.system.replace(path, made)
            else:
                disk.remove(path)
        elif name.endswith(TEMP) or (name.startswith(".") and f"{INDEX}." in name):
            disk.remove(path)
    disk.flush_folder(folder)


def _settled(pack: Pack, entry: Entry) -> State:
    """Finish with one session that a killed run had put aside: let it go, or put it back."""
    path = pack.place(entry)
    aside = aside_of(path)
    left = [aside, *(pack.root / member.path for member in entry.members[1:])]
    if entry.state is not State.PACKED or not any(map(os.path.lexists, left)) or not is_below(pack.root, path):
        return entry.state
    if os.path.lexists(path):
        if os.path.lexists(aside) and path.samefile(aside):
            disk.remove(aside)
        # Else the agent has begun a new one of that name: both stay, and whoever works on it is told.
        return entry.state
    if reads_back(pack, entry) and (not os.path.lexists(aside) or _may_go(aside, entry)):
        disk.remove(aside)
        remove_store(pack.root, entry)
        return entry.state
    if os.path.lexists(aside):
        put_aside_back(aside, path)
        return State.LEFT
    return entry.state


def _remove_drafts(session: Path, members: Sequence[Path]) -> None:
    """Remove what a killed run wrote of a session that was to come back, and second names of what has come back."""
    there = [found for found in map(status_of, members) if found is not None]
    is_gone = status_of(session) is None
    for draft in stale_drafts(session):
        if is_gone or any(os.path.samestat(draft.lstat(), found) for found in there):
            disk.remove(draft)
    tidy(session.parent / FOLDER)


def reads_back(pack: Pack, entry: Entry) -> bool:
    """Tell whether a pack can give a session."""
    with suppress(Damaged, FileFailed, Refused), pack.reader() as reader:
        reader.check(entry)
        return True
    return False


def _may_go(aside: Path, entry: Entry) -> bool:
    """Tell whether what was put aside is as it was packed, and nobody writes to it."""
    with suppress(Refused), disk.closing(open_file(aside)) as fd:
        return held(fd) is not Held.YES and is_same(aside, entry.members[0])
    return False
