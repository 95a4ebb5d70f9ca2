"""Nothing lost in databases: rows of every kind, mutated byte by byte, and power that fails at any write."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults.effort import effort
from tests.faults.test_disks import cuts_power, empty_disk, mounted
from tests.support.commands import run
from tests.support.databases import EXPORT, LINES
from tests.support.mutations import mutated
from tests.support.rows import OPENCLAW_TABLES, TABLES, database, execute, openclaw, opened
from tests.unit.store.tools import disk


class Kind(NamedTuple):
    """A kind of database: how one of so many sessions is made, what is read of it, and the columns that are mutated, each with that of its session."""

    made: Callable[[Path, int], Path]
    tables: tuple[str, ...]
    columns: tuple[tuple[str, str, str], ...]


def _opencode(folder: Path, sessions: int) -> Path:
    # Ids of all rise from 1.
    exports = (EXPORT.replace(b"_000000", b"_00000%d" % number) for number in range(sessions))
    return database(folder / "opencode.db", *exports)


_SESSIONS, _EACH = 6, 7
"""In a database; every other one has so many mutated rows, so that something is left to compress."""
_ROWS = effort(420, 2_100, 20_000)
KINDS = {
    "opencode": Kind(
        _opencode,
        TABLES,
        (
            *(("part", "data", "session_id"), ("message", "data", "session_id"), ("event", "data", "aggregate_id")),
            *(("part", "message_id", "session_id"), ("message", "id", "session_id")),
        ),
    ),
    "openclaw": Kind(
        lambda folder, sessions: openclaw(
            folder / "openclaw-agent.sqlite", **{f"session{number}": LINES for number in range(sessions)}
        ),
        OPENCLAW_TABLES,
        (
            *(("transcript_events", each, "session_id") for each in ("event_json", "event_zstd", "navigation_json")),
            ("trajectory_runtime_events", "event_json", "session_id"),
        ),
    ),
}


def _mutate(dice: random.Random, path: Path, kind: Kind) -> int:
    """Mutate values of a database, each a text or bytes as it was, and return how many; what a check forbids stays."""
    done = 0
    with closing(sqlite3.connect(path)) as sql:
        sql.text_factory = bytes
        table, _, session = kind.columns[0]
        names = [each for (each,) in sql.execute(f"SELECT DISTINCT {session} FROM {table} ORDER BY 1")]
    while done < _SESSIONS // 2 * _EACH:
        table, column, session = dice.choice(kind.columns)
        which = f"{session} = CAST(? AS TEXT) AND {column} IS NOT NULL"
        with closing(sqlite3.connect(path)) as sql:
            sql.text_factory = bytes
            asked = f"SELECT rowid, {column}, typeof({column}) FROM {table} WHERE {which} ORDER BY 1"
            row, value, kind_of = dice.choice(sql.execute(asked, (names[done // _EACH * 2],)).fetchall())
        put = f"CAST(? AS {kind_of.decode()})"
        with suppress(sqlite3.Error):
            new = mutated(dice, value).removesuffix(b"\n")
            execute(path, f"UPDATE {table} SET {column} = {put} WHERE rowid = ?", new, row)
            done += 1
    return done


def _bytes_of(path: Path, kind: Kind) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(path)) as sql:
        sql.text_factory = bytes
        return {each: sorted(sql.execute(f"SELECT * FROM {each}"), key=repr) for each in kind.tables}


@pytest.mark.parametrize("name", KINDS)
def test_mutated_rows_come_back(tmp_path: Path, name: str) -> None:
    """No command ends with a traceback, none but a run changes a row, and after a restore each is as it was."""
    kind, done, number = KINDS[name], 0, 0
    while done < _ROWS // len(KINDS):
        number += 1
        dice = random.Random(f"{name} {number}")
        path = kind.made(tmp_path / f"{number}", _SESSIONS)
        done += _mutate(dice, path, kind)
        before = _bytes_of(path, kind)
        for command in ("stats", "compress", "verify", "compress"):
            result = run(command, path)
            assert result.exit_code in (0, 4), (number, command, result.output)
        assert _bytes_of(path, kind) != before
        result = run("restore", path)
        assert result.exit_code in (0, 4), (number, result.output)
        assert _bytes_of(path, kind) == before, number
        shutil.rmtree(path.parent)


# Power cuts, as test_disks.py has them: the image of a disk is copied before each call of ours and each statement of SQL.


_ENDS = ("BEGIN IMMEDIATE", "COMMIT", "PRAGMA incremental_vacuum", "PRAGMA wal_checkpoint", "VACUUM")


@contextmanager
def _before_each_write(cut: Callable[..., None]) -> Iterator[None]:
    connect = sqlite3.connect

    def traced(*given: Any, **how: Any) -> sqlite3.Connection:
        sql: sqlite3.Connection = connect(*given, **how)
        # What is inside a transaction reaches the disk with its end.
        sql.set_trace_callback(lambda said: cut() if said.startswith(_ENDS) else None)
        return sql

    with pytest.MonkeyPatch.context() as patch, disk(cut):
        patch.setattr(sqlite3, "connect", traced)
        yield


@cuts_power
@pytest.mark.usefixtures("flushed")
@pytest.mark.parametrize("command", ["compress", "restore"])
@pytest.mark.parametrize("name", KINDS)
def test_a_power_cut_before_any_write(tmp_path: Path, name: str, command: str) -> None:
    """The database is sound, each row the old one or the new one with its original; the next run goes on."""
    kind = KINDS[name]
    image, cuts = tmp_path / "disk.img", list[Path]()

    def cut(*_: object) -> None:
        cuts.append(tmp_path / f"cut-{len(cuts)}.img")
        shutil.copyfile(image, cuts[-1])

    with empty_disk(image, tmp_path / "disk", "defaults", 12) as at:
        path = kind.made(at, 1)
        before = _bytes_of(path, kind)
        if command == "restore":
            run("compress", path)
        subprocess.run(["sync", "-f", at], check=True)
        with _before_each_write(cut):
            run(command, path)
        cut()
    stride = effort(9, 3, 1)
    for number, each in enumerate(cuts):
        if (len(cuts) - 1 - number) % stride == 0:
            for tried in (("restore",), ("compress", "restore")):
                with mounted(each, tmp_path / "after", "defaults") as at:
                    found = at / path.name
                    with closing(opened(found)) as sql:
                        assert sql.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                    for again in tried:
                        result = run(again, found)
                        assert result.exit_code in (0, 4), (number, again, result.output)
                    assert _bytes_of(found, kind) == before, number
        each.unlink()
