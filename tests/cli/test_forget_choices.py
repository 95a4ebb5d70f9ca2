"""Which stores `forget` takes by its options: nothing goes that nobody asked for, and no session is taken for gone."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.operations.forget import Only, forget_session, kept_of
from sessioncompress.operations.restore import restore_session
from sessioncompress.store.layout import FOLDER, Store, store_in
from sessioncompress.store.recover import sweep
from tests.support.build import PiSession
from tests.support.runs import EAGER, HOMES, compress, fixture, invoke, snapshot, write
from tests.support.sessions import session
from tests.unit.store.tools import late_link

DAY = 24 * 3600
NAMES = ("a.jsonl", "b.jsonl", "c.jsonl")


@pytest.fixture(autouse=True)
def _homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of whoever runs the tests counts."""
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with compressed sessions that changed 1, 50 and 100 days ago; work in it."""
    made = tmp_path / "sessions"
    made.mkdir()
    for name, days in zip(NAMES, (1, 50, 100), strict=True):
        path = write(made, session(PiSession(seed=name)), name)
        compress(path)
        os.utime(path, (time.time() - days * DAY - 60,) * 2)
    return made


def run(*arguments: str | Path) -> Any:
    return invoke("forget", "--yes", *map(str, arguments))


def held(folder: Path) -> list[str]:
    return [name for name in NAMES if store_in(folder / name).originals.exists()]


def size_of_all(folder: Path) -> int:
    return sum(each.stat().st_size for each in (folder / FOLDER).glob("local-*/*.jsonl.*"))


def test_only_what_was_asked_for(folder: Path) -> None:
    """By the age of sessions, and by the size of all stores; the sessions stay as they are."""
    before = {name: (folder / name).read_bytes() for name in NAMES}
    for arguments, left in (
        (["--older-than", "101d"], NAMES),
        (["--max-size", "1GB"], NAMES),
        (["--older-than", "50d", "--max-size", "1GB"], NAMES),
        (["--unneeded"], NAMES),
        (["--gone"], NAMES),
        (["--older-than", "90d"], NAMES[:2]),
        (["--max-size", f"{size_of_all(folder) // 3 * 2 // 1024}KB"], NAMES[:1]),
        (["--max-size", "0KB", "--dry-run"], NAMES[:1]),
        (["--max-size", "0KB"], ()),
    ):
        done = run(*arguments, folder)
        assert done.exit_code == 0, done.output
        assert held(folder) == list(left), arguments
    assert {name: (folder / name).read_bytes() for name in NAMES} == before


def test_the_store_of_a_restored_session_is_unneeded(folder: Path) -> None:
    """Unless a fork refers to it; the others are counted."""
    restore_session(folder / "a.jsonl")
    restore_session(folder / "b.jsonl")
    with (folder / "b.jsonl").open("ab") as file:
        file.write(
            b'{"type":"custom","customType":"x","id":"ffffffff","parentId":null,"timestamp":"2026-01-01T00:00:00Z"}\n'
        )
    # What loses nothing only counts in the total.
    assert "would delete" not in "".join(run("--unneeded", "--dry-run", folder).stdout.splitlines()[:-1])
    assert run("--dry-run", folder).stdout.count("would delete") == 2
    done = run("--unneeded", folder)
    assert held(folder) == ["c.jsonl"]
    assert "1 kept: the session needs " in done.stdout
    assert "; 1 kept" in done.stdout.splitlines()[-1]
    assert "c.jsonl: kept: the session needs " in run("--unneeded", folder / "c.jsonl").stdout


def test_what_is_needed_is_decided_under_the_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run meanwhile needs its originals."""
    path = folder / "a.jsonl"
    content = path.read_bytes()
    restore_session(path)
    only = Only(unneeded=True)
    assert forget_session(path, EAGER, dry_run=True, only=only).bytes_deleted
    path.write_bytes(content)
    assert forget_session(path, EAGER, only=only).kept
    assert held(folder) == list(NAMES)


def test_what_changed_meanwhile_stays(folder: Path) -> None:
    """It was chosen because it had not changed for long; or it is gone by now, or back."""
    path, only = folder / "c.jsonl", Only(since=time.time() - 5)
    path.touch()
    assert forget_session(path, EAGER, only=only).kept == "the session has changed since we looked at it"
    path.rename(folder / "away")
    assert "may have been moved" in forget_session(path, EAGER, only=only).kept
    (folder / "away").rename(path)
    assert forget_session(path, EAGER, only=Only(gone=True)).kept == "the session is there"
    assert held(folder) == list(NAMES)


def test_what_is_gone(folder: Path) -> None:
    """Its store goes by --gone, with all that lies there for it; by no other option, though its size counts."""
    for name in ("a.jsonl", "c.jsonl"):
        (folder / name).unlink()
    late_link(folder / "c.jsonl", b"late", carried=4)
    for option in (["--max-size", "0KB"], ["--unneeded"]):
        said = run(*option, "--dry-run", folder).stdout
        assert "2 kept: the session is missing, but may have been moved" in said
        assert "a.jsonl (session gone)" not in said
    assert run("--older-than", "0d", "--dry-run", folder).stdout.count("would delete") == 2
    said = run("--gone", folder).stdout
    assert "a.jsonl (session gone): deleted " in said
    assert said.splitlines()[-1].startswith("total: 2 sessions: deleted ")
    assert held(folder) == ["b.jsonl"]
    assert not list((folder / FOLDER).glob("c.jsonl*"))
    assert run("--gone", folder / "b.jsonl").stdout.endswith("b.jsonl: kept: the session is there\n")
    assert run("--gone", folder).stdout == "total: 0 sessions\n"


def test_what_was_moved_is_not_gone(folder: Path) -> None:
    """It needs its originals to be restored."""
    (folder / "a.jsonl").rename(folder / "moved.jsonl")
    assert "moved.jsonl has its id" in run("--gone", folder).stdout
    assert held(folder) == list(NAMES)


@pytest.mark.parametrize("named", ["both", "above"])
def test_what_was_moved_is_searched_for_in_all_that_was_named(folder: Path, tmp_path: Path, named: str) -> None:
    """Two may have had its id."""
    shutil.copy2(folder / "a.jsonl", folder / "copy.jsonl")
    for each in (store_in(folder / "a.jsonl").folder).glob("a.jsonl*"):
        shutil.copy2(each, each.with_name(each.name.replace("a.jsonl", "copy.jsonl")))
    (folder / "copy.jsonl").unlink()
    (other := tmp_path / "other").mkdir()
    (folder / "a.jsonl").rename(other / "a.jsonl")
    paths = (folder, other) if named == "both" else (tmp_path,)
    said = run("--gone", *paths).stdout
    assert f"2 kept: the session is missing, and {other / 'a.jsonl'} has its id" in said
    assert held(folder) == list(NAMES)


def test_of_what_is_gone_the_oldest(folder: Path) -> None:
    for name, days in zip(NAMES, (1, 100, 50), strict=True):
        (folder / name).unlink()
        os.utime(store_in(folder / name).journal, (time.time() - days * DAY,) * 2)
    assert run("--gone", "--max-size", f"{size_of_all(folder) // 1024}KB", folder).exit_code == 0
    assert held(folder) == ["a.jsonl", "c.jsonl"]


@pytest.mark.parametrize("is_there", ["not there", "empty"])
def test_a_folder_that_may_be_on_a_disk_that_is_off(tmp_path: Path, is_there: str) -> None:
    policy = replace(EAGER, backup_dir=str(tmp_path / "backup"))
    (folder := tmp_path / "disk").mkdir()
    path = write(folder, session())
    compress(path, policy)
    folder.rename(tmp_path / "off")
    if is_there == "empty":
        folder.mkdir()
    only = Only(gone=True)
    assert "as when a disk is not mounted" in kept_of([path], lambda _: policy, only, None)[path]
    (folder / "other").mkdir(parents=True)
    assert kept_of([path], lambda _: policy, only, None) == {}
    assert forget_session(path, policy, only=only).originals_lost
    assert not any((tmp_path / "backup").iterdir())


def test_a_session_that_is_packed_meanwhile(folder: Path) -> None:
    """A run that takes it out of its pack puts its store first."""
    path, files = folder / "a.jsonl", store_in(folder / "a.jsonl")
    shutil.copytree(files.folder, folder / "kept")
    assert invoke("pack", path).exit_code == 0
    for each in (files.originals, files.journal):
        shutil.copy2(folder / "kept" / each.name, each)
    assert "1 kept: the session is missing, but packed" in run("--gone", folder).stdout
    assert files.originals.exists()


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def _last_bit(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes([content[-40] ^ 1]) + content[-39:])


HARMS: dict[str, Callable[[Store], object]] = {
    "no journal": lambda store: store.journal.unlink(),
    "an empty journal": lambda store: _cut(store.journal, 0),
    "half a line of the journal": lambda store: _cut(store.journal, 30),
    "all but the end of the journal": lambda store: _cut(store.journal, -100),
    "a journal that is none": lambda store: store.journal.write_bytes(b'{"type":"run"}\n'),
    "no originals": lambda store: store.originals.unlink(),
    "half the originals": lambda store: _cut(store.originals, -100),
}


@pytest.mark.parametrize("is_there", [True, False], ids=["the session is there", "the session is gone"])
@pytest.mark.parametrize("harm", HARMS)
def test_what_is_damaged_goes_by_no_option(folder: Path, harm: str, is_there: bool) -> None:
    """Another session may need it, or the rest of it may come back; the user may name it."""
    HARMS[harm](store := store_in(folder / "c.jsonl"))
    left = [each.name for each in store.folder.glob("c.jsonl*")]
    options = [["--older-than", "0d"], ["--max-size", "0KB"], ["--unneeded"]]
    if not is_there:
        (folder / "c.jsonl").unlink()
        options = [["--gone"], ["--gone", "--max-size", "0KB"]]
    for option in options:
        assert run(*option, folder).exit_code == 5, option
        assert [each.name for each in store.folder.glob("c.jsonl*")] == left
    assert run(folder / "c.jsonl").exit_code in (0, 4)
    assert not any(store.folder.glob("c.jsonl*"))


@pytest.mark.parametrize("harm", [_last_bit, lambda journal: journal.write_bytes(journal.read_bytes() + b"{")])
def test_of_what_is_gone_nothing_else_tells_what_a_journal_lost(folder: Path, harm: Callable[[Path], object]) -> None:
    (folder / "c.jsonl").unlink()
    harm(store_in(folder / "c.jsonl").journal)
    assert run("--gone", folder).exit_code == 5
    assert held(folder) == list(NAMES)


@pytest.mark.parametrize("why", ["open", "tail"])
def test_a_late_link_of_a_gone_one_that_is_needed_stays(folder: Path, why: str) -> None:
    """A program writes to it, or lines stand in it that stand nowhere else; that is said."""
    path = folder / "a.jsonl"
    path.unlink()
    link = late_link(path, b"late", carried=4 if why == "open" else 3)
    with link.open("ab" if why == "open" else "rb"):
        done = run("--gone", path)
        assert done.exit_code == 4
        assert "late link with lines that came late" in done.stdout
        assert link.read_bytes() == b"late"
    assert "a.jsonl" not in held(folder)


def test_the_document(folder: Path) -> None:
    (folder / "a.jsonl").unlink()
    done = run("--json", "--max-size", f"{size_of_all(folder) // 3 * 2 // 1024}KB", folder)
    files = {
        Path(each["path"]).name: (each["status"], each["gone"], each["reason"])
        for each in json.loads(done.stdout)["files"]
    }
    assert files == {
        "a.jsonl": ("kept", True, "the session is missing, but may have been moved; --gone deletes its store"),
        "b.jsonl": ("deleted", False, ""),
        "c.jsonl": ("deleted", False, ""),
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-size", "500"], "'500' needs a unit; use KB, MB or GB, as in 500MB"),
        (["--max-size", "1.5GB"], "'1.5GB' is not a size; use a number and KB, MB or GB"),
        (["--gone", "--unneeded"], "--gone can't be combined with --older-than or --unneeded"),
        (["--gone", "--older-than", "1d"], "--gone can't be combined with --older-than or --unneeded"),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], said: str) -> None:
    done = run(*arguments, folder)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert held(folder) == list(NAMES)


def test_the_command_that_it_takes_the_place_of(folder: Path) -> None:
    done = invoke("clean", "--yes", folder)
    assert done.exit_code == 2
    assert "No such command 'clean'. Did you mean forget --gone" in done.stderr


def test_one_folder_that_cannot_be_read_stops_no_other(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (other := tmp_path / "another").mkdir()
    compress(write(other, session()))
    (other / "session.jsonl").unlink()
    listdir = os.listdir

    def closed(path: Any) -> list[str]:
        if str(path) == str(other / FOLDER):
            raise PermissionError(13, "Permission denied", str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", closed)
    for option in ([], ["--max-size", "0KB"]):
        done = run(*option, other, folder)
        assert done.exit_code == 3
        assert f"{other / FOLDER}: permission denied" in done.stderr
        assert "total: " in done.stdout
    assert held(folder) == []


# Verify, which names what is gone


def test_verify_names_what_is_gone_once(folder: Path) -> None:
    """That is no error, for an agent deletes its old sessions; of one that the user named it is."""
    for name in ("a.jsonl", "c.jsonl"):
        (folder / name).unlink()
    done = invoke("verify", folder)
    assert done.exit_code == 0
    said = " ".join(done.stderr.split())
    assert f"2 sessions are gone, but their stores are there: {folder / 'a.jsonl'} and {folder / 'c.jsonl'}" in said
    assert f"'sessioncompress forget --gone {folder}' deletes" in said
    assert said.count("a.jsonl") == 1
    done = invoke("verify", "--json", folder)
    assert json.loads(done.stdout)["gone"] == [str(folder / "a.jsonl"), str(folder / "c.jsonl")]
    assert done.stderr == ""
    done = invoke("verify", folder / "a.jsonl")
    assert (done.exit_code, "the session is missing" in done.stderr) == (4, True)


# What dead runs left of what is gone


@contextmanager
def _used(path: Path, how: str) -> Iterator[None]:
    with path.open("ab" if how == "open" else "rb") as file:
        if how == "locked":
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("is_used", ["young", "open", "locked", "not"])
def test_a_run_sweeps_what_dead_runs_left(folder: Path, is_used: str) -> None:
    """Temp files of sessions that are gone, where no run can be at work on one; the late link stays."""
    (folder / "a.jsonl").unlink()
    draft = folder / FOLDER / "a.jsonl.temp-0123abcd"
    other = draft.with_name("b.jsonl.temp-0123abcd")
    for each in (draft, other):
        each.write_bytes(b"dead")
        if is_used != "young":
            os.utime(each, (1, 1))
    late = late_link(folder / "a.jsonl", b"late", carried=4)
    with _used(draft, is_used):
        invoke("compress", "--force", "--dry-run", folder / "c.jsonl")
        assert draft.exists()
        assert invoke("restore", folder / "c.jsonl").exit_code == 0
    assert draft.exists() is (is_used != "not")
    assert other.exists()
    assert late.exists()
    assert held(folder) == list(NAMES)


def test_nothing_is_swept_behind_a_link(folder: Path, tmp_path: Path) -> None:
    (folder / FOLDER).rename(tmp_path / "elsewhere")
    (folder / FOLDER).symlink_to(tmp_path / "elsewhere")
    draft = tmp_path / "elsewhere" / "x.jsonl.temp-0123abcd"
    draft.touch()
    os.utime(draft, (1, 1))
    before = snapshot(folder / "a.jsonl")
    sweep(folder)
    assert draft.exists()
    assert snapshot(folder / "a.jsonl") == before


def compacted(path: Path, *more: str, after: Sequence[str] = ()) -> bytes:
    """Compact a fixture of pi, after other commands; return what it was."""
    content = fixture("pi-anthropic.jsonl")
    path.write_bytes(content)
    for command in after:
        assert invoke(command, path).exit_code == 0
    config = path.with_name("small.json")
    config.write_text('{"session": {"compact": {"minDeadTokens": 0, "minSavedTokens": 0}}}')
    done = invoke("compact", "--config", config, "--keep-tokens", "100", *more, path)
    assert done.exit_code == 0, done.output
    return content


@pytest.mark.parametrize("after", [[], ["compress", "restore"]], ids=["", "restored"])
@pytest.mark.parametrize("more", [[], ["--drop-dead"]], ids=["", "old lines moved"])
def test_the_store_of_a_summary_is_needed(tmp_path: Path, more: list[str], after: list[str]) -> None:
    """It has no original, and only the journal tells how to take it out again."""
    path = tmp_path / "s.jsonl"
    content = compacted(path, *more, after=after)
    assert "1 kept" in run("--unneeded", tmp_path).output
    restore_session(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["t.jsonl", "s.jsonl.bak", "home/.pi/agent/sessions/--x--/s.jsonl"])
def test_the_store_of_a_session_that_was_moved_stays(tmp_path: Path, name: str) -> None:
    """No marker in it tells whose store it needs: its id does, under any name in its folder, or with its agent."""
    path, other = tmp_path / "s.jsonl", tmp_path / name
    content = compacted(path)
    other.parent.mkdir(parents=True, exist_ok=True)
    path.rename(other)
    assert "has its id" in run("--gone", path).output
    other.rename(path)
    restore_session(path)
    assert path.read_bytes() == content


def test_what_a_pack_kept_goes_by_no_option(tmp_path: Path) -> None:
    """The session may have become shorter since it came back."""
    path = tmp_path / "s.jsonl"
    content = fixture("pi-anthropic.jsonl")
    path.write_bytes(content)
    os.utime(path, (time.time() - DAY,) * 2)
    for command in ("pack", "unpack"):
        done = invoke(command, tmp_path)
        assert done.exit_code == 0, done.output
    path.write_bytes(content[: content.index(b"\n", 9_000) + 1])
    kept = [each.read_bytes() for each in sorted(tmp_path.rglob("*.tar.zst"))]
    run("--unneeded", path)
    assert [each.read_bytes() for each in sorted(tmp_path.rglob("*.tar.zst"))] == kept
