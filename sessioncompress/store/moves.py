"""Move sessions: out of their places when a pack is certain, and back, where nothing is overwritten.

What a killed run left is put right before: forward where a pack is certain, else back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from shutil import disk_usage
from typing import Final

from sessioncompress.errors import (
    NOT_CHANGED,
    Damaged,
    FileFailed,
    Refused,
    SessionCompressError,
    Unsupported,
    failing,
)
from sessioncompress.store import disk
from sessioncompress.store.folder import create_in_folder, refuse_linked_folder, tidy
from sessioncompress.store.late_links import stale_drafts
from sessioncompress.store.layout import FOLDER, PACKS, sessions_named, status_of, store_in
from sessioncompress.store.lock import Held, OpenSession, held, open_file, wait_for_lock, wait_until_free
from sessioncompress.store.machine import make_key
from sessioncompress.store.pack import INDEX, Entry, Member, PackReader, State, is_same
from sessioncompress.store.packing import Pack, by_tar, certain_packs
from sessioncompress.store.places import IN_PACK, TEMP, Disk, Place, is_below, packs_of
from sessioncompress.store.recover import LINK_SECONDS
from sessioncompress.store.swap import HOLD_SECONDS

_LOCK_SECONDS: Final = 5.0


def aside_of(path: Path) -> Path:
    """Name the place where a session waits until it is certain that nobody writes to it."""
    return path.parent / FOLDER / f"{path.name}.packed"


def take_out(pack: Pack, entry: Entry, session: OpenSession) -> None:
    """Remove a session that is locked, and its store, from their places, now that a pack has them.

    First it goes aside, where nobody finds it; what somebody still wrote to it then puts it back. Raises InUse if it
    is not as it was packed, and stays.
    """
    path, store = session.path, store_in(session.path)
    with failing(path):
        if path.name in sessions_named(store.work) or not is_as_packed(pack.root, entry):
            raise session.in_use("it has changed since it was packed")
        # Where the system does not tell who has it open, one that was just written counts as open.
        if held(session.fd) is Held.UNKNOWN and time.time() - session.stat.st_mtime < LINK_SECONDS:
            raise session.in_use("it changed less than an hour ago")
        aside = aside_of(path)
        if os.path.lexists(aside):
            what = "a session with that name that was being packed is still here"
            raise Refused(what, where=aside, state=NOT_CHANGED, remedy="Compare the two, and move one away.")
        disk.make_folder(aside.parent)
        with session.pointers.leaving():
            disk.system.replace(path, aside)
            # Asked first: who closed it by then may have written up to that moment, and nobody opens it any more.
            in_use = wait_until_free(session.fd, HOLD_SECONDS) is Held.YES
            was, now = session.stat, aside.lstat()
            if in_use or (now.st_ino, now.st_size, now.st_mtime_ns) != (was.st_ino, was.st_size, was.st_mtime_ns):
                put_aside_back(aside, path)
                raise session.in_use("a program writes to it")
    with failing(path, "It is packed; what could not be deleted of it here goes with the next 'pack' or 'unpack'."):
        disk.remove(aside)
        remove_store(pack.root, entry)


def is_as_packed(root: Path, entry: Entry) -> bool:
    """Tell whether a session and its store are in a folder as they were packed, and nothing more of a store is."""
    path, members = root / entry.path, {root / each.path: each for each in entry.members}
    store = store_in(path)
    there = {each for each in (path, store.originals, store.journal) if os.path.lexists(each)}
    return there == members.keys() and all(is_same(each, member) for each, member in members.items())


def put_aside_back(aside: Path, path: Path) -> None:
    """Put a session back; where another one has come meanwhile, both stay."""
    try:
        disk.system.link(aside, path, follow_symlinks=False)
    except FileExistsError:
        what = "a program wrote to it while it was packed, and there is another file in its place"
        state = f"It is in {aside.parent.name}/{aside.name}."
        raise Refused(what, where=path, state=state, remedy="Compare the two, and move one away.") from None
    disk.remove(aside)
    disk.flush_folder(path.parent)


def remove_store(root: Path, entry: Entry) -> None:
    """Remove the store of a session that has gone, as far as it is as it was packed."""
    for member in entry.members[1:]:
        if is_same(root / member.path, member):
            disk.remove(root / member.path)


def missing_of(pack: Pack, entry: Entry) -> list[Member]:
    """List the files of a session that are not at their places, as they stand in the archive; see bring_back()."""
    first, in_order = entry.members[0], sorted(entry.members, key=lambda member: member.start)
    return [each for each in in_order if pack.at.is_missing(pack.root / each.path, each, whole=each is first)]


def bring_back(pack: Pack, entry: Entry, reader: PackReader, check: Callable[[Path], None]) -> None:
    """Put a session and its store back to their places, where nothing is overwritten; the session comes last.

    `check` sees the session before it has its name, and raises where it is none. Raises Refused where another file is
    in a place, or the way there leads elsewhere; Unreadable; FileFailed.
    """
    at, (first, *others) = pack.at, entry.members
    session = pack.place(entry)
    largest = max(each.size for each in entry.members)
    with failing(at.shown(session), IN_PACK):
        missing = missing_of(pack, entry)
        with at.workroom(session, largest) as folder:
            drafts: dict[Member, Path] = {}
            placed: list[Path] = []
            _refuse_if_no_room(at.shown(session), folder, sum(each.size for each in missing))
            try:
                # The archive is read in its order; the session gets its name last.
                for member in missing:
                    drafts[member] = _draft(folder, entry, member, reader)
                if first in drafts:
                    check(drafts[first])
                for member in (*others, first):
                    if member in drafts:
                        at.put(drafts[member], pack.root / member.path, member)
                        placed.append(pack.root / member.path)
            except (SessionCompressError, OSError) as error:
                # A store without its session is damage to every command.
                for path in placed:
                    at.take_back(path)
                if isinstance(error, SessionCompressError) and Path(error.where or "") in drafts.values():
                    # The draft is gone when this is read.
                    error.where = at.shown(session)
                if isinstance(error, Unsupported):
                    error.what = "hard links are not possible here, and without one we could overwrite a file"
                    error.state = IN_PACK
                    tar = by_tar(pack.archive, pack.root)
                    error.remedy = f"Unpack a copy of the pack on another disk, or by '{tar}'."
                raise
            finally:
                for draft in drafts.values():
                    disk.remove(draft)


def _refuse_if_no_room(session: str, folder: Path, size: int) -> None:
    """Raise FileFailed where a disk has not so many bytes left: a stranger's pack may hold zeros that fill any."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = disk_usage(there).free
    if size > free:
        what = f"it takes {size:,} bytes, but there is only room for {free:,}"
        raise FileFailed(what, where=session, state=IN_PACK, remedy=f"Make room on the disk of {folder}.")


def _draft(folder: Path, entry: Entry, member: Member, reader: PackReader) -> Path:
    """Write a file of a pack under another name, with its mode and time; a killed run's is like any draft of ours."""
    path = folder / f"{Path(entry.path).name}.temp-{os.urandom(4).hex()}"
    fd = create_in_folder(path, exclusive=True)
    try:
        for piece in reader.read(entry, member):
            disk.write_all(fd, piece)
        above = folder.parent.stat()
        if os.geteuid() == 0 and (above.st_uid, above.st_gid) != (0, 0):
            disk.system.chown(fd, above.st_uid, above.st_gid)
        # A session is read, never run, and nobody but its owner writes it.
        disk.system.chmod(fd, member.mode & 0o644)
        disk.system.utime(fd, ns=(member.mtime_ns, member.mtime_ns))
        disk.system.fsync(fd)
    except BaseException:
        disk.remove(path)
        raise
    finally:
        os.close(fd)
    return path


def copy_out(entry: Entry, reader: PackReader, folder: Path) -> Path:
    """Write a packed session and its store into an empty folder, to be read there. Raises Unreadable, OSError."""
    session = folder / Path(entry.path).name
    disk.make_folder(folder)
    _refuse_if_no_room(str(session), folder, entry.size)
    for member in sorted(entry.members, key=lambda member: member.start):
        path = folder / Path(member.path).relative_to(Path(entry.path).parent)
        disk.make_folder(path.parent)
        with disk.closing(disk.create(path)) as fd:
            for piece in reader.read(entry, member):
                disk.write_all(fd, piece)
            disk.system.utime(fd, ns=(member.mtime_ns, member.mtime_ns))
    return session


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
            for name in sorted(os.listdir(folder)):
                if name.endswith(TEMP) or (name.startswith(".") and f"{INDEX}." in name):
                    disk.remove(folder / name)
            disk.flush_folder(folder)
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
