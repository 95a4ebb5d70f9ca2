"""What holds of the sessions in every agent's database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.operations import database as work
from sessioncompress.store import disk, rows
from sessioncompress.store.originals import zstd
from tests.support.commands import run
from tests.support.databases import OPENCLAW, OPENCODE, folder, killed, openclaw_database, opencode_database
from tests.support.rows import OPENCLAW_TABLES, TABLES, execute
from tests.support.rows import rows as rows_in


@dataclass(frozen=True)
class Case:
    """The database of an agent; after a run `left` events keep the numbers that the next ones go on from."""

    agent: str
    path: Path
    session: str
    tables: tuple[str, ...]
    events: str
    left: int
    raced: str
    """Changes the rows of the long session."""

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        return rows_in(self.path, self.tables)

    def rows_but_events(self) -> dict[str, list[tuple[Any, ...]]]:
        return {table: found for table, found in self.rows().items() if table != self.events}


def opencode(folder: Path) -> Case:
    raced = "UPDATE part SET data = json_set(data, '$.raced', 1) WHERE session_id = ?"
    return Case("OpenCode", opencode_database(folder), OPENCODE, TABLES, "event", 0, raced)


def openclaw(folder: Path) -> Case:
    sets = "event_json = '{\"raced\":1}', event_zstd = NULL, navigation_json = NULL"
    raced = f"UPDATE transcript_events SET {sets} WHERE session_id = ? AND seq > 4"
    path = openclaw_database(folder)
    return Case("OpenClaw", path, OPENCLAW, OPENCLAW_TABLES, "trajectory_runtime_events", 2, raced)


@pytest.fixture(params=[opencode, openclaw])
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Make a database where its agent has it, with a long session and a short one."""
    for variable in ("XDG_DATA_HOME", "OPENCLAW_STATE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "agent"))
    made: Case = request.param(tmp_path / "agent")
    return made


def test_commands_that_read_change_nothing(case: Case, tmp_path: Path) -> None:
    long = case.path / case.session
    run("compress", case.path)
    before = case.rows()
    for command in ("stats", "verify", "budget", "history", "diff"):
        for named in (case.path, long):
            assert run(command, named).exit_code == 0, command
    result = run("report", case.path, "-o", tmp_path / "page.html")
    assert (result.exit_code, "of them events" in result.stderr) == (0, False)
    assert run("search", "gauge", case.path).exit_code == 0
    reference = run("diff", long).stdout.split("sessioncompress show ")[1].split()[0]
    for where in ((), (case.path,), (long,)):
        assert run("show", reference, *where).stdout, where
    assert case.rows() == before


def test_without_originals_nothing_is_kept(case: Case) -> None:
    assert run("compress", "--no-backup", case.path).exit_code == 0
    assert len(case.rows()[case.events]) == case.left
    assert list(folder(case.path).rglob("*.zst")) == []


def test_a_row_that_changes_meanwhile_stays(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """It changed after it was read. Nothing of the run stays: no row, and nothing that was kept of one."""
    before, change = case.rows_but_events(), rows.Database.change
    left: list[Any] = []

    def raced(self: rows.Database, *given: Any) -> None:
        execute(case.path, case.raced, case.session)
        left.append(case.rows_but_events())
        change(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(rows.Database, "change", raced)
        result = run("compress", case.path)
    assert (result.exit_code, "its agent changed it meanwhile" in result.stderr) == (4, True)
    assert run("history", case.path).stdout.endswith("total: 0 runs\n")
    assert left == [case.rows_but_events()] != [before]
    names = [each.name for each in folder(case.path).rglob("*.zst")]
    assert not any(name.startswith(case.session) or ".rows-" in name for name in names)


UNKNOWN = {
    "parts with another column": (opencode, "ALTER TABLE part ADD COLUMN more text"),
    "a trigger on parts": (
        opencode,
        "CREATE TRIGGER t AFTER UPDATE ON part BEGIN DELETE FROM message; END",
    ),
    "messages of the next generation": (opencode, "INSERT INTO session_message VALUES ('x', 'ses', 'user', '{}')"),
    "no parts": (opencode, "ALTER TABLE part RENAME TO p2"),
    "no key": (
        opencode,
        "CREATE TABLE p2 AS SELECT * FROM part; DROP TABLE part; ALTER TABLE p2 RENAME TO part",
    ),
    "lines with another column": (openclaw, "ALTER TABLE transcript_events ADD COLUMN more text"),
    "a trigger on lines": (
        openclaw,
        "CREATE TRIGGER t AFTER UPDATE ON TRANSCRIPT_EVENTS BEGIN DELETE FROM session_windows; END",
    ),
    "a trigger on events": (
        openclaw,
        "CREATE TRIGGER t AFTER DELETE ON trajectory_runtime_events BEGIN SELECT 1; END",
    ),
    "no windows": (openclaw, "DROP TABLE session_windows"),
}


@pytest.mark.parametrize(("case", "statement"), UNKNOWN.values(), ids=UNKNOWN, indirect=["case"])
def test_a_database_that_is_not_known_is_refused(case: Case, statement: str) -> None:
    for each in statement.split("; ") if "BEGIN" not in statement else [statement]:
        execute(case.path, each)
    before = case.path.read_bytes()
    result = run("compress", case.path)
    assert result.exit_code == 4
    assert "The database was not changed" in result.stderr
    assert case.path.read_bytes() == before


_LINE = "event_json = NULL, event_zstd = ?, event_utf8_bytes = 9, navigation_json = '{}' WHERE seq = 9"
PART = (opencode, "UPDATE part SET data = ? WHERE rowid = 2 AND session_id = ?")
LINE = (openclaw, f"UPDATE transcript_events SET {_LINE} AND session_id = ?")
ROWS: dict[str, tuple[Any, str, str | bytes]] = {
    "a list": (*PART, "[]"),
    "a part in lines": (*PART, '{"type":"text",\n"text":""}'),
    "its id": (*PART, '{"id":"x"}'),
    "a key of ours in a part": (*PART, '{"row":[1,2]}'),
    "no JSON": (*PART, "{"),
    "space behind it": (*PART, '{"type":"text"} '),
    "a part that is no text": (*PART, b'{"type":"text"}'),
    "not packed": (*LINE, b"no frame"),
    "half a frame": (*LINE, zstd.compress(b'{"type":"message"}' * 99)[:-9]),
    "a line that is no text": (*LINE, zstd.compress(b'{"a":"\xff"}')),
    "longer than it packs": (*LINE, zstd.compress(b'{"a":"%s"}' % (b" " * (4 << 20)))),
    "a line in lines": (*LINE, zstd.compress(b'{"a":\n1}')),
    "a key of ours in a line": (*LINE, zstd.compress(b'{"row":1}')),
}


@pytest.mark.parametrize(("case", "statement", "value"), ROWS.values(), ids=ROWS, indirect=["case"])
def test_a_row_that_its_agent_does_not_write_is_refused(case: Case, statement: str, value: str | bytes) -> None:
    """Its session alone: the other one is worked on."""
    execute(case.path, statement, value, case.session)
    before = case.rows_but_events()
    result = run("compress", "--force", case.path)
    assert result.exit_code == 4
    assert f"is not as {case.agent} writes it" in result.stderr
    assert "1 unchanged" in result.stdout
    assert case.rows_but_events() == before


KILLED = {
    "before rows are written": (rows.Database, "change"),
    "before events are deleted": (rows.Database, "take_events"),
    "before the file is made smaller": (work, "shrink"),
    "before lines are removed": (disk, "remove"),
}


@pytest.mark.parametrize(("owner", "name"), KILLED.values(), ids=KILLED)
def test_killed_between_steps(case: Case, owner: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The originals are there already: nothing is lost, the next run does it, and each event comes back once."""
    before = case.rows()
    assert killed(case.path, "compress", monkeypatch, owner, name)
    assert run("compress", case.path).exit_code == 0
    after = case.rows()
    assert "sessioncompress show" in repr(after)
    assert len(after[case.events]) == case.left
    assert run("restore", case.path).exit_code == 0
    assert case.rows() == before
    assert list(folder(case.path).glob("*.jsonl")) == []


RESTORING = {"before rows come back": (rows.Database, "change"), "before events do": (rows.Database, "put_events")}


@pytest.mark.parametrize(("owner", "name"), RESTORING.values(), ids=RESTORING)
def test_killed_between_steps_of_a_restore(
    case: Case, owner: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one brings back what is left, events and packed rows too."""
    before = case.rows()
    run("compress", case.path)
    assert killed(case.path, "restore", monkeypatch, owner, name)
    assert run("restore", case.path).exit_code == 0
    assert case.rows() == before
