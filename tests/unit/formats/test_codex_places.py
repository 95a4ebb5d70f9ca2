"""What points into a rollout of Codex follows when other bytes take its place; where it cannot, nothing changes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from sessioncompress import Policy
from sessioncompress.cli.main import main
from sessioncompress.errors import Damaged, InUse, Refused
from sessioncompress.formats import codex_places
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.forget import forget_session
from sessioncompress.operations.pack import pack_sessions
from sessioncompress.operations.packed import packed_in, unpack_sessions
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.discover import discover
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import BALANCED
from sessioncompress.store.originals import zstd
from tests.support.codex_home import Home, forked, header, home_in, name_of, ordinals
from tests.support.runs import EAGER

_STATE = "thread_history_projection_state"


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Home:
    return home_in(tmp_path / "home")


def compressed_by_an_older_version(path: Path) -> None:
    """Compress a rollout and let nothing follow."""
    aside = path.parents[5] / "elsewhere" / path.name
    aside.parent.mkdir(exist_ok=True)
    shutil.copy2(path, aside)
    compress_session(aside, EAGER)
    shutil.copytree(aside.parent / ".sessioncompress", path.parent / ".sessioncompress", dirs_exist_ok=True)
    shutil.move(aside, path)


def test_all_places_follow_there_and_back(home: Home) -> None:
    """Through a run over each rollout, and a restore of each. No other row changes, and no time or size of a fork."""
    first = home.bytes()
    turns = home.rows("SELECT thread_id, turn_id, rollout_ordinal, rollout_end_ordinal FROM thread_turns ORDER BY 1, 2")
    for path in (home.parent, home.grandchild, home.fork, home.early):
        times = {each: (each.stat().st_mtime_ns, each.stat().st_size) for each in home.rollouts if each != path}
        assert compress_session(path, EAGER).status is Status.COMPRESSED
        assert home.wrong() == []
        assert {each: (each.stat().st_mtime_ns, each.stat().st_size) for each in times} == times
    for path in home.rollouts:
        verify_session(path)
        restore_session(path)
        assert home.wrong() == []
    now = home.rows("SELECT thread_id, turn_id, rollout_ordinal, rollout_end_ordinal FROM thread_turns ORDER BY 1, 2")
    assert now == turns
    assert {name: home.bytes()[name] for name in first if "rollout" in name} == {
        name: data for name, data in first.items() if "rollout" in name
    }


def test_a_fork_of_a_small_parent_has_room_for_a_place_in_a_large_one(home: Home) -> None:
    """It gets longer then, so that what points into it follows as well."""
    end = next(number for number, place in ordinals(home.parent).items() if place >= 100_000)
    compress_session(home.parent, EAGER)
    assert ordinals(home.parent)[end] < 100_000
    for path in (home.fork, home.early, home.grandchild):
        path.unlink()
    home.rows("DELETE FROM thread_turns WHERE thread_id != ?", name_of(home.parent))
    home.rows(f"DELETE FROM {_STATE} WHERE thread_id != ?", name_of(home.parent))
    fork = forked(home.parent, end, 4)
    small = home._replace(fork=fork, early=fork, grandchild=forked(fork, max(ordinals(fork)), 5))
    for path in (small.fork, small.grandchild):
        small.put(path)
    size = small.fork.stat().st_size
    restore_session(home.parent)
    assert small.wrong() == []
    assert size < small.fork.stat().st_size < size + 20


def _taken(home: Home) -> Iterator[None]:
    with closing(sqlite3.connect(home.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _asked(statement: str) -> Callable[[Home], Iterator[None]]:
    def change(home: Home) -> Iterator[None]:
        home.rows(statement)
        yield

    return change


def _without_text(home: Home) -> Iterator[None]:
    with closing(sqlite3.connect(home.database)) as other:
        other.executescript(
            "CREATE TABLE x (a TEXT); PRAGMA writable_schema = ON;"
            "UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT), tbl_name = CAST(x'ff' AS TEXT) WHERE name = 'x'"
        )
        other.commit()
    yield


def _linked(home: Home) -> Iterator[None]:
    home.database.rename(home.path.parent / "index")
    home.database.symlink_to(home.path.parent / "index")
    yield


def _named_twice(path: Path) -> Iterator[None]:
    path.parents[5].joinpath("snapshot").hardlink_to(path)
    yield


def _copied(elsewhere: Path, path: Path) -> None:
    shutil.copy(elsewhere, path)


def _beside_it(ending: str, make: Callable[[Path, Path], None]) -> Callable[[Home], Iterator[None]]:
    def change(home: Home) -> Iterator[None]:
        path = home.database.with_name(f"{home.database.name}{ending}")
        path.unlink(missing_ok=True)
        elsewhere = home.path.parent / "elsewhere"
        elsewhere.write_bytes(b"precious")
        make(elsewhere, path)
        yield
        assert elsewhere.read_bytes() == b"precious"

    return change


def _twice(home: Home) -> Iterator[None]:
    archive = home.path / "archived_sessions"
    archive.mkdir()
    shutil.copy2(home.parent, archive)
    yield


def _of_another_folder(home: Home) -> Iterator[None]:
    (home.path / "config.toml").write_text('sqlite_home = "/tmp"\n')
    yield


def _packed_by_codex(home: Home) -> Iterator[None]:
    home.fork.with_suffix(".jsonl.zst").write_bytes(zstd.compress(home.fork.read_bytes()))
    home.fork.unlink()
    yield


def _written_by_a_later_one(home: Home) -> Iterator[None]:
    home.fork.write_bytes(home.fork.read_bytes().replace(b'"end_byte_offset"', b'"end_byte_place"', 1))
    yield


def _no_database(home: Home) -> Iterator[None]:
    home.database.write_bytes(b"no database")
    yield


_LOCKS = "thread-writer-locks"
_Change = Callable[[Home], Iterator[None]]


def _changes(before: str) -> _Change:
    return _asked(f"CREATE TRIGGER x {before} ON thread_turns BEGIN DELETE FROM thread_items; END")


_IN_USE: dict[str, tuple[_Change, str]] = {
    "the index is locked": (_taken, "another program keeps Codex's index locked"),
    "Codex starts a thread": (lambda home: _locked(home.path / _LOCKS / ".coordination.lock"), "another Codex is"),
    "Codex has it loaded": (
        lambda home: _locked(home.path / _LOCKS / f"{header(home.parent)['id']}.lock"),
        "a running Codex has it loaded",
    ),
    "one of ours is at work on a fork": (lambda home: _locked_as_it_is(home.fork), "another sessioncompress is"),
}
_REFUSED: dict[str, tuple[_Change, str]] = {
    "a place that we do not know": (_asked("ALTER TABLE thread_items ADD COLUMN item_byte_offset"), "kind"),
    "a place is missing": (_asked(f"ALTER TABLE {_STATE} DROP COLUMN next_rollout_ordinal"), "kind"),
    "a change starts another": (_changes("AFTER UPDATE"), "kind"),
    "a change starts another, after a note": (_changes("AFTER/**/UPDATE/**/"), "kind"),
    "a fork has another name": (lambda home: _named_twice(home.fork), "has other hard links"),
    "names that are no text": (_without_text, "Codex's index cannot be changed"),
    "no database": (_no_database, "file is not a database"),
    "a link in a home that the path shows": (_linked, "is a link, or another user's"),
    "elsewhere, says a home that the path shows": (_of_another_folder, "names another folder for it"),
    "writes to the index go elsewhere": (_beside_it("-wal", lambda there, path: path.symlink_to(there)), "is a link"),
    "the index has another name": (_beside_it("-wal", lambda there, path: path.hardlink_to(there)), "link"),
    "a journal of no Codex": (_beside_it("-journal", _copied), "is not Codex's"),
    "a copy of it in the archive": (_twice, "Codex's index has places of it, or of"),
    "a fork that Codex has packed": (_packed_by_codex, "Codex has packed"),
    "a fork of a later Codex": (_written_by_a_later_one, "that we do not know"),
}


def _locked_as_it_is(path: Path) -> Iterator[None]:
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("name", [*_IN_USE, *_REFUSED])
def test_where_not_all_can_follow_nothing_changes(name: str, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codex_places, "_SECONDS", 0.05)
    monkeypatch.setattr(codex_places, "_BUSY_SECONDS", 0.05)
    prepare, what = (_IN_USE | _REFUSED)[name]
    kind = InUse if name in _IN_USE else Refused
    with contextmanager(prepare)(home):
        before = home.bytes()
        with pytest.raises(kind, match=what) as refused:
            compress_session(home.parent, EAGER)
        assert home.bytes() == before
    assert refused.value.exit_code == 4
    assert refused.value.state == "The session was not changed."
    assert refused.value.remedy


def test_no_link_of_a_stranger_leads_to_the_forks_of_another_home(home: Home, tmp_path: Path) -> None:
    """As in a clone with a folder that leads to the user's own sessions, and a rollout of the same id."""
    day = tmp_path / "clone" / "sessions" / "2026" / "03" / "02"
    day.mkdir(parents=True)
    planted = Path(shutil.copy2(home.parent, day))
    (tmp_path / "clone" / "sessions" / "2027").symlink_to(home.path / "sessions" / "2026")
    (tmp_path / "clone" / "archived_sessions").symlink_to(home.parent.parent)
    before = home.bytes()
    assert compress_session(planted, EAGER).status is Status.COMPRESSED
    assert home.bytes() == before


def test_the_users_index_is_not_that_of_a_copy_elsewhere(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_SQLITE_HOME", str(home.path))
    day = tmp_path / "backup" / "sessions" / "2026" / "03" / "02"
    day.mkdir(parents=True)
    beside = Path(shutil.copy2(home.parent, home.parent.with_name(f"{home.parent.stem}-copy.jsonl")))
    before = home.bytes()
    for copy in (Path(shutil.copy2(home.parent, day)), beside):
        assert compress_session(copy, EAGER).status is Status.COMPRESSED
    assert home.wrong() == []
    assert {name: home.bytes()[name] for name in before if "copy" not in name} == {
        name: data for name, data in before.items() if "copy" not in name
    }


def test_odd_settings_of_a_stranger_are_not_read(home: Home) -> None:
    """A pipe would be waited for, and deep lists take a parser's stack."""
    os.mkfifo(home.path / "config.toml")
    (home.path / "archived_sessions").symlink_to("archived_sessions")
    (home.path / "sessions" / "2027").symlink_to("2027")
    assert compress_session(home.fork, EAGER).status is Status.COMPRESSED
    (home.path / "config.toml").unlink()
    (home.path / "config.toml").write_text("a = " + "[" * 100_000)
    assert compress_session(home.parent, EAGER).status is Status.COMPRESSED
    assert home.wrong() == []


def test_bytes_that_are_no_text_are_no_number(home: Home) -> None:
    home.rows("UPDATE thread_turns SET rollout_byte_offset = CAST(x'ff' AS TEXT) WHERE rowid = 1")
    assert compress_session(home.parent, EAGER).status is Status.COMPRESSED


def test_a_home_of_another_user_is_left_alone(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    before = home.bytes()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Refused, match="another user's"):
        compress_session(home.parent, EAGER)
    assert home.bytes() == before


@pytest.mark.parametrize("how", ["CODEX_HOME", "CODEX_SQLITE_HOME", "sqlite_home", "archived", "linked sessions"])
def test_the_index_is_found(how: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the user has it: in the home, or where a variable or the user's own configuration names a folder."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = home
    monkeypatch.setenv("CODEX_HOME", str(home.path))
    if how == "CODEX_HOME":
        home.database.rename(elsewhere / home.database.name)
        home.database.symlink_to(elsewhere / home.database.name)
    elif how == "CODEX_SQLITE_HOME":
        shutil.move(home.database, elsewhere)
        monkeypatch.setenv("CODEX_SQLITE_HOME", str(elsewhere))
        moved = home._replace(path=elsewhere)
    elif how == "sqlite_home":
        shutil.move(home.database, elsewhere)
        (home.path / "config.toml").write_text(f"sqlite_home = '{elsewhere}'\n")
        moved = home._replace(path=elsewhere)
    elif how == "archived":
        monkeypatch.delenv("CODEX_HOME")
        archive = home.path / "archived_sessions"
        archive.mkdir()
        moved = home._replace(parent=home.parent.rename(archive / home.parent.name))
    else:
        shutil.move(home.path / "sessions", elsewhere)
        (home.path / "sessions").symlink_to(elsewhere / "sessions")
    assert compress_session(moved.parent, EAGER).status is Status.COMPRESSED
    assert moved.wrong() == []


_WRITING: dict[str, Callable[[Path], object]] = {
    "compress": lambda path: compress_session(path, EAGER),
    "nothing is due for the command": lambda path: CliRunner().invoke(
        main, ["compress", str(path), "--idle-seconds", "9000"]
    ),
    "nothing is due": lambda path: compress_session(path, replace(EAGER, size_threshold_kb=100_000)),
    "restore": restore_session,
    "a fork": lambda path: compress_session(next(path.parent.glob("rollout-2026-03-02T11*")), EAGER),
}


@pytest.mark.parametrize("command", _WRITING)
def test_what_an_older_version_left_wrong_is_mended_first(command: str, home: Home) -> None:
    compressed_by_an_older_version(home.parent)
    assert len(home.wrong()) > 10
    _WRITING[command](home.parent)
    assert home.wrong() == []


def test_commands_that_only_read_tell_what_is_wrong(home: Home) -> None:
    compressed_by_an_older_version(home.parent)
    before = home.bytes()
    with pytest.raises(Damaged, match="names another place than it has"):
        verify_session(home.parent)
    compress_session(home.parent, EAGER, dry_run=True)
    assert home.bytes() == before


def test_codex_reads_again_what_it_read_on_from_a_wrong_place(home: Home) -> None:
    """It read a turn from the middle on, and noted that it is through with it."""
    compressed_by_an_older_version(home.parent)
    last = max(ordinals(home.parent))
    with home.parent.open("ab") as file:
        for number in range(last, last + 4):
            line = b'{"timestamp":"2026-03-02T10:00:00.000Z","ordinal":%d,"type":"event_msg","payload":{"type":"x"}}\n'
            file.write(line % number)
    size = home.parent.stat().st_size
    home.rows(
        f"UPDATE {_STATE} SET next_rollout_ordinal = ?, next_rollout_byte_offset = ? WHERE thread_id = ?",
        last + 4,
        size,
        name_of(home.parent),
    )
    restore_session(home.parent)
    assert home.wrong() == []
    assert home.rows(f"SELECT next_rollout_ordinal FROM {_STATE} WHERE thread_id = ?", name_of(home.parent)) == [
        (last,)
    ]


def test_a_run_that_is_refused_leaves_all_places(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the change of the index, at the last moment."""
    before = home.bytes()

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("sessioncompress.store.disk.system.exchange", fails, raising=False)
    with suppress(Exception):
        compress_session(home.parent, EAGER)
    assert {name: data for name, data in home.bytes().items() if "rollout" in name} == {
        name: data for name, data in before.items() if "rollout" in name
    }
    assert home.wrong() == []


def _packed(home: Home, *paths: Path) -> list[str]:
    outcomes = pack_sessions(discover(list(paths)), [home.path], lambda _: BALANCED)
    return [each.result.status if each.result else str(each.error) for each in outcomes]


def _unpacked(home: Home) -> None:
    list(unpack_sessions(packed_in([home.path])))


def test_a_parent_is_packed_with_all_that_go_on_from_it(home: Home) -> None:
    (outcome,) = _packed(home, home.parent)
    assert "Codex goes on from it in" in outcome
    assert home.parent.exists()
    assert _packed(home, home.path) == ["packed"] * 4
    assert not any(path.exists() for path in home.rollouts)
    _unpacked(home)
    assert home.wrong() == []


def test_what_comes_back_from_a_pack_is_pointed_to(home: Home) -> None:
    """Though it was packed at another state of its parent."""
    assert _packed(home, home.early) == ["packed"]
    compress_session(home.parent, EAGER)
    _unpacked(home)
    assert home.wrong() == []


def test_rows_of_lines_that_left_the_end_go(home: Home) -> None:
    """As those of a checkpoint do when it is taken out: Codex gives their numbers to other lines."""
    last = max(ordinals(home.parent))
    name = name_of(home.parent)
    home.rows("INSERT INTO thread_items VALUES (?, 'turn', 'item', ?, '{}')", name, last)
    home.rows(f"UPDATE {_STATE} SET next_rollout_ordinal = ? WHERE thread_id = ?", last + 3, name)
    before = home.rows("SELECT count(*) FROM thread_items")[0][0]
    compress_session(home.parent, EAGER)
    assert home.wrong() == []
    assert home.rows(f"SELECT next_rollout_ordinal FROM {_STATE} WHERE thread_id = ?", name) == [(last,)]
    assert home.rows("SELECT count(*) FROM thread_items")[0][0] == before - 1


def test_forget_leaves_no_text_in_the_index_that_the_rollout_lost(home: Home) -> None:
    """A row is emptied where no line says its text any more; other rows, and those of other rollouts, stay."""
    text = "the secret that a command printed " * 10
    name = name_of(home.parent)
    compress_session(home.parent, EAGER)
    rewritten = next(
        json.loads(line)["ordinal"]
        for line in home.parent.read_bytes().splitlines()
        if b"[[sessioncompress: " in line and b"function_call_output" in line
    )
    stays = next(json.loads(line) for line in home.parent.read_bytes().splitlines() if b'"session_meta"' in line)
    said = stays["payload"]["base_instructions"]["text"]
    for thread, item, number, written in (
        (name, "a", rewritten, text),
        (name, "b", rewritten, said),
        (name, "c", 1, text),
        ("other", "d", rewritten, text),
    ):
        given = (thread, item, number, json.dumps({"type": "commandExecution", "text": [written], "id": "short"}))
        home.rows("INSERT INTO thread_items VALUES (?, 'turn', ?, ?, ?)", *given)
    forget_session(home.parent)
    now = home.rows("SELECT item_id, item_json FROM thread_items WHERE turn_id = 'turn'")
    found = {item: json.loads(written) for item, written in now}
    assert {item: each["text"] for item, each in found.items()} == {"a": [""], "b": [said], "c": [text], "d": [text]}
    assert {each["id"] for each in found.values()} == {"short"}


def test_forget_empties_the_index_where_a_restored_line_was_edited(home: Home) -> None:
    """As in the steps that delete a secret: the line is no longer rewritten, and only its original has the text."""
    before = {json.loads(line)["ordinal"]: line for line in home.parent.read_bytes().splitlines()}
    compress_session(home.parent, EAGER)
    number = next(
        json.loads(line)["ordinal"]
        for line in home.parent.read_bytes().splitlines()
        if b"[[sessioncompress: " in line and b"function_call_output" in line
    )
    secret = json.loads(before[number])["payload"]["output"]
    restore_session(home.parent)
    home.parent.write_bytes(home.parent.read_bytes().replace(json.dumps(secret).encode(), b'"removed"'))
    given = (name_of(home.parent), number, json.dumps({"output": secret}))
    home.rows("INSERT INTO thread_items VALUES (?, 'turn', 'a', ?, ?)", *given)
    stats = forget_session(home.parent)
    assert home.rows("SELECT item_json FROM thread_items WHERE turn_id = 'turn'") == [('{"output":""}',)]
    assert stats.emptied == (str(home.database),)


@pytest.mark.parametrize("is_read", [False, True], ids=["alone", "read"])
def test_forget_writes_the_index_anew_once(home: Home, is_read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Codex freed before may have the text. Where that can't be done, the exit code says so."""
    monkeypatch.setenv("CODEX_HOME", str(home.path))
    text = "the secret that a command printed " * 1000
    home.rows("INSERT INTO thread_items VALUES (?, 'turn', 'a', 1, ?)", name_of(home.parent), json.dumps([text]))
    with closing(sqlite3.connect(home.database)) as codex, codex:
        codex.execute("PRAGMA secure_delete = OFF")
        codex.execute("DELETE FROM thread_items WHERE turn_id = 'turn'")
    for path in (home.parent, home.fork):
        compress_session(path, EAGER)
    with closing(sqlite3.connect(home.database)) as reader:
        if is_read:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM thread_items").fetchall()
        done = CliRunner().invoke(main, ["forget", "--yes", str(home.parent), str(home.fork)])
    assert done.exit_code == (4 if is_read else 0), done.output
    assert done.stdout.count(str(home.database)) == (2 if is_read else 1)
    assert ("VACUUM" in done.stdout) == is_read
    assert (text[:100].encode() in home.database.read_bytes()) == is_read


def test_each_of_several_that_come_back_is_pointed_elsewhere(home: Home) -> None:
    """Also those that a list of the home does not have yet that is a moment old."""
    assert _packed(home, home.grandchild, home.early, home.fork) == ["packed"] * 3
    compress_session(home.parent, EAGER)
    _unpacked(home)
    assert home.wrong() == []


def test_compact_adds_lines_behind_all_places(home: Home) -> None:
    compact_session(home.parent, Policy())
    assert home.wrong() == []
