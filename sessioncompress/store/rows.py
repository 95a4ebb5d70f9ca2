"""Sessions that OpenCode and Kilo keep in a database: rows as the lines of a session, and changed lines into rows.

A session's first line is its header, and each other line is a message with its parts. Each row's `data` is in it byte
for byte, after the ids that the agent keeps in other columns: a spliced line gives the new `data` back exactly.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import orjson

from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.core.splice import CannotSplice, end_of_value
from sessioncompress.errors import NOT_CHANGED, Damaged, FileFailed, InUse, Refused

_WAIT_SECONDS = 2.0
"""An agent waits five seconds for a lock; it is not to wait for us as long."""
_BITE_ROWS, _BITE_BYTES, _BITE_PAGES = 2_000, 8 << 20, 2_000
"""Limits of one transaction, in rows, bytes and pages, so that the agent never waits for a second."""

_INCREMENTAL = 2
_LENGTH = "octet_length(data)" if sqlite3.sqlite_version_info >= (3, 43) else "length(CAST(data AS BLOB))"
"""The first one reads no more of a row than its head."""

_COLUMNS = {
    "message": {"id", "session_id", "time_created", "time_updated", "data"},
    "part": {"id", "message_id", "session_id", "time_created", "time_updated", "data"},
}
"""All columns of the tables in which rows are written. One more would be lost with a row that is deleted."""
_SESSION = {"id", "project_id", "parent_id", "workspace_id", "directory", "title", "time_updated"}
_EVENT = {"id", "aggregate_id", "seq", "type", "data"}
_NAME = re.compile(r"ses_[0-9A-Za-z]{1,64}")
_INFO, _PARTS = b'{"info":', b',"parts":['
_IN_COLUMNS = ("id", "sessionID", "messageID", "row")
"""The keys in front of a row's data, in this order."""

_KEPT = (
    f"typeof(id) = 'text' AND typeof(seq) = 'integer' AND seq >= 0 AND typeof(type) = 'text' "
    f"AND typeof(data) = 'text' AND {_LENGTH} <= {LINE_CAP}"
)
"""The events that a line can hold, so that they can be put back."""

Row = tuple[str, str]
"""A table and an id."""


class Listed(NamedTuple):
    """A session's row: `size` is that of its messages and parts in bytes, `changed_ns` its time of change."""

    id: str
    project: str
    parent: str
    title: str
    size: int
    changed_ns: int


class Events(NamedTuple):
    """Events of a session: their number, and the bytes of their data."""

    rows: int = 0
    size: int = 0


class Database:
    """An open database of OpenCode or Kilo. Raises SessionCompressError for each error of SQLite."""

    def __init__(self, path: Path, *, writes: bool) -> None:
        self.path = path
        with self._failing():
            address = _address(path, "rw" if writes else "ro")
            self._sql = sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
        try:
            with self._failing():
                # Bytes that are no UTF-8 stay what they are.
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

    def sessions(self) -> list[Listed]:
        """List the sessions, the oldest first."""
        with self._failing():
            sizes: dict[bytes, int] = {}
            for table in _COLUMNS:
                asked = f"SELECT session_id, sum({_LENGTH}) FROM {table} GROUP BY 1"  # noqa: S608 - names of ours
                for name, size in self._sql.execute(asked):
                    sizes[name] = sizes.get(name, 0) + size
            asked = "SELECT id, directory, parent_id, title, time_updated FROM session ORDER BY time_created, id"
            found = self._sql.execute(asked).fetchall()
        listed = (
            Listed(_text(name), _text(project), _text(parent), _text(title), sizes.get(name, 0), _nanoseconds(at))
            for name, project, parent, title, at in found
        )
        return [each for each in listed if _NAME.fullmatch(each.id)]

    def lines(self, session: str) -> tuple[list[bytes], int]:
        """Read the lines of a session as they are at one moment, and its time of change in ns. Raises Refused."""
        with self._transaction("BEGIN"):
            for table in _COLUMNS:
                # Rows as the agent writes none would not come back as they were.
                types = "typeof(id) = 'text' AND typeof(data) = 'text'"
                types += " AND typeof(time_created) = 'integer' AND typeof(time_updated) = 'integer'"
                asked = f"SELECT 1 FROM {table} WHERE session_id = ? AND NOT ({types} AND {_LENGTH} <= {LINE_CAP})"  # noqa: S608
                if self._sql.execute(asked, (session,)).fetchone() is not None:
                    raise self._odd("a row", session)
            asked = "SELECT project_id, directory, parent_id, time_updated FROM session WHERE id = ?"
            header = self._sql.execute(asked, (session,)).fetchone()
            if header is None:
                raise Refused("it is not in the database any more", where=self.path / session, state=NOT_CHANGED)
            asked = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
            messages = self._sql.execute(asked, (session,)).fetchall()
            asked = (
                "SELECT message_id, id, time_created, time_updated, data FROM part WHERE session_id = ? "
                "ORDER BY message_id, id"
            )
            parts: dict[bytes, list[bytes]] = {}
            for message, name, created, updated, data in self._sql.execute(asked, (session,)):
                ids = {"id": name, "sessionID": session, "messageID": message}
                line = self._line_part(ids, data, session, (created, updated))
                parts.setdefault(message, []).append(line)
        project, directory, parent, changed = header
        info = {"id": session, "projectID": _text(project), "directory": _text(directory)}
        if parent:
            info["parentID"] = _text(parent)
        lines = [orjson.dumps({"info": info}, option=orjson.OPT_APPEND_NEWLINE)]
        for name, data in messages:
            message = self._line_part({"id": name, "sessionID": session}, data, session)
            lines.append(b'{"info":%b,"parts":[%b]}\n' % (message, b",".join(parts.get(name, ()))))
        return lines, _nanoseconds(changed)

    def change(self, session: str, before: Iterable[bytes], after: Iterable[bytes]) -> None:
        """Bring the rows of a session from one state of its lines to another, in one transaction.

        Raises InUse where the agent changed one of them meanwhile, or keeps the database locked; Damaged where a line
        is no message with its parts. Then no row is changed.
        """
        statements = list(self._changes(session, before, after))
        with self._transaction("BEGIN IMMEDIATE"):
            for statement, given in statements:
                if self._sql.execute(statement, given).rowcount != 1:
                    what = "its agent changed it meanwhile"
                    raise InUse(what, where=self.path / session, state=NOT_CHANGED, remedy="Run again.")

    def _changes(
        self, session: str, before: Iterable[bytes], after: Iterable[bytes]
    ) -> Iterator[tuple[str, tuple[object, ...]]]:
        # Most lines stay.
        was, now = set(before), set(after)
        old = _rows_in(line for line in was if line not in now)
        new = _rows_in(line for line in now if line not in was)
        for row in sorted(old.keys() | new.keys()):
            (table, name), one, other = row, old.get(row), new.get(row)
            if other is not None and one is None:
                above, key = ("message", ", message_id") if table == "part" else ("session", "")
                into = f"{table} (id, session_id, time_created, time_updated, data{key})"
                # Not below what the agent has deleted.
                has = f"WHERE EXISTS (SELECT 1 FROM {above} WHERE id = ?6)"  # noqa: S608 - names of ours
                given = (name, session, *other.times, other.data, other.message or session)
                yield f"INSERT INTO {into} SELECT ?1, ?2, ?3, ?4, CAST(?5 AS TEXT){', ?6' if key else ''} {has}", given
            elif one is not None and one != other:
                where, same = "id = ? AND session_id = ? AND data = CAST(? AS TEXT)", (name, session, one.data)
                if other is None:
                    yield f"DELETE FROM {table} WHERE {where}", same  # noqa: S608 - names of ours
                else:
                    yield f"UPDATE {table} SET data = CAST(? AS TEXT) WHERE {where}", (other.data, *same)  # noqa: S608

    def events(self, session: str) -> Events:
        """Count the events of a session that may go; see take_events()."""
        if not self._may_take_events(session):
            return Events()
        with self._failing():
            asked = f"SELECT count(*), sum({_LENGTH}) FROM event WHERE aggregate_id = ? AND {_KEPT}"  # noqa: S608 - as above
            rows, size = self._sql.execute(asked, (session,)).fetchone()
        return Events(rows, size or 0)

    def event_rows(self, session: str) -> Iterator[bytes]:
        """Yield each event of a session that may go, as a line, in the order of their numbers.

        No transaction is open meanwhile: whoever deletes what is yielded compares it.
        """
        which = f"aggregate_id = ? AND seq > ? AND {_KEPT}"
        asked = f"SELECT id, seq, type, data FROM event WHERE {which} ORDER BY seq LIMIT 32"  # noqa: S608 - as above
        last = -1 if self._may_take_events(session) else sys.maxsize
        while rows := self._sql.execute(asked, (session, last)).fetchall():
            last = rows[-1][1]
            for name, seq, kind, data in rows:
                # What no line can hold stays where it is.
                with suppress(UnicodeDecodeError):
                    line = [name.decode(), seq, kind.decode(), data.decode()]
                    yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)

    def take_events(self, session: str, lines: Iterable[bytes]) -> int:
        """Delete the events that these lines hold, each if it is still the same, in bites; return how many went.

        The agent reads none of them to resume, list, export, fork or revert a session, and numbers go on from
        `event_sequence`, which stays.
        """
        return self._in_bites(
            "DELETE FROM event WHERE id = ? AND seq = ? AND type = ? AND data = ? AND aggregate_id = ?",
            ((*_event_in(line), session) for line in lines),
        )

    def put_events(self, session: str, lines: Iterable[bytes]) -> int:
        """Insert the events of these lines where neither their id nor their number is taken; return how many."""
        return self._in_bites(
            "INSERT OR IGNORE INTO event (id, seq, type, data, aggregate_id) SELECT ?1, ?2, ?3, ?4, ?5 "
            "WHERE NOT EXISTS (SELECT 1 FROM event WHERE aggregate_id = ?5 AND seq = ?2)"
            # Where the agent began to number anew, its next event would have the number of an old one.
            " AND EXISTS (SELECT 1 FROM event_sequence WHERE aggregate_id = ?5 AND seq >= ?2)",
            ((*_event_in(line), session) for line in lines),
        )

    def holds_events(self, session: str, lines: Iterable[bytes]) -> bool:
        """Tell whether all of these events are there."""
        asked = "SELECT 1 FROM event WHERE id = ? AND seq = ? AND type = ? AND data = ? AND aggregate_id = ?"
        with self._failing():
            return all(self._sql.execute(asked, (*_event_in(line), session)).fetchone() for line in lines)

    def pages(self) -> tuple[int, int, int]:
        """Read the bytes of all pages and of the free ones, and how free pages are given back."""
        with self._failing():
            size, count, free, mode = (
                self._sql.execute(f"PRAGMA {each}").fetchone()[0]
                for each in ("page_size", "page_count", "freelist_count", "auto_vacuum")
            )
        return size * count, size * free, mode

    def give_back(self) -> None:
        """Give free pages back, in bites."""
        with self._failing():
            before, free = 0, 1
            while free not in (0, before):
                # A plain execute() stops after the first page.
                self._sql.executescript(f"PRAGMA incremental_vacuum({_BITE_PAGES})")
                before, (free,) = free, self._sql.execute("PRAGMA freelist_count").fetchone()
            self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def vacuum(self) -> None:
        """Write the database anew; from then on free pages can be given back in bites."""
        with self._failing():
            for each in ("PRAGMA auto_vacuum = INCREMENTAL", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                self._sql.execute(each)

    def _in_bites(self, statement: str, rows: Iterable[tuple[object, ...]]) -> int:
        done = 0
        bite: list[tuple[object, ...]] = []
        size = 0
        for row in rows:
            bite.append(row)
            size += len(str(row[3]))
            if len(bite) >= _BITE_ROWS or size >= _BITE_BYTES:
                done += self._one_bite(statement, bite)
                bite, size = [], 0
        return done + self._one_bite(statement, bite)

    def _one_bite(self, statement: str, bite: list[tuple[object, ...]]) -> int:
        with self._transaction("BEGIN IMMEDIATE"):
            return self._sql.executemany(statement, bite).rowcount if bite else 0

    def _may_take_events(self, session: str) -> bool:
        """Tell whether nobody replays the events of a session: it is in no workspace of another server."""
        with self._failing():
            if self._columns_of("event") != _EVENT:
                return False
            asked = (
                "SELECT 1 FROM session s JOIN event_sequence e ON e.aggregate_id = s.id "
                "WHERE s.id = ? AND s.workspace_id IS NULL AND e.owner_id IS NULL"
            )
            return self._sql.execute(asked, (session,)).fetchone() is not None

    def _columns_of(self, table: str) -> set[str]:
        """List the columns of a table, but none where an id may stand in it twice."""
        found = self._sql.execute("SELECT name, pk FROM pragma_table_info(?)", (table,)).fetchall()
        return {_text(name) for name, _ in found} if table == "session_message" or (b"id", 1) in found else set()

    def _odd(self, what: str, session: str) -> Refused:
        what = f"{what} is not as OpenCode writes it, or over {LINE_CAP >> 20} MB"
        return Refused(what, where=self.path / session, state=NOT_CHANGED)

    def _refuse_unless_known(self) -> None:
        """Raise Refused where the tables are not those that we know."""
        is_known = all(self._columns_of(table) == columns for table, columns in _COLUMNS.items())
        kinds = dict(self._sql.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"))
        is_known &= all(kinds.get(table.encode()) == b"table" for table in ("session", *_COLUMNS))
        is_known &= self._columns_of("session") >= _SESSION
        is_known &= self._sql.execute("PRAGMA encoding").fetchone() == (b"UTF-8",)
        has_triggers = self._sql.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'").fetchone() is not None
        if not is_known or has_triggers:
            what = "this is no database of OpenCode or Kilo in a form that we know"
            remedy = "Report the versions of the agent and of sessioncompress."
            raise Refused(what, where=self.path, state="The database was not changed.", remedy=remedy)
        if "type" in self._columns_of("session_message"):
            asked = "SELECT 1 FROM session_message WHERE type IN ('user', 'assistant', 'shell')"
            if self._sql.execute(asked).fetchone() is not None:
                what = "its agent keeps messages in a table that we do not know yet (session_message)"
                raise Refused(what, where=self.path, state="The database was not changed.")

    def _line_part(
        self, columns: Mapping[str, bytes | str], data: bytes, session: str, times: tuple[int, int] = (0, 0)
    ) -> bytes:
        ids: dict[str, object] = {}
        try:
            value = orjson.loads(data)
            ids = {key: each.decode() if isinstance(each, bytes) else each for key, each in columns.items()}
        except ValueError:
            value = None
        is_whole = data.startswith(b"{") and data.endswith(b"}") and b"\n" not in data
        if not isinstance(value, dict) or not is_whole or value.keys() & set(_IN_COLUMNS):
            raise self._odd(f"the row {ids['id']}" if ids else "a row", session)
        if value.get("type") == "reasoning":
            # It may be deleted, and comes back with all of its columns.
            ids["row"] = times
        head = orjson.dumps(ids)
        return head[:-1] + b"," + data[1:] if value else head

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._failing():
            self._sql.execute(begin)
            try:
                yield
                self._sql.execute("COMMIT")
            except BaseException:
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                raise

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            state = "The database was not changed."
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                what = "another program keeps the database locked"
                raise InUse(what, where=self.path, state=state, remedy="Run again.") from error
            what = f"SQLite cannot work with the database: {error}"
            remedy = "Check it with 'PRAGMA quick_check'."
            raise FileFailed(what, where=self.path, state=state, remedy=remedy) from error


def shrink(path: Path, *, always: bool = False) -> str:
    """Give the free pages of a database back to the file system; return why bytes stay free inside, or nothing.

    With `always` it is written anew, so that nothing is left of what was in its rows. Raises SessionCompressError.
    """
    with Database(path, writes=True) as opened:
        pages, free, mode = opened.pages()
        if not (free or always):
            return ""
        if mode == _INCREMENTAL and not always:
            opened.give_back()
            return ""
    if not _is_alone(path):
        return "its agent has it open, and only a database that nobody has open can be made smaller"
    if shutil.disk_usage(path.parent).free < 2 * (pages - free):
        return "the disk has no room for a second copy"
    with Database(path, writes=True) as opened:
        opened.vacuum()
    return ""


def _is_alone(path: Path) -> bool:
    """Tell whether no process has a database open: only then it can be locked for one."""
    with closing(sqlite3.connect(_address(path, "rw"), uri=True, timeout=0.1, isolation_level=None)) as probe:
        try:
            for each in ("PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "COMMIT"):
                probe.execute(each)
        except sqlite3.OperationalError:
            return False
    return True


def _address(path: Path, mode: str) -> str:
    return f"file:{quote(str(path.resolve()))}?mode={mode}"


def _event_in(line: bytes) -> tuple[str, int, str, str]:
    """Read the id, the number, the type and the data of an event. Raises Damaged."""
    with suppress(ValueError, TypeError):
        name, number, kind, data = orjson.loads(line)
        if type(number) is int and 0 <= number < 1 << 63 and all(isinstance(each, str) for each in (name, kind, data)):
            return name, number, kind, data
    raise Damaged("what was kept of its events holds a line that is no event", state="The database was not changed.")


class _Row(NamedTuple):
    """What a line holds of a row: its data, of a part its message, and the times in its columns."""

    data: bytes
    message: str = ""
    times: tuple[int, int] = (0, 0)


def _rows_in(lines: Iterable[bytes]) -> dict[Row, _Row]:
    """Find the rows in lines, by table and id. Raises Damaged where one is no message with its parts."""
    found: dict[Row, _Row] = {}
    try:
        for line in lines:
            end = end_of_value(line, len(_INFO))
            message = orjson.loads(line[len(_INFO) : end])
            # A message that a run adds, with its parts, is of its own time.
            times = (message.get("time", {}).get("created", 0),) * 2
            found["message", message["id"]] = _Row(_data(message, line[len(_INFO) : end]), "", times)
            start = end + len(_PARTS)
            while line[start : start + 1] == b"{":
                end = end_of_value(line, start)
                part = orjson.loads(line[start:end])
                data = _data(part, line[start:end])
                found["part", part["id"]] = _Row(data, part["messageID"], tuple(part.get("row", times)))
                start = end + 1
    except (CannotSplice, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged("a rewritten line is no message with its parts", state=NOT_CHANGED) from error
    return found


def _data(value: Mapping[str, Any], raw: bytes) -> bytes:
    """Take off the ids that stand in columns. Raises ValueError where they are not where we write them."""
    head = orjson.dumps({key: value[key] for key in _IN_COLUMNS if key in value})
    if raw != head and not raw.startswith(head[:-1] + b","):
        raise ValueError("the ids are not where they were")
    return b"{}" if raw == head else b"{" + raw[len(head) :]


def _nanoseconds(value: object) -> int:
    return value * 1_000_000 if isinstance(value, int) and 0 <= value < 1 << 42 else 0


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""
