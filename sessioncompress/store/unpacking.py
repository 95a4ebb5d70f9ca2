"""Bring a session back from a pack to its place, where nothing is overwritten; or copy it out, to be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from shutil import disk_usage

from sessioncompress.errors import FileFailed, SessionCompressError, Unsupported, failing
from sessioncompress.store import disk
from sessioncompress.store.folder import create_in_folder
from sessioncompress.store.layout import store_in
from sessioncompress.store.lock import open_file
from sessioncompress.store.pack import Entry, Member, PackReader
from sessioncompress.store.packing import Pack, by_tar
from sessioncompress.store.places import IN_PACK


def bring_back(pack: Pack, entry: Entry, reader: PackReader, check: Callable[[Path], None]) -> None:
    """Put a session and its store back to their places, where nothing is overwritten; the session comes last.

    `check` sees the session before it has its name, and raises where it is none. Raises Refused where another file is
    in a place, or the way there leads elsewhere; Unreadable; FileFailed.
    """
    at, (first, *others) = pack.at, entry.members
    session = pack.place(entry)
    largest = max(each.size for each in entry.members)
    with failing(at.shown(session), IN_PACK):
        in_order = sorted(entry.members, key=lambda member: member.start)
        missing = [each for each in in_order if at.is_missing(pack.root / each.path, each, whole=each is first)]
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


def copy_of(session: Path, folder: Path) -> Path:
    """Copy a session and its store into a folder, to be read there. Raises NotASession, IsALink, OSError."""
    store = store_in(session)
    for path in (session, store.originals, store.journal):
        if path != session and not os.path.lexists(path):
            continue
        copy = folder / path.relative_to(session.parent)
        disk.make_folder(copy.parent)
        with (
            disk.closing(open_file(path)) as fd,
            disk.reader(fd, 0, os.fstat(fd).st_size) as file,
            disk.closing(disk.create(copy)) as to,
        ):
            for piece in iter(lambda: file.read(disk.BUFFER), b""):
                disk.write_all(to, piece)
    return folder / session.name
