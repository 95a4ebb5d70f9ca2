"""A synthetic home of Codex: a rollout, rollouts that go on from it, and the index that has places in each."""

from __future__ import annotations

import json
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tests.support.blocks import stringify
from tests.support.stories.codex import paginated

_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY);
CREATE TABLE thread_turns (
    thread_id TEXT NOT NULL, turn_id TEXT NOT NULL, rollout_ordinal INTEGER NOT NULL, status TEXT NOT NULL,
    rollout_byte_offset INTEGER, rollout_end_ordinal INTEGER, rollout_end_byte_offset INTEGER,
    PRIMARY KEY (thread_id, turn_id)
);
CREATE UNIQUE INDEX idx_thread_turns_page ON thread_turns(thread_id, rollout_ordinal);
CREATE TABLE thread_items (
    thread_id TEXT NOT NULL, turn_id TEXT NOT NULL, item_id TEXT NOT NULL, rollout_ordinal INTEGER NOT NULL,
    item_json TEXT NOT NULL, PRIMARY KEY (thread_id, turn_id, item_id)
);
CREATE TABLE thread_history_projection_state (
    thread_id TEXT PRIMARY KEY, next_rollout_byte_offset INTEGER NOT NULL, next_rollout_ordinal INTEGER NOT NULL
);
CREATE TRIGGER thread_realtime_items_projection_cleanup AFTER DELETE ON thread_history_projection_state
BEGIN
    DELETE FROM thread_items WHERE thread_id = OLD.thread_id;
END;
"""
NAME = "thread_history_1.sqlite"


class Home(NamedTuple):
    """A home with a rollout, one that goes on from its end, one from its third turn, and one that goes on from that."""

    path: Path
    parent: Path
    fork: Path
    early: Path
    grandchild: Path

    @property
    def rollouts(self) -> tuple[Path, ...]:
        return self[1:]

    @property
    def database(self) -> Path:
        return self.path / NAME

    def wrong(self) -> list[str]:
        """List what does not point to where it should."""
        found = []
        for path in self.rollouts:
            places = ordinals(path)
            for table, number, place, behind in (
                ("thread_turns", "rollout_ordinal", "rollout_byte_offset", 0),
                ("thread_turns", "rollout_end_ordinal", "rollout_end_byte_offset", 1),
                ("thread_history_projection_state", "next_rollout_ordinal", "next_rollout_byte_offset", 0),
            ):
                rows = self.rows(f"SELECT {number}, {place} FROM {table} WHERE thread_id = ?", name_of(path))
                assert rows
                found += [f"{path.name}: {place} of {at}" for at, there in rows if places[at + behind] != there]
            for other in self.rollouts:
                base = header(other).get("history_base", {})
                if (
                    base.get("thread_id") == name_of(path)
                    and places[base["end_ordinal_exclusive"]] != base["end_byte_offset"]
                ):
                    found.append(f"{other.name}: its base")
        return found

    def rows(self, asked: str, *given: Any) -> list[Any]:
        database = sqlite3.connect(self.database)
        try:
            with database:
                return database.execute(asked, given).fetchall()
        finally:
            database.close()

    def put(self, path: Path) -> None:
        """Put a rollout into the index, as Codex does when it has read it."""
        places = ordinals(path)
        begun: tuple[str, int] = ("", 0)
        turns, items = [], []
        for line in path.read_bytes().splitlines():
            entry = json.loads(line)
            number, kind = entry["ordinal"], entry["payload"].get("type")
            if kind == "task_started":
                begun = (entry["payload"]["turn_id"], number)
            if kind == "task_complete":
                turns.append((name_of(path), *begun, "completed", places[begun[1]], number, places[number + 1]))
            if kind == "item_completed":
                item = entry["payload"]["item"]
                items.append((name_of(path), begun[0], item["id"], number, json.dumps(item)))
        state = (name_of(path), max(places.values()), max(places))
        database = sqlite3.connect(self.database)
        with database:
            database.executemany("INSERT INTO thread_turns VALUES (?, ?, ?, ?, ?, ?, ?)", turns)
            database.executemany("INSERT INTO thread_items VALUES (?, ?, ?, ?, ?)", items)
            database.execute("INSERT INTO thread_history_projection_state VALUES (?, ?, ?)", state)
        database.close()

    def bytes(self) -> dict[str, bytes]:
        files = (
            path
            for path in self.path.rglob("*")
            if path.is_file() and not path.name.endswith((".lock", "-shm", "-wal"))
        )
        return {str(path.relative_to(self.path)): path.read_bytes() for path in files}


def ordinals(path: Path) -> dict[int, int]:
    """Return where the line of each number begins, and the end of the file as the place of the next one."""
    places: dict[int, int] = {}
    at = number = 0
    for line in path.read_bytes().splitlines(keepends=True):
        number = json.loads(line)["ordinal"]
        places.setdefault(number, at)
        at += len(line)
    return {**places, number + 1: at}


def name_of(path: Path) -> str:
    return path.stem[-36:]


def header(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        payload: dict[str, Any] = json.loads(file.readline())["payload"]
        return payload


@cache
def _lines() -> tuple[bytes, ...]:
    return tuple(paginated().lines())


def forked(base: Path, end: int, seed: int) -> Path:
    """Write a rollout of a few turns that goes on from another one, before the line with that number."""
    made = _lines()
    turns = [number for number, line in enumerate(made) if b'"task_started"' in line]
    name = str(UUID(int=seed, version=4))
    place = {"thread_id": name_of(base), "end_ordinal_exclusive": end, "end_byte_offset": ordinals(base)[end]}
    written = []
    for count, line in enumerate(made[: turns[2]]):
        entry = json.loads(line)
        entry["ordinal"] = end + count
        if not count:
            entry["payload"] |= {"id": name, "forked_from_id": name_of(base), "history_base": place}
        written.append(stringify(entry).encode() + b"\n")
    path = base.with_name(f"rollout-2026-03-02T1{seed}-00-00-{name}.jsonl")
    path.write_bytes(b"".join(written))
    return path


def home_in(folder: Path) -> Home:
    sessions = folder / "sessions" / "2026" / "03" / "02"
    sessions.mkdir(parents=True)
    lines = _lines()
    parent = sessions / f"rollout-2026-03-02T09-00-00-{json.loads(lines[0])['payload']['id']}.jsonl"
    parent.write_bytes(b"".join(lines))
    turns = [number for number, line in enumerate(lines) if b'"task_started"' in line]
    fork = forked(parent, len(lines), 1)
    home = Home(folder, parent, fork, forked(parent, turns[3], 2), forked(fork, max(ordinals(fork)), 3))
    database = sqlite3.connect(home.database)
    database.executescript(_SCHEMA)
    database.close()
    for path in home.rollouts:
        home.put(path)
    assert home.wrong() == []
    return home
