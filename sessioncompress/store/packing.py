"""The order of writes of packs: no session goes before it reads back from a pack that is certain, and none twice.

A pack lies in our folder beside the sessions, as `packs/NAME.tar.zst` and `packs/NAME.index`. The index is its commit:
what it names and is not at its place is in the pack; what is at its place counts, and not the pack.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Final, Self

from msgspec.structs import replace

from sessioncompress.core.text import counted
from sessioncompress.errors import NOT_CHANGED, Damaged, FileFailed, InUse, Refused, SessionCompressError, failing
from sessioncompress.store import disk
from sessioncompress.store.folder import create_in_folder
from sessioncompress.store.layout import ARCHIVE, FOLDER, sessions_named, store_in
from sessioncompress.store.lock import Held, OpenSession, held, wait_until_free
from sessioncompress.store.objects import Object
from sessioncompress.store.pack import (
    INDEX,
    MODE,
    Entry,
    Index,
    Member,
    PackReader,
    PackWriter,
    Source,
    State,
    in_order,
    index_in,
    is_same,
    opened,
)
from sessioncompress.store.places import NEW, TEMP, Disk, Place, packs_of
from sessioncompress.store.recover import LINK_SECONDS
from sessioncompress.store.swap import HOLD_SECONDS, link

_TRIES: Final = 5
_ASIDE: Final = ".packed"
"""Ends the name under which a session waits in our folder until it is certain that nobody writes to it."""


class Pack:
    """One pack: the place that was packed, its name, its index, and the folder in which both its files lie."""

    def __init__(
        self, at: Place, name: str, index: Index, seen: Object | None = None, folder: Path | None = None
    ) -> None:
        self.at = at
        self.root = at.root
        self.name = name
        self.index = index
        self.folder = folder or packs_of(at.root)
        self._seen = seen
        self.has_index = True

    @property
    def archive(self) -> Path:
        """The archive's path."""
        return self.folder / f"{self.name}{ARCHIVE}"

    @property
    def shown(self) -> str:
        """The archive, as the user knows it."""
        return self.at.shown(self.archive)

    @cached_property
    def is_certain(self) -> bool:
        """Whether this user made it on this machine, or in the first version, and git does not know it."""
        return self.at.is_certain(self.archive)

    def place(self, entry: Entry) -> Path:
        """Where a session was, and belongs."""
        return self.root / entry.path

    def waiting(self) -> list[Entry]:
        """List the sessions that are in the pack and not at their places."""
        return [each for each in self.index.entries if self.holds(each)]

    def packed(self) -> list[Entry]:
        """List the sessions that are in the pack, wherever else they are."""
        return [each for each in self.index.entries if each.state is State.PACKED]

    def holds(self, entry: Entry) -> bool:
        """Tell whether a session is in the pack and not at its place."""
        return entry.state is State.PACKED and self.at.size(self.place(entry)) is None

    def reader(self) -> PackReader:
        """Open the archive. Raises FileFailed."""
        return PackReader(self.at.opened(self.archive), self.index)

    def mark(self, states: Mapping[str, State]) -> None:
        """Note what became of sessions, by their paths, whoever else notes something meanwhile. Raises OSError."""
        path = self.folder / f"{self.name}{INDEX}"
        for _ in range(_TRIES):
            entries = [
                replace(each, state=states[each.path]) if each.state is State.PACKED and each.path in states else each
                for each in self.index.entries
            ]
            self.index = self.index._replace(entries=tuple(entries))
            if self.at.note(path, self.index, self._seen):
                return
            self.index, self._seen = self.at.index(path)
        what = "others write its index all the time"
        raise InUse(what, where=self.at.shown(path), state="The sessions are where they were.", remedy="Run again.")

    def write_index(self) -> None:
        """Write the index of an archive that lost it, or never got it, as it stands there. Raises OSError."""
        if not self.has_index:
            self.mark({})
            self.has_index = True

    def is_of_another(self) -> bool:
        """Tell whether its archive is another one: an index from a backup may be of an earlier pack of that name.

        A shorter one may have lost its end, so that it is told only where no session is to be read from it. An empty
        one has nothing to lose.
        """
        size = self.at.size(self.archive) or 0
        return size > self.index.size or (0 < size < self.index.size and not self.packed())

    def drop_if_done(self) -> None:
        """Delete a pack all of whose sessions are at their places again. Raises OSError, FileFailed."""
        if not self.packed() and not self.is_of_another():
            self.at.drop(self.archive, self.folder / f"{self.name}{INDEX}", self._seen)


def packs_in(at: Place) -> Iterator[Pack | SessionCompressError]:
    """Read the indexes of a place's packs; what cannot be read, one or a folder, is yielded as its error."""
    return chain.from_iterable(_packs_in(at, folder) for folder in at.folders())


def _packs_in(at: Place, folder: Path) -> Iterator[Pack | SessionCompressError]:
    try:
        names = at.names(folder)
    except SessionCompressError as error:
        yield error
        return
    for name in names:
        if name.endswith(INDEX):
            try:
                pack = Pack(at, name.removesuffix(INDEX), *at.index(folder / name), folder)
                wrong = _lost(folder / name, pack)
                if wrong is None and pack.is_of_another():
                    wrong = _without_index(pack.archive, at, "its index is of an archive of another size")
                yield wrong or pack
            except SessionCompressError as error:
                yield error
        elif name.endswith(ARCHIVE):
            base = name.removesuffix(ARCHIVE)
            if base + INDEX in names or base + NEW in names:
                continue
            try:
                with at.opened(folder / name) as span:
                    index = index_in(span)
                if index is None:
                    yield _without_index(folder / name, at, "its index is missing")
                    continue
                pack = Pack(at, base, index, None, folder)
                pack.has_index = False
                yield pack
            except SessionCompressError as error:
                yield error


def readable_packs(roots: Iterable[Path]) -> Iterator[Pack]:
    """Yield the packs of folders that can be read; what is wrong with another is told where it is asked for."""
    return (each for root in roots for each in packs_in(Disk(root)) if isinstance(each, Pack))


def certain_packs(at: Place) -> list[Pack]:
    """List the packs of a place that no checkout takes away: only what these hold may go from its place."""
    return [each for each in packs_in(at) if isinstance(each, Pack) and each.is_certain]


def by_tar(archive: Path, root: Path) -> str:
    """Write the command that unpacks an archive: what is there stays, as it may have been gone on with."""
    return f"tar --zstd -k -C {quote(str(root))} -xf {quote(str(archive))}"


def _without_index(archive: Path, at: Place, what: str) -> Damaged:
    index = archive.name.removesuffix(ARCHIVE) + INDEX
    tar = f", or unpack it by '{by_tar(archive, at.root)}', and move it away" if isinstance(at, Disk) else ""
    remedy = f"Put its {index} back from a backup{tar}."
    return Damaged(what, where=at.shown(archive), state="The pack was not changed.", remedy=remedy)


def _lost(index: Path, pack: Pack) -> Damaged | None:
    """Make the error of a pack whose archive is gone though it holds sessions; None where all is well."""
    if pack.at.size(pack.archive) is not None or not pack.waiting():
        return None
    # Another run may just have brought them back: it notes that before it deletes the archive, and then the index.
    with suppress(FileFailed, InUse):
        if waiting := Pack(pack.at, pack.name, *pack.at.index(index), pack.folder).waiting():
            archive, count = pack.archive.name, counted(len(waiting), "session is", "sessions are")
            remedy = f"Put {archive} back from a backup: {count} only there. If that is lost, delete this file."
            where = pack.at.shown(index)
            return Damaged("its archive is missing", where=where, state="The pack was not changed.", remedy=remedy)
    return None


def aside_of(path: Path) -> Path:
    """Name the place where a session waits until it is certain that nobody writes to it."""
    return path.parent / FOLDER / f"{path.name}{_ASIDE}"


class NewPack:
    """A pack that is being made; leaves no trace unless committed. Use it as a context manager, alone().

    Until then it lies in a folder of this machine, the place itself where that is one.
    """

    def __init__(self, at: Place, root: Path, name: str, content: int) -> None:
        self._at = at
        self.name = at.free_name(name)
        self._path = packs_of(root) / f"{self.name}{TEMP}"
        with failing(root):
            self._fd = create_in_folder(self._path, exclusive=True)
            self._refuse_without_links()
        self._writer: PackWriter | None = PackWriter(self._fd, content)
        self.is_broken = False
        """A failed write has left the archive so that nothing more can be added, nor can it be committed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        os.close(self._fd)
        disk.remove(self._path)

    def _refuse_without_links(self) -> None:
        """Raise Unsupported where there are no hard links: no session would come back from the pack."""
        probe = self._path.with_name(f".{self._path.name}")
        try:
            link(self._path, probe)
        except BaseException:
            self.__exit__()
            raise
        disk.remove(probe)

    def add(self, sources: Sequence[Source], family: str) -> tuple[int, tuple[Member, ...]] | None:
        """Pack the files of one session; see PackWriter."""
        assert self._writer is not None
        self.is_broken = True
        with failing(self._path):
            added = self._writer.add(sources, family)
        self.is_broken = False
        return added

    def take_in(self, pack: Pack) -> list[Entry]:
        """Pack anew what is in a smaller pack, which stays until this one is certain. Raises Unreadable, FileFailed."""
        taken: list[Entry] = []
        above = os.fstat(self._fd)
        owner = (above.st_uid, above.st_gid)
        with pack.reader() as reader:
            for entry in in_order(pack.packed()):
                sources = [
                    Source(each.path, reader.read(entry, each), each.size, each.mode & MODE, each.mtime_ns, owner)
                    for each in entry.members
                ]
                added = self.add(sources, entry.title)
                assert added is not None
                taken.append(replace(entry, frame=added[0], members=added[1]))
        return taken

    def commit(self, entries: Iterable[Entry]) -> Pack:
        """Make the pack certain: on the disk, read back, and then named. Raises Unreadable, FileFailed."""
        assert self._writer is not None
        with failing(self._path):
            index = self._writer.finish(tuple(entries))
            # What is to be read needs the memory that was written from.
            self._writer = None
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)
            with PackReader(opened(self._path), index) as reader:
                for entry in index.entries:
                    reader.check(entry)
            seen = self._at.publish(self._path, self.name, index)
            return Pack(self._at, self.name, index, seen, self._at.folders()[0])


def share_of(pack: Pack, entry: Entry) -> int:
    """Estimate the bytes of an archive that a session takes."""
    return entry.size * pack.index.size // max(sum(each.size for each in pack.index.entries), 1)


def write_anew(pack: Pack, without: Entry) -> None:
    """Write what is in a pack into a new one, but for a session of which nothing may stay; alone()."""
    with failing(pack.archive, "It still has what is to go."):
        pack.mark({without.path: State.LEFT})
        if staying := pack.packed():
            with NewPack(pack.at, pack.root, pack.name.rpartition("-")[0], sum(each.size for each in staying)) as new:
                new.commit(new.take_in(pack))
            pack.mark({each.path: State.MOVED for each in staying})
        pack.drop_if_done()


def take_out(pack: Pack, entry: Entry, session: OpenSession) -> None:
    """Remove a session that is locked, and its store, from their places, now that a pack has them.

    First it goes aside, where nobody finds it; what somebody still wrote to it then puts it back. Raises InUse if it
    is not as it was packed, and stays.
    """
    path, store = session.path, store_in(session.path)
    with failing(path):
        if path.name in sessions_named(store.work) or not is_as_packed(pack.root, entry):
            raise session.in_use("it has changed since it was packed")
        _refuse_if_unseen(session)
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


def _refuse_if_unseen(session: OpenSession) -> None:
    """Raise InUse for a session that was just written, where the system does not tell who has it open."""
    if held(session.fd) is Held.UNKNOWN and time.time() - session.stat.st_mtime < LINK_SECONDS:
        raise session.in_use("it changed less than an hour ago")


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
