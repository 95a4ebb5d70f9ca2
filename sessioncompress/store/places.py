"""Where sessions and their packs are: below a folder of this machine, or below a URL in a bucket, told alike.

A place is named by paths below its root. In a bucket these only stand for URLs; what is empty there is not there, since
nothing is deleted, and the condition of each write, that the object is what was seen, takes the place of a lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, cached_property
from hashlib import sha256
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

from sessioncompress.core.process import emptied_at_a_signal
from sessioncompress.errors import (
    NOT_CHANGED,
    Damaged,
    FileFailed,
    InUse,
    NotASession,
    Refused,
    failed,
)
from sessioncompress.store import disk, objects
from sessioncompress.store.folder import make_ours, refuse_linked_folder, tidy
from sessioncompress.store.git import known
from sessioncompress.store.layout import ARCHIVE, FOLDER, PACKS, is_local, is_own, locals_in, store_in
from sessioncompress.store.lock import lock
from sessioncompress.store.machine import folder_name
from sessioncompress.store.objects import MB, NOTHING, Object
from sessioncompress.store.pack import (
    INDEX,
    LONGEST_INDEX,
    Index,
    Member,
    Span,
    index_of,
    is_same,
    opened,
    read_index,
)
from sessioncompress.store.swap import link

TEMP: Final = f"{ARCHIVE}.temp"
_NOT_TAKEN: Final = "No session was moved."
IN_PACK: Final = "It is in the pack."
LARGEST: Final = 1024 * MB
"""Bytes. A session that is put into a bucket is in memory as a whole: no part of it may appear before the rest."""
_LONGEST_NAME: Final = 255
_COPY: Final = "sessioncompress-copy-"
_LEFT_SECONDS: Final = 3600


class Disk:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def shown(self, path: Path) -> str:
        """Write a path as the user knows it."""
        return str(path)

    def folders(self) -> list[Path]:
        """List this user's folder of packs, that of the first version, and those of other machines and users."""
        if not os.path.lexists(self.root / FOLDER):
            return []
        above = (self.root / FOLDER / name for name in (folder_name(), "", *locals_in(self.root / FOLDER)))
        return [each for each in dict.fromkeys(folder / PACKS for folder in above) if os.path.lexists(each)]

    def names(self, folder: Path) -> list[str]:
        """List what is in a folder of packs. Raises IsALink, as through a link it would be another one; FileFailed."""
        for each in (self.root / FOLDER, folder.parent, folder):
            refuse_linked_folder(each)
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise failed(error, folder) from error

    def size(self, path: Path) -> int | None:
        """Look up how many bytes are at a path; None for nothing, as for what no system takes of a stranger's index."""
        try:
            return path.lstat().st_size
        except OSError:
            return None

    def is_certain(self, archive: Path) -> bool:
        """Tell whether only this user, on this machine, can have made it: a branch may bring whatever git knows."""
        index = archive.with_name(archive.name.removesuffix(ARCHIVE) + INDEX)
        return archive.parent.parent.name == folder_name() and self._known_to_git.isdisjoint((archive, index))

    @cached_property
    def _known_to_git(self) -> frozenset[Path]:
        """What git has of this user's packs, asked once for all."""
        folder = packs_of(self.root)
        return frozenset(known(folder / name for name in self.names(folder)))

    def index(self, path: Path) -> Index:
        """Read an index. Raises Damaged, Refused, FileFailed.

        None that another user owns, nor the archive: who wrote it says what comes back, and where to.
        """
        _refuse_of_others(path)
        _refuse_of_others(path.with_name(path.name.removesuffix(INDEX) + ARCHIVE))
        return read_index(path)

    def note(self, path: Path, index: Index) -> bool:
        """Replace an index in one step, unless another run wrote it since it was read; here alone() keeps them off."""
        disk.put(path, index.written())
        return True

    def drop(self, archive: Path, index: Path) -> None:
        """Remove a pack that holds no more. The archive goes first: an index without one tells of nothing lost."""
        disk.remove(archive)
        disk.remove(index)
        disk.flush_folder(archive.parent)

    def free_name(self, base: str, taken: Collection[str] = ()) -> str:
        """Name a new pack so that none has its name, nor will get it: alone() keeps others from the number."""
        folder = packs_of(self.root)
        for number in count(1):
            free = f"{base}-{number}"
            files = (folder / f"{free}{end}" for end in (ARCHIVE, INDEX, TEMP))
            if free not in taken and not any(map(os.path.lexists, files)):
                break
        return free

    def publish(self, draft: Path, name: str, index: Index) -> None:
        """Make a pack of an archive that was read back. It ends with its index, so that its name makes it certain."""
        disk.system.replace(draft, draft.with_name(f"{name}{ARCHIVE}"))
        disk.flush_folder(draft.parent)
        disk.put(draft.with_name(f"{name}{INDEX}"), index.written())

    def opened(self, archive: Path) -> AbstractContextManager[Span]:
        """Open an archive to read parts of it."""
        _refuse_of_others(archive)
        return opened(archive)

    def refuse_another(self, path: Path, member: Member, *, begun: bool = False) -> None:
        """Raise Refused unless what is at a path is as it was packed, or, where it may have `begun` so, goes on."""
        if not is_same(path, member, begun=begun):
            raise another(path)

    @contextmanager
    def workroom(self, session: Path, size: int) -> Iterator[Path]:
        """Give the folder for drafts of a session: ours beside it, where a killed run's are like any."""
        del size
        disk.make_folder(session.parent)
        yield session.parent / FOLDER
        tidy(store_in(session).work)

    def put(self, draft: Path, path: Path, member: Member) -> None:
        """Give a draft its name, where nothing has it. Raises Refused, FileFailed."""
        if is_local(path.parent.name):
            make_ours(path.parent)
        try:
            link(draft, path)
        except FileExistsError:
            self.refuse_another(path, member)

    def take_back(self, path: Path) -> None:
        """Remove what put() has just put, so that no store is without its session."""
        disk.remove(path)

    def flush(self, paths: Iterable[Path]) -> None:
        """Bring what was put to the disk: the folders of each up to the packed one, as any may be new."""
        found = {
            each for path in paths for each in (path.parent / FOLDER, *path.parents) if each.is_relative_to(self.root)
        }
        for folder in sorted(found):
            if folder.is_dir():
                disk.flush_folder(folder)


class Bucket:
    """What lies below a URL, without a slash at its end.

    Whoever only reads may give the sizes that a `listing` has, by URLs, of all sessions whose URLs begin with `listed`.
    """

    def __init__(self, url: str, listing: Mapping[str, int] | None = None, listed: str = "") -> None:
        self.root = Path(url)
        self._url = url
        self._listing = listing
        self._listed = listed
        self._seen: dict[Path, Object] = {}
        """The indexes as they were read or put last: the condition of the next write."""

    def shown(self, path: Path) -> str:
        """Write a path as its URL."""
        return "/".join((self._url, *path.relative_to(self.root).parts))

    def folders(self) -> list[Path]:
        """One: every machine must find it."""
        return [self.root / FOLDER / PACKS]

    def names(self, folder: Path) -> list[str]:
        """List what is not empty."""
        found = objects.listed(self.shown(folder))
        return sorted(each["path"].rpartition("/")[2] for each in found if each["size"])

    def size(self, path: Path) -> int | None:
        """Look it up in the listing, or else there."""
        url = self.shown(path)
        if self._listing is not None and url.startswith(self._listed):
            return self._listing.get(url) or None
        found = objects.looked_up(url)
        return found["size"] or None if found else None

    def is_certain(self, archive: Path) -> bool:
        """No branch is there."""
        del archive
        return True

    def index(self, path: Path) -> Index:
        """Read it; it was not empty as it was listed."""
        url = self.shown(path)
        refuse_unless_file(url, path.name, path.name.removesuffix(INDEX) + ARCHIVE)
        seen = objects.met(url, path)
        if seen.size > LONGEST_INDEX:
            what = f"it is larger than {LONGEST_INDEX:,} bytes"
            raise Damaged(what, where=url, state=NOTHING, remedy="Find out who wrote it.")
        if not seen.size:
            raise InUse("another run just removed it", where=url, state=NOTHING, remedy="Run again.")
        found = index_of(url, b"".join(seen.pieces()))
        self._seen[path] = seen
        return found

    def _met(self, index: Path) -> Object:
        """Return an index as this run saw it last, else as it is now."""
        if index not in self._seen:
            self._seen[index] = objects.met(self.shown(index), index)
        return self._seen[index]

    def note(self, path: Path, index: Index) -> bool:
        """Put it, if nobody has put another one."""
        try:
            self._met(path).put(index.written(), state="The sessions are in their places, and in the pack too.")
        except InUse:
            return False
        return True

    def drop(self, archive: Path, index: Path) -> None:
        """The index goes first: what is written to it meanwhile keeps the archive."""
        try:
            self._met(index).put(b"")
        except InUse:
            return
        objects.met(self.shown(archive), archive).put(b"")

    def free_name(self, base: str, taken: Collection[str] = ()) -> str:
        """Nobody else has it: an archive is put in parts, for which there is no condition."""
        del taken
        return f"{base}-{os.urandom(8).hex()}"

    def publish(self, draft: Path, name: str, index: Index) -> None:
        """Put the archive, then the index, and read both back."""
        (folder,) = self.folders()
        archive, path = self.shown(folder / f"{name}{ARCHIVE}"), folder / f"{name}{INDEX}"
        objects.put_new(archive, draft, _NOT_TAKEN)
        is_whole = objects.holds(archive, draft, _NOT_TAKEN)
        if is_whole:
            self._met(path).put(index.written(), state=_NOT_TAKEN)
            is_whole = self.index(path) == index
        if not is_whole:
            raise _not_read_back(archive, _NOT_TAKEN)

    @contextmanager
    def opened(self, archive: Path) -> Iterator[Span]:
        """Read it by ranges."""
        url = self.shown(archive)
        yield Span(url, self.size(archive) or 0, lambda start, end: next(objects.ranged(url, start, end), b""))

    def refuse_another(self, path: Path, member: Member, *, begun: bool = False) -> None:
        """Read it."""
        digest = sha256()
        for piece in objects.ranged(self.shown(path), 0, member.size):
            digest.update(piece)
        if digest.hexdigest() != member.sha256 or (self.size(path) != member.size and not begun):
            raise another(self.shown(path), "object")

    @contextmanager
    def workroom(self, session: Path, size: int) -> Iterator[Path]:
        """In a private folder; a larger one cannot be put, and a stranger's pack would fill the disk with it."""
        if size > LARGEST:
            what = f"it has more than {LARGEST // MB:,} MB, more than any session in an object store may have"
            raise Refused(what, where=self.shown(session), state=IN_PACK, remedy="Unpack a local copy of the pack.")
        with private_folder() as folder:
            yield folder

    def put(self, draft: Path, path: Path, member: Member) -> None:
        """Put it where there is nothing, or nothing any more, and read it back."""
        del member
        there = objects.met(self.shown(path), draft)
        if there.size:
            raise another(there.url, "object")
        there.put(state=IN_PACK)
        if objects.holds(there.url, draft, IN_PACK):
            return
        if there.is_overwritten():
            what = "somebody else wrote it as soon as it was back"
            state = "What they wrote is there; the packed one is in the pack, too."
            raise InUse(what, where=there.url, state=state, remedy="Check that they began with it.")
        raise _not_read_back(there.url, IN_PACK)

    def take_back(self, path: Path) -> None:
        """It stays: the next run finds it as it was packed."""

    def flush(self, paths: Iterable[Path]) -> None:
        """A put is on no disk of ours."""


Place = Disk | Bucket
"""What packs are read from, and sessions are brought back to."""


def packs_of(root: Path) -> Path:
    """Name the folder in which new packs of a folder lie: one that no branch and no clone can bring."""
    return root / FOLDER / folder_name() / PACKS


def _refuse_of_others(file: Path) -> None:
    if os.path.lexists(file) and not is_own(file):
        what, state = "another user owns it", "Nothing of the pack was read."
        raise Refused(what, where=file, state=state, remedy="If you trust it, make it your own with 'chown'.")


def another(where: Path | str, what: str = "file") -> Refused:
    """Make the error of a session that cannot come back to its place."""
    what, state = f"there is another {what} in its place", "It was not changed; the packed one is in the pack."
    return Refused(what, where=where, state=state, remedy="Move it away, and run again.")


def _not_read_back(url: str, state: str) -> FileFailed:
    return FileFailed("it does not read back as it was uploaded", where=url, state=state, remedy="Run again.")


def refuse_unless_file(url: str, *names: str) -> None:
    """Raise NotASession where no files can have these names."""
    if any(len(os.fsencode(each)) > _LONGEST_NAME or "\0" in each or each in ("", ".", "..") for each in names):
        raise NotASession("its name is not a possible file name", where=url, state=NOT_CHANGED)


def is_below(root: Path, path: Path) -> bool:
    """Tell whether no link on the way leads elsewhere."""
    return path.parent.resolve() == root.resolve() / path.parent.relative_to(root)


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder for copies that nobody else may enter. Raises OSError.

    It goes with the block, at a signal, and after a kill later.
    """
    _sweep()
    with TemporaryDirectory(prefix=_COPY) as made, disk.closing(disk.open_folder(Path(made))) as fd:
        # What is locked is in use.
        lock(fd)
        with emptied_at_a_signal(made):
            yield Path(os.path.realpath(made))


@cache
def _sweep() -> None:
    """Remove what killed runs left: it holds what sessions hold."""
    for folder in Path(gettempdir()).glob(f"{_COPY}*"):
        with suppress(OSError):
            found = folder.lstat()
            if found.st_uid != os.getuid() or time.time() - found.st_mtime < _LEFT_SECONDS:
                continue
            with disk.closing(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)) as fd:
                if lock(fd):
                    rmtree(folder, ignore_errors=True)
