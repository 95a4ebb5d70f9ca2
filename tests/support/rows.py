"""Makes databases as OpenCode has them, from its exports: messages, parts, and the events that repeat them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

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


def rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(path)) as sql:
        return {table: sorted(sql.execute(f"SELECT * FROM {table}")) for table in TABLES}


def execute(path: Path, statement: str, *given: object) -> None:
    with closing(sqlite3.connect(path)) as sql:
        sql.execute(statement, given)
        sql.commit()
