"""Sessions in databases: the commands work on rows as on lines, and every row comes back."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store import disk, rows
from sessioncompress.store.originals import zstd
from tests.support.commands import run
from tests.support.databases import OPENCODE as NAME
from tests.support.databases import SENTINEL, folder, forked, killed, opencode_database, with_output
from tests.support.rows import execute
from tests.support.rows import rows as rows_in
from tests.support.stores import user_of


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a database where OpenCode has it, with a long session and a short one."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return opencode_database(tmp_path / "data")


def parts(path: Path) -> dict[str, str]:
    return {row[0]: row[-1] for row in rows_in(path)["part"]}


def test_a_database_is_compressed_and_every_row_comes_back(path: Path) -> None:
    before, size = rows_in(path), path.stat().st_size
    result = run("compress", path)
    assert result.exit_code == 0, result.output
    assert "1 compressed, 1 skipped" in result.stdout
    after = rows_in(path)
    assert path.stat().st_size < 0.4 * size
    assert after["event"] == []
    assert after["session"] == before["session"]
    assert [row[:-1] for row in after["message"]] == [row[:-1] for row in before["message"]]
    assert any("sessioncompress show" in each for each in parts(path).values())
    result = run("verify", path)
    assert f"{len(before['event'])} events kept beside it, all readable" in result.stdout
    assert result.exit_code == 0
    result = run("restore", path)
    assert result.exit_code == 0, result.output
    assert rows_in(path) == before


def test_a_second_run_changes_nothing(path: Path) -> None:
    run("compress", path)
    before = rows_in(path)
    assert run("compress", path).stdout.endswith("total: 2 files (1 unchanged, 1 skipped)\n")
    assert rows_in(path) == before


@pytest.mark.parametrize("options", [("--dry-run",), ("--check",)])
def test_a_dry_run_changes_no_byte(path: Path, options: tuple[str, ...]) -> None:
    before = path.read_bytes()
    result = run("compress", *options, path)
    assert f"{len(rows_in(path)['event'])} events would move" in result.stdout
    assert path.read_bytes() == before
    assert [each for each in folder(path).rglob("*") if each.is_file()] == []


def test_an_event_that_is_no_text_stays(path: Path) -> None:
    """So do those of a session that another server replays."""
    execute(path, "UPDATE event SET data = CAST(X'ff' AS TEXT) WHERE seq = 2 AND aggregate_id = ?", NAME)
    execute(path, "UPDATE event_sequence SET owner_id = 'server' WHERE aggregate_id <> ?", NAME)
    assert run("compress", path).exit_code == 0
    with closing(sqlite3.connect(path)) as sql:
        found = sql.execute("SELECT aggregate_id, seq FROM event").fetchall()
    assert [seq for name, seq in found if name == NAME] == [2]
    assert {name for name, _ in found} > {NAME}


def test_what_came_since_stays(path: Path) -> None:
    """Rows of a turn after the run, a title, and events with the numbers that follow."""
    run("compress", path)
    execute(path, "INSERT INTO message VALUES ('msg_zz', ?, 9999999999999, 9999999999999, ?)", NAME, '{"role":"user"}')
    execute(path, "UPDATE session SET title = 'Another' WHERE id = ?", NAME)
    execute(path, "INSERT INTO event VALUES ('evt_new', ?, 10001, 'message.updated.1', '{}')", NAME)
    assert run("restore", path).exit_code == 0
    found = rows_in(path)
    assert ("msg_zz", NAME, 9999999999999, 9999999999999, '{"role":"user"}') in found["message"]
    assert "Another" in [row[5] for row in found["session"]]
    assert "evt_new" in [row[0] for row in found["event"]]
    assert len(found["event"]) > 2


def test_a_row_that_the_agent_changed_is_named(path: Path) -> None:
    """All others come back; and what the agent wrote is not overwritten."""
    whole, before = rows_in(path), parts(path)
    run("compress", path)
    changed = next(name for name, data in parts(path).items() if "sessioncompress show" in data)
    execute(path, "UPDATE part SET data = json_set(data, '$.state.time.compacted', 5) WHERE id = ?", changed)
    result = run("restore", path)
    assert result.exit_code == 5
    assert "show" in result.output
    now = parts(path)
    differing = {name for name in before if now.get(name) != before[name]}
    assert changed in differing
    message = {row[0]: row[1] for row in whole["part"]}
    assert {message[name] for name in differing} == {message[changed]}


def given(path: Path, session: str) -> list[tuple[str, Any, Any, Any]]:
    """Return what the model gets of each call in a session: its id, what was given, what came back, the pictures."""
    found = (json.loads(row[-1]) for row in rows_in(path)["part"] if row[2] == session)
    states = ((each["callID"], each["state"]) for each in found if each["type"] == "tool")
    sent = ((name, state) for name, state in states if "compacted" not in state["time"])
    return sorted((name, *map(state.get, ("input", "output", "attachments"))) for name, state in sent)


def with_picture(path: Path) -> None:
    """Let the first call give back a picture with a few words."""
    picture = {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{'iVBORw0KGgo' * 400}"}
    first = min(row[0] for row in rows_in(path)["part"] if json.loads(row[-1])["type"] == "tool")
    state = "json_set(data, '$.state.output', 'Read.', '$.state.attachments', json(?))"
    execute(path, f"UPDATE part SET data = {state} WHERE id = ?", json.dumps([picture]), first)


def test_a_picture_of_a_prompt_comes_back_into_a_fork(path: Path) -> None:
    """Its original has the ids of the session that the fork is of; the part keeps the fork's."""
    picture = {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{'iVBORw0KGgo' * 400}"}
    prompt = next(row[0] for row in rows_in(path)["message"][2:] if json.loads(row[-1])["role"] == "user")
    part = ("prt_z", prompt, NAME, 9999999999999, 9999999999999, json.dumps(picture, separators=(",", ":")))
    execute(path, "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", *part)
    before = rows_in(path)["part"]
    run("compress", "--force", "--keep-turns", "0", path)
    fork = forked(path)
    ids = [row[:3] for row in rows_in(path)["part"]]
    assert "sessioncompress show" in parts(path)["prt_zf"]
    assert run("restore", "--from-markers", "--originals", path / NAME, path / fork).exit_code == 5
    assert [row[:3] for row in rows_in(path)["part"]] == ids
    assert json.loads(parts(path)["prt_zf"]) == picture
    assert run("restore", path / NAME).exit_code == 0
    assert [row for row in rows_in(path)["part"] if row[2] != fork] == before


def test_a_fork_gets_its_originals_from_the_session_that_it_is_of(path: Path) -> None:
    """OpenCode's forks have the previews, and new ids for all but the calls."""
    with_picture(path)
    before = given(path, NAME)
    run("compress", path)
    fork = forked(path)
    assert given(path, fork) == given(path, NAME) != before
    result = run("restore", path / fork)
    assert result.exit_code == 4
    assert f"'sessioncompress restore --from-markers --originals {path / NAME} {path / fork}'" in result.output
    assert run("restore", "--from-markers", "--originals", path, path / fork).exit_code == 2
    assert run("restore", "--from-markers", "--originals", path / NAME, path / fork).exit_code == 5
    assert given(path, fork) == before
    assert run("verify", path / fork).exit_code == 0
    assert run("restore", path / NAME).exit_code == 0
    assert given(path, NAME) == before


def test_a_marker_that_a_later_call_of_the_same_id_printed_stays(path: Path) -> None:
    """In the session itself, only the message that we wrote gets its text back."""
    run("compress", path)
    name, data = next(each for each in parts(path).items() if "sessioncompress show" in each[1])
    execute(path, "INSERT INTO message VALUES ('msg_zz', ?, 9999999999999, 0, '{\"role\":\"assistant\"}')", NAME)
    execute(path, "INSERT INTO part SELECT 'prt_zz', 'msg_zz', session_id, 0, 0, data FROM part WHERE id = ?", name)
    assert run("restore", "--from-markers", path).exit_code == 0
    assert parts(path)["prt_zz"] == data != parts(path)[name]


def test_a_picture_comes_back_with_its_words(path: Path) -> None:
    """Also where the agent changed the row, so that only what its markers stand for can be put back."""
    with_picture(path)
    before = given(path, NAME)
    run("compress", path)
    execute(path, "UPDATE part SET data = json_set(data, '$.state.time.end', 5) WHERE data LIKE '%image/png%'")
    assert run("restore", path).exit_code == 5
    run("restore", "--from-markers", path)
    assert given(path, NAME) == before


def test_a_locked_database_is_in_use(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing changes, and the next run goes on."""
    monkeypatch.setattr(rows, "_WAIT_SECONDS", 0.05)
    before = rows_in(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("BEGIN IMMEDIATE")
        result = run("compress", path)
        agent.execute("ROLLBACK")
    assert result.exit_code == 4
    assert "another program keeps the database locked" in result.stderr
    assert rows_in(path) == before
    assert run("compress", path).exit_code == 0
    assert rows_in(path) != before
    assert run("restore", path).exit_code == 0
    assert rows_in(path) == before


@pytest.mark.parametrize("command", ["compress", "compact"])
def test_a_store_that_a_refused_run_moved_keeps_its_originals(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """It was in the folder of a key that was lost; only what the run added goes."""
    monkeypatch.setattr(rows, "_WAIT_SECONDS", 0.05)
    before = rows_in(path)
    assert run("compress", path).exit_code == 0
    options = (
        ["--force", "--preset", "archive", "--keep-turns", "1"] if command == "compress" else ["--keep-tokens", "2000"]
    )
    with user_of(tmp_path / "new"):
        with closing(sqlite3.connect(path, isolation_level=None)) as agent:
            agent.execute("BEGIN IMMEDIATE")
            assert run(command, *options, path / NAME).exit_code == 4
            agent.execute("ROLLBACK")
        assert run("verify", path).exit_code == 0
        run("restore", path)
        assert {each: rows_in(path)[each] for each in ("message", "part")} == {
            each: before[each] for each in ("message", "part")
        }


def test_bytes_stay_free_inside_while_an_agent_has_it_open(path: Path) -> None:
    size = path.stat().st_size
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("SELECT count(*) FROM session").fetchone()
        assert "its agent has it open" in run("compress", path).stdout
        assert agent.execute("SELECT count(*) FROM event").fetchone() == (0,)
    assert path.stat().st_size >= size
    assert run("compress", path).exit_code == 0
    assert path.stat().st_size < 0.4 * size


def test_what_is_free_inside_is_told(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("SELECT count(*) FROM session").fetchone()
        run("compress", path)
        for command in (("sessions",), ("report", path, "-o", tmp_path / "page.html")):
            said = " ".join(run(*command).stderr.split())
            assert "of them free inside" in said
            assert "of them events" not in said


def test_one_session_is_named_by_its_id(path: Path) -> None:
    """Only its rows change; and what is not there is an error."""
    before = rows_in(path)
    assert run("compress", path / NAME).exit_code == 0
    others = {table: [row for row in found if NAME not in row] for table, found in before.items()}
    assert {table: [row for row in found if NAME not in row] for table, found in rows_in(path).items()} == others
    result = run("compress", path / "ses_none")
    assert result.exit_code == 2
    assert "the database has no session of this id" in result.stderr


def test_the_list_and_the_options_find_them(path: Path) -> None:
    listed = json.loads(run("sessions", "--json").stdout)
    found = listed["sessions"]
    assert [each["eventBytes"] > each["sizeBefore"] // 2 for each in listed["databases"]] == [True]
    assert [bool(each["couldSaveEstimate"]) for each in found] == [True, False]
    assert "of them events, which compress moves out" in " ".join(run("sessions").stderr.split())
    assert [(each["path"], each["agent"], each["title"]) for each in found] == [
        (str(path / NAME), "opencode", "Silent gauges"),
        (found[1]["path"], "opencode", "Silent gauges"),
    ]
    assert run("compress", "--all", "--yes").exit_code == 0
    assert run("history").stdout.count(NAME) == 1
    assert run("compress", path.parent).exit_code == 0
    assert run("restore", "--last").exit_code == 0
    assert not any("sessioncompress show" in each for each in parts(path).values())


@pytest.mark.parametrize("variable", ["OPENCODE_DB", "KILO_DB"])
def test_one_that_a_variable_names_is_found(path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(path.parent / "empty"))
    monkeypatch.setenv(variable, str(path))
    assert len(json.loads(run("sessions", "--json").stdout)["sessions"]) == 2


def test_a_summary_is_two_messages(path: Path) -> None:
    before = rows_in(path)
    result = run("compact", "--keep-tokens", "2000", path / NAME)
    assert result.exit_code == 0, result.output
    after = rows_in(path)
    new = [row for row in after["message"] if row not in before["message"]]
    assert [json.loads(row[-1])["role"] for row in sorted(new)] == ["user", "assistant"]
    assert len(after["part"]) == len(before["part"]) + 2
    assert run("compress", path / NAME).exit_code == 0
    assert run("verify", path / NAME).exit_code == 0
    assert run("restore", path / NAME).exit_code == 0
    assert rows_in(path) == before
    assert run("compact", "--drop-dead", "--keep-tokens", "2000", path / NAME).exit_code == 4


def test_forget_deletes_originals_and_events(path: Path) -> None:
    run("compress", path)
    assert list(folder(path).rglob("*.events-*"))
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("SELECT count(*) FROM session").fetchone()
        result = run("forget", "--yes", path)
    assert result.exit_code == 4
    assert "what runs replaced may still be among them" in result.stdout.replace("\n", " ")
    assert run("restore", path).exit_code != 0
    assert [each for each in folder(path).rglob("*") if each.is_file() and NAME in each.name] == []


@pytest.mark.parametrize("table", ["part", "event"])
def test_forget_leaves_no_secret_in_the_database(path: Path, table: str) -> None:
    secret = "0123456789abcdef-a-secret"
    statement = "UPDATE part SET data = json_set(data, '$.state.output', ?) WHERE id = ?"
    long = max((row for row in rows_in(path)["part"] if '"tool":"read"' in row[-1]), key=lambda row: len(row[-1]))
    if table == "part":
        text = "\n".join(f"line {number} of a long file" for number in range(900))
        execute(path, statement, f"{text}\n{secret}\n{text}", long[0])
    else:
        execute(path, "UPDATE event SET data = json_set(data, '$.more', ?) WHERE seq = 3", secret)
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("SELECT count(*) FROM session").fetchone()
        assert run("compress", "--preset", "archive", path).exit_code == 0
    assert run("forget", "--yes", path).exit_code == 0
    for each in path.parent.rglob("*"):
        assert not each.is_file() or secret.encode() not in each.read_bytes(), each


def test_damaged_events_are_noticed(path: Path) -> None:
    """By the check of the frame; the rows come back all the same, and nothing is deleted."""
    run("compress", path)
    kept = max(folder(path).rglob("*.events-*"), key=lambda each: each.stat().st_size)
    data = bytearray(kept.read_bytes())
    data[len(data) // 2] ^= 1
    kept.write_bytes(data)
    for command in ("verify", "restore"):
        result = run(command, path)
        assert result.exit_code == 5, command
        assert "the events in it cannot be read" in result.stderr
    assert not any("sessioncompress show" in each for each in parts(path).values())
    assert kept.read_bytes() == data


def test_what_is_no_event_is_named(path: Path) -> None:
    """The frame is whole, so that only a read of the line tells."""
    run("compress", path)
    (kept, *_) = folder(path).rglob(f"{NAME}.events-*")
    for line in (b"[]", b"no JSON", b'["id", "1", "type", "{}"]'):
        kept.write_bytes(zstd.compress(line + b"\n"))
        result = run("restore", path)
        assert result.exit_code == 5
        assert f"{kept}: what was kept of its events holds a line that is no event" in result.stderr


def test_forget_deletes_the_events_that_a_lost_key_kept(path: Path, tmp_path: Path) -> None:
    """No other command finds them: what was a secret would stay for ever."""
    run("compress", path)
    with user_of(tmp_path / "new"):
        run("forget", "--yes", path)
    assert [*folder(path).rglob("*.events-*")] == []


def test_a_folder_in_the_place_of_our_note_is_named(path: Path) -> None:
    run("compress", path)
    (folder(path) / "to-be-written-anew").mkdir()
    result = run("forget", "--yes", path)
    assert result.exit_code == 3
    assert "to-be-written-anew" in result.stderr


def test_planted_events_are_not_put_back(path: Path) -> None:
    """What an archive or a clone can bring is in no folder of this user's."""
    run("compress", path)
    before = rows_in(path)["event_sequence"]
    (kept, *_) = folder(path).rglob(f"{NAME}.events-*")
    for place in (folder(path), kept.parent.parent, kept.parent.with_name("local-00000000")):
        place.mkdir(exist_ok=True)
        (place / f"{NAME}.events-7.zst").write_bytes(kept.read_bytes())
    kept.unlink()
    run("restore", path)
    assert rows_in(path)["event_sequence"] == before
    assert NAME not in {row[1] for row in rows_in(path)["event"]}


def test_a_session_that_its_agent_deleted_keeps_its_store(path: Path) -> None:
    run("compress", path)
    for table in ("message", "part", "session"):
        execute(path, f"DELETE FROM {table} WHERE {'id' if table == 'session' else 'session_id'} = ?", NAME)
    result = run("restore", path)
    assert result.exit_code == 4
    assert "the session is not in the database any more" in result.stderr
    assert f"'sessioncompress forget {path / NAME}' deletes them" in " ".join(result.stderr.split())
    assert list(folder(path).rglob(f"{NAME}*.zst"))


def test_the_store_of_a_session_that_its_agent_deleted_is_forgotten(path: Path) -> None:
    """Asked for by --gone or by its name; those of sessions that are there stay."""
    other = next(row[0] for row in rows_in(path)["session"] if row[0] != NAME)
    run("compress", "--force", path)
    assert "would delete" not in run("forget", "--gone", "--dry-run", path).stdout
    for table in ("message", "part", "session"):
        execute(path, f"DELETE FROM {table} WHERE {'id' if table == 'session' else 'session_id'} = ?", NAME)
    run("forget", "--unneeded", "--yes", path)
    assert list(folder(path).rglob(f"{NAME}*"))
    result = run("forget", "--gone", "--yes", path)
    assert (result.exit_code, "1 kept: the session is there" in result.stdout) == (0, True), result.output
    assert list(folder(path).rglob(f"{NAME}*")) == []
    assert list(folder(path).rglob(f"{other}*"))
    execute(path, "DELETE FROM session")
    # It has events alone.
    assert run("forget", "--yes", path / other).exit_code == 0
    assert list(folder(path).rglob("*.zst")) == []


def test_no_session_is_searched_for_in_our_own_folders(path: Path) -> None:
    """The sessions of a database that is there would seem to be gone."""
    run("compress", path)
    before = {each: each.read_bytes() for each in folder(path).rglob("*") if each.is_file()}
    for each in (folder(path), folder(path).parent, folder(path) / ".sessioncompress"):
        result = run("forget", "--gone", "--yes", each)
        assert (result.exit_code, "no matching sessions" in result.stderr) == (0, True)
    assert {each: each.read_bytes() for each in folder(path).rglob("*") if each.is_file()} == before


def test_forget_names_the_forks_that_need_the_originals(path: Path) -> None:
    """No row tells of which session a fork is, but its previews name what they stand for. So --unneeded keeps it."""
    run("compress", path)
    fork = forked(path)
    said = " ".join(run("forget", "--dry-run", path / NAME).stdout.split())
    assert f"1 session here refers to these originals: {fork}" in said
    run("restore", path / NAME)
    assert "others need it" in run("forget", "--unneeded", "--yes", path / NAME).stdout
    for table in ("message", "part", "session"):
        execute(path, f"DELETE FROM {table} WHERE {'id' if table == 'session' else 'session_id'} = ?", NAME)
    assert f"{fork} refers to its originals" in " ".join(run("forget", "--gone", "--yes", path).stdout.split())
    assert list(folder(path).rglob(f"{NAME}*"))


def test_forget_deletes_long_outputs_that_the_session_has_no_more(path: Path) -> None:
    """They have more of what was replaced than the session had: no byte of it is left."""
    with_output(path)
    run("compress", path)
    assert "1 file of its agent with a whole output" in run("forget", "--dry-run", path / NAME).stdout
    result = run("forget", "--yes", path)
    assert (result.exit_code, "whole output" in result.stdout) == (0, True), result.output
    assert not any(SENTINEL.encode() in each.read_bytes() for each in path.parent.rglob("*") if each.is_file())


def test_forget_of_a_session_that_its_agent_deleted_deletes_its_long_outputs(path: Path) -> None:
    file = with_output(path)
    run("compress", path)
    for table in ("message", "part", "session"):
        execute(path, f"DELETE FROM {table} WHERE {'id' if table == 'session' else 'session_id'} = ?", NAME)
    run("forget", "--gone", "--yes", path)
    assert not file.exists()


def _aside(file: Path) -> None:
    file.symlink_to(file.rename(file.parent.parent / "aside"))


STAYS: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "with something else in it": ("tool-output/tool_f7a1", lambda path, file: file.write_text("Of another session.")),
    "that a fork names": ("tool-output/tool_f7a1", lambda path, file: forked(path)),
    "that is a link": ("tool-output/tool_f7a1", lambda path, file: _aside(file)),
    "in a folder that is a link": ("tool-output/tool_f7a1", lambda path, file: _aside(file.parent)),
    "with a name that the agent does not give": ("tool-output/tool_notes.txt", lambda path, file: None),
    "elsewhere": ("tool_f7a1", lambda path, file: None),
}


@pytest.mark.parametrize(("name", "change"), STAYS.values(), ids=STAYS)
def test_forget_leaves_a_file(path: Path, name: str, change: Callable[[Path, Path], object]) -> None:
    """A session only names its files: a stranger's may name another's."""
    file = with_output(path, name)
    change(path, file)
    run("compress", path / NAME)
    assert "whole output" not in run("forget", "--yes", path / NAME).stdout
    assert file.exists()


def test_forget_leaves_a_long_output_that_the_session_still_has(path: Path) -> None:
    file = with_output(path)
    run("compress", path)
    run("restore", path)
    assert run("forget", "--yes", path).exit_code == 0
    assert file.exists()


def test_forget_names_no_session_that_has_the_originals_itself(path: Path) -> None:
    """It was forked before the run, which replaced the same in both."""
    fork = forked(path)
    run("compress", path)
    assert any("sessioncompress show" in row[-1] for row in rows_in(path)["part"] if row[2] == fork)
    assert "refers" not in run("forget", "--dry-run", path / NAME).stdout


@pytest.mark.parametrize(
    "data", [b"{}", b'{"type":"text","text":"\xff"}', b'{"type":"text","text":"\\ud800"}', b'{"a" : 1}']
)
def test_bytes_of_other_rows_are_kept(path: Path, data: bytes) -> None:
    execute(path, "UPDATE part SET data = CAST(? AS TEXT) WHERE rowid = 1", data)
    with closing(sqlite3.connect(path)) as sql:
        sql.text_factory = bytes
        before = sorted(sql.execute("SELECT * FROM part"))
    for command in ("compress", "restore"):
        run(command, path)
    with closing(sqlite3.connect(path)) as sql:
        sql.text_factory = bytes
        assert sorted(sql.execute("SELECT * FROM part")) == before


@pytest.mark.parametrize("column", ["time_created = 'then'", "time_updated = 9e999", "id = CAST(X'ff' AS TEXT)"])
def test_columns_that_opencode_does_not_write_are_refused(path: Path, column: str) -> None:
    execute(path, f"UPDATE part SET {column} WHERE session_id = ? AND rowid = 2", NAME)
    assert run("compress", "--force", path / NAME).exit_code == 4


def test_other_letters_for_a_type_come_back_with_their_times(path: Path) -> None:
    """Thinking is deleted, however its type is written."""
    written = 'replace(data, \'"type":"reasoning"\', \'"type": "\\u0072easoning"\')'
    execute(path, f"UPDATE part SET data = {written}")
    before = rows_in(path)
    assert run("compress", path).exit_code == 0
    assert len(rows_in(path)["part"]) < len(before["part"])
    assert run("restore", path).exit_code == 0
    assert rows_in(path) == before


def test_a_database_in_utf_16_is_refused(path: Path) -> None:
    other = path.with_name("opencode-16.db")
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(other)) as new:
        new.execute("PRAGMA encoding = 'UTF-16'")
        new.executescript("\n".join(old.iterdump()))
    assert run("compress", other).exit_code == 4


def test_events_with_more_columns_stay(path: Path) -> None:
    execute(path, "ALTER TABLE event ADD COLUMN more text")
    before = rows_in(path)["event"]
    assert run("compress", path).exit_code == 0
    assert rows_in(path)["event"] == before


def test_events_are_not_put_where_the_agent_numbers_anew(path: Path) -> None:
    """Its next event would have the number of an old one; that they stay out is said."""
    run("compress", path)
    execute(path, "UPDATE event_sequence SET seq = 0 WHERE aggregate_id = ?", NAME)
    result = run("restore", path)
    assert result.exit_code == 5
    assert f"some of {NAME} stay out: the agent has others in their places, or numbers anew" in result.stdout.replace(
        "\n", " "
    )
    assert [row for row in rows_in(path)["event"] if row[1] == NAME and row[2] > 0] == []
    assert list(folder(path).rglob(f"{NAME}.events-*"))


def test_unneeded_events_are_those_in_the_database(path: Path) -> None:
    """A run that is undone gives no events to sessions that it skipped: these stay until all is restored."""
    before = rows_in(path)
    identifier = run("compress", path).stderr.split("--run ")[1].split()[0]
    assert run("restore", "--run", identifier, path).exit_code == 0
    run("forget", "--unneeded", "--yes", path)
    assert run("restore", path).exit_code == 0
    assert rows_in(path) == before


def test_a_session_that_changes_while_it_is_restored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is restored, the history says so, and the next try restores all."""
    before = rows_in(path)
    run("compress", path)
    change = rows.Database.change

    def raced(self: rows.Database, *given: Any) -> None:
        execute(path, "UPDATE part SET data = json_set(data, '$.raced', 1) WHERE id = ?", changed)
        change(self, *given)

    changed, data = next((name, data) for name, data in parts(path).items() if "sessioncompress show" in data)
    with monkeypatch.context() as patch:
        patch.setattr(rows.Database, "change", raced)
        assert run("restore", path).exit_code == 4
    assert "in place" in run("history", path).stdout
    execute(path, "UPDATE part SET data = ? WHERE id = ?", data, changed)
    assert run("restore", "--last", path).exit_code == 0
    assert parts(path) == {row[0]: row[-1] for row in before["part"]}


def test_forget_goes_on_when_the_agent_is_closed(path: Path) -> None:
    """What was deleted while it was open may be in free bytes: the next forget writes the database anew."""
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("SELECT count(*) FROM session").fetchone()
        run("compress", path)
        assert run("forget", "--yes", path).exit_code == 4
    size = path.stat().st_size
    run("forget", "--yes", path)
    assert path.stat().st_size < 0.4 * size


def test_a_link_to_a_database_is_the_database(path: Path) -> None:
    link = path.parent.parent / "linked.db"
    link.symlink_to(path)
    before = rows_in(path)
    assert run("compress", link).exit_code == 0
    assert run("verify", path).exit_code == 0
    assert run("restore", path).exit_code == 0
    assert rows_in(path) == before


def test_a_file_that_is_no_database_of_ours(path: Path) -> None:
    """One in a folder is passed over; one that is named is refused."""
    other = path.with_name("notes.db")
    with closing(sqlite3.connect(other)) as sql:
        sql.execute("CREATE TABLE notes (text)")
    assert run("compress", path.parent).exit_code == 0
    assert run("compress", other).exit_code == 4


STEPS = ("open", "write", "fsync", "exchange", "unlink", "link")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("command", ["compress", "restore"])
@pytest.mark.slow
def test_killed_at_any_call(path: Path, step: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is the old one or the new one with its original, and the next run goes on."""
    original, number = rows_in(path), 0
    while True:
        number += 1
        if command == "restore":
            run("compress", path)
        if not killed(path, command, monkeypatch, disk.system, step, number):
            break
        assert run("compress", path).exit_code == 0, number
        result = run("restore", path)
        assert result.exit_code == 0, (number, result.output)
        assert rows_in(path) == original, number
    assert number > 1


@pytest.mark.parametrize("step", ["write", "fsync", "link"])
@pytest.mark.slow
def test_a_full_disk(path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any call: an error, the old rows or the new ones with their originals, and the next run goes on."""
    original, real = rows_in(path), getattr(disk.system, step)
    left: Iterator[int] = iter(())

    def full(*given: Any, **how: Any) -> Any:
        if next(left, None) == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*given, **how)

    for number in range(1, 1_000):
        left = iter(range(number - 1, -1, -1))
        with monkeypatch.context() as patch:
            patch.setattr(disk.system, step, full, raising=False)
            result = run("compress", path)
        if next(left, None) is not None:
            break
        # What hides our folder from git is not needed for anything else.
        assert result.exit_code in (0, 3), (number, result.output)
        assert list(folder(path).glob("*.jsonl")) == []
        assert run("compress", path).exit_code == 0, number
        assert run("restore", path).exit_code == 0, number
        assert rows_in(path) == original, number
    assert number > 1
