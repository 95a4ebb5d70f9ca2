"""Makes databases as OpenCode and OpenClaw have them: messages, parts or lines, and the events that repeat them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from sessioncompress.store.originals import zstd

_SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text,
    directory text NOT NULL, title text NOT NULL, version text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE INDEX part_session_idx ON part (session_id);
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL,
    data text NOT NULL);
CREATE INDEX event_aggregate_idx ON event (aggregate_id, seq);
CREATE TABLE session_message (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, data text NOT NULL);
"""
TABLES = ("session", "message", "part", "event_sequence", "event")
SNAPSHOTS = 3
"""Events for each part: it is written anew whenever something of it comes."""


def database(path: Path, *exports: bytes) -> Path:
    """Make a database of exported sessions, in WAL mode as the agent has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("PRAGMA journal_mode = WAL")
        sql.executescript(_SCHEMA)
        for export in exports:
            _insert(sql, json.loads(export))
        sql.commit()
    return path


def _insert(sql: sqlite3.Connection, document: dict[str, Any]) -> None:
    info = document["info"]
    name, at = info["id"], info["time"]["created"]
    row = (name, info["projectID"], None, info.get("parentID"), info["directory"], info["title"], info["version"])
    sql.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, at, info["time"]["updated"]))
    sql.execute("INSERT INTO event_sequence VALUES (?, ?, NULL)", (name, 10_000))
    events: list[tuple[str, str]] = []
    for number, message in enumerate(document["messages"]):
        told, created = message["info"], at + number * 1_000
        given = (told["id"], name, created, created + 5, _data(told, ("id", "sessionID")))
        sql.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", given)
        events.append(("message.updated.1", json.dumps({"sessionID": name, "info": told})))
        for part in message["parts"]:
            columns = (part["id"], told["id"], name, created + 1, created + 7)
            given_part = (*columns, _data(part, ("id", "sessionID", "messageID")))
            sql.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", given_part)
            events += [("message.part.updated.1", json.dumps({"sessionID": name, "part": part}))] * SNAPSHOTS
    sql.executemany(
        "INSERT INTO event VALUES (?, ?, ?, ?, ?)",
        [(f"evt_{name}_{seq}", name, seq, *event) for seq, event in enumerate(events)],
    )


def _data(value: dict[str, Any], but: Iterable[str]) -> str:
    kept = {key: each for key, each in value.items() if key not in but}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


_OPENCLAW = """
CREATE TABLE session_nodes (session_key TEXT NOT NULL PRIMARY KEY, entry_valid INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL, label TEXT, display_name TEXT) STRICT;
CREATE TRIGGER session_nodes_entry_valid_after_update AFTER UPDATE OF updated_at ON session_nodes
    BEGIN UPDATE session_nodes SET entry_valid = 0 WHERE session_key = NEW.session_key; END;
CREATE TABLE session_windows (session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, display_name TEXT,
    FOREIGN KEY (session_key) REFERENCES session_nodes(session_key) ON DELETE CASCADE) STRICT;
CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT,
    created_at INTEGER NOT NULL, event_zstd BLOB, event_utf8_bytes INTEGER, navigation_json TEXT,
    PRIMARY KEY (session_id, seq),
    FOREIGN KEY (session_id) REFERENCES session_windows(session_id) ON DELETE CASCADE,
    CHECK ((event_json IS NOT NULL AND event_zstd IS NULL) OR (event_json IS NULL AND event_zstd IS NOT NULL
        AND event_utf8_bytes IS NOT NULL AND event_utf8_bytes BETWEEN 1 AND 4194304
        AND length(event_zstd) BETWEEN 1 AND 4194304 AND navigation_json IS NOT NULL)),
    CHECK (navigation_json IS NULL OR octet_length(navigation_json) <= 16384)) STRICT;
CREATE TABLE trajectory_runtime_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, run_id TEXT,
    event_json TEXT NOT NULL, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, seq),
    FOREIGN KEY (session_id) REFERENCES session_windows(session_id) ON DELETE CASCADE) STRICT;
"""
OPENCLAW_TABLES = ("session_nodes", "session_windows", "transcript_events", "trajectory_runtime_events")
_PACKED_FROM = 1_024


def openclaw(path: Path, **sessions: bytes) -> Path:
    """Make a database of OpenClaw's, with sessions by their ids, each given as lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(opened(path)) as sql:
        for each in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL"):
            sql.execute(f"PRAGMA {each}")
        sql.executescript(_OPENCLAW)
        for at, (name, data) in enumerate(sessions.items(), 1_700_000_000_000):
            key = f"agent:main:{name}"
            sql.execute("INSERT INTO session_nodes VALUES (?, 1, ?, NULL, NULL)", (key, at))
            sql.execute("INSERT INTO session_windows VALUES (?, ?, ?, ?, NULL)", (name, key, at, at))
            for seq, line in enumerate(data.splitlines()):
                is_packed = len(line) >= _PACKED_FROM
                given = (None if is_packed else line.decode(), at + seq, zstd.compress(line) if is_packed else None)
                navigation = json.dumps({"version": 1, "modelBytes": len(line)}) if is_packed else None
                row = (name, seq, *given, len(line), navigation)
                sql.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                trace = (
                    name,
                    seq,
                    "run" if seq % 3 else None,
                    json.dumps({"type": "trace", "seen": line.decode()}),
                    at,
                )
                sql.execute("INSERT INTO trajectory_runtime_events VALUES (?, ?, ?, ?, ?)", trace)
        sql.commit()
    return path


def rows(path: Path, tables: Iterable[str] = TABLES) -> dict[str, list[tuple[Any, ...]]]:
    """Read all rows of a database."""
    with closing(sqlite3.connect(path)) as sql:
        return {table: sorted(sql.execute(f"SELECT * FROM {table}"), key=repr) for table in tables}


def opened(path: Path) -> sqlite3.Connection:
    """Open a database with what a check of OpenClaw's asks for, which older versions of SQLite lack."""
    sql = sqlite3.connect(path)
    sql.create_function(
        "octet_length", 1, lambda text: None if text is None else len(text.encode()), deterministic=True
    )
    return sql


def execute(path: Path, statement: str, *given: object) -> None:
    """Change a database as an agent would."""
    with closing(opened(path)) as sql:
        sql.execute(statement, given)
        sql.commit()
