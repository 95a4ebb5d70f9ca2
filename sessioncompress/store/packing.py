"""The order of writes for packs: no session is removed before it reads back from a certain pack, and none counts twice.

A pack is in our folder next to the sessions, as `packs/NAME.tar.zst` and `packs/NAME.index`. The index is the commit:
a session that it names is in the pack if it is not at its place; if it is there, that file counts, not the pack.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

from msgspec.structs import replace

from sessioncompress.core.text import counted, quote
from sessioncompress.errors import Damaged, FileFailed, InUse, Refused, SessionCompressError, failing
from sessioncompress.store import disk
from sessioncompress.store.folder import create_in_folder
from sessioncompress.store.layout import ARCHIVE
from sessioncompress.store.pack import (
    INDEX,
    MODE,
    Entry,
    FileToPack,
    Index,
    Member,
    PackReader,
    PackWriter,
    State,
    index_in,
    opened,
)
from sessioncompress.store.places import TEMP, Disk, Place, packs_of
from sessioncompress.store.swap import link


class Packed(NamedTuple):
    """A session that is, or was, in a pack."""

    pack: Pack
    entry: Entry

    @property
    def place(self) -> Path:
        """The path where the session was before packing, and to which it is unpacked."""
        return self.pack.root / self.entry.path

    @property
    def shown(self) -> str:
        """The session's path or URL."""
        return self.pack.at.shown(self.place)

    @property
    def is_packed(self) -> bool:
        """True if the index still records it as packed."""
        return self.entry.state is State.PACKED

    @property
    def is_waiting(self) -> bool:
        """True if it is in the pack, but not at its place."""
        return self.is_packed and self.pack.at.size(self.place) is None

    def files(self, root: Path | None = None) -> dict[Path, Member]:
        """Map its files' paths, below the pack's root or below `root`, to their members; the session is first."""
        return {(root or self.pack.root) / each.path: each for each in self.entry.members}

    @property
    def archived_size(self) -> int:
        """Estimate the bytes of the archive that hold it, whether it was unpacked or not."""
        return self.entry.size * self.pack.index.size // max(sum(each.size for each in self.pack.index.entries), 1)

    @property
    def packed_size(self) -> int:
        """Its part of the archive if the packed sessions also share the space of those that were unpacked."""
        return round(self.entry.size * self.pack.index.size / max(self.pack.size, 1))

    def reads_back(self) -> bool:
        """True if the session can be read from the pack and matches the index."""
        with suppress(Damaged, FileFailed, Refused), self.pack.reader() as reader:
            reader.check(self.entry)
            return True
        return False


class Pack:
    """One pack: the place that was packed, the pack's name, its index, and the folder that holds both files."""

    def __init__(self, at: Place, folder: Path, name: str, index: Index, *, has_index: bool = True) -> None:
        self.at = at
        self.root = at.root
        self.folder = folder
        self.name = name
        self.index = index
        self._has_index = has_index

    @property
    def archive(self) -> Path:
        """The path of the archive."""
        return self.folder / f"{self.name}{ARCHIVE}"

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.name}{INDEX}"

    @property
    def shown(self) -> str:
        """The archive's path or URL for messages."""
        return self.at.shown(self.archive)

    @cached_property
    def is_certain(self) -> bool:
        """True if only this user, on this machine, could have made it."""
        return self.at.is_certain(self.archive)

    @cached_property
    def size(self) -> int:
        """Bytes that the packed sessions and their stores had before."""
        return sum(each.entry.size for each in self.packed())

    def sessions(self) -> list[Packed]:
        """List the sessions of the index."""
        return [Packed(self, each) for each in self.index.entries]

    def packed(self) -> list[Packed]:
        """List the sessions that are in the pack, even if they also exist elsewhere."""
        return [each for each in self.sessions() if each.is_packed]

    def waiting(self) -> list[Packed]:
        """List the sessions that are in the pack, but not at their places."""
        return [each for each in self.sessions() if each.is_waiting]

    @contextmanager
    def reader(self) -> Iterator[PackReader]:
        """Open the archive. Raises FileFailed."""
        with self.at.opened(self.archive) as span:
            yield PackReader(span, self.index)

    def mark(self, states: Mapping[str, State]) -> None:
        """Record the new states of sessions, by path. Delete the pack if no session is packed any more.

        Raises OSError, InUse, FileFailed.
        """
        if states:
            self._note(states)
        if not self.packed() and not self.is_of_another():
            self.at.drop(self.archive, self._file)

    def _note(self, states: Mapping[str, State]) -> None:
        """Write the index with new states; retry if another run changes it meanwhile."""
        for _ in range(5):
            entries = [
                replace(each, state=states[each.path]) if each.state is State.PACKED and each.path in states else each
                for each in self.index.entries
            ]
            self.index = self.index._replace(entries=tuple(entries))
            if self.at.note(self._file, self.index):
                return
            self.index = self.at.index(self._file)
        what, where = "others write its index all the time", self.at.shown(self._file)
        raise InUse(what, where=where, state="The sessions are where they were.", remedy="Run again.")

    def write_index(self) -> None:
        """Write the index of an archive that has lost it, or never had one, from the archive's own. Raises OSError."""
        if not self._has_index:
            self._note({})
            self._has_index = True

    def is_of_another(self) -> bool:
        """True if the archive is not the index's: an index from a backup may belong to an older pack of the same name.

        A shorter archive may be ours, truncated. It is another one if its end is intact, or if the index needs no
        session from it. An empty one has nothing to lose.
        """
        size = self.at.size(self.archive) or 0
        if not 0 < size < self.index.size or not self.packed():
            return 0 < size != self.index.size
        with suppress(SessionCompressError), self.at.opened(self.archive) as span:
            return index_in(span) is not None
        return False

    def wrong(self) -> Damaged | None:
        """Return the error if the archive is missing though it holds sessions, or is another one; else None."""
        if self.is_of_another():
            return _without_index(self.archive, self.at, "its index is of an archive of another size")
        if self.at.size(self.archive) is not None or not self.waiting():
            return None
        # Another run may have just unpacked them: it records that first, then deletes the archive, then the index.
        try:
            self.index = self.at.index(self._file)
        except (FileFailed, InUse):
            return None
        if not (waiting := self.waiting()):
            return None
        archive, count = self.archive.name, counted(len(waiting), "session is", "sessions are")
        remedy = f"Put {archive} back from a backup: {count} only there. If that is lost, delete this file."
        where = self.at.shown(self._file)
        return Damaged("its archive is missing", where=where, state="The pack was not changed.", remedy=remedy)


def packs_in(at: Place) -> Iterator[Pack | SessionCompressError]:
    """Yield the packs of a place; an unreadable pack or folder yields its error."""
    return chain.from_iterable(_packs_in(at, folder) for folder in at.folders())


def _packs_in(at: Place, folder: Path) -> Iterator[Pack | SessionCompressError]:
    try:
        names = at.names(folder)
    except SessionCompressError as error:
        yield error
        return
    for name in names:
        base = name.removesuffix(INDEX if name.endswith(INDEX) else ARCHIVE)
        try:
            if name.endswith(INDEX):
                pack = Pack(at, folder, base, at.index(folder / name))
                yield pack.wrong() or pack
            elif name.endswith(ARCHIVE) and base + INDEX not in names:
                with at.opened(folder / name) as span:
                    index = index_in(span)
                if index is None:
                    yield _without_index(folder / name, at, "its index is missing")
                else:
                    yield Pack(at, folder, base, index, has_index=False)
        except SessionCompressError as error:
            yield error


def in_order(sessions: Iterable[Packed]) -> list[Packed]:
    """Sort sessions by their position in the archive, so that each frame is read once."""
    return sorted(sessions, key=lambda each: (each.entry.frame, each.entry.members[0].start))


def by_tar(archive: Path, root: Path) -> str:
    """Return the command that unpacks an archive. It keeps existing files, because they may have been continued."""
    return f"tar --zstd -k -C {quote(str(root))} -xf {quote(str(archive))}"


def packed_around(folder: Path) -> Iterator[Packed]:
    """Yield the readable sessions of all packs of a folder and its parents, including those that were unpacked."""
    for root in (folder, *folder.parents):
        for pack in packs_in(Disk(root)):
            # The commands for packs report errors.
            if isinstance(pack, Pack):
                yield from pack.sessions()


def _without_index(archive: Path, at: Place, what: str) -> Damaged:
    index = archive.name.removesuffix(ARCHIVE) + INDEX
    tar = f", or unpack it by '{by_tar(archive, at.root)}', and move it away" if isinstance(at, Disk) else ""
    remedy = f"Put its {index} back from a backup{tar}."
    return Damaged(what, where=at.shown(archive), state="The pack was not changed.", remedy=remedy)


class NewPack:
    """A pack that is being made, as a context manager; leaves no trace unless committed. Requires alone().

    Until the commit, its file is on this machine, below `root`: the place itself if that is local.
    """

    def __init__(self, at: Place, root: Path, name: str, content: int) -> None:
        self._at = at
        self.name = at.free_name(name)
        self._path = packs_of(root) / f"{self.name}{TEMP}"
        with failing(root):
            self._fd = create_in_folder(self._path, exclusive=True)
            # Without hard links no session could be unpacked. Raises Unsupported.
            probe = self._path.with_name(f".{self._path.name}")
            try:
                link(self._path, probe)
            except BaseException:
                self.__exit__()
                raise
            disk.remove(probe)
        self._writer = PackWriter(self._fd, content)
        self.is_broken = False
        """True if a failed write left the archive unusable: nothing can be added, and it can't be committed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        os.close(self._fd)
        disk.remove(self._path)

    def add(self, sources: Sequence[FileToPack], family: str) -> tuple[int, tuple[Member, ...]] | None:
        """Pack the files of one session; see PackWriter.add()."""
        self.is_broken = True
        with failing(self._path):
            added = self._writer.add(sources, family)
        self.is_broken = False
        return added

    def take_in(self, pack: Pack) -> list[Entry]:
        """Add the sessions of a smaller pack, which stays until this one is certain. Raises Unreadable, FileFailed."""
        taken: list[Entry] = []
        above = os.fstat(self._fd)
        owner = (above.st_uid, above.st_gid)
        with pack.reader() as reader:
            for _, entry in in_order(pack.packed()):
                sources = [
                    FileToPack(each.path, reader.read(entry, each), each.size, each.mode & MODE, each.mtime_ns, owner)
                    for each in entry.members
                ]
                added = self.add(sources, entry.title)
                assert added is not None
                taken.append(replace(entry, frame=added[0], members=added[1]))
        return taken

    def commit(self, entries: Iterable[Entry]) -> Pack:
        """Make the pack certain: flush it to disk, read it back, then name it. Raises Unreadable, FileFailed."""
        with failing(self._path):
            index = self._writer.finish(tuple(entries))
            # Free the compressor's memory: the check below needs as much.
            del self._writer
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)
            with opened(self._path) as span:
                reader = PackReader(span, index)
                for entry in index.entries:
                    reader.check(entry)
                again = None
                with suppress(Damaged):
                    again = index_in(span)
            if again != index:
                what, remedy = "its index does not read back", "Pack fewer sessions at once."
                raise FileFailed(what, where=self._path, remedy=remedy)
            self._at.publish(self._path, self.name, index)
            return Pack(self._at, self._at.folders()[0], self.name, index)


def write_anew(without: Packed) -> None:
    """Rewrite a pack without one session, and leave no trace of it. Requires alone()."""
    pack, entry = without
    with failing(pack.archive, "It still holds what was to be deleted."):
        pack.mark({entry.path: State.LEFT})
        if staying := pack.packed():
            content = sum(each.entry.size for each in staying)
            with NewPack(pack.at, pack.root, pack.name.rpartition("-")[0], content) as new:
                new.commit(new.take_in(pack))
            pack.mark({each.entry.path: State.MOVED for each in staying})
