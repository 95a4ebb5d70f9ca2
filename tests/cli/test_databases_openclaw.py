"""Sessions in OpenClaw's database: what differs from those of test_databases.py and test_databases_of_agents.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store import tables as known
from sessioncompress.store.originals import zstd
from tests.support.commands import run
from tests.support.databases import LINES, openclaw_database
from tests.support.databases import OPENCLAW as NAME
from tests.support.databases import OPENCLAW_SHORT as SHORT
from tests.support.rows import OPENCLAW_TABLES, execute
from tests.support.rows import rows as rows_in

COUNT = len(LINES.splitlines())


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a database where OpenClaw has it, with a long session and a short one."""
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "state"))
    return openclaw_database(tmp_path / "state")


def tables(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    return rows_in(path, OPENCLAW_TABLES)


def lines(path: Path) -> dict[int, str]:
    """Read the text of each row of the long session, however it is kept."""
    found = [row for row in tables(path)["transcript_events"] if row[0] == NAME]
    texts = {row[1]: row[2] if row[2] is not None else zstd.decompress(row[4]).decode() for row in found}
    return dict(sorted(texts.items()))


def kept(path: Path, what: str) -> list[Path]:
    return sorted((path.parent / ".sessioncompress" / path.name).rglob(f"*.{what}-*.zst"))


def test_every_row_comes_back_and_what_came_since_stays(path: Path) -> None:
    before, size = tables(path), path.stat().st_size
    packed = [row for row in before["transcript_events"] if row[4] is not None]
    result = run("compress", path)
    assert result.exit_code == 0, result.output
    assert "1 compressed, 1 skipped" in result.stdout
    after = tables(path)
    assert path.stat().st_size < 0.5 * size
    assert {table: after[table] for table in OPENCLAW_TABLES[:2]} == {
        table: before[table] for table in OPENCLAW_TABLES[:2]
    }
    changed = [row for row in after["transcript_events"] if row not in before["transcript_events"]]
    # As OpenClaw writes what it does not pack.
    assert [(row[4:], row[3]) for row in changed] == [
        ((None, len(row[2].encode()), None), old[3])
        for row in changed
        for old in before["transcript_events"]
        if old[:2] == row[:2]
    ]
    assert any("sessioncompress show" in row[2] for row in changed)
    assert any(row[:2] in {each[:2] for each in changed} for row in packed)
    # Its numbers go on from the last one.
    assert [(row[0], row[1]) for row in after["trajectory_runtime_events"]] == [(NAME, COUNT - 1), (SHORT, 4)]
    execute(path, "INSERT INTO trajectory_runtime_events VALUES (?, ?, NULL, '{}', 5)", NAME, COUNT)
    line = '{"type":"custom","id":"n","parentId":null,"timestamp":"2026-03-02T12:00:00.000Z"}'
    execute(path, "INSERT INTO transcript_events VALUES (?, ?, ?, 5, NULL, NULL, NULL)", NAME, COUNT, line)
    result = run("verify", path)
    assert f"{COUNT - 1 + 4} events kept beside it, all readable" in result.stdout
    assert run("compress", path).exit_code == 0
    result = run("restore", path)
    assert result.exit_code == 0, result.output
    assert f"{COUNT + 4} events moved back" in result.stdout
    now = tables(path)
    assert [row for row in now["trajectory_runtime_events"] if row[1] != COUNT] == before["trajectory_runtime_events"]
    assert [row for row in now["transcript_events"] if row[1] != COUNT] == before["transcript_events"]
    # The second run took the one that was the last.
    assert (NAME, COUNT, line, 5, None, None, None) in now["transcript_events"]
    assert (NAME, COUNT, None, "{}", 5) in now["trajectory_runtime_events"]
    assert kept(path, "*") == []


def test_the_list_and_the_options_find_them(path: Path) -> None:
    found = json.loads(run("sessions", "--agent", "openclaw", "--json").stdout)["sessions"]
    assert [(each["path"], each["agent"], each["project"], each["title"]) for each in found] == [
        (str(path / NAME), "openclaw", "/tmp", f"agent:main:{NAME}"),
        (str(path / SHORT), "openclaw", "/tmp", f"agent:main:{SHORT}"),
    ]
    assert json.loads(run("sessions", "--agent", "opencode", "--json").stdout)["sessions"] == []
    before = tables(path)
    (measured,) = json.loads(run("sessions", "--json").stdout)["databases"]
    assert measured["eventBytes"] == sum(len(row[3]) for row in before["trajectory_runtime_events"])
    assert run("compress", "--all", "--yes").exit_code == 0
    assert run("compress", path.parent).exit_code == 0
    assert tables(path) != before
    assert run("restore", "--last").exit_code == 0
    assert run("restore", path / NAME).exit_code == 0
    assert tables(path)["transcript_events"] == before["transcript_events"]


@pytest.mark.parametrize("options", [(), ("--drop-dead",)])
def test_a_summary_is_refused(path: Path, options: tuple[str, ...]) -> None:
    before = tables(path)
    result = run("compact", "--keep-tokens", "1000", *options, path / NAME)
    assert result.exit_code == 4
    assert "use its own /compact" in " ".join(result.stderr.split())
    assert tables(path) == before
    assert run("history", path).stdout.endswith("total: 0 runs\n")


def test_a_row_that_the_agent_changed_stays(path: Path) -> None:
    """Those beside it come back as they were; the file of rows stays, since not all of it is in the database."""
    before = tables(path)
    run("compress", path)
    changed = next(seq for seq, line in lines(path).items() if "sessioncompress show" in line)
    execute(path, "UPDATE transcript_events SET event_json = '{}', event_utf8_bytes = 2 WHERE seq = ?", changed)
    assert run("restore", path).exit_code == 5
    now = tables(path)["transcript_events"]
    assert [row[:3] for row in now if row not in before["transcript_events"]] == [(NAME, changed, "{}")]
    assert kept(path, "rows") != []


def test_rows_that_openclaw_writes_otherwise_come_back(path: Path) -> None:
    """With a size or notes that it leaves out, or that are wrong."""
    execute(path, "UPDATE transcript_events SET event_utf8_bytes = NULL WHERE event_json IS NOT NULL")
    execute(path, "UPDATE transcript_events SET event_utf8_bytes = 7 WHERE event_json IS NULL AND seq % 2")
    longer = "UPDATE transcript_events SET event_json = ?, event_zstd = NULL, event_utf8_bytes = NULL WHERE seq = 5"
    execute(path, f"{longer} AND session_id = ?", lines(path)[5], NAME)
    before = tables(path)
    assert run("compress", "--force", path).exit_code == 0
    assert tables(path)["transcript_events"] != before["transcript_events"]
    assert run("restore", path).exit_code == 0
    assert tables(path) == before


def test_forget_leaves_no_secret(path: Path) -> None:
    """In the database, or beside it: the rows as they were are originals, too."""
    secret = "0123456789abcdef-a-secret"
    long = max(lines(path), key=lambda seq: len(lines(path)[seq]) if '"toolResult"' in lines(path)[seq] else 0)
    entry = json.loads(lines(path)[long])
    text = "\n".join(f"line {number} of a long file" for number in range(900))
    entry["message"]["content"] = [{"type": "text", "text": f"{text}\n{secret}\n{text}"}]
    sets = "event_json = ?, event_zstd = NULL, event_utf8_bytes = NULL, navigation_json = NULL"
    execute(
        path, f"UPDATE transcript_events SET {sets} WHERE session_id = ? AND seq = ?", json.dumps(entry), NAME, long
    )
    execute(path, "UPDATE trajectory_runtime_events SET event_json = ? WHERE seq = 3", json.dumps({"seen": secret}))
    assert run("compress", "--preset", "archive", path).exit_code == 0
    assert secret not in "".join(lines(path).values())
    assert run("forget", "--yes", path).exit_code == 0
    assert kept(path, "*") == []
    for each in path.parent.rglob("*"):
        assert not each.is_file() or secret.encode() not in each.read_bytes(), each


def test_a_session_that_openclaw_packed_keeps_its_store(path: Path) -> None:
    """Its window stays, and its rows may come back."""
    run("compress", path)
    execute(path, "DELETE FROM transcript_events WHERE session_id = ?", NAME)
    before = kept(path, "rows")
    result = run("forget", "--gone", "--yes", path)
    assert (result.exit_code, "its rows are not in the database" in result.stderr) == (4, True)
    assert kept(path, "rows") == before != []
    execute(path, "DELETE FROM session_windows WHERE session_id = ?", NAME)
    assert run("forget", "--gone", "--yes", path).exit_code == 0
    assert kept(path, "rows") == []


def test_a_file_that_is_not_ours_stays(path: Path) -> None:
    """Beside the stores, where a killed run leaves its lines, other names are not touched."""
    run("compress", path)
    folder = path.parent / ".sessioncompress" / path.name
    (folder / "not a session.jsonl").write_text("x")
    (folder / f"{NAME}.jsonl").write_text("left by a kill")
    assert run("verify", path).exit_code == 0
    assert [each.name for each in folder.glob("*.jsonl")] == ["not a session.jsonl"]


def test_damaged_rows_are_noticed(path: Path) -> None:
    """What is no row is named, and the lines come back all the same."""
    before = lines(path)
    run("compress", path)
    (file,) = kept(path, "rows")
    file.write_bytes(zstd.compress(b'[1,null,"no base64!",2,"{}"]\n'))
    result = run("restore", path)
    assert result.exit_code == 5
    assert "holds a line that is no event" in result.stderr
    assert lines(path) == before


def test_the_folder_of_the_database_may_be_written(path: Path) -> None:
    """A dry run warns of a folder, and a row lies in none."""
    assert "not writable" not in run("compress", "--dry-run", path).stderr


@pytest.mark.parametrize(("counts", "asked"), [(True, "octet_length(data)"), (False, "length(CAST(data AS BLOB))")])
def test_bytes_are_counted_as_each_sqlite_can(monkeypatch: pytest.MonkeyPatch, counts: bool, asked: str) -> None:
    """One machine has one version of it."""
    monkeypatch.setattr(known, "_COUNTS", counts)
    assert known.length("data") == asked
