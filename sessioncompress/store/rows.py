"""Sessions that agents keep in databases: read rows as the lines of a session, and write changed lines to rows.

tables.py has the tables and columns, and how a row becomes a line.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import quote

from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.errors import FileFailed, InUse, Refused
from sessioncompress.store.tables import FUNCTIONS, TABLES, Columns, Odd, Statement, length, text

_WAIT_SECONDS = 2.0
"""Seconds. An agent waits five seconds for a lock; don't make it wait that long for us."""
_BITE_ROWS, _BITE_BYTES, _BITE_PAGES = 2_000, 8 << 20, 2_000
"""Limits of one transaction, in rows, bytes and pages, so that the agent never waits for a second."""

_INCREMENTAL = 2


_Changes = tuple[list[Statement], list[bytes]]
"""The statements to run, and the rows to keep before that, as lines for put_events()."""


class Listed(NamedTuple):
    """A session's row: `size` is the bytes of its messages and parts, `changed_ns` its time of change."""

    id: str
    project: str
    title: str
    size: int
    changed_ns: int


class EventTotal(NamedTuple):
    """Events of a session: their number, and the bytes of their data."""

    rows: int = 0
    size: int = 0


class Database:
    """An open database of an agent. Raises SessionCompressError for each error of SQLite."""

    def __init__(self, path: Path, *, writes: bool) -> None:
        self.path = path
        with _failing(self.path):
            self._sql = _connected(path, "rw" if writes else "ro")
        try:
            with _failing(self.path):
                # Keep bytes that are not UTF-8 unchanged.
                self._sql.text_factory = bytes
                # A transaction that this program reports as done survives a power cut.
                for each in ("synchronous = FULL", "secure_delete = OFF"):
                    self._sql.execute(f"PRAGMA {each}")
                self._refuse_unless_known()
        except BaseException:
            self._sql.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._sql.close()

    def has(self, session: str) -> bool:
        """Return True if a session exists."""
        with _failing(self.path):
            return self._sql.execute(self.tables.changed, (session,)).fetchone() is not None

    def sessions(self) -> list[Listed]:
        """List the sessions, the oldest first."""
        with _failing(self.path):
            sizes: dict[bytes, int] = {}
            for name, size in self._sql.execute(self.tables.sizes):
                sizes[name] = sizes.get(name, 0) + size
            found = self._sql.execute(self.tables.sessions).fetchall()
        listed = (
            Listed(text(name), text(project), text(title), sizes.get(name, 0), _nanoseconds(at))
            for name, project, title, at in found
        )
        return [each for each in listed if self.tables.name.fullmatch(each.id)]

    def holding(self, held: str) -> Iterator[tuple[str, str]]:
        """Yield the session and text of each row that holds a text."""
        with _failing(self.path):
            for row in self._sql.execute(self.tables.holding, (held,)):
                yield text(row[0]), text(row[1])

    def lines(self, session: str, *, adds: bool) -> tuple[list[bytes], int]:
        """Read the lines of a session at one moment, and its time of change in ns. Raises Refused."""
        if adds and self.tables.fixed:
            raise Refused(self.tables.fixed, where=self.path / session)
        with self._transaction("BEGIN"):
            changed = self._sql.execute(self.tables.changed, (session,)).fetchone()
            try:
                lines = list(self.tables.lines(self._sql, session)) if changed else []
            except Odd as error:
                raise self._odd(str(error), session) from error
            # OpenClaw may have packed all of them, and may unpack them later.
            if not lines:
                raise Refused("its rows are not in the database", where=self.path / session)
            return lines, _nanoseconds(*changed)

    def changes(self, session: str, before: Iterable[bytes], after: Iterable[bytes]) -> _Changes:
        """Return the statements that turn one state of a session's lines into another. Raises Damaged, Refused."""
        # Compare only the lines that differ: most stay.
        was, now = set(before), set(after)
        old = self.tables.rows_in(line for line in was if line not in now)
        new = self.tables.rows_in(line for line in now if line not in was)
        rows = [row for row in sorted(old.keys() | new.keys()) if old.get(row) != new.get(row)]
        statements = [self.tables.statement(session, row, old.get(row), new.get(row)) for row in rows]
        asked, kept = self.tables.whole, self.tables.line_of
        with _failing(self.path):
            whole = [self._sql.execute(asked, (session, number)).fetchone() for _, number in rows if asked]
        try:
            return statements, [kept(each) for each in whole if each]
        except UnicodeDecodeError as error:
            raise self._odd("a row", session) from error

    def change(self, session: str, statements: Iterable[Statement]) -> None:
        """Change the rows of a session, all in one transaction, or none.

        Raises InUse if the agent changed one of them meanwhile, or keeps the database locked.
        """
        with self._transaction("BEGIN IMMEDIATE"):
            for statement, given in statements:
                if self._sql.execute(statement, given).rowcount != 1:
                    what = "its agent changed it meanwhile"
                    raise InUse(what, where=self.path / session, remedy="Run again.")

    def events(self, session: str) -> EventTotal:
        """Count the events of a session that may be deleted; see take_events()."""
        if not self._may_take_events(session):
            return EventTotal()
        kept = self.tables.events
        with _failing(self.path):
            which = f"{kept.session} = ?1 AND {kept.which}"
            asked = f"SELECT count(*), sum({length(kept.data)}) FROM {kept.table} WHERE {which}"  # noqa: S608 - our names
            rows, size = self._sql.execute(asked, (session,)).fetchone()
        return EventTotal(rows, size or 0)

    def event_rows(self, session: str) -> Iterator[bytes]:
        """Yield each event of a session that may be deleted, as a line, in the order of their numbers.

        No transaction is open meanwhile, so compare the rows with the lines when deleting them.
        """
        kept = self.tables.events
        which = f"{kept.session} = ?1 AND seq > ?2 AND {kept.which}"
        asked = f"SELECT seq, {kept.rows} FROM {kept.table} WHERE {which} ORDER BY seq LIMIT 32"  # noqa: S608 - our names
        last = -1 if self._may_take_events(session) else sys.maxsize
        while rows := self._sql.execute(asked, (session, last)).fetchall():
            last = rows[-1][0]
            for _, *values in rows:
                # Skip rows that no line can hold.
                with suppress(UnicodeDecodeError):
                    yield self.tables.line_of(values)

    def take_events(self, session: str, lines: Iterable[bytes]) -> int:
        """Delete the events in these lines, if unchanged, in small transactions; return how many were deleted.

        The agent reads none of them to resume, list, export, fork or revert a session.
        """
        kept = map(self.tables.values_in, lines)
        return self._in_bites((f"DELETE FROM {each.place}", (session, *values)) for each, values in kept)  # noqa: S608 - our names

    def put_events(self, session: str, lines: Iterable[bytes]) -> int:
        """Reinsert events whose numbers are free, and rows whose text is the same; return how many."""
        kept = map(self.tables.values_in, lines)
        return self._in_bites((each.put, (session, *values)) for each, values in kept)

    def holds_events(self, session: str, lines: Iterable[bytes]) -> bool:
        """Return True if all of these events and rows exist."""
        kept = map(self.tables.values_in, lines)
        with _failing(self.path):
            found = (self._sql.execute(f"SELECT 1 FROM {each.place}", (session, *values)) for each, values in kept)  # noqa: S608
            return all(each.fetchone() for each in found)

    def pages(self) -> tuple[int, int, int]:
        """Return the bytes of all pages, the bytes of free ones, and the auto_vacuum mode."""
        with _failing(self.path):
            return _pages(self._sql)

    def event_bytes(self, sessions: int) -> int:
        """Return the bytes of the events of all sessions; the rows of the sessions take `sessions` bytes."""
        pages, free, _ = self.pages()
        with _failing(self.path):
            summed = self._sql.execute(self.tables.events.size).fetchone() if self.tables.events.size else None
        return (summed[0] or 0) if summed else max(pages - free - sessions, 0)

    def give_back(self) -> None:
        """Return free pages to the file system, in small steps."""
        with _failing(self.path):
            before, free = 0, 1
            while free not in (0, before):
                # A plain execute() stops after the first page.
                self._sql.executescript(f"PRAGMA incremental_vacuum({_BITE_PAGES})")
                before, (free,) = free, self._sql.execute("PRAGMA freelist_count").fetchone()
            self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _in_bites(self, statements: Iterable[Statement]) -> int:
        done = size = 0
        bite: list[Statement] = []
        for each in statements:
            bite.append(each)
            size += sum(len(value) for value in each[1] if isinstance(value, (str, bytes)))
            if len(bite) >= _BITE_ROWS or size >= _BITE_BYTES:
                done += self._one_bite(bite)
                bite, size = [], 0
        return done + self._one_bite(bite)

    def _one_bite(self, bite: list[Statement]) -> int:
        if not bite:
            return 0
        with self._transaction("BEGIN IMMEDIATE"):
            return sum(self._sql.execute(*each).rowcount for each in bite)

    def _may_take_events(self, session: str) -> bool:
        kept = self.tables.events
        with _failing(self.path):
            is_known = self._columns_of(kept.table) == kept.columns
            return is_known and self._sql.execute(kept.may_go, (session,)).fetchone() is not None

    def _columns_of(self, table: str) -> Columns:
        asked = (
            "SELECT p.name, p.pk FROM sqlite_master m JOIN pragma_table_info(m.name) p "
            "WHERE m.type = 'table' AND m.name = ?"
        )
        return {text(name): place for name, place in self._sql.execute(asked, (table,))}

    def _odd(self, what: str, session: str) -> Refused:
        what = f"{what} is not as {self.tables.called} writes it, or over {LINE_CAP >> 20} MB"
        return Refused(what, where=self.path / session)

    def _refuse_unless_known(self) -> None:
        """Find the agent that has these tables. Raises Refused if no known agent does."""
        what = "this is no database of OpenCode, Kilo or OpenClaw in a form that we know"
        remedy = "Report the versions of the agent and of sessioncompress."
        for each in TABLES:
            is_known = all(self._columns_of(table) == columns for table, columns in each.columns.items())
            is_known &= all(self._columns_of(table).items() >= some.items() for table, some in each.needs.items())
            is_known &= self._sql.execute("PRAGMA encoding").fetchone() == (b"UTF-8",)
            triggers = self._sql.execute("SELECT lower(tbl_name) FROM sqlite_master WHERE type = 'trigger'").fetchall()
            if is_known and not {text(name) for (name,) in triggers} & {*each.columns, each.events.table}:
                self.tables, what, remedy = each, each.refusal(self._sql), ""
                break
        if what:
            raise Refused(what, where=self.path, state="The database was not changed.", remedy=remedy)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with _failing(self.path):
            self._sql.execute(begin)
            try:
                yield
                self._sql.execute("COMMIT")
            except BaseException:
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                raise


def shrink(path: Path) -> str:
    """Return the free pages of a database to the file system; return why bytes stay free inside, or "".

    Raises SessionCompressError.
    """
    with Database(path, writes=True) as opened:
        _, free, mode = opened.pages()
        if free and mode == _INCREMENTAL:
            opened.give_back()
    return vacuum(path) if free and mode != _INCREMENTAL else ""


def vacuum(path: Path) -> str:
    """Rewrite any database of an agent, so that nothing is left of deleted rows; return why not, or "".

    From then on free pages can be returned in small steps. Raises SessionCompressError.
    """
    if not _is_alone(path):
        return "its agent has it open, and only a database that nobody has open can be made smaller"
    with _failing(path), closing(_connected(path, "rw")) as database:
        pages, free, _ = _pages(database)
        if shutil.disk_usage(path.parent).free < 2 * (pages - free):
            return "the disk has no room for a second copy"
        for each in ("PRAGMA auto_vacuum = INCREMENTAL", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            database.execute(each)
    return ""


def _pages(database: sqlite3.Connection) -> tuple[int, int, int]:
    size, count, free, mode = (
        database.execute(f"PRAGMA {each}").fetchone()[0]
        for each in ("page_size", "page_count", "freelist_count", "auto_vacuum")
    )
    return size * count, size * free, mode


def _is_alone(path: Path) -> bool:
    """Return True if no process has a database open: only then can one process lock it exclusively."""
    with closing(_connected(path, "rw", seconds=0.1)) as probe:
        try:
            for each in ("PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "COMMIT"):
                probe.execute(each)
        except sqlite3.OperationalError:
            return False
    return True


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        state = "The database was not changed."
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            what = "another program keeps the database locked"
            raise InUse(what, where=path, state=state, remedy="Run again.") from error
        what = f"SQLite cannot work with the database: {error}"
        remedy = "Check it with 'PRAGMA quick_check'."
        raise FileFailed(what, where=path, state=state, remedy=remedy) from error


def _connected(path: Path, mode: str, seconds: float = _WAIT_SECONDS) -> sqlite3.Connection:
    address = f"file:{quote(str(path.resolve()))}?mode={mode}"
    database = sqlite3.connect(address, uri=True, timeout=seconds, isolation_level=None)
    for name, function in FUNCTIONS.items():
        database.create_function(name, 1, function, deterministic=True)
    return database


def _nanoseconds(value: object) -> int:
    return value * 1_000_000 if isinstance(value, int) and 0 <= value < 1 << 42 else 0
