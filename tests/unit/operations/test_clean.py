"""What may go, and what may not: no session is taken for gone, and nothing goes that nobody asked for."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from sessioncompress.cli.main import main
from sessioncompress.core import text
from sessioncompress.core.text import kb
from sessioncompress.operations.clean import Cause, CleanStats, Limits, clean_one, plan_clean
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.stores import stored
from sessioncompress.pipeline.discover import Found
from sessioncompress.store.layout import FOLDER, store_in
from tests.support.build import PiSession
from tests.support.runs import EAGER, HOMES, compress, snapshot, write
from tests.unit.operations.test_restore import session
from tests.unit.store.tools import late_link

NOTHING = Limits()
EVERYTHING = Limits(older_than=0, max_size=0)
DAY = 24 * 3600


@pytest.fixture(autouse=True)
def _homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of whoever runs the tests counts."""
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a compressed session."""
    made = tmp_path / "sessions"
    made.mkdir()
    compress(write(made, session()))
    return made


def clean(
    *paths: Path, limits: Limits = NOTHING, dry_run: bool = False, policy: Any = EAGER
) -> dict[str, CleanStats | None]:
    """Clean up under the paths; return what became of each session by its name."""
    holdings, _ = plan_clean(stored(paths, lambda _: policy), lambda _: policy, limits)
    return {each.session.name: clean_one(each, dry_run=dry_run) for each in holdings}


def run(*arguments: str | Path) -> Any:
    """Run the command."""
    return CliRunner().invoke(main, ["clean", *map(str, arguments)])


def lose(path: Path, days: int = 100) -> None:
    """Delete a session whose last run was so many days ago."""
    _date(path, days)
    path.unlink()


def deleted(folder: Path) -> None:
    """Delete the session, long after its last run."""
    lose(folder / "session.jsonl")


def renamed(folder: Path) -> None:
    """Give the session another name."""
    (folder / "session.jsonl").rename(folder / "renamed.jsonl")


def emptied(folder: Path) -> None:
    """Let no journal tell of a run."""
    lose(folder / "session.jsonl")
    store_in(folder / "session.jsonl").journal.unlink()


STAYS: tuple[tuple[str, Callable[[Path], object], Cause | None], ...] = (
    ("it is there", lambda folder: None, None),
    ("deleted", deleted, Cause.MISSING),
    ("renamed", renamed, Cause.MISSING),
    ("no journal tells of a run", emptied, Cause.MISSING),
)


@pytest.mark.parametrize(("_name", "act", "cause"), STAYS, ids=[name for name, *_ in STAYS])
def test_what_stays(folder: Path, _name: str, act: Callable[[Path], object], cause: Cause | None) -> None:
    """No session that a folder had is taken for gone, and it is said why."""
    act(folder)
    before = {each: each.read_bytes() for each in (folder / FOLDER).rglob("*") if each.is_file()}
    found = clean(folder).get("session.jsonl")
    assert (found and found.cause) == cause
    assert not (found and (found.deleted or found.left_over))
    assert {each: each.read_bytes() for each in (folder / FOLDER).rglob("*") if each.is_file()} == before


def test_a_dry_run_writes_nothing(folder: Path) -> None:
    """Nor does anything go."""
    compress(write(folder, session(PiSession(seed="b")), "b.jsonl"))
    compress(write(folder, session(PiSession(seed="c")), "c.jsonl"))
    lose(folder / "b.jsonl")
    (folder / "session.jsonl").unlink()
    (folder / FOLDER / "c.jsonl.temp-0123abcd").write_bytes(b"dead")
    before = snapshot(folder / "x")
    clean(folder, folder / "b.jsonl", dry_run=True, limits=EVERYTHING)
    assert snapshot(folder / "x") == before


@pytest.mark.parametrize("order", [1, -1], ids=["the folder first", "the session first"])
def test_a_session_that_is_named_as_gone_goes(folder: Path, order: int) -> None:
    """With all that lies there for it, also where its folder is named too; that of others stays."""
    other = write(folder, session(PiSession(seed="other")), "other.jsonl")
    compress(other)
    lose(folder / "session.jsonl", 0)
    late_link(folder / "session.jsonl", b"late", carried=4)
    paths = [folder, folder / "session.jsonl"][::order]
    would = clean(*paths, dry_run=True)
    done = clean(*paths)
    assert done == would
    found = done["session.jsonl"]
    assert found is not None
    assert (found.deleted, found.cause) == (True, Cause.GONE)
    assert found.originals == found.originals_lost > 0
    files = store_in(other)
    assert set((folder / FOLDER).glob("local-*/*.jsonl*")) == {files.originals, files.journal}
    assert not any(clean(folder).values())
    restore_session(other)
    assert other.read_bytes() == session(PiSession(seed="other")).bytes()


def test_the_last_one_takes_the_folder_with_it(folder: Path) -> None:
    """Nothing of ours is left."""
    lose(folder / "session.jsonl")
    clean(folder / "session.jsonl")
    assert list(folder.iterdir()) == []


def test_a_session_by_its_path(folder: Path) -> None:
    """As forget takes it; the others are not looked at. One that is there keeps its originals."""
    compress(write(folder, session(PiSession(seed="b")), "b.jsonl"))
    lose(folder / "session.jsonl")
    assert clean(folder / "b.jsonl") == {"b.jsonl": None}
    lose(folder / "b.jsonl")
    assert set(clean(folder / "b.jsonl")) == {"b.jsonl"}
    assert store_in(folder / "session.jsonl").originals.exists()


def test_in_a_backup_folder(tmp_path: Path) -> None:
    """As beside it."""
    policy = replace(EAGER, backup_dir=str(tmp_path / "backup"))
    path = write(tmp_path, session())
    compress(path, policy)
    path.unlink()
    found = clean(tmp_path, policy=policy)["session.jsonl"]
    assert found is not None
    assert found.cause is Cause.MISSING
    found = clean(path, policy=policy)["session.jsonl"]
    assert found is not None
    assert found.deleted
    assert not any((tmp_path / "backup").iterdir())


# The note that earlier versions wrote of a session that was not at its path


# By age and by size


@pytest.fixture
def aged(folder: Path) -> Path:
    """Return a folder with sessions whose last runs were 1, 50 and 100 days ago."""
    for name, days in (("b", 50), ("c", 100)):
        path = write(folder, session(PiSession(seed=name)), f"{name}.jsonl")
        compress(path)
        _date(path, days)
    _date(folder / "session.jsonl", 1)
    return folder


def _date(path: Path, days: int) -> None:
    """Let a session's only run be so many days ago."""
    journal = store_in(path).journal
    records = [json.loads(line) for line in journal.read_bytes().splitlines()]
    for record in records:
        if record["type"] == "run":
            record.pop("sha256", None)
            record["at"] = text.written_time(time.time() - days * DAY - 60)
    journal.write_bytes(b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records))


@pytest.mark.parametrize(
    ("limits", "gone"),
    [
        (NOTHING, []),
        (Limits(older_than=101 * DAY), []),
        (Limits(older_than=90 * DAY), ["c.jsonl"]),
        (Limits(older_than=50 * DAY), ["b.jsonl", "c.jsonl"]),
        (Limits(max_size=1 << 30), []),
        (Limits(max_size=0), ["b.jsonl", "c.jsonl", "session.jsonl"]),
        (Limits(older_than=90 * DAY, max_size=1 << 30), ["c.jsonl"]),
    ],
    ids=str,
)
def test_by_age_and_size_only_what_was_asked_for(aged: Path, limits: Limits, gone: list[str]) -> None:
    """The sessions stay as they are, and it is counted what is lost."""
    before = {path.name: path.read_bytes() for path in aged.glob("*.jsonl")}
    would = clean(aged, limits=limits, dry_run=True)
    done = clean(aged, limits=limits)
    assert done == would
    assert {name for name, stats in done.items() if stats and stats.deleted} == set(gone)
    assert {path.name: path.read_bytes() for path in aged.glob("*.jsonl")} == before
    for path in aged.glob("*.jsonl"):
        assert store_in(path).originals.exists() is (path.name not in gone)
    assert all(stats.originals_lost > 0 for stats in done.values() if stats)


def test_the_oldest_go_first_until_the_rest_fits(aged: Path) -> None:
    """No more than that."""
    size = sum(each.stat().st_size for each in (aged / FOLDER).glob("local-*/*.jsonl.*"))
    done = clean(aged, limits=Limits(max_size=size - 1))
    assert [name for name, stats in done.items() if stats and stats.deleted] == ["c.jsonl"]
    size = sum(each.stat().st_size for each in (aged / FOLDER).glob("local-*/*.jsonl.*"))
    assert not any(clean(aged, limits=Limits(max_size=size)).values())


# What dead runs left


def test_what_dead_runs_left_beside_a_session_goes(folder: Path) -> None:
    """Temp files, and links to what nobody appends to any more."""
    path = folder / "session.jsonl"
    work = folder / FOLDER
    content = path.read_bytes()
    (work / "session.jsonl.temp-0123abcd").write_bytes(b"dead")
    late_link(path, content, carried=len(content))
    would = clean(folder, dry_run=True)
    assert clean(folder) == would
    found = would["session.jsonl"]
    assert found is not None
    assert (found.left_over, found.left_over_bytes) == (2, 4 + len(content))
    files = store_in(path)
    assert {each for each in work.rglob("session*") if each.is_file()} == {files.originals, files.journal}
    assert path.read_bytes() == content


def test_what_a_killed_run_added_is_counted(tmp_path: Path) -> None:
    """It goes with the temp file: the originals and the records that were never committed."""
    path = write(tmp_path, session())
    files = store_in(path)
    files.folder.mkdir(parents=True)
    (files.work / "session.jsonl.temp-0123abcd").write_bytes(b"dead")
    files.journal.write_bytes(b'{"type":"li')
    would = clean(tmp_path, dry_run=True)
    assert clean(tmp_path) == would
    found = would["session.jsonl"]
    assert found is not None
    assert (found.left_over, found.left_over_bytes) == (1, 4 + 11)
    assert not files.work.exists()


def test_a_line_that_came_late_is_carried_over_first(folder: Path) -> None:
    """Before the link goes that has it."""
    path = folder / "session.jsonl"
    content = path.read_bytes()
    late = b'{"type":"custom","customType":"late","id":"ffffffff","parentId":null,"timestamp":"2026-01-01T00:00:00Z"}\n'
    link = late_link(path, content + late, carried=len(content))
    assert "would carry 105 late bytes over into the session; would delete 1 file" in run(folder).stdout
    would = clean(folder, dry_run=True)["session.jsonl"]
    assert would is not None
    assert (would.left_over, would.late_bytes) == (1, len(late))
    assert clean(folder)["session.jsonl"] == would
    assert path.read_bytes() == content + late
    assert not link.exists()


def test_a_line_that_came_late_is_told_of_where_the_link_stays(folder: Path) -> None:
    """Its writer may go on."""
    path = folder / "session.jsonl"
    content = path.read_bytes()
    link = late_link(path, content + b'{"type":"custom"}\n', carried=len(content))
    with link.open("ab"):
        would = clean(folder, dry_run=True)["session.jsonl"]
        assert would is not None
        assert (would.left_over, would.late_bytes) == (0, 18)
        assert clean(folder)["session.jsonl"] == would


def test_a_link_that_a_writer_holds_stays(folder: Path) -> None:
    """What it writes next belongs to the session."""
    content = (folder / "session.jsonl").read_bytes()
    link = late_link(folder / "session.jsonl", content, carried=len(content))
    with link.open("ab"):
        assert clean(folder)["session.jsonl"] is None
        assert link.exists()
    clean(folder)
    assert not link.exists()


@pytest.mark.parametrize("is_used", ["young", "open", "locked", "not"])
def test_a_temp_file_without_its_session(folder: Path, is_used: str) -> None:
    """It goes where no run can be at work on it; the late link stays as long as the session may come back."""
    lose(folder / "session.jsonl")
    draft = folder / FOLDER / "session.jsonl.temp-0123abcd"
    draft.write_bytes(b"dead")
    late = late_link(folder / "session.jsonl", b"late", carried=4)
    if is_used != "young":
        os.utime(draft, (1, 1))
    with _used(draft, is_used):
        found = clean(folder)["session.jsonl"]
    assert found is not None
    assert draft.exists() is (is_used != "not")
    assert found.left_over == (is_used == "not")
    assert late.exists()


@contextmanager
def _used(path: Path, how: str) -> Iterator[None]:
    import fcntl

    with path.open("ab" if how == "open" else "rb") as file:
        if how == "locked":
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# The command


def test_it_only_says_what_would_go(folder: Path) -> None:
    """A line for each and a total; with --yes it does so."""
    lose(folder / "session.jsonl")
    said = run(folder / "session.jsonl")
    assert said.exit_code == 0
    first, last = said.stdout.splitlines()
    assert "would delete" in first
    assert "which cannot be restored after that: the session is missing, and you named it" in first
    assert last.startswith("total: 1 session: would delete ")
    assert last.endswith("; nothing was deleted; add --yes to delete")
    assert store_in(folder / "session.jsonl").originals.exists()
    done = run("--yes", folder / "session.jsonl")
    assert "deleted" in done.stdout
    assert "can no longer be restored" in done.stdout
    assert run(folder).stdout == "total: nothing to delete; no stores found\n"


def test_nothing_to_delete_is_not_nothing_found(folder: Path) -> None:
    """It says how much lies there, and what stays of it."""
    files = store_in(folder / "session.jsonl")
    size = sum(path.stat().st_size for path in (files.originals, files.journal))
    assert run(folder).stdout == f"total: nothing to delete; 1 store of {kb(size)}\n"
    (folder / "session.jsonl").unlink()
    assert run(folder).stdout.splitlines()[-1] == f"total: nothing to delete; 1 kept; 1 store of {kb(size)}"
    assert "may have been moved; if it is gone for good, name its own path to delete this" in run(folder).stdout


def test_a_limit_says_what_it_overrules(folder: Path) -> None:
    """By age and by size."""
    lose(folder / "session.jsonl")
    for limit in (["--originals-older-than", "1d"], ["--max-size", "0KB"]):
        assert "; the session is missing, and may have been moved" in run(*limit, folder).stdout
    assert run("--yes", "--originals-older-than", "1d", folder).exit_code == 0
    assert list(folder.iterdir()) == []


def test_a_backup_folder_that_is_not_there_is_an_error(folder: Path) -> None:
    """A typing error would look like nothing to do."""
    for command in ("clean", "forget", "verify", "restore"):
        done = CliRunner().invoke(main, [command, "--backup-dir", "nosuch", str(folder)])
        assert done.exit_code == 2, command
        assert "nosuch" in done.stderr


def test_the_document(folder: Path) -> None:
    """One, in camel case, for kept, deleted and failed ones alike."""
    compress(write(folder, session(PiSession(seed="b")), "b.jsonl"))
    compress(write(folder, session(PiSession(seed="c")), "c.jsonl"))
    lose(folder / "session.jsonl")
    lose(folder / "b.jsonl", 0)
    (folder / "c.jsonl").unlink()
    store_in(folder / "c.jsonl").journal.write_bytes(b'{"type":"run"}\n')
    done = run("--json", "--originals-older-than", "1d", folder)
    assert done.exit_code == 5
    told = json.loads(done.stdout)
    assert (told["schema"], told["dryRun"]) == ("sessioncompress.clean/1", True)
    by_name = {Path(each["path"]).name: each for each in told["files"]}
    assert {name: (each["status"], each["cause"]) for name, each in by_name.items()} == {
        "session.jsonl": ("deleted", "age"),
        "b.jsonl": ("kept", "missing"),
        "c.jsonl": ("failed", ""),
    }
    assert by_name["session.jsonl"]["bytesDeleted"] == told["totals"]["bytesDeleted"] > 0
    assert len({tuple(each) for each in told["files"]}) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--originals-older-than", "90"], "'90' needs a unit; use h, d or w, as in 90d"),
        (["--originals-older-than", "-1d"], "'-1d' is not an age; use a number and h, d or w, as in 90d"),
        (["--max-size", "500"], "'500' needs a unit; use KB, MB or GB, as in 500MB"),
        (["--originals-older-than", "9999999999d"], "at most nine digits"),
        (["--max-size", "1.5GB"], "'1.5GB' is not a size; use a number and KB, MB or GB"),
        (["--yes", "nowhere"], "nowhere: it does not exist, and it has no store. Nothing was done."),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], said: str) -> None:
    """Exit code 2, and nothing is done."""
    lose(folder / "session.jsonl")
    done = run(*arguments, folder)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert store_in(folder / "session.jsonl").originals.exists()


def test_a_linked_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    """It might lead anywhere."""
    lose(folder / "session.jsonl")
    (folder / FOLDER).rename(tmp_path / "elsewhere")
    (folder / FOLDER).symlink_to(tmp_path / "elsewhere")
    assert run("--yes", folder / "session.jsonl").exit_code == 4
    assert list((tmp_path / "elsewhere").glob("local-*/session.jsonl.originals.zst"))


def test_what_came_back_meanwhile_stays(folder: Path) -> None:
    """Looked at once more before it goes."""
    path = folder / "session.jsonl"
    copy = path.read_bytes()
    lose(path)
    ((decision,), _) = plan_clean([Found(path, named=True)], lambda _: EAGER, NOTHING)
    assert decision.deletes
    write(folder, copy)
    found = clean_one(decision, dry_run=False)
    assert found is not None
    assert (found.deleted, found.cause) == (False, Cause.BACK)
    assert store_in(path).originals.exists()


# What an attacker found


def test_a_run_meanwhile_keeps_what_was_to_go_by_age(aged: Path) -> None:
    """The journal is read again under the lock; what the run rewrote needs its originals."""
    path = aged / "c.jsonl"
    for limits in (Limits(older_than=90 * DAY), Limits(max_size=0)):
        found = stored([aged], lambda _: EAGER)
        planned = {each.session: each for each in plan_clean(found, lambda _: EAGER, limits)[0]}
        assert planned[path].deletes
        with path.open("ab") as file:
            file.write(session(PiSession(seed=str(limits))).bytes().split(b"\n", 1)[1])
        compress(path)
        done = clean_one(planned[path], dry_run=False)
        assert done is not None
        assert (done.deleted, done.cause, done.bytes_deleted) == (False, Cause.CHANGED, 0)
        assert store_in(path).originals.exists()
        _date(path, 100)


def test_a_run_on_a_gone_one_meanwhile(folder: Path) -> None:
    """It came, was compressed and went again: the originals are those of a newer run."""
    path = folder / "session.jsonl"
    copy = path.read_bytes()
    lose(path)
    ((decision,), _) = plan_clean([Found(path, named=True)], lambda _: EAGER, NOTHING)
    write(folder, copy + session(PiSession(seed="more")).bytes().split(b"\n", 1)[1])
    compress(path)
    path.unlink()
    found = clean_one(decision, dry_run=False)
    assert found is not None
    assert (found.deleted, found.cause) == (False, Cause.CHANGED)
    assert store_in(path).originals.exists()


@pytest.mark.parametrize("is_there", ["not there", "empty"])
def test_a_folder_that_may_be_on_a_disk_that_is_off(tmp_path: Path, is_there: str) -> None:
    """The originals in a backup folder stay."""
    policy = replace(EAGER, backup_dir=str(tmp_path / "backup"))
    (folder := tmp_path / "disk").mkdir()
    path = write(folder, session())
    compress(path, policy)
    folder.rename(tmp_path.parent / f"{tmp_path.name} off")
    if is_there == "empty":
        folder.mkdir()
    found = clean(path, policy=policy)["session.jsonl"]
    assert found is not None
    assert (found.deleted, found.cause) == (False, Cause.UNKNOWN)
    assert "as when a disk is not mounted" in found.reason
    assert store_in(path, tmp_path / "backup").originals.exists()


def test_a_backup_folder_beside_a_folder_that_was_renamed(tmp_path: Path) -> None:
    """No way leads through the old one, but it tells where the originals are."""
    policy = replace(EAGER, backup_dir="../store")
    (folder := tmp_path / "old").mkdir()
    path = write(folder, session())
    compress(path, policy)
    folder.rename(tmp_path / "new")
    restore_session(tmp_path / "new" / "session.jsonl", policy, from_markers=True, originals=path)
    assert (tmp_path / "new" / "session.jsonl").read_bytes() == session().bytes()


@pytest.mark.parametrize("limits", [NOTHING, EVERYTHING], ids=str)
@pytest.mark.parametrize("why", ["open", "tail"])
def test_a_late_link_of_a_gone_one_that_is_needed_stays(folder: Path, limits: Limits, why: str) -> None:
    """A program writes to it, or lines stand in it that stand nowhere else; that is said, by forget too."""
    path = folder / "session.jsonl"
    lose(path)
    link = late_link(path, b"late", carried=4 if why == "open" else 3)
    with link.open("ab" if why == "open" else "rb"):
        found = clean(path, limits=limits)["session.jsonl"]
        assert found is not None
        assert (found.deleted, found.links_kept) == (True, 1)
        assert not store_in(path).originals.exists()
        assert link.read_bytes() == b"late"
        said = run(folder).stdout
        assert (
            "kept 1 late link with lines that came late, may still come, or belong to another machine or user" in said
        )
        forgotten = CliRunner().invoke(main, ["forget", "--yes", str(path)])
        assert "kept 1 late link" in forgotten.stdout
        assert link.exists()


def test_one_bad_place_stops_no_other(folder: Path) -> None:
    """Each has its exit code; the total and the document are there."""
    for name in ("a.jsonl", "b.jsonl"):
        compress(write(folder, session(PiSession(seed=name)), name))
    lose(folder / "session.jsonl")
    lose(folder / "a.jsonl")
    lose(folder / "b.jsonl")
    store_in(folder / "a.jsonl").journal.unlink()
    os.mkfifo(store_in(folder / "a.jsonl").journal)
    said = run("--yes", "--json", "--originals-older-than", "1d", folder)
    assert said.exit_code == 4
    told = {Path(each["path"]).name: each["status"] for each in json.loads(said.stdout)["files"]}
    assert told == {"session.jsonl": "deleted", "a.jsonl": "refused", "b.jsonl": "deleted"}
    assert store_in(folder / "a.jsonl").originals.exists()


@pytest.mark.parametrize(("command", "limit"), [("clean", ["--originals-older-than", "1d"]), ("forget", [])])
def test_one_folder_that_cannot_be_read_stops_no_other(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, limit: list[str]
) -> None:
    """Exit code 3, and a total."""
    (other := tmp_path / "another").mkdir()
    compress(write(other, session()))
    lose(folder / "session.jsonl")
    (other / "session.jsonl").unlink()
    listdir = os.listdir

    def closed(path: Any) -> list[str]:
        if str(path) == str(other / FOLDER):
            raise PermissionError(13, "Permission denied", str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", closed)
    done = CliRunner().invoke(main, [command, "--yes", str(other), str(folder), *limit])
    assert done.exit_code == 3
    assert f"{other / FOLDER}: permission denied" in done.stderr
    assert "total: 1 session: deleted" in done.stdout
    assert not store_in(folder / "session.jsonl").originals.exists()


@pytest.mark.parametrize("limits", [("--originals-older-than", "0d"), ("--max-size", "0KB")])
@pytest.mark.parametrize("harm", ["gone", "emptied"])
def test_what_has_no_age_is_said(folder: Path, harm: str, limits: tuple[str, ...]) -> None:
    """No limit deletes it, and the user asked for one."""
    journal = store_in(folder / "session.jsonl").journal
    journal.write_bytes(b"")
    if harm == "gone":
        journal.unlink()
    done = run("--yes", *limits, folder)
    assert "session.jsonl: kept: no run in its journal has a date" in done.stdout
    assert store_in(folder / "session.jsonl").originals.exists()


def test_what_dead_runs_left_is_not_said_to_be_kept(folder: Path) -> None:
    """Neither where the session is there, nor where nothing else of it is."""
    for name in ("session.jsonl", "never.jsonl"):
        (folder / FOLDER / f"{name}.temp-0123abcd").write_bytes(b"dead")
        os.utime(folder / FOLDER / f"{name}.temp-0123abcd", (1, 1))
    first, second, _ = run(folder).stdout.splitlines()
    for line in (first, second):
        assert line.endswith("jsonl: would delete 1 file left behind by ended runs, 0 KB")


def test_another_clean_up_was_faster(folder: Path) -> None:
    """Nothing is left to be said."""
    lose(folder / "session.jsonl")
    ((decision,), _) = plan_clean([Found(folder / "session.jsonl", named=True)], lambda _: EAGER, NOTHING)
    clean(folder / "session.jsonl")
    assert clean_one(decision, dry_run=False) is None
    assert list(folder.iterdir()) == []


def test_what_could_not_be_looked_at_may_have_originals(folder: Path) -> None:
    """So that there are none is not said."""
    (folder / "compression.json").write_text('{"session": {"backupDir": "elsewhere"}}')
    done = run(folder)
    assert done.exit_code == 2
    assert done.stdout == "total: nothing to delete; 1 failed or refused\n"
