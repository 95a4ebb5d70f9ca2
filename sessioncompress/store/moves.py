"""Move sessions away once a pack is certain, and back to their places, without overwriting anything.

First finish what a killed run began if its pack is certain; otherwise undo it.
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
    FileFailed,
    IsALink,
    Refused,
    SessionCompressError,
    Unsupported,
    failing,
)
from sessioncompress.store import disk
from sessioncompress.store.folder import create_in_folder, make_ours, refuse_linked_folder, tidy
from sessioncompress.store.late_links import LeftOver
from sessioncompress.store.layout import FOLDER, sessions_named, status_of, store_in
from sessioncompress.store.lock import OpenForWriting, OpenSession, held, open_file, wait_for_lock, wait_until_free
from sessioncompress.store.machine import folder_name, make_key
from sessioncompress.store.pack import INDEX, Entry, Member, PackReader, State, is_same
from sessioncompress.store.packing import Pack, Packed, by_tar, packs_in
from sessioncompress.store.places import IN_PACK, TEMP, Bucket, Disk, Place, is_below, packs_of
from sessioncompress.store.swap import HOLD_SECONDS, LINK_SECONDS

_LOCK_SECONDS: Final = 5.0


def aside_of(path: Path) -> Path:
    """Return where a session waits until no program writes to it. No branch can contain that path."""
    return path.parent / FOLDER / folder_name() / f"{path.name}.packed"


def take_out(each: Packed, session: OpenSession) -> None:
    """Remove a locked session and its store from their places, after a pack has them.

    First move it aside, where no program finds it; if a program still writes to it, put it back. Raises InUse, and
    leaves the session in place, if it has changed since it was packed.
    """
    path = session.path
    with failing(path):
        if session.left_over or not is_as_packed(each):
            raise session.in_use("it has changed since it was packed")
        # If the system can't report who has it open, a recent write counts as open.
        if held(session.fd) is OpenForWriting.UNKNOWN and time.time() - session.stat.st_mtime < LINK_SECONDS:
            raise session.in_use("it changed less than an hour ago")
        aside = aside_of(path)
        if os.path.lexists(aside):
            what = "a session with that name that was being packed is still here"
            raise Refused(what, where=aside, remedy="Compare the two, and move one away.")
        make_ours(aside.parent)
        with session.pointers.leaving():
            disk.system.replace(path, aside)
            # Ask before reading the status: the last program to close it may have written until then, and no other can
            # open it.
            in_use = wait_until_free(session.fd, HOLD_SECONDS) is OpenForWriting.YES
            was, now = session.stat, aside.lstat()
            if in_use or (now.st_ino, now.st_size, now.st_mtime_ns) != (was.st_ino, was.st_size, was.st_mtime_ns):
                put_aside_back(aside, path)
                raise session.in_use("a program writes to it")
    with failing(path, "It is packed; what could not be deleted of it here goes with the next 'pack' or 'unpack'."):
        disk.remove(aside)
        _remove_store(each)


def is_as_packed(each: Packed, root: Path | None = None) -> bool:
    """Return True if a session and its store, or copies in `root`, are as packed, with no other store files."""
    files = each.files(root)
    session = next(iter(files))
    store = store_in(session)
    there = {path for path in (session, store.originals, store.journal) if os.path.lexists(path)}
    return there == files.keys() and all(is_same(path, member) for path, member in files.items())


def put_aside_back(aside: Path, path: Path) -> None:
    """Put a session back. Raises Refused if another file has taken its place; both then stay."""
    try:
        disk.system.link(aside, path, follow_symlinks=False)
    except FileExistsError:
        what = "a program wrote to it while it was packed, and there is another file in its place"
        state = f"It is in {aside.parent.name}/{aside.name}."
        raise Refused(what, where=path, state=state, remedy="Compare the two, and move one away.") from None
    disk.remove(aside)
    disk.flush_folder(path.parent)


def _remove_store(each: Packed) -> None:
    """Remove the store of a removed session, except files that changed since they were packed."""
    for path, member in each.files().items():
        if path != each.place and is_same(path, member):
            disk.remove(path)


def missing_of(each: Packed) -> list[Path]:
    """List the files of a session that are not at their places.

    Raises Refused if another file is in a place, or a link leads the path elsewhere; FileFailed.
    """
    at, missing = each.pack.at, []
    with failing(each.shown, IN_PACK):
        for path, member in each.files().items():
            if isinstance(at, Disk) and not is_below(at.root, path):
                what, remedy = "there is a link on the path to it", "Move the link away."
                raise IsALink(what, where=path, state=IN_PACK, remedy=remedy)
            if at.size(path) is None:
                missing.append(path)
            else:
                # In a bucket, a run that failed before it wrote the session may have added to its store.
                at.refuse_another(path, member, begun=isinstance(at, Bucket) and path != each.place)
    return missing


def bring_back(each: Packed, missing: Sequence[Path], reader: PackReader, check: Callable[[Path], None]) -> None:
    """Put the missing files of a session back to their places, the session last. Overwrite nothing.

    `check` gets the session before it has its name, and raises if it is not a session. Raises the errors of `check` and
    missing_of(); Unreadable.
    """
    at, files, session = each.pack.at, each.files(), each.place
    largest = max(member.size for member in files.values())
    with failing(each.shown, IN_PACK), at.workroom(session, largest) as folder:
        drafts: dict[Path, Path] = {}
        placed: list[Path] = []
        _refuse_if_no_room(each.shown, folder, sum(files[path].size for path in missing))
        try:
            for path in missing:
                drafts[path] = folder / f"{session.name}.temp-{os.urandom(4).hex()}"
                _draft(drafts[path], each.entry, files[path], reader)
            if session in drafts:
                check(drafts[session])
            # The session gets its name last.
            for path in sorted(drafts, key=lambda path: path == session):
                at.put(drafts[path], path, files[path])
                placed.append(path)
        except (SessionCompressError, OSError) as error:
            # Every command reports a store without its session as damage.
            for path in placed:
                at.take_back(path)
            if isinstance(error, SessionCompressError) and Path(error.where or "") in drafts.values():
                # The draft no longer exists when the user reads this.
                error.where = each.shown
            if isinstance(error, Unsupported):
                error.what = "hard links are not possible here, and without one we could overwrite a file"
                error.state = IN_PACK
                tar = by_tar(each.pack.archive, each.pack.root)
                error.remedy = f"Unpack a copy of the pack on another disk, or by '{tar}'."
            raise
        finally:
            for draft in drafts.values():
                disk.remove(draft)


def _refuse_if_no_room(session: str, folder: Path, size: int) -> None:
    """Raise FileFailed if the disk has less than `size` bytes free. A malicious pack may expand to fill any disk."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = disk_usage(there).free
    if size > free:
        what = f"it takes {size:,} bytes, but there is only room for {free:,}"
        raise FileFailed(what, where=session, state=IN_PACK, remedy=f"Make room on the disk of {folder}.")


def _draft(path: Path, entry: Entry, member: Member, reader: PackReader) -> None:
    """Write a file of a pack as a draft, with its mode and time. Later runs treat it like any draft."""
    with disk.closing(create_in_folder(path, exclusive=True)) as fd:
        _write(fd, entry, member, reader)
        above = path.parent.parent.stat()
        if os.geteuid() == 0 and (above.st_uid, above.st_gid) != (0, 0):
            disk.system.chown(fd, above.st_uid, above.st_gid)
        # A session is read, never run, and only its owner writes it.
        disk.system.chmod(fd, member.mode & 0o644)
        disk.system.fsync(fd)


def copy_out(entry: Entry, reader: PackReader, folder: Path) -> Path:
    """Write a packed session and its store into an empty folder for reading. Raises Unreadable, OSError."""
    session = folder / Path(entry.path).name
    _refuse_if_no_room(str(session), folder, entry.size)
    for member in entry.members:
        path = folder / Path(member.path).relative_to(Path(entry.path).parent)
        disk.make_folder(path.parent)
        with disk.closing(disk.create(path)) as fd:
            _write(fd, entry, member, reader)
    return session


def _write(fd: int, entry: Entry, member: Member, reader: PackReader) -> None:
    for piece in reader.read(entry, member):
        disk.write_all(fd, piece)
    disk.set_time(fd, member.mtime_ns)


@contextmanager
def alone(at: Place) -> Iterator[list[Pack | SessionCompressError]]:
    """Lock a place's packs, settle what a killed run left there, and yield the packs.

    A bucket is not locked: each write there has its own condition. Raises InUse, IsALink, Unsupported, FileFailed.
    """
    if not isinstance(at, Disk):
        yield list(packs_in(at))
        return
    root = at.root
    if os.name != "posix":
        raise Unsupported("writing is supported on Linux and macOS only", where=root)
    make_key()
    folder = packs_of(root)
    with failing(root):
        for each in (root / FOLDER, folder.parent, folder):
            refuse_linked_folder(each)
        # Lock the root, not the folder of packs: that one may be removed, and is locked briefly while it is hidden from
        # git.
        with disk.closing(disk.open_folder(root)) as fd:
            wait_for_lock(fd, _LOCK_SECONDS, folder, "another sessioncompress is working on the packs there")
            disk.make_folder(folder)
            try:
                _settle(root)
                yield list(packs_in(at))
            finally:
                # Remove the folder of packs and our folder if they are empty.
                tidy(folder)
                tidy(root / FOLDER)


def _settle(root: Path) -> None:
    """Finish what a killed run began if its pack was certain; otherwise undo it."""
    folder = packs_of(root)
    for name in sorted(os.listdir(folder)):
        if name.endswith(TEMP) or (name.startswith(".") and f"{INDEX}." in name):
            disk.remove(folder / name)
    disk.flush_folder(folder)
    left_in = cache(sessions_named)
    for pack in packs_in(Disk(root)):
        # A pack that a checkout can remove must not replace the session.
        if not isinstance(pack, Pack) or not pack.is_certain:
            continue
        left: dict[str, State] = {}
        for each in pack.sessions():
            # A file that can't be deleted must not stop the other sessions; a later run removes it.
            with suppress(OSError):
                if not is_below(root, each.place):
                    continue
                if each.place.name in left_in(each.place.parent / FOLDER):
                    _remove_drafts(each)
                if each.is_packed and _put_back(each):
                    left[each.entry.path] = State.LEFT
        pack.mark(left)
        for work in {each.place.parent / FOLDER for each in pack.sessions()}:
            if work.is_dir() and is_below(root, work):
                tidy(work)


def _put_back(each: Packed) -> bool:
    """Remove a session that a killed run had put aside, with its store; or put it back, and return True."""
    path, aside = each.place, aside_of(each.place)
    is_aside = os.path.lexists(aside)
    if os.path.lexists(path):
        if is_aside and path.samefile(aside):
            disk.remove(aside)
        # Otherwise the agent has begun a new one with that name. Keep both; commands on it report this.
        return False
    if not (is_aside or any(map(os.path.lexists, each.files()))):
        return False
    if each.reads_back() and (not is_aside or _may_go(aside, each.entry)):
        disk.remove(aside)
        _remove_store(each)
        return False
    if is_aside:
        put_aside_back(aside, path)
    return is_aside


def _may_go(aside: Path, entry: Entry) -> bool:
    """Return True if the session put aside is unchanged since it was packed, and no program writes to it."""
    with suppress(Refused), disk.closing(open_file(aside)) as fd:
        return held(fd) is not OpenForWriting.YES and is_same(aside, entry.members[0])
    return False


def _remove_drafts(each: Packed) -> None:
    """Remove the drafts of a session that a killed run was unpacking, and second names of files in place."""
    there = [found for found in map(status_of, each.files()) if found is not None]
    is_gone = not os.path.lexists(each.place)
    for draft in LeftOver(each.place).drafts:
        if is_gone or any(os.path.samestat(draft.lstat(), found) for found in there):
            disk.remove(draft)
