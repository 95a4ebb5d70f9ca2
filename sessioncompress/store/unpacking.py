"""Bring a session back from a pack to its place, where nothing is overwritten; or copy it out, to be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from shutil import disk_usage

from sessioncompress.errors import FileFailed, IsALink, Refused, SessionCompressError, Unsupported, failing
from sessioncompress.store import disk
from sessioncompress.store.folder import create_in_folder, make_ours, tidy
from sessioncompress.store.layout import FOLDER, is_local, store_in
from sessioncompress.store.lock import open_file
from sessioncompress.store.pack import Entry, Member, PackReader, is_same
from sessioncompress.store.packing import Pack, by_tar, is_below
from sessioncompress.store.swap import link


def bring_back(pack: Pack, entry: Entry, reader: PackReader, check: Callable[[Path], None]) -> None:
    """Put a session and its store back to their places, where nothing is overwritten; the session comes last.

    `check` sees the session before it has its name, and raises where it is none. Raises Refused where another file is
    in a place, or the way there leads elsewhere; Unreadable; FileFailed.
    """
    with failing(pack.place(entry), "It is in the pack."):
        for member in sorted(entry.members, key=lambda member: member.start):
            path = pack.root / member.path
            if not is_below(pack.root, path):
                what = "there is a link on the path to it"
                raise IsALink(what, where=path, state="It is in the pack.", remedy="Move the link away.")
        first, *others = entry.members
        drafts: dict[Member, Path] = {}
        placed: list[Path] = []
        missing = [each for each in entry.members if not is_same(pack.root / each.path, each)]
        _refuse_if_no_room(pack.place(entry), pack.root, sum(each.size for each in missing))
        try:
            # The archive is read in its order; the session gets its name last.
            for member in missing:
                drafts[member] = _draft(pack, entry, member, reader)
            check(drafts.get(first, pack.place(entry)))
            for member in (*others, first):
                if member in drafts:
                    _put_in_place(drafts[member], pack, member)
                    placed.append(pack.root / member.path)
        except (SessionCompressError, OSError):
            # A store without its session is damage to every command.
            for path in placed:
                disk.remove(path)
            raise
        finally:
            for draft in drafts.values():
                disk.remove(draft)
        tidy(store_in(pack.place(entry)).work)


def _refuse_if_no_room(session: Path, folder: Path, size: int) -> None:
    """Raise FileFailed where a disk has not so many bytes left: a stranger's pack may hold zeros that fill any."""
    free = disk_usage(folder).free
    if size > free:
        what = f"it takes {size:,} bytes, but there is only room for {free:,}"
        remedy = f"Make room on the disk of {folder}."
        raise FileFailed(what, where=session, state="It is in the pack.", remedy=remedy)


def _draft(pack: Pack, entry: Entry, member: Member, reader: PackReader) -> Path:
    """Write a file of a pack under another name, with its mode and time; a killed run's is like any draft of ours."""
    session = pack.place(entry)
    path = session.parent / FOLDER / f"{session.name}.temp-{os.urandom(4).hex()}"
    disk.make_folder(session.parent)
    fd = create_in_folder(path, exclusive=True)
    try:
        for piece in reader.read(entry, member):
            disk.write_all(fd, piece)
        above = session.parent.stat()
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
    _refuse_if_no_room(session, folder, entry.size)
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


def _put_in_place(draft: Path, pack: Pack, member: Member) -> None:
    path = pack.root / member.path
    if is_local(path.parent.name):
        make_ours(path.parent)
    try:
        link(draft, path)
    except FileExistsError:
        if not is_same(path, member):
            what = "there is another file in its place"
            state = "It was not changed; the packed one is in the pack."
            raise Refused(what, where=path, state=state, remedy="Move it away, and run again.") from None
    except Unsupported as error:
        what = "hard links are not possible here, and without one we could overwrite a file"
        remedy = f"Unpack a copy of the pack on another disk, or by '{by_tar(pack.archive, pack.root)}'."
        raise Unsupported(what, where=path, state="It is in the pack.", remedy=remedy) from error
