"""Byte offsets of Codex into a rollout: those in its index, and those in rollouts that continue from this one.

Since 0.147 Codex numbers the lines of a rollout, and keeps an index of where each turn begins and ends. A fork, or an
edited prompt, is a rollout of its own; its header gives the byte of its parent from which it continues. When other
bytes replace a rollout, all these offsets are updated by line number. Rows of the index are deleted only for lines that
were removed from the end: Codex would not recreate the rows of an edited prompt.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
import tomllib
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import quote

from sessioncompress.core import jsonl
from sessioncompress.core.pointers import Pointers
from sessioncompress.errors import NOT_CHANGED, FileFailed, InUse, Refused
from sessioncompress.formats import values
from sessioncompress.formats.table import named_roots
from sessioncompress.store import disk
from sessioncompress.store.commit import Rewrite
from sessioncompress.store.late_links import LeftOver
from sessioncompress.store.layout import Lengths, status_of, store_in
from sessioncompress.store.lock import OpenSession, lock, open_file, open_session, wait_for_lock
from sessioncompress.store.originals import FRAME_MAGIC, zstd

_INDEX: Final = "thread_history_1.sqlite"
_LOCKS: Final = "thread-writer-locks"
_SECONDS: Final = 10.0
"""Maximum wait for a Codex that starts or ends, and for our other runs on a fork."""
_HEADER: Final = 1 << 22
"""Maximum bytes of a first line. It holds instructions and tools, about 20 to 100 KB."""
_TAIL: Final = 1 << 13
_DIGITS: Final = 20
"""Bytes for an offset that has too little room: no file's size has more digits."""

_BUSY_SECONDS: Final = 5.0
_MOST_TURNS: Final = 1 << 17
_CHANGES: Final = re.compile(r"\bUPDATE\b", re.IGNORECASE)
"""A trigger with this word may react to a changed offset."""
_STATE: Final = "thread_history_projection_state"
_TURNS: Final = "thread_turns"
_NEXT: Final = "next_rollout_ordinal"
_PLACES: Final = (
    (_TURNS, "rollout_ordinal", "rollout_byte_offset", 0),
    (_TURNS, "rollout_end_ordinal", "rollout_end_byte_offset", 1),
    (_STATE, _NEXT, "next_rollout_byte_offset", 0),
)
"""Table, the columns of line number and offset, and 1 if the offset is after that line. Versions lack some."""
_GET: Final = "SELECT rowid, %s, %s FROM %s WHERE thread_id = ?"
_SET: Final = "UPDATE %s SET %s = ? WHERE rowid = ?"

_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_ROLLOUT: Final = re.compile(rf"rollout-[^\n]*-(?:{_UUID.pattern}_)?({_UUID.pattern})\.jsonl(?:\.zst)?")
_NUMBERED: Final = re.compile(rb'\{"timestamp":"[^"\\]{0,64}","ordinal":(\d{1,18})[,}]')
_OFFSET: Final = re.compile(rb'"end_byte_offset":( *\d{1,20})')


class Offsets(NamedTuple):
    """The offset of the first line with a wanted number or a higher one; the file's size, and its highest number."""

    starts: dict[int, int]
    size: int
    last: int

    def of(self, number: int) -> int:
        """Return the offset of a line; for one after the last it is the end of the file."""
        return self.starts.get(number, self.size)


def _places(fd: int, wanted: Iterable[int]) -> Offsets:
    waiting = sorted(wanted, reverse=True)
    size, at, last, line = os.fstat(fd).st_size, 0, -1, -1
    starts: dict[int, int] = {}
    with disk.reader(fd, 0, size) as file:
        for count, raw, whole in jsonl.pieces(file, size):
            number = _number(raw, whole=whole) if count != line else None
            line = count
            if number is not None:
                last = max(last, number)
                while waiting and waiting[-1] <= number:
                    starts[waiting.pop()] = at
            at += len(raw)
    return Offsets(starts, size, last)


def _begins(fd: int, number: int, place: int) -> bool:
    """True if a line with that number begins at the offset, or the preceding line ends the file there.

    It reads only a few bytes. If those don't show it, the result is False, and the caller reads the whole file.
    """
    size = os.fstat(fd).st_size
    start = max(min(place, size) - (1 if place < size else _TAIL), 0)
    before, *lines = os.pread(fd, _TAIL, start).split(b"\n")
    if place < size:
        return (place == 0 or not before) and bool(lines) and _number(before or lines[0], whole=False) == number
    return place == size and len(lines) > 1 and not lines[-1] and _number(lines[-2], whole=True) == number - 1


def _number(raw: bytes, *, whole: bool) -> int | None:
    if found := _NUMBERED.match(raw):
        return int(found[1])
    entry = jsonl.parse(raw) if whole and b'"ordinal"' in raw else None
    number = entry.get("ordinal") if entry else None
    return number if type(number) is int else None


class _Header(NamedTuple):
    """A rollout's first line: its thread, and for a fork its base's id and the position in the base.

    The position is the number of the first line after the base's part, and its byte offset. The offset is written in
    the bytes `span` of this file, which include the spaces before it.
    """

    thread: str
    base: str
    number: int
    offset: int
    span: tuple[int, int]

    @property
    def room(self) -> int:
        return self.span[1] - self.span[0]


def _header(path: Path) -> _Header | None:
    """Read the header of a numbered rollout, even one that Codex has packed; return None for any other file.

    Raises ValueError if the first line is incomplete or too long.
    """
    with disk.closing(open_file(path)) as fd, disk.reader(fd, 0, os.fstat(fd).st_size) as file:
        is_packed = os.pread(fd, len(FRAME_MAGIC), 0) == FRAME_MAGIC
        raw: bytes = b""
        with suppress(zstd.ZstdError, EOFError):
            raw = (zstd.ZstdFile(file) if is_packed else file).readline(_HEADER)
    if not raw.endswith(b"\n"):
        raise ValueError
    entry = jsonl.parse(raw) or {}
    payload = values.fields(entry.get("payload"))
    base = values.fields(payload.get("history_base"))
    thread, number = values.text(payload.get("id")), base.get("end_ordinal_exclusive")
    if type(entry.get("ordinal")) is not int or not _UUID.fullmatch(thread):
        return None
    found = [each for each in _OFFSET.finditer(raw) if int(each[1]) == base.get("end_byte_offset")]
    if len(found) != 1 or type(number) is not int:
        return _Header(thread, values.text(base.get("thread_id")), 0, 0, (0, 0))
    return _Header(thread, values.text(base.get("thread_id")), number, int(found[0][1]), found[0].span(1))


@lru_cache(maxsize=1 << 16)
def _base_of(path: Path, _inode: int) -> str:
    """Return the id of the rollout that this one continues, which never changes, or "".

    Raises ValueError like _header() if the rollout may just have been started; the cache then keeps no result.
    """
    try:
        header = _header(path)
    except ValueError:
        if path.suffix != ".zst":
            raise
        return ""
    return header.base if header else ""


class _Rollouts(NamedTuple):
    """The rollouts of a home by their ids, and the forks by the ids of their bases."""

    named: dict[str, list[Path]]
    forks: dict[str, list[Path]]


@lru_cache(maxsize=4)
def _rollouts(home: Path, _when: int, *, through_links: bool) -> _Rollouts:
    found = _Rollouts({}, {})
    folders = [home / "sessions"]
    for _ in ("year", "month", "day"):
        folders = [folder / each.name for folder in folders for each in _listed(folder, through_links=through_links)]
    for folder in (*folders, home / "archived_sessions"):
        entries = _listed(folder, through_links=through_links)
        real = folder.resolve() if entries else folder
        for each in entries:
            path = real / each.name
            if name := _ROLLOUT.fullmatch(each.name):
                found.named.setdefault(name[1], []).append(path)
                with suppress(FileNotFoundError, ValueError, Refused):
                    if base := _base_of(path, each.inode()):
                        found.forks.setdefault(base, []).append(path)
    return found


def _listed(folder: Path, *, through_links: bool) -> list[os.DirEntry[str]]:
    """List a folder; return [] if there is none, or it is a link and links must not be followed."""
    if not folder.is_dir() or (folder.is_symlink() and not through_links):
        return []
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda each: each.name)


def pointers(path: str) -> Pointers:
    """Return what points into a rollout: nothing if it has no line numbers, or is in no home of Codex."""
    session, header = Path(path), None
    with suppress(ValueError):
        header = _header(session)
    if header is None or not _ROLLOUT.fullmatch(session.name):
        return Pointers()
    for root in named_roots("codex"):
        if session.is_relative_to(root.resolve()):
            return CodexPointers(session, root.parent, header.thread, is_own=True)
    above = session.parents
    if above[0].name == "archived_sessions":
        return CodexPointers(session, above[1], header.thread, is_own=False)
    if len(above) > 4 and above[3].name == "sessions":  # noqa: PLR2004 - above year, month and day
        return CodexPointers(session, above[4], header.thread, is_own=False)
    return Pointers()


class CodexPointers(Pointers):
    """The offsets into one rollout in a home of Codex.

    The home is the user's own (`is_own`), or only the rollout's path suggests it, and then anyone may have created it.
    """

    def __init__(self, path: Path, home: Path, thread: str, *, is_own: bool) -> None:
        self.path, self._home, self._thread, self._is_own = path, home, thread, is_own
        self._id = _UUID.findall(path.name)[-1]

    def wrong(self, when: int = 0) -> str:
        """See Pointers; for `when` see children()."""
        with ExitStack() as opened:
            of_forks = {(header.number, header.offset) for _, header in self.children(when)}
            indexes = self._indexes(opened, self._databases(), writing=False)
            fd = opened.enter_context(disk.closing(open_file(self.path)))
            known = of_forks.union(*(each.known() for each in indexes))
            if all(_begins(fd, *each) for each in known):
                return ""
            places = _places(fd, (number for number, _ in known))
            if any(places.of(number) != offset for number, offset in of_forks):
                return "a rollout that goes on from it names another place than it has"
            if any(each.changes(places, was_read=True) for each in indexes):
                return "Codex's index has other places of it than it has"
        return ""

    def mend(self) -> None:
        """Correct all offsets into the rollout, and into the one that it continues.

        A run over all sessions lists their home only once in ten seconds, or if a rollout isn't in the list.
        """
        when = int(time.monotonic() / 10) + 1
        if self.path not in self._rollouts(when).named.get(self._id, ()):
            when = time.monotonic_ns()
        for each in (self._base(when), self):
            if each and each.wrong(when):
                with disk.closing(open_file(each.path)) as fd, each.moving(fd):
                    pass

    @contextmanager
    def leaving(self) -> Iterator[None]:
        if children := self.children():
            what = f"Codex goes on from it in {', '.join(path.name for path, _ in children[:3])}"
            raise InUse(what, where=self.path, remedy="Pack these too.")
        with self._alone(needed=bool(self._databases())):
            yield

    @contextmanager
    def moving(self, fd: int) -> Iterator[None]:
        """See Pointers.

        A killed run leaves only harmless offsets: too small ones in the index, because Codex skips lines that it knows,
        and too large ones in forks, which Codex refuses.
        """
        self._make_room(fd)
        with ExitStack() as opened:
            children = self.children()
            for path, _ in children:
                opened.enter_context(_locked(path))
            databases = self._databases()
            opened.enter_context(self._alone(needed=bool(children or databases)))
            if children != self.children():
                what, remedy = "a rollout that goes on from it has just begun", "Run again."
                raise InUse(what, where=self.path, remedy=remedy)
            indexes = self._indexes(opened, databases, writing=True)
            was, new = self.path.stat(), os.fstat(fd)
            places = _places(fd, _wanted(indexes, children))
            for each in indexes:
                each.change(places, was_read=os.path.samestat(was, new))
            if places.size > was.st_size:
                _point(children, places)
            else:
                _commit(indexes)
            try:
                yield
            finally:
                now = self.path.stat()
                is_swapped = os.path.samestat(now, new)
                try:
                    if not is_swapped or now.st_size != places.size:
                        with disk.closing(open_file(self.path)) as there:
                            places = _places(there, _wanted(indexes, children))
                        for each in indexes:
                            each.change(places, was_read=False)
                    _point(children, places)
                    _commit(indexes)
                except Refused as error:
                    state = "The session is the new one." if is_swapped else NOT_CHANGED
                    remedy = "Run again: what points into it is put right first."
                    raise FileFailed(error.what, where=self.path, state=state, remedy=remedy) from error

    def forget(self, lines: Iterable[bytes]) -> Sequence[Path]:
        """Empty long texts in the index's rows of these lines, unless a line of the rollout still contains them."""
        if not (databases := self._databases()):
            return ()
        numbers = {number for raw in lines if (number := _number(raw, whole=True)) is not None}
        said: set[int] = set()
        with disk.closing(open_file(self.path)) as fd, disk.reader(fd, 0, size := os.fstat(fd).st_size) as file:
            for _, raw, whole in jsonl.pieces(file, size):
                said.update(hash(holder[key]) for holder, key in _long_texts(jsonl.parse(raw) if whole else None))
        with ExitStack() as opened:
            opened.enter_context(self._alone(needed=True))
            for each in self._indexes(opened, databases, writing=True):
                each.empty(numbers, said)
                each.commit()
        return databases if numbers else ()

    def _indexes(self, opened: ExitStack, databases: Iterable[Path], *, writing: bool) -> list[_IndexRows]:
        rows = (_IndexRows(each, self._id, self.path, writing=writing) for each in databases)
        return [opened.enter_context(closing(each)) for each in rows]

    def _base(self, when: int) -> CodexPointers | None:
        with suppress(ValueError):
            if (header := _header(self.path)) and header.base:
                for path in self._rollouts(when).named.get(header.base, ()):
                    if path.suffix == ".jsonl" and (there := _header(path)):
                        return CodexPointers(path, self._home, there.thread, is_own=self._is_own)
        return None

    def _rollouts(self, when: int) -> _Rollouts:
        return _rollouts(self._home, when or time.monotonic_ns(), through_links=self._is_own)

    def children(self, when: int = 0) -> list[tuple[Path, _Header]]:
        """Return the forks of this rollout. The listing is cached for each value of `when`, and never for 0.

        Raises Refused if one can't be updated.
        """
        rollouts, found = self._rollouts(when), []
        if others := [str(path) for path in rollouts.named.get(self._id, ()) if path != self.path]:
            what, remedy = f"Codex's index has places of it, or of {others[0]}", "Move away the one that is a copy."
            raise Refused(what, where=self.path, remedy=remedy)
        for path in rollouts.forks.get(self._id, ()):
            with suppress(FileNotFoundError, ValueError):
                if path == self.path or (header := _header(path)) is None:
                    continue
                if path.suffix == ".zst" or header.span == (0, 0):
                    what, remedy = "a Codex that we do not know wrote", "Update sessioncompress."
                    if path.suffix == ".zst":
                        what, remedy = "Codex has packed", "Resume that in Codex, which unpacks it."
                    what = f"{what} {path.name}, which goes on from it"
                    raise Refused(what, where=self.path, remedy=remedy)
                found.append((path, header))
        return found

    def _databases(self) -> list[Path]:
        """Return the indexes that may know the rollout; the configuration of the user's own home may name others.

        Raises Refused if one isn't this user's to change.
        """
        if not self._is_own:
            return self._shown_databases()
        folders, config = [self._home], {}
        with suppress(OSError, ValueError):
            config = tomllib.loads((self._home / "config.toml").read_text())
        if named := values.text(config.get("sqlite_home")):
            folders.append(self._home / Path(named).expanduser())
        if named := os.environ.get("CODEX_SQLITE_HOME", "").strip():
            folders.append(Path(named).absolute())
        return [each / _INDEX for each in dict.fromkeys(folders) if (each / _INDEX).exists()]

    def _shown_databases(self) -> list[Path]:
        """Return the index in a home known only from the path, where anyone may have put links to other places."""
        index, locks = self._home / _INDEX, self._home / _LOCKS
        there = {path: found for path in (index, locks) if (found := status_of(path))}
        if not there:
            return []
        beside = (self._home, *(self._home / f"{_INDEX}-{each}" for each in ("wal", "shm", "journal")))
        there |= {path: found for path in beside if (found := status_of(path))}
        for path, found in there.items():
            is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if found.st_uid != os.geteuid() or not (is_plain or stat.S_ISDIR(found.st_mode)):
                raise self._stranger(f"{path} is a link, or another user's")
            if path.name.endswith("-journal"):
                # Codex never leaves one. SQLite would obey it, which may delete any file.
                raise self._stranger(f"{path} is not Codex's")
        config = b""
        with suppress(OSError, Refused), disk.closing(open_file(self._home / "config.toml")) as fd:
            config = os.pread(fd, disk.BUFFER, 0)
        if b"sqlite_home" in config:
            raise self._stranger(f"{self._home / 'config.toml'} names another folder for it")
        return [index] if index in there else []

    def _stranger(self, what: str) -> Refused:
        remedy = f"If {self._home} is your own home of Codex, set CODEX_HOME to it."
        return Refused(f"Codex's index: {what}", where=self.path, remedy=remedy)

    @contextmanager
    def _alone(self, *, needed: bool) -> Iterator[None]:
        """Keep Codex from loading any thread. Raises InUse if it has loaded this one.

        Waits up to 10 s for a Codex that starts or ends a thread; loaded threads keep running.
        """
        folder = self._home / _LOCKS
        if not needed and not folder.is_dir():
            yield
            return
        disk.make_folder(folder)
        with disk.closing(disk.create(folder / ".coordination.lock", exclusive=False)) as fd:
            wait_for_lock(fd, _SECONDS, self.path, "another Codex is starting or ending a thread")
            with suppress(FileNotFoundError), disk.closing(open_file(folder / f"{self._thread}.lock")) as own:
                if not lock(own):
                    what, remedy = "a running Codex has it loaded", "Close it there, and run again."
                    raise InUse(what, where=self.path, remedy=remedy)
            yield

    def refuse_if_loaded(self) -> None:
        with self._alone(needed=False):
            pass

    def _make_room(self, fd: int) -> None:
        """Rewrite headers of forks that have too few digits for their offsets in the file open as `fd`.

        That makes a fork longer. Its own forks are done before it, because their offsets may then need more digits too.
        """
        size = os.fstat(fd).st_size
        waiting = [each for each in self.children() if each[1].room < len(str(size))]
        if waiting:
            places = _places(fd, [header.number for _, header in waiting])
            waiting = [each for each in waiting if each[1].room < len(str(places.of(each[1].number)))]
        cramped: list[CodexPointers] = []
        seen = {self.path}
        while waiting:
            path, header = waiting.pop()
            if path not in seen:
                seen.add(path)
                cramped.append(CodexPointers(path, self._home, header.thread, is_own=self._is_own))
                longest = len(str(path.stat().st_size + _DIGITS))
                waiting += [each for each in cramped[-1].children() if each[1].room < longest]
        for each in reversed(cramped):
            with open_session(each.path, writing=True) as session, session.reader() as file:
                session.pointers = each
                if now := _header(each.path):
                    _widen(session, file, now.span)


def _widen(session: OpenSession, file: BinaryIO, span: tuple[int, int]) -> None:
    with Rewrite(session, store_in(session.path), Lengths()) as sink:
        sink.write(file.read(span[0]) + b" " * (_DIGITS - (span[1] - span[0])))
        for piece in iter(lambda: file.read(disk.BUFFER), b""):
            sink.write(piece)
        sink.finish()
        sink.commit([])


def _long_texts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the texts in a parsed value that a run may remove, each as its container and key or index."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        members: Iterable[tuple[Any, Any]] = ()
        if isinstance(holder, dict):
            members = holder.items()
        elif isinstance(holder, list):
            members = enumerate(holder)
        for key, each in members:
            if isinstance(each, str) and len(each) >= values.SMALLEST_BLOCK:
                yield holder, key
            waiting.append(each)


class _IndexRows:
    """The rows of one rollout in an index, in a transaction that is rolled back unless commit() is called.

    Raises InUse if the index is busy, Refused if its schema is unknown.
    """

    def __init__(self, path: Path, rollout: str, session: Path, *, writing: bool) -> None:
        self._path, self._rollout, self._session = path, rollout, session
        with self._saying():
            how = "mode=rw"
            if not writing:
                # Without an active writer it is opened as immutable: otherwise SQLite creates files next to it.
                wal = path.with_name(f"{path.name}-wal")
                how = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
            address = f"file:{quote(str(path))}?{how}"
            self._database = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
            self._database.text_factory = partial(str, encoding="utf-8", errors="replace")
            # A hostile index could make SQLite work forever.
            deadline = time.monotonic() + 60
            self._database.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, jsonl.LINE_CAP)
        try:
            with self._saying():
                self._database.execute("PRAGMA trusted_schema = OFF")
                if writing:
                    self._database.execute("PRAGMA secure_delete = ON")
                self._database.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
                self._columns = self._known()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the index."""
        self._database.close()

    def known(self) -> set[tuple[int, int]]:
        """Return the line numbers in the rows, each with its offset."""
        with self._saying():
            return {(number, place) for *_, number, place in self._places()}

    def changes(self, places: Offsets, *, was_read: bool) -> list[tuple[str, tuple[str | int, int]]]:
        """Return the statements that correct the rows, with their parameters.

        If offsets were wrong in a file that Codex read in this state (`was_read`), it continued at a wrong place. So it
        must read again after the last turn with wrong offsets; it skips later turns that it knows.
        """
        found: list[tuple[str, tuple[str | int, int]]] = []
        again = 0
        with self._saying():
            for table, column, row, known, place in self._places():
                number = known
                if table == _STATE:
                    number = min(known, places.last + 1, again or known)
                elif was_read and places.of(number) != place:
                    again = max(again, number)
                if number != known:
                    found.append((_SET % (_STATE, _NEXT), (number, row)))
                    if known > places.last + 1 and ("thread_items", "rollout_ordinal") in self._columns:
                        # For example, the lines of a removed checkpoint: Codex will reuse their numbers.
                        drop = "DELETE FROM thread_items WHERE thread_id = ? AND rollout_ordinal > ?"
                        found.append((drop, (self._rollout, places.last)))
                if places.of(number) != place:
                    found.append((_SET % (table, column), (places.of(number), row)))
        return found

    def change(self, places: Offsets, *, was_read: bool) -> None:
        """Change the rows; commit() makes that durable."""
        with self._saying():
            if not self._database.in_transaction:
                self._database.execute("BEGIN IMMEDIATE")
            for statement, given in self.changes(places, was_read=was_read):
                self._database.execute(statement, given)

    def commit(self) -> None:
        """Commit the transaction, if it is still open."""
        with self._saying():
            self._database.commit()

    def empty(self, numbers: Iterable[int], said: Container[int]) -> None:
        """Empty long texts in the rows of these lines, except texts with the given hashes."""
        asked = "SELECT rowid, item_json FROM thread_items WHERE thread_id = ? AND rollout_ordinal = ?"
        with self._saying():
            for number in numbers if ("thread_items", "item_json") in self._columns else ():
                for row, written in self._database.execute(asked, (self._rollout, number)).fetchall():
                    item = jsonl.parse(str(written).encode())
                    gone = [(holder, key) for holder, key in _long_texts(item) if hash(holder[key]) not in said]
                    for holder, key in gone:
                        holder[key] = ""
                    if gone:
                        given = (values.literal(item).decode(), row)
                        self._database.execute("UPDATE thread_items SET item_json = ? WHERE rowid = ?", given)

    def _places(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Yield each offset: table, column and row, the number of the line that begins there, and the offset."""
        for table, numbered, column, behind in _PLACES:
            if (table, column) in self._columns:
                rows = self._database.execute(_GET % (numbered, column, table), (self._rollout,)).fetchmany(_MOST_TURNS)
                if len(rows) == _MOST_TURNS:
                    raise self._refused("Codex's index has more turns of it than we look at", "Move the index away.")
                for row, number, place in rows:
                    if isinstance(number, int) and isinstance(place, int):
                        yield table, column, row, number + behind, place

    def _known(self) -> set[tuple[str, str]]:
        """Return the pairs of table and column. Raises Refused if there may be an offset that we don't know."""
        asked = "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"
        found = set(self._database.execute(asked).fetchall())
        triggers = "SELECT sql FROM sqlite_master WHERE type = 'trigger'"
        known = {(table, column) for table, _, column, _ in _PLACES}
        if (
            not {(_STATE, "thread_id"), (_STATE, _NEXT), (_STATE, "next_rollout_byte_offset")} <= found
            or {(table, column) for table, column in found if "offset" in column} - known
            or any(_CHANGES.search(str(sql)) for (sql,) in self._database.execute(triggers))
        ):
            what = "Codex's index is of another kind than we know, and may have places of the rollout"
            raise self._refused(what, "Update sessioncompress.")
        return found

    @contextmanager
    def _saying(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                what, remedy = "another program keeps Codex's index locked", "Run again when Codex is idle."
                raise InUse(f"{what} ({self._path})", where=self._session, remedy=remedy) from error
            raise self._refused(f"Codex's index cannot be changed: {error}", "Check it, or move it away.") from error

    def _refused(self, what: str, remedy: str) -> Refused:
        return Refused(f"{what} ({self._path})", where=self._session, remedy=remedy)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock out our other runs from a fork whose offset will change."""
    with disk.closing(open_file(path)) as fd:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or found.st_nlink > 1 + len(LeftOver(path).names_of(found.st_ino)):
            what = "it goes on from a rollout that changes, and has other hard links, or another owner"
            raise Refused(what, where=path, remedy="Put a copy of your own in its place.")
        what = "another sessioncompress is working on it, and it goes on from a rollout that changes"
        wait_for_lock(fd, _SECONDS, path, what)
        yield


def _wanted(indexes: Iterable[_IndexRows], children: Iterable[tuple[Path, _Header]]) -> set[int]:
    rows = {number for each in indexes for number, _ in each.known()}
    return rows.union(header.number for _, header in children)


def _commit(indexes: Iterable[_IndexRows]) -> None:
    for each in indexes:
        each.commit()


def _point(children: Iterable[tuple[Path, _Header]], places: Offsets) -> None:
    """Overwrite the offsets in the headers of forks in place; the files' sizes and times stay."""
    for path, _ in children:
        header = _header(path)
        if header is not None and header.offset != places.of(header.number):
            place = b"%*d" % (header.room, places.of(header.number))
            if len(place) > header.room:
                # It has grown since room was made.
                raise Refused("its place has no room there", where=path, remedy="Run again.")
            with disk.closing(disk.open_existing(path)) as fd:
                changed = os.fstat(fd).st_mtime_ns
                os.lseek(fd, header.span[0], os.SEEK_SET)
                disk.write_all(fd, place)
                disk.set_time(fd, changed)
                disk.system.fsync(fd)
