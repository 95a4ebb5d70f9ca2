"""Places of sessions and packs, with one interface: below a local folder, or below a URL in a bucket.

Paths below the root name the files there. In a bucket, each path maps to a URL. Nothing is deleted there, so an empty
object counts as missing. Each write is conditional on the object being the version that was read; this replaces a lock.
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
from sessioncompress.core.text import MB
from sessioncompress.errors import (
    NOTHING_DONE,
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
from sessioncompress.store.objects import Object
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
"""Bytes. A session is uploaded from memory as a whole, so that no part of it can appear before the rest."""
_LONGEST_NAME: Final = 255
_COPY: Final = "sessioncompress-copy-"
_LEFT_SECONDS: Final = 3600


class Disk:
    """A local folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def shown(self, path: Path) -> str:
        """Return a path for messages."""
        return str(path)

    def folders(self) -> list[Path]:
        """List the pack folders that exist: this user's, version 1's, and other machines' and users'."""
        if not os.path.lexists(self.root / FOLDER):
            return []
        above = (self.root / FOLDER / name for name in (folder_name(), "", *locals_in(self.root / FOLDER)))
        found = dict.fromkeys(folder / PACKS for folder in above)
        return [each for each in found if os.path.isdir(each)]  # noqa: PTH112 - raises nothing

    def names(self, folder: Path) -> list[str]:
        """List the names in a pack folder. Raises IsALink for a link, which could lead anywhere; FileFailed."""
        for each in (self.root / FOLDER, folder.parent, folder):
            refuse_linked_folder(each)
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise failed(error, folder) from error

    def size(self, path: Path) -> int | None:
        """Return the size of a file in bytes, or None if it is missing or its name is impossible (untrusted index)."""
        try:
            return path.lstat().st_size
        except OSError:
            return None

    def is_certain(self, archive: Path) -> bool:
        """True if only this user, on this machine, could have made it: a branch can bring any file that git knows."""
        index = archive.with_name(archive.name.removesuffix(ARCHIVE) + INDEX)
        return archive.parent.parent.name == folder_name() and self._known_to_git.isdisjoint((archive, index))

    @cached_property
    def _known_to_git(self) -> frozenset[Path]:
        """The files of this user's packs that git knows, from one call for all packs."""
        folder = packs_of(self.root)
        return frozenset(known(folder / name for name in self.names(folder)))

    def index(self, path: Path) -> Index:
        """Read an index. Raises Damaged, Refused, FileFailed.

        The index and its archive must belong to this user: their author decides what is unpacked, and to where.
        """
        _refuse_of_others(path)
        _refuse_of_others(path.with_name(path.name.removesuffix(INDEX) + ARCHIVE))
        return read_index(path)

    def note(self, path: Path, index: Index) -> bool:
        """Replace an index atomically; return True, because alone() keeps out other runs that could have changed it."""
        disk.put(path, index.written())
        return True

    def drop(self, archive: Path, index: Path) -> None:
        """Remove a pack without sessions. The archive is first, because an index without an archive reports no loss."""
        disk.remove(archive)
        disk.remove(index)
        disk.flush_folder(archive.parent)

    def free_name(self, base: str, taken: Collection[str] = ()) -> str:
        """Return a pack name that is not in use. No other run can take it meanwhile, because of alone()."""
        folder = packs_of(self.root)
        for number in count(1):
            free = f"{base}-{number}"
            files = (folder / f"{free}{end}" for end in (ARCHIVE, INDEX, TEMP))
            if free not in taken and not any(map(os.path.lexists, files)):
                break
        return free

    def publish(self, draft: Path, name: str, index: Index) -> None:
        """Make a pack of a verified archive. The archive ends with its index, so renaming it makes the pack certain."""
        disk.system.replace(draft, draft.with_name(f"{name}{ARCHIVE}"))
        disk.flush_folder(draft.parent)
        disk.put(draft.with_name(f"{name}{INDEX}"), index.written())

    def opened(self, archive: Path) -> AbstractContextManager[Span]:
        """Open an archive for reading ranges of bytes."""
        _refuse_of_others(archive)
        return opened(archive)

    def refuse_another(self, path: Path, member: Member, *, begun: bool = False) -> None:
        """Raise Refused unless the file equals the packed member; with `begun`, it may also have grown since."""
        if not is_same(path, member, begun=begun):
            raise another(path)

    @contextmanager
    def workroom(self, session: Path, size: int) -> Iterator[Path]:
        """Yield the folder for drafts of a session: our folder next to it, where runs clean up after killed ones."""
        del size
        disk.make_folder(session.parent)
        yield session.parent / FOLDER
        tidy(store_in(session).work)

    def put(self, draft: Path, path: Path, member: Member) -> None:
        """Link a draft to its path, where an equal file may exist. Raises Refused for another file; FileFailed."""
        if is_local(path.parent.name):
            make_ours(path.parent)
        try:
            link(draft, path)
        except FileExistsError:
            self.refuse_another(path, member)

    def take_back(self, path: Path) -> None:
        """Remove the file that put() just created, so that no store is left without its session."""
        disk.remove(path)

    def flush(self, paths: Iterable[Path]) -> None:
        """Flush new files' names to disk: flush each folder up to the packed one, because any of them may be new."""
        found = {
            each for path in paths for each in (path.parent / FOLDER, *path.parents) if each.is_relative_to(self.root)
        }
        for folder in sorted(found):
            if folder.is_dir():
                disk.flush_folder(folder)


class Bucket:
    """The objects below a URL, which has no trailing slash.

    A read-only caller may pass a `listing`: the sizes, by URL, of all sessions whose URLs begin with `listed`.
    """

    def __init__(self, url: str, listing: Mapping[str, int] | None = None, listed: str = "") -> None:
        self.root = Path(url)
        self._url = url
        self._listing = listing
        self._listed = listed
        self._seen: dict[Path, Object] = {}
        """The indexes as last read or put: the next write requires that they are unchanged."""

    def shown(self, path: Path) -> str:
        """Return the URL of a path."""
        return "/".join((self._url, *path.relative_to(self.root).parts))

    def folders(self) -> list[Path]:
        """List the only pack folder: every machine must find it."""
        return [self.root / FOLDER / PACKS]

    def names(self, folder: Path) -> list[str]:
        """List the names of the objects that are not empty."""
        found = objects.listed(self.shown(folder))
        return sorted(each["path"].rpartition("/")[2] for each in found if each["size"])

    def size(self, path: Path) -> int | None:
        """Return the size of an object in bytes, from the listing if it covers the URL, or None if missing or empty."""
        url = self.shown(path)
        if self._listing is not None and url.startswith(self._listed):
            return self._listing.get(url) or None
        found = objects.looked_up(url)
        return found["size"] or None if found else None

    def is_certain(self, archive: Path) -> bool:
        """Return True: no branch can bring files into a bucket."""
        del archive
        return True

    def index(self, path: Path) -> Index:
        """Read an index that was listed as not empty. Raises NotASession, Damaged, Refused, InUse, FileFailed."""
        url = self.shown(path)
        refuse_unless_file(url, path.name, path.name.removesuffix(INDEX) + ARCHIVE)
        seen = objects.met(url, path)
        if seen.size > LONGEST_INDEX:
            what = f"it is larger than {LONGEST_INDEX:,} bytes"
            raise Damaged(what, where=url, state=NOTHING_DONE, remedy="Find out who wrote it.")
        if not seen.size:
            raise InUse("another run just removed it", where=url, state=NOTHING_DONE, remedy="Run again.")
        found = index_of(url, b"".join(seen.pieces()))
        self._seen[path] = seen
        return found

    def _met(self, index: Path) -> Object:
        if index not in self._seen:
            self._seen[index] = objects.met(self.shown(index), index)
        return self._seen[index]

    def note(self, path: Path, index: Index) -> bool:
        """Put an index; return False if another run has changed it."""
        try:
            self._met(path).put(index.written(), state="The sessions are in their places, and in the pack too.")
        except InUse:
            return False
        return True

    def drop(self, archive: Path, index: Path) -> None:
        """Empty the objects of a pack. The index is first: if another run has changed it, the archive must stay."""
        try:
            self._met(index).put(b"")
        except InUse:
            return
        objects.met(self.shown(archive), archive).put(b"")

    def free_name(self, base: str, taken: Collection[str] = ()) -> str:
        """Return a random name that no one else uses: an archive is uploaded in parts, which can't be conditional."""
        del taken
        return f"{base}-{os.urandom(8).hex()}"

    def publish(self, draft: Path, name: str, index: Index) -> None:
        """Put the archive and then the index, and read both back. Raises InUse, FileFailed."""
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
        """Open an archive for reading ranges of bytes."""
        url = self.shown(archive)
        yield Span(url, self.size(archive) or 0, lambda start, end: next(objects.ranged(url, start, end), b""))

    def refuse_another(self, path: Path, member: Member, *, begun: bool = False) -> None:
        """Raise Refused unless the object equals the packed member; with `begun`, it may also have grown since."""
        digest = sha256()
        for piece in objects.ranged(self.shown(path), 0, member.size):
            digest.update(piece)
        if digest.hexdigest() != member.sha256 or (self.size(path) != member.size and not begun):
            raise another(self.shown(path), "object")

    @contextmanager
    def workroom(self, session: Path, size: int) -> Iterator[Path]:
        """Yield a private folder for drafts. Raise Refused if a session is too large to put; it could fill the disk."""
        if size > LARGEST:
            what = f"it has more than {LARGEST // MB:,} MB, more than any session in an object store may have"
            raise Refused(what, where=self.shown(session), state=IN_PACK, remedy="Unpack a local copy of the pack.")
        with private_folder() as folder:
            yield folder

    def put(self, draft: Path, path: Path, member: Member) -> None:
        """Put a draft if the object is missing or empty, and read it back. Raises Refused, InUse, FileFailed."""
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
        """Leave the object: the next run finds it unchanged."""

    def flush(self, paths: Iterable[Path]) -> None:
        """Do nothing: objects are not on our disk."""


Place = Disk | Bucket
"""A place to read packs from, and to unpack sessions to."""


def packs_of(root: Path) -> Path:
    """Return the folder for a folder's new packs. No branch or clone can bring a folder of that name."""
    return root / FOLDER / folder_name() / PACKS


def _refuse_of_others(file: Path) -> None:
    if os.path.lexists(file) and not is_own(file):
        what, state = "another user owns it", "Nothing of the pack was read."
        raise Refused(what, where=file, state=state, remedy="If you trust it, make it your own with 'chown'.")


def another(where: Path | str, what: str = "file") -> Refused:
    """Return the error for a session that can't be unpacked because another file has its place."""
    what, state = f"there is another {what} in its place", "It was not changed; the packed one is in the pack."
    return Refused(what, where=where, state=state, remedy="Move it away, and run again.")


def _not_read_back(url: str, state: str) -> FileFailed:
    return FileFailed("it does not read back as it was uploaded", where=url, state=state, remedy="Run again.")


def refuse_unless_file(url: str, *names: str) -> None:
    """Raise NotASession if a name is not a possible file name."""
    if any(len(os.fsencode(each)) > _LONGEST_NAME or "\0" in each or each in ("", ".", "..") for each in names):
        raise NotASession("its name is not a possible file name", where=url)


def is_below(root: Path, path: Path) -> bool:
    """True if no link on the path leads elsewhere."""
    return path.parent.resolve() == root.resolve() / path.parent.relative_to(root)


@contextmanager
def private_folder() -> Iterator[Path]:
    """Create a temporary folder for copies that only this user can enter. Raises OSError.

    It is removed at the end of the block or at a signal; after a kill, by a later run.
    """
    _sweep()
    with TemporaryDirectory(prefix=_COPY) as made, disk.closing(disk.open_folder(Path(made))) as fd:
        # _sweep() leaves a locked folder alone: it is in use.
        lock(fd)
        with emptied_at_a_signal(made):
            yield Path(os.path.realpath(made))


@cache
def _sweep() -> None:
    """Remove folders of killed runs, because they hold content of sessions."""
    for folder in Path(gettempdir()).glob(f"{_COPY}*"):
        with suppress(OSError):
            found = folder.lstat()
            if found.st_uid != os.getuid() or time.time() - found.st_mtime < _LEFT_SECONDS:
                continue
            with disk.closing(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)) as fd:
                if lock(fd):
                    rmtree(folder, ignore_errors=True)
