"""The stores of sessions whose database is gone: they are found, and nothing of them is deleted that may be needed."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store.originals import zstd
from tests.support.commands import run
from tests.support.databases import LINES, LONG, OPENCLAW, folder, forked, opencode_database, with_output
from tests.support.databases import OPENCODE as NAME
from tests.support.repository import Repository
from tests.support.rows import execute, openclaw
from tests.support.rows import rows as rows_in
from tests.support.stores import user_of

SECRET = secrets.token_hex(16)
OTHER = "ses_000001000001cc6423e78c4190"
MOVED = "if the database was moved or renamed, move"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a database with a secret in what a run takes out of one session, and another session."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = opencode_database(tmp_path / "data")
    calls = [row for row in rows_in(path)["part"] if json.loads(row[-1])["type"] == "tool"]
    text = f"{LONG}\n{SECRET}\n{LONG}"
    execute(path, "UPDATE part SET data = json_set(data, '$.state.output', ?) WHERE id = ?", text, calls[0][0])
    added = "UPDATE event SET data = json_set(data, '$.more', ?) WHERE seq = 3 AND aggregate_id = ?"
    execute(path, added, SECRET, NAME)
    return path


@pytest.fixture
def compressed(path: Path) -> Path:
    assert run("compress", "--force", path).exit_code == 0
    assert has_secret(path)
    return path


@pytest.fixture
def lost(compressed: Path) -> Path:
    delete(compressed)
    return compressed


def delete(path: Path) -> None:
    """Delete a database with its log."""
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def files(folder: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def has_secret(path: Path) -> bool:
    """Return True if a file in the folder of the stores has the secret, also packed."""
    found = False
    for each, data in files(folder(path).parent).items():
        if each.suffix == ".zst":
            with zstd.ZstdFile(each) as file:
                found |= SECRET.encode() in file.read()
        found |= SECRET.encode() in data
    return found


def said(*words: str | Path) -> str:
    """Return what a command prints, and at the end its exit code."""
    result = run(*words)
    return " ".join([*result.stdout.split(), *result.stderr.split(), str(result.exit_code)])


PLACES: dict[str, Callable[[Path], list[str | Path]]] = {
    "the database": lambda path: [path],
    "its folder": lambda path: [path.parent],
    "all": lambda path: ["--all"],
}


@pytest.mark.parametrize("place", PLACES)
def test_its_sessions_are_found(lost: Path, place: str) -> None:
    """As files whose session is gone: only a named one is an error of verify."""
    words = PLACES[place](lost)
    named = f"{lost / NAME}: its database is missing, but its store is still there"
    told = said("verify", *words)
    assert (named if place == "the database" else f"their stores are there: {lost / NAME} and {lost / OTHER}") in told
    assert told.endswith(" 4" if place == "the database" else " 0")
    told = said("restore", "--yes", *words)
    assert named in told
    assert f"{MOVED} {folder(lost)} to .sessioncompress/NEW_NAME beside it" in told.replace("If", "if")
    assert f"'sessioncompress forget --gone {lost}' deletes them" in told
    assert told.endswith(" 4")


@pytest.mark.parametrize("place", PLACES)
def test_its_stores_are_deleted_if_the_user_agrees(compressed: Path, place: str) -> None:
    """With the folder, and what hides it from git."""
    Repository(compressed.parent)
    run("compress", "--force", compressed)
    (folder(compressed) / f"{NAME}.jsonl").write_text(f"A run was killed while it worked on {SECRET}.")
    assert (folder(compressed).parent / ".gitignore").exists()
    words = PLACES[place](compressed)
    assert "would delete" not in said("forget", "--gone", "--dry-run", *words)
    delete(compressed)
    before = {each: data for each, data in files(folder(compressed)).items() if each.suffix != ".jsonl"}
    for some in (("--unneeded", "--yes"), ("--older-than", "1m", "--yes"), ("--gone", "--dry-run"), ("--gone",)):
        told = said("forget", *some, *(words if "--older-than" not in some else [compressed]))
        assert before.items() <= files(folder(compressed)).items(), told
    assert told.endswith(" 2")
    told = said("forget", "--gone", "--yes", *words)
    assert "2 sessions: deleted" in told
    assert told.endswith(" 0")
    assert [each.name for each in compressed.parent.iterdir() if each.name != ".git"] == []
    assert "gone" not in said("verify", *words)


def test_one_of_its_sessions_is_deleted_by_its_id(lost: Path) -> None:
    assert said("verify", lost / NAME).endswith(" 4")
    assert said("forget", "--yes", lost / NAME).endswith(" 0")
    assert not has_secret(lost)
    assert [each for each in files(folder(lost)) if NAME in each.name] == []
    assert [each for each in files(folder(lost)) if OTHER in each.name]
    told = said("forget", "--yes", lost / NAME)
    assert "the database has no session of this id" in told
    assert told.endswith(" 2")


def test_include_and_exclude_choose_among_its_sessions(lost: Path) -> None:
    said("forget", "--gone", "--yes", "--exclude", NAME, lost.parent)
    assert {each.name.partition(".")[0] for each in files(folder(lost))} == {NAME}


@pytest.mark.parametrize("command", ["compress", "stats"])
def test_other_commands_have_no_such_path(lost: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (lost, lost / NAME):
        told = said(command, each)
        assert "does not exist" in told
        assert told.endswith(" 2")
    monkeypatch.setenv("OPENCODE_DB", str(lost))
    for words in ("--all", lost.parent):
        assert str(lost / NAME) not in said(command, words)


def test_one_that_a_variable_names_is_found(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCODE_DB", str(lost))
    monkeypatch.setenv("XDG_DATA_HOME", str(lost.parent))
    assert f"are there: {lost / NAME} and" in said("verify", "--agent", "opencode")


def test_one_of_any_name_is_found(compressed: Path) -> None:
    """Under the name that it was compressed by, it is no agent's any more."""
    other = compressed.with_name("of-2025.sqlite")
    compressed.rename(other)
    folder(compressed).rename(folder(other))
    assert "2 files" in said("verify", other.parent) or "2 sessions" in said("verify", other.parent)
    other.unlink()
    assert f"are there: {other / NAME} and" in said("verify", other.parent)


def test_what_a_lost_key_kept_is_deleted_too(path: Path, tmp_path: Path) -> None:
    """Also if a session has events alone."""
    with user_of(tmp_path / "before"):
        run("compress", "--min-size", "100000", path)
    assert has_secret(path)
    delete(path)
    assert f"{path / NAME}" in said("verify", path.parent)
    said("forget", "--gone", "--yes", path.parent)
    assert not has_secret(path)


def test_a_database_of_openclaw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has rows beside its events."""
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "state/agents/main/agent/openclaw-agent.sqlite"
    openclaw(path, **{OPENCLAW: LINES})
    run("compress", "--force", "--preset", "archive", path)
    assert list(folder(path).rglob("*.rows-*"))
    delete(path)
    assert said("forget", "--gone", "--yes", "--agent", "openclaw").endswith(" 0")
    assert files(path.parent) == {}


def test_an_older_note_to_write_it_anew_is_no_error(compressed: Path) -> None:
    """The agent had it open when another session was forgotten."""
    with closing(sqlite3.connect(compressed, isolation_level=None)) as agent:
        agent.execute("SELECT count(*) FROM session").fetchone()
        run("forget", "--yes", compressed / OTHER)
    assert (folder(compressed) / "to-be-written-anew").exists()
    delete(compressed)
    assert said("forget", "--gone", "--yes", compressed).endswith(" 0")
    assert not folder(compressed).parent.exists()


# What may still be needed stays.


def _to_another_folder(path: Path) -> Path:
    (path.parents[1] / "other").mkdir()
    return path.rename(path.parents[1] / "other/opencode.db")


def _below(path: Path) -> Path:
    (path.parent / "old/er").mkdir(parents=True)
    return path.rename(path.parent / "old/er/any.name")


def _to_an_agents(path: Path) -> Path:
    new = _to_another_folder(path)
    os.environ["OPENCODE_DB"] = str(new)
    return new


def _locked(path: Path) -> Path:
    """Rename it, and let it look like one that cannot be read now."""
    new = path.rename(path.with_name("old.db"))
    data = bytearray(new.read_bytes())
    data[100:] = bytes(len(data) - 100)
    new.write_bytes(data)
    return new


RENAMED: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "beside it": (lambda path: path.rename(path.with_name("old.db")), "", "has its id"),
    "under another ending": (lambda path: path.rename(path.with_name("opencode.db.bak")), "", "has its id"),
    "to a folder below": (_below, "", "has its id"),
    "to a folder that is named": (_to_another_folder, "folder", "has its id"),
    "by its name": (_to_another_folder, "database", "has its id"),
    "to an agent's": (_to_an_agents, "", "has its id"),
    "where it cannot be read": (_locked, "", "may have it: SQLite cannot work with the database"),
}


@pytest.mark.parametrize(("change", "also", "why"), RENAMED.values(), ids=RENAMED)
def test_stores_of_a_database_that_was_moved_stay(
    compressed: Path, change: Callable[[Path], Path], also: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCODE_DB", "")
    before = files(folder(compressed))
    new = change(compressed)
    named = {"": [], "folder": [new.parent], "database": [new]}[also]
    told = said("forget", "--gone", "--yes", compressed.parent, *named)
    assert f"2 kept: the session is missing, and {new} {why}" in told
    assert files(folder(compressed)) == before


def test_the_stores_follow_a_database(path: Path) -> None:
    """As the message says."""
    before = rows_in(path)
    run("compress", "--force", path)
    new = _to_another_folder(path).rename(path.parents[1] / "other/renamed.db")
    folder(new).parent.mkdir()
    folder(path).rename(folder(new))
    assert run("restore", new).exit_code == 0
    assert rows_in(new) == before


def test_only_the_sessions_that_are_in_no_database_are_deleted(compressed: Path) -> None:
    new = compressed.rename(compressed.with_name("opencode-new.db"))
    for table in ("message", "part", "session"):
        execute(new, f"DELETE FROM {table} WHERE {'id' if table == 'session' else 'session_id'} = ?", NAME)
    told = said("forget", "--gone", "--yes", compressed.parent)
    assert f"{NAME} (session gone): deleted" in told
    assert not has_secret(compressed)
    assert {each.name.partition(".")[0] for each in files(folder(compressed))} == {OTHER}


def test_a_session_that_moved_from_a_database_that_is_there_keeps_its_store(compressed: Path) -> None:
    shutil.copy(compressed, new := compressed.with_name("archive.db"))
    for table in ("message", "part", "session"):
        execute(compressed, f"DELETE FROM {table} WHERE {'id' if table == 'session' else 'session_id'} = ?", NAME)
    before = files(folder(compressed))
    assert f"and {new} has its id" in said("forget", "--gone", "--yes", compressed)
    assert files(folder(compressed)) == before


@pytest.mark.parametrize("to", ["old.db", "old/opencode.db"])
def test_what_a_fork_in_the_moved_database_needs_stays(path: Path, to: str) -> None:
    """Its agent deleted the session that it is of."""
    run("compress", path)
    fork = forked(path)
    for table in ("message", "part", "session"):
        execute(path, f"DELETE FROM {table} WHERE {'id' if table == 'session' else 'session_id'} = ?", NAME)
    (path.parent / to).parent.mkdir(exist_ok=True)
    path.rename(path.parent / to)
    before = {name: data for name, data in files(folder(path)).items() if NAME in name.name}
    assert f"{fork} refers to its originals" in said("forget", "--gone", "--yes", path.parent)
    assert before.items() <= files(folder(path)).items()


def test_a_database_that_git_has_may_come_back(compressed: Path) -> None:
    Repository(compressed.parent).commit()
    delete(compressed)
    before = files(folder(compressed))
    assert "2 kept: the session is missing, and git still has it" in said("forget", "--gone", "--yes", compressed)
    assert files(folder(compressed)) == before


def _dangling(path: Path) -> None:
    delete(path)
    path.symlink_to(path.with_name("on another disk"))


def _not_mounted(path: Path) -> None:
    path.parent.rename(path.parents[1] / "elsewhere")


def _closed(path: Path) -> None:
    """Its first bytes cannot be read, as they are those of no database."""
    path.write_bytes(b"")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


IS_NOT_GONE: dict[str, Callable[[Path], object]] = {
    "a link to nothing": _dangling,
    "a folder that is not mounted": _not_mounted,
    "a file that is no database now": _closed,
    "a folder in its place": _folder,
    "a pipe in its place": _pipe,
}


@pytest.mark.parametrize("change", IS_NOT_GONE.values(), ids=IS_NOT_GONE)
def test_a_database_is_not_gone(compressed: Path, change: Callable[[Path], object]) -> None:
    top = compressed.parents[1]
    change(compressed)
    before = {each for each in files(top) if ".zst" in each.name}
    for words in (compressed, compressed.parent, "--all"):
        assert "its database is missing" not in said("restore", words)
        assert "deleted" not in said("forget", "--gone", "--yes", words)
    assert {each for each in files(top) if ".zst" in each.name} == before


@pytest.mark.parametrize("number", [*range(30), None])
def test_a_database_that_cannot_be_examined_is_not_gone(
    compressed: Path, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, or ever."""
    calls = 0

    def failing(real: Callable[..., os.stat_result], path: Any, **how: Any) -> os.stat_result:
        nonlocal calls
        if str(path) == str(compressed):
            calls += 1
            if number in (None, calls - 1):
                raise OSError(errno.EIO, "Input/output error", str(path))
        return real(path, **how)

    before = files(folder(compressed))
    with monkeypatch.context() as patch:
        for name in ("stat", "lstat"):
            patch.setattr(os, name, partial(failing, getattr(os, name)))
        told = said("forget", "--gone", "--yes", compressed)
    assert calls
    assert "deleted" not in told
    assert files(folder(compressed)) == before


@pytest.mark.parametrize("depth", range(3))
def test_nothing_is_deleted_through_a_link(lost: Path, depth: int) -> None:
    """An archive may bring links in place of our folders, to those of others."""
    ours = [folder(lost).parent, folder(lost), folder(lost) / ".sessioncompress"][depth]
    ours.symlink_to(ours.rename(lost.parents[1] / "another's"))
    before = files(lost.parents[1])
    for words in (lost, lost.parent, lost / NAME):
        assert "must be a folder of its own" in said("forget", "--yes", words)
    assert files(lost.parents[1]) == before


@pytest.mark.parametrize("named", [False, True])
def test_its_long_outputs_are_deleted_unless_another_database_names_them(path: Path, *, named: bool) -> None:
    file = with_output(path)
    shutil.copy(path, other := path.with_name("other.db"))
    execute(other, "UPDATE part SET session_id = 'ses_1'" if named else "DELETE FROM part")
    run("compress", path)
    delete(path)
    assert said("forget", "--yes", path).endswith(" 0")
    assert file.exists() == named
