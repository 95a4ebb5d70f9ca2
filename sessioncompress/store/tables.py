"""The tables in which agents keep sessions, and how their rows become the lines of a session and back.

In OpenCode and Kilo, the first line of a session is its header, and each other line is a message with its parts. In
OpenClaw, each row is a line in pi's format. A line has the row's text byte for byte, after the values that the agent
keeps in other columns. So a spliced line gives back exactly the new text.
"""

from __future__ import annotations

import re
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.core.splice import CannotSplice, end_of_value
from sessioncompress.errors import Damaged, Refused
from sessioncompress.store.originals import zstd

_INFO, _PARTS = b'{"info":', b',"parts":['
_IDS, _ROW = ("id", "sessionID", "messageID", "row"), ("row",)
"""The keys before a row's text, in this order."""
_OPENCODE_ID = re.compile(r"ses_[0-9A-Za-z]{1,64}")
_OPENCLAW_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
_LONGEST_PACKED = 4 << 20
"""Maximum bytes of text that OpenClaw packs, before and after packing."""

Row = tuple[str, str | int]
"""A table and an id."""
Statement = tuple[str, tuple[object, ...]]
Columns = Mapping[str, int]
"""The columns of a table, each with its position in the key, or 0."""


class Value(NamedTuple):
    """The parts of a row that its line holds: its text, a part's message id, and the times in its columns."""

    data: bytes
    message: str = ""
    times: tuple[int, int] = (0, 0)


class Odd(ValueError):
    """Raised if a row is not as its agent writes it; the message names the row."""


class Kept(NamedTuple):
    """Rows that are kept in a file: the types of their values, the SQL that finds one, and the SQL that reinserts it.

    `?1` is the session, and the values follow. A value that may be bytes is base64 in a line.
    """

    types: tuple[tuple[type, ...], ...]
    place: str
    put: str


class Events(NamedTuple):
    """Rows that a run removes whole: their table, its columns for session and text, and a condition on the rows.

    They may be removed if `may_go` finds a row. `rows` are the columns to keep. `?1` is the session. `size` selects the
    bytes of all such rows; if empty, everything else in the database counts as them.
    """

    table: str
    columns: Columns
    session: str
    data: str
    rows: str
    which: str
    may_go: str
    size: str = ""


class Tables(NamedTuple):
    """The tables of one agent: `columns` lists all columns of the tables we write, `needs` some of other tables.

    An unknown column would be lost with a deleted row. `name` matches session ids. `sessions` selects each session's
    id, project, title and time in ms, oldest first; `changed` selects the time of one, `sizes` the bytes of their rows.
    `holding` selects the session and text of each row that holds a text. `lines` yields the lines of a session, or
    raises Odd. `rows_in` finds the rows in lines. `statement` changes a row
    from one value to another if it is still unchanged. If that changes more than the row's text, `whole` selects the
    values to keep, as listed in `kept`. These raise Damaged, Refused. `fixed` is the reason why no line can be added,
    and `refusal` returns why we refuse a database; both may be empty.
    """

    agent: str
    called: str
    name: re.Pattern[str]
    columns: Mapping[str, Columns]
    needs: Mapping[str, Columns]
    sessions: str
    changed: str
    sizes: str
    holding: str
    lines: Callable[[sqlite3.Connection, str], Iterator[bytes]]
    rows_in: Callable[[Iterable[bytes]], dict[Row, Value]]
    statement: Callable[[str, Row, Value | None, Value | None], Statement]
    events: Events
    kept: tuple[Kept, ...]
    whole: str = ""
    fixed: str = ""
    refusal: Callable[[sqlite3.Connection], str] = lambda _: ""

    def line_of(self, values: Sequence[object]) -> bytes:
        """Return a kept row as a line. Raises UnicodeDecodeError if its text is not UTF-8."""
        (types,) = (each.types for each in self.kept if len(each.types) == len(values))
        pairs = zip(values, types, strict=True)
        told = [
            (b64encode(each) if bytes in kinds else each).decode() if isinstance(each, bytes) else each
            for each, kinds in pairs
        ]
        return orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)

    def values_in(self, line: bytes) -> tuple[Kept, list[object]]:
        """Read a kept row from a line. Raises Damaged."""
        with suppress(ValueError, TypeError):
            told = orjson.loads(line)
            for kept in self.kept:
                if len(kept.types) == len(told) and all(map(_is_of, told, kept.types)):
                    pairs = zip(told, kept.types, strict=True)
                    return kept, [
                        b64decode(each, validate=True) if each and bytes in kinds else each for each, kinds in pairs
                    ]
        what = "what was kept of its events holds a line that is no event"
        raise Damaged(what, state="The database was not changed.")


def _is_of(value: object, types: tuple[type, ...]) -> bool:
    if type(value) is int:
        return int in types and 0 <= value < 1 << 63
    return type(value) in types or (bytes in types and isinstance(value, str))


_COUNTS = sqlite3.sqlite_version_info >= (3, 43)


def length(column: str) -> str:
    """Return SQL for the length of a text in bytes. The function of newer versions reads only the head of a row."""
    return f"octet_length({column})" if _COUNTS else f"length(CAST({column} AS BLOB))"


def _columns(key: str, others: str) -> Columns:
    return {name: at + 1 for at, name in enumerate(key.split())} | dict.fromkeys(others.split(), 0)


def text(value: object) -> str:
    """Return a text from the database, or "" if it is not one."""
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _with(keys: tuple[str, ...], columns: Mapping[str, object], data: object, times: Sequence[int] = ()) -> bytes:
    """Put the values of columns before a row's text. Raises Odd."""
    value, ids = None, dict[str, object]()
    if isinstance(data, bytes) and data.startswith(b"{") and data.endswith(b"}") and b"\n" not in data:
        with suppress(ValueError):
            value = orjson.loads(data)
            ids = {key: each.decode() if isinstance(each, bytes) else each for key, each in columns.items()}
    if not ids or not isinstance(data, bytes) or not isinstance(value, dict) or value.keys() & set(keys):
        raise Odd(f"the row {ids[keys[0]]}" if ids else "a row")
    if times and value.get("type") == "reasoning":
        # The row may be deleted, so keep the columns to restore it.
        ids["row"] = times
    head = orjson.dumps({key: ids[key] for key in keys if key in ids})
    return head[:-1] + b"," + data[1:] if value else head


def _without(keys: tuple[str, ...], value: Mapping[str, Any], raw: bytes) -> bytes:
    """Remove the values of columns again. Raises ValueError if they are not where _with() writes them."""
    head = orjson.dumps({key: value[key] for key in keys if key in value})
    if raw != head and not raw.startswith(head[:-1] + b","):
        raise ValueError("the ids are not where they were")
    return b"{}" if raw == head else b"{" + raw[len(head) :]


_MESSAGES: Mapping[str, Columns] = {
    "message": _columns("id", "session_id time_created time_updated data"),
    "part": _columns("id", "message_id session_id time_created time_updated data"),
}
_LONG = f"{length('data')} <= {LINE_CAP}"


def _messages(sql: sqlite3.Connection, session: str) -> Iterator[bytes]:
    for table in _MESSAGES:
        # Refuse rows that the agent would not write: they could not be restored exactly.
        types = "typeof(id) = 'text' AND typeof(data) = 'text'"
        types += " AND typeof(time_created) = 'integer' AND typeof(time_updated) = 'integer'"
        asked = f"SELECT 1 FROM {table} WHERE session_id = ? AND NOT ({types} AND {_LONG})"  # noqa: S608 - our names
        if sql.execute(asked, (session,)).fetchone() is not None:
            raise Odd("a row")
    asked = "SELECT project_id, directory, parent_id FROM session WHERE id = ?"
    project, directory, parent = map(text, sql.execute(asked, (session,)).fetchone())
    info = {"id": session, "projectID": project, "directory": directory} | ({"parentID": parent} if parent else {})
    yield orjson.dumps({"info": info}, option=orjson.OPT_APPEND_NEWLINE)
    asked = "SELECT message_id, id, time_created, time_updated, data FROM part WHERE session_id = ? ORDER BY 1, 2"
    parts: dict[bytes, list[bytes]] = {}
    for message, name, *times, data in sql.execute(asked, (session,)):
        ids = {"id": name, "sessionID": session, "messageID": message}
        parts.setdefault(message, []).append(_with(_IDS, ids, data, times))
    asked = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    for name, data in sql.execute(asked, (session,)):
        told = _with(_IDS, {"id": name, "sessionID": session}, data)
        yield b'{"info":%b,"parts":[%b]}\n' % (told, b",".join(parts.get(name, ())))


def _rows_of_messages(lines: Iterable[bytes]) -> dict[Row, Value]:
    found: dict[Row, Value] = {}
    try:
        for line in lines:
            end = end_of_value(line, len(_INFO))
            message = orjson.loads(line[len(_INFO) : end])
            # A message that a run adds has its own time, and so do its parts.
            times = (message.get("time", {}).get("created", 0),) * 2
            found["message", message["id"]] = Value(_without(_IDS, message, line[len(_INFO) : end]), "", times)
            start = end + len(_PARTS)
            while line[start : start + 1] == b"{":
                end = end_of_value(line, start)
                part = orjson.loads(line[start:end])
                data = _without(_IDS, part, line[start:end])
                found["part", part["id"]] = Value(data, part["messageID"], tuple(part.get("row", times)))
                start = end + 1
    except (CannotSplice, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged("a rewritten line is no message with its parts") from error
    return found


def _change_message(session: str, row: Row, was: Value | None, now: Value | None) -> Statement:
    table, name = row
    if was is None and now is not None:
        above, key = ("message", ", message_id") if table == "part" else ("session", "")
        into = f"{table} (id, session_id, time_created, time_updated, data{key})"
        # Insert nothing under a row that the agent has deleted.
        has = f"WHERE EXISTS (SELECT 1 FROM {above} WHERE id = ?6)"  # noqa: S608 - our names
        given = (name, session, *now.times, now.data, now.message or session)
        return f"INSERT INTO {into} SELECT ?1, ?2, ?3, ?4, CAST(?5 AS TEXT){', ?6' if key else ''} {has}", given
    where, same = "id = ? AND session_id = ? AND data = CAST(? AS TEXT)", (name, session, was and was.data)
    if now is None:
        return f"DELETE FROM {table} WHERE {where}", same  # noqa: S608 - our names
    return f"UPDATE {table} SET data = CAST(? AS TEXT) WHERE {where}", (now.data, *same)  # noqa: S608


def _is_of_next_generation(sql: sqlite3.Connection) -> str:
    is_there = "SELECT 1 FROM pragma_table_info('session_message') WHERE name = 'type'"
    is_used = "SELECT 1 FROM session_message WHERE type IN ('user', 'assistant', 'shell')"
    if any(sql.execute(each).fetchone() is None for each in (is_there, is_used)):
        return ""
    return "its agent keeps messages in a table that we do not know yet (session_message)"


_OPENCODE = Tables(
    "opencode",
    "OpenCode",
    _OPENCODE_ID,
    _MESSAGES,
    {"session": _columns("id", "project_id parent_id workspace_id directory title time_updated")},
    "SELECT id, directory, title, time_updated FROM session ORDER BY time_created, id",
    "SELECT time_updated FROM session WHERE id = ?",
    " UNION ALL ".join(
        f"SELECT session_id, sum({length('data')}) FROM {table} GROUP BY 1"  # noqa: S608 - our names
        for table in _MESSAGES
    ),
    "SELECT session_id, data FROM part WHERE instr(data, ?)",
    _messages,
    _rows_of_messages,
    _change_message,
    Events(
        "event",
        _columns("id", "aggregate_id seq type data"),
        "aggregate_id",
        "data",
        "id, seq, type, data",
        f"typeof(id) = 'text' AND typeof(seq) = 'integer' AND seq >= 0 AND typeof(type) = 'text' "
        f"AND typeof(data) = 'text' AND {_LONG}",
        # No one replays them: the session is in no workspace of another server.
        "SELECT 1 FROM session s JOIN event_sequence e ON e.aggregate_id = s.id "
        "WHERE s.id = ?1 AND s.workspace_id IS NULL AND e.owner_id IS NULL",
    ),
    (
        Kept(
            ((str,), (int,), (str,), (str,)),
            "event WHERE aggregate_id = ?1 AND id = ?2 AND seq = ?3 AND type = ?4 AND data = ?5",
            "INSERT OR IGNORE INTO event (aggregate_id, id, seq, type, data) SELECT ?1, ?2, ?3, ?4, ?5 "
            "WHERE NOT EXISTS (SELECT 1 FROM event WHERE aggregate_id = ?1 AND seq = ?3)"
            # If the agent has restarted its numbering, its next event would get the number of an old one.
            " AND EXISTS (SELECT 1 FROM event_sequence WHERE aggregate_id = ?1 AND seq >= ?3)",
        ),
    ),
    refusal=_is_of_next_generation,
)

_TEXT = "coalesce(event_json, unpacked(event_zstd))"


def _lines(sql: sqlite3.Connection, session: str) -> Iterator[bytes]:
    is_short = (
        f"CASE WHEN event_json IS NULL THEN length(event_zstd) <= {_LONGEST_PACKED} "
        f"ELSE {length('event_json')} <= {LINE_CAP} END"
    )
    asked = f"SELECT 1 FROM transcript_events WHERE session_id = ? AND NOT (seq >= 0 AND {is_short})"  # noqa: S608 - our names
    if sql.execute(asked, (session,)).fetchone() is not None:
        raise Odd("a row")
    asked = f"SELECT seq, {_TEXT} FROM transcript_events WHERE session_id = ? ORDER BY seq"  # noqa: S608 - as above
    for number, data in sql.execute(asked, (session,)):
        yield _with(_ROW, {"row": number}, data) + b"\n"


def _rows_of_lines(lines: Iterable[bytes]) -> dict[Row, Value]:
    found: dict[Row, Value] = {}
    try:
        for line in lines:
            value = orjson.loads(line)
            data = _without(_ROW, value, line.removesuffix(b"\n"))
            found["transcript_events", value["row"]] = Value(data)
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged("a rewritten line is no row") from error
    return found


_FIXED = "OpenClaw keeps the places of lines in other tables, so none can be added: use its own /compact"


def _change_line(session: str, row: Row, was: Value | None, now: Value | None) -> Statement:
    if was is None or now is None:
        raise Refused(_FIXED)
    text, same = "CAST(?1 AS TEXT)", f"session_id = ?3 AND seq = ?4 AND {_TEXT} = CAST(?5 AS TEXT)"
    sets = f"event_json = {text}, event_zstd = NULL, event_utf8_bytes = ?2, navigation_json = NULL"
    given = (now.data, len(now.data), session, row[1], was.data)
    return f"UPDATE transcript_events SET {sets} WHERE {same}", given  # noqa: S608 - as above


def _octets(value: object) -> int | None:
    """Count bytes as SQLite does since 3.43."""
    return None if value is None else len(value if isinstance(value, bytes) else str(value).encode())


def _unpacked(packed: object) -> str | None:
    """Return the unpacked text of a row, or None if OpenClaw did not pack it."""
    with suppress(zstd.ZstdError, ValueError):
        if isinstance(packed, bytes):
            unpacking = zstd.ZstdDecompressor()
            data = unpacking.decompress(packed, max_length=_LONGEST_PACKED)
            return data.decode() if unpacking.eof else None
    return None


_ROWS = "SELECT seq, event_json, event_zstd, event_utf8_bytes, navigation_json FROM transcript_events "
# Keep the last row: the agent continues numbering from it.
_OLDER = "seq < (SELECT max(seq) FROM trajectory_runtime_events WHERE session_id = ?1)"

_OPENCLAW = Tables(
    "openclaw",
    "OpenClaw",
    _OPENCLAW_ID,
    {
        "transcript_events": _columns(
            "session_id seq", "event_json created_at event_zstd event_utf8_bytes navigation_json"
        )
    },
    {
        "session_windows": _columns("session_id", "session_key created_at updated_at display_name"),
        "session_nodes": _columns("session_key", "label display_name"),
    },
    "SELECT id, CASE WHEN json_valid(head) THEN json_extract(head, '$.cwd') END, title, updated_at FROM ("
    "SELECT w.session_id AS id, w.created_at AS created, w.updated_at, "
    "coalesce(n.label, w.display_name, n.display_name, w.session_key) AS title, "
    "(SELECT event_json FROM transcript_events WHERE session_id = w.session_id ORDER BY seq LIMIT 1) AS head "
    "FROM session_windows w LEFT JOIN session_nodes n USING (session_key) "
    "WHERE EXISTS (SELECT 1 FROM transcript_events WHERE session_id = w.session_id)) ORDER BY created, id",
    "SELECT updated_at FROM session_windows WHERE session_id = ?",
    f"SELECT session_id, sum(coalesce(event_utf8_bytes, {length('event_json')})) "  # noqa: S608 - our names
    "FROM transcript_events GROUP BY 1",
    f"SELECT session_id, {_TEXT} FROM transcript_events WHERE instr({_TEXT}, ?)",  # noqa: S608 - our names
    _lines,
    _rows_of_lines,
    _change_line,
    Events(
        "trajectory_runtime_events",
        _columns("session_id seq", "run_id event_json created_at"),
        "session_id",
        "event_json",
        "seq, run_id, event_json, created_at",
        "typeof(seq) = 'integer' AND seq >= 0 AND typeof(run_id) IN ('text', 'null') AND typeof(event_json) = 'text' "
        f"AND typeof(created_at) = 'integer' AND created_at >= 0 AND {length('event_json')} <= {LINE_CAP} AND {_OLDER}",
        "SELECT ?1",
        f"SELECT sum({length('event_json')}) FROM trajectory_runtime_events",  # noqa: S608 - our names
    ),
    (
        Kept(
            ((int,), (str, type(None)), (str,), (int,)),
            "trajectory_runtime_events "
            "WHERE session_id = ?1 AND seq = ?2 AND run_id IS ?3 AND event_json = ?4 AND created_at = ?5",
            "INSERT OR IGNORE INTO trajectory_runtime_events (session_id, seq, run_id, event_json, created_at) "
            "SELECT ?1, ?2, ?3, ?4, ?5 "
            "WHERE EXISTS (SELECT 1 FROM trajectory_runtime_events WHERE session_id = ?1 AND seq > ?2)",
        ),
        Kept(
            ((int,), (str, type(None)), (bytes, type(None)), (int, type(None)), (str, type(None))),
            "transcript_events WHERE session_id = ?1 AND seq = ?2 AND event_json IS ?3 "
            "AND event_zstd IS ?4 AND event_utf8_bytes IS ?5 AND navigation_json IS ?6",
            "UPDATE transcript_events SET event_json = ?3, event_zstd = ?4, event_utf8_bytes = ?5, "
            "navigation_json = ?6 WHERE session_id = ?1 AND seq = ?2 AND event_json = coalesce(?3, unpacked(?4))",
        ),
    ),
    # Skip rows that are already in the form that a change writes.
    _ROWS + "WHERE session_id = ? AND seq = ? AND NOT (event_zstd IS NULL AND navigation_json IS NULL AND "
    f"event_utf8_bytes IS {length('event_json')})",
    _FIXED,
)

FUNCTIONS = {"unpacked": _unpacked} | ({} if _COUNTS else {"octet_length": _octets})
"""SQL functions that OpenClaw's own checks or our SQL need."""
TABLES = (_OPENCODE, _OPENCLAW)


def is_session_id(name: str) -> bool:
    """Return True if an agent may give a session this id."""
    return any(each.name.fullmatch(name) for each in TABLES)
