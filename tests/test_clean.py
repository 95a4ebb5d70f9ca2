"""What may go, and what may not: a session that is found anywhere is not gone, and nothing goes that nobody asked for."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sessioncompress import heads
from sessioncompress.clean import clean_one, plan_clean
from sessioncompress.cli import main
from sessioncompress.compress import compress_session
from sessioncompress.decide import DAY, MISSING_DAYS, Limits
from sessioncompress.report import kb
from sessioncompress.restore import restore_session
from sessioncompress.stats import Cause, CleanStats
from sessioncompress.store import durable, missing, times
from sessioncompress.store.beside import FOLDER, beside
from sessioncompress.store.lock import open_file
from tests.build import PiSession
from tests.runs import EAGER, HOMES, compress, days_ago, fixture, snapshot, write
from tests.store.tools import late_link
from tests.test_restore import session

NOTHING = Limits()
EVERYTHING = Limits(older_than=0, max_size=0)
LONG = (MISSING_DAYS + 1) * DAY


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
    planned = plan_clean(paths, lambda _: policy, limits)
    return {each.holding.session.name: clean_one(each, dry_run=dry_run) for each in planned.decisions}


def id_of(path: Path) -> str:
    """Return the id in a session's header."""
    return str(json.loads(path.read_bytes().split(b"\n")[0])["id"])


def lose(path: Path, ago: float = LONG) -> None:
    """Delete a session, and say that it was found missing so long ago, its last run a day before."""
    _date(path, int(ago / DAY) + 1)
    missing.note(beside(path), id_of(path), time.time() - ago)
    path.unlink()


def run(*arguments: str | Path) -> Any:
    """Run the command."""
    return CliRunner().invoke(main, ["clean", *map(str, arguments)])


def move(path: Path, to: Path) -> None:
    """Move a session to another place."""
    to.parent.mkdir(parents=True, exist_ok=True)
    path.rename(to)


def moves(*parts: str) -> Callable[[Path], None]:
    """Return what moves the session to a place, from the folder above its own."""

    def act(folder: Path) -> None:
        copy = (folder / "session.jsonl").read_bytes()
        lose(folder / "session.jsonl")
        (to := folder.parent.joinpath(*parts)).parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(copy)

    return act


def fork(folder: Path) -> None:
    """Leave a fork of the session, with an id of its own."""
    path = folder / "session.jsonl"
    parent = {"id": "another", "parentSession": f"/elsewhere/2026_{id_of(path)}.jsonl"}
    write(folder, PiSession(header=parent), "fork.jsonl")
    lose(path)


def without_an_id(folder: Path) -> None:
    """Let the journal be one of version 0.1.0."""
    path = folder / "session.jsonl"
    journal = beside(path).journal
    records = [json.loads(line) for line in journal.read_bytes().splitlines()]
    for record in records:
        record.pop("sessionId", None)
        record.pop("sha256", None)
    lose(path)
    journal.write_text("".join(json.dumps(record) + "\n" for record in records))


def missing_for(ago: float) -> Callable[[Path], None]:
    """Return what loses the session so long ago."""
    return lambda folder: lose(folder / "session.jsonl", ago)


def lost_without_a_note(folder: Path) -> None:
    """Delete the session."""
    (folder / "session.jsonl").unlink()


def noted(note: bytes) -> Callable[[Path], None]:
    """Return what loses the session, and leaves a note that says nothing."""

    def act(folder: Path) -> None:
        beside(folder / "session.jsonl").missing.write_bytes(note)
        (folder / "session.jsonl").unlink()

    return act


@pytest.fixture
def unreadable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose the session, while a file that may hold it cannot be read."""
    lose(folder / "session.jsonl")
    (folder / "closed").write_bytes(b"?")

    def closed(path: Path) -> int:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path)

    monkeypatch.setattr(heads, "open_file", closed)


STAYS: tuple[tuple[str, Callable[[Path], None], Cause | None], ...] = (
    ("it is there", lambda folder: None, None),
    ("renamed", moves("sessions", "renamed.jsonl"), Cause.MOVED),
    ("put among our files", moves("sessions", FOLDER, "session.jsonl"), Cause.MOVED),
    ("renamed to what no agent lists", moves("sessions", "session.jsonl.deleted.2026"), Cause.MOVED),
    ("moved to a folder below", moves("sessions", "archive", "2026", "session.jsonl"), Cause.MOVED),
    ("moved to pi's sessions", moves("home", ".pi", "agent", "sessions", "x", "s.jsonl"), Cause.MOVED),
    ("moved to oh-my-pi's sessions", moves("home", ".omp", "agent", "sessions", "x", "s.jsonl"), Cause.MOVED),
    ("moved to OpenClaw's sessions", moves("home", ".openclaw", "agents", "x", "sessions", "s.jsonl"), Cause.MOVED),
    ("moved to the project's sessions", moves("work", ".GITCLAW", "state", "sessions", "s.jsonl"), Cause.MOVED),
    ("a fork is there", fork, Cause.FORKED),
    ("a journal without an id", without_an_id, Cause.UNKNOWN),
    ("never found missing before", lost_without_a_note, Cause.MISSING),
    ("missing for 29 days", missing_for(29 * DAY), Cause.MISSING),
    ("a note that a kill cut short", noted(b'{"missingSince":"2020-01-0'), Cause.MISSING),
    ("an empty note", noted(b""), Cause.MISSING),
    ("a note of another session", noted(b'{"missingSince":"2020-01-01T00:00:00Z","sessionId":"x"}'), Cause.MISSING),
    ("a note that is no record", noted(b"[]"), Cause.MISSING),
)


@pytest.mark.parametrize(("_name", "act", "cause"), STAYS, ids=[name for name, *_ in STAYS])
def test_what_stays(folder: Path, _name: str, act: Callable[[Path], None], cause: Cause | None) -> None:
    """Nothing of it goes, whatever is asked for sessions that are gone; and it is said why."""
    files = beside(folder / "session.jsonl")
    before = (files.originals.read_bytes(), len(files.journal.read_bytes().splitlines()))
    act(folder)
    found = clean(folder).get("session.jsonl")
    assert (found and found.cause) == cause
    assert not (found and (found.deleted or found.left_over))
    assert (files.originals.read_bytes(), len(files.journal.read_bytes().splitlines())) == before


def test_the_other_paths_that_are_named_count_too(folder: Path, tmp_path: Path) -> None:
    """Found there, it is not gone; not found there, it is."""
    moves("attic", "s.jsonl")(folder)
    found = clean(folder, tmp_path / "attic", dry_run=True)["session.jsonl"]
    assert found is not None
    assert found.cause is Cause.MOVED
    found = clean(folder)["session.jsonl"]
    assert found is not None
    assert found.cause is Cause.GONE


def test_a_dry_run_writes_nothing(folder: Path) -> None:
    """Neither a note, nor does anything go."""
    compress(write(folder, session(PiSession(seed="b")), "b.jsonl"))
    compress(write(folder, session(PiSession(seed="c")), "c.jsonl"))
    lose(folder / "b.jsonl")
    (folder / "session.jsonl").unlink()
    (folder / FOLDER / "c.jsonl.temp-0123abcd").write_bytes(b"dead")
    before = snapshot(folder / "x")
    clean(folder, dry_run=True, limits=EVERYTHING)
    assert snapshot(folder / "x") == before


def test_the_days_begin_with_the_first_run_and_end_when_it_is_found(folder: Path) -> None:
    """The note says since when; it goes when the session is there again, wherever it is found."""
    path = folder / "session.jsonl"
    note = beside(path).missing
    copy, session_id = path.read_bytes(), id_of(path)
    path.unlink()
    found = clean(folder)["session.jsonl"]
    assert found is not None
    assert "this goes in 30 days" in found.reason
    first = note.read_bytes()
    since = missing.since(beside(path), session_id)
    assert since is not None
    assert time.time() - since < 60
    clean(folder)
    assert note.read_bytes() == first
    (folder / "renamed.jsonl").write_bytes(copy)
    clean(folder)
    assert not note.exists()
    (folder / "renamed.jsonl").unlink()
    clean(folder)
    assert note.exists()
    write(folder, copy)
    restore_session(path)
    assert not note.exists()


def test_a_run_ends_the_days_too(folder: Path) -> None:
    """Since it saw the session; what is missing again later is missing from then on."""
    path = folder / "session.jsonl"
    missing.note(beside(path), id_of(path), time.time() - LONG)
    compress_session(path, EAGER)
    assert not beside(path).missing.exists()


def test_what_was_found_nowhere_for_30_days_goes(folder: Path) -> None:
    """With all that lies there for it; that of others stays."""
    other = write(folder, session(PiSession(seed="other")), "other.jsonl")
    compress(other)
    lose(folder / "session.jsonl")
    late_link(folder / "session.jsonl", b"late", carried=4)
    would = clean(folder, dry_run=True)
    done = clean(folder)
    assert done == would
    found = done["session.jsonl"]
    assert found is not None
    assert found.deleted
    assert found.originals == found.originals_lost > 0
    assert found.missing_since
    files = beside(other)
    assert set((folder / FOLDER).iterdir()) == {files.originals, files.journal}
    assert not any(clean(folder).values())
    restore_session(other)
    assert other.read_bytes() == session(PiSession(seed="other")).bytes()


def test_the_last_one_takes_the_folder_with_it(folder: Path) -> None:
    """Nothing of ours is left."""
    lose(folder / "session.jsonl")
    clean(folder)
    assert list(folder.iterdir()) == []


def test_a_session_by_its_path(folder: Path) -> None:
    """As forget takes it; the others are not looked at."""
    compress(write(folder, session(PiSession(seed="b")), "b.jsonl"))
    lose(folder / "session.jsonl")
    lose(folder / "b.jsonl")
    assert set(clean(folder / "b.jsonl")) == {"b.jsonl"}
    assert beside(folder / "session.jsonl").originals.exists()


def test_in_a_backup_folder(tmp_path: Path) -> None:
    """The note lies there too."""
    policy = replace(EAGER, backup_dir=str(tmp_path / "backup"))
    path = write(tmp_path, session())
    with days_ago(2 * MISSING_DAYS):
        compress(path, policy)
    copy = path.read_bytes()
    path.unlink()
    clean(tmp_path, policy=policy)
    files = beside(path, tmp_path / "backup")
    assert files.missing.exists()
    path.write_bytes(copy)
    missing.note(files, id_of(path), time.time() - LONG)
    path.unlink()
    found = clean(tmp_path, policy=policy)["session.jsonl"]
    assert found is not None
    assert found.deleted
    assert not any((tmp_path / "backup").iterdir())


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
    journal = beside(path).journal
    records = [json.loads(line) for line in journal.read_bytes().splitlines()]
    for record in records:
        record.pop("sha256", None)
        if record["type"] == "run":
            record["at"] = times.written(time.time() - days * DAY - 60)
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
        assert beside(path).originals.exists() is (path.name not in gone)
    assert all(stats.originals_lost > 0 for stats in done.values() if stats)


def test_the_oldest_go_first_until_the_rest_fits(aged: Path) -> None:
    """No more than that."""
    size = sum(each.stat().st_size for each in (aged / FOLDER).iterdir())
    done = clean(aged, limits=Limits(max_size=size - 1))
    assert [name for name, stats in done.items() if stats and stats.deleted] == ["c.jsonl"]
    size = sum(each.stat().st_size for each in (aged / FOLDER).iterdir())
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
    assert {each.name for each in work.iterdir()} == {"session.jsonl.zst", "session.refs.jsonl"}
    assert path.read_bytes() == content


def test_what_a_killed_run_added_is_counted(tmp_path: Path) -> None:
    """It goes with the temp file: the originals and the records that were never committed."""
    path = write(tmp_path, session())
    files = beside(path)
    files.work.mkdir()
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
    clean(folder)
    assert path.read_bytes() == content + late
    assert not link.exists()


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
    lose(folder / "session.jsonl", DAY)
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
    said = run(folder)
    assert said.exit_code == 0
    first, last = said.stdout.splitlines()
    assert "would delete" in first
    assert "which can then not be restored: the session is found nowhere since" in first
    assert last.startswith("total: 1 session: would delete ")
    assert last.endswith("; nothing is deleted without --yes")
    assert beside(folder / "session.jsonl").originals.exists()
    done = run("--yes", folder)
    assert "deleted" in done.stdout
    assert "can no longer be restored" in done.stdout
    assert run(folder).stdout == "total: nothing to delete; no originals lie there\n"


def test_nothing_to_delete_is_not_nothing_found(folder: Path) -> None:
    """It says how much lies there, and what stays of it."""
    files = beside(folder / "session.jsonl")
    size = sum(path.stat().st_size for path in (files.originals, files.journal))
    assert run(folder).stdout == f"total: nothing to delete; {kb(size)} lie beside 1 session\n"
    (folder / "session.jsonl").unlink()
    assert run(folder).stdout.splitlines()[-1] == f"total: nothing to delete; 1 kept; {kb(size)} lie beside 1 session"
    assert "if it was moved, name the folder that it is in, too" in run(folder).stdout


def test_what_is_said_of_a_moved_session_harms_no_originals(folder: Path, tmp_path: Path) -> None:
    """It went on at its new place, with originals of its own there by now; then all of it can be restored."""
    old, new = folder / "session.jsonl", tmp_path / "new place" / "session.jsonl"
    original = session().bytes()
    move(old, new)
    later = b"".join(session(PiSession(seed="later")).lines()[1:])
    new.write_bytes(new.read_bytes() + later)
    compress(new)
    command = re.search(r"'sessioncompress (restore .*)' puts these originals back", run(folder, tmp_path).stdout)
    assert command, run(folder, tmp_path).stdout
    CliRunner().invoke(main, ["restore", str(new)])
    done = CliRunner().invoke(main, shlex.split(command[1]))
    assert done.exit_code == 0, done.stderr
    assert new.read_bytes() == original + later


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (moves("sessions", "renamed.jsonl"), "; its session is elsewhere now, and may need them"),
        (fork, "; a fork of its session may need them"),
        (missing_for(29 * DAY), "; the session is found nowhere, but may only have been moved"),
    ],
    ids=["moved", "forked", "missing"],
)
def test_a_limit_says_what_it_overrules(folder: Path, act: Callable[[Path], None], said: str) -> None:
    """By age and by size."""
    act(folder)
    for limit in (["--older-than", "1d"], ["--max-size", "0KB"]):
        assert said in run(*limit, folder).stdout


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
    (folder / "b.jsonl").unlink()
    (folder / "c.jsonl").unlink()
    beside(folder / "c.jsonl").journal.write_bytes(b'{"type":"run"}\n')
    done = run("--json", folder)
    assert done.exit_code == 5
    told = json.loads(done.stdout)
    assert (told["schema"], told["dryRun"]) == ("sessioncompress.clean/1", True)
    by_name = {Path(each["path"]).name: each for each in told["files"]}
    assert {name: (each["status"], each["cause"]) for name, each in by_name.items()} == {
        "session.jsonl": ("deleted", "gone"),
        "b.jsonl": ("kept", "missing"),
        "c.jsonl": ("failed", ""),
    }
    assert by_name["session.jsonl"]["bytesDeleted"] == told["totals"]["bytesDeleted"] > 0
    assert len({tuple(each) for each in told["files"]}) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--older-than", "90"], "'90' is no whole number, of nine digits at most, with d behind it, as in 90d"),
        (["--older-than", "-1d"], "is no whole number"),
        (["--max-size", "500"], "'500' is no whole number, of nine digits at most, with KB or MB or GB behind it"),
        (["--older-than", "9999999999d"], "of nine digits at most"),
        (["--max-size", "1.5GB"], "is no whole number"),
        (["--yes", "nowhere"], "nowhere: it does not exist, and nothing of ours lies there for it. Nothing was done."),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], said: str) -> None:
    """Exit code 2, and nothing is done."""
    lose(folder / "session.jsonl")
    done = run(*arguments, folder)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert beside(folder / "session.jsonl").originals.exists()


@pytest.mark.usefixtures("unreadable")
def test_a_place_that_cannot_be_read_is_said(folder: Path) -> None:
    """Exit code 3, and no session is taken for gone."""
    done = run("--yes", folder)
    assert done.exit_code == 3
    assert "closed: permission denied" in done.stderr
    assert beside(folder / "session.jsonl").originals.exists()
    assert "not all places where it may be could be read" in done.stdout


def test_an_agents_folder_that_cannot_be_read_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session may have been moved there, where only another user may look."""
    lose(folder / "session.jsonl")
    sessions = Path(os.environ["HOME"]) / ".pi/agent/sessions"
    sessions.mkdir(parents=True)
    scandir = os.scandir

    def closed(path: str) -> object:
        if str(path) == str(sessions):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    done = run("--yes", folder)
    assert done.exit_code == 3
    assert "sessions: this folder cannot be read" in done.stderr
    assert beside(folder / "session.jsonl").originals.exists()


def test_what_holds_no_session_hinders_nothing(folder: Path) -> None:
    """A link to itself, a pipe, a folder, text."""
    lose(folder / "session.jsonl")
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()
    (folder / "text").write_bytes(b"\xff\x00" * 9)
    done = run("--yes", folder)
    assert done.exit_code == 0
    assert not beside(folder / "session.jsonl").originals.exists()


def test_a_linked_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    """It might lead anywhere."""
    lose(folder / "session.jsonl")
    (folder / FOLDER).rename(tmp_path / "elsewhere")
    (folder / FOLDER).symlink_to(tmp_path / "elsewhere")
    assert run("--yes", folder).exit_code == 4
    assert (tmp_path / "elsewhere" / "session.jsonl.zst").exists()


def test_what_came_back_meanwhile_stays(folder: Path) -> None:
    """Looked at once more before it goes."""
    path = folder / "session.jsonl"
    copy = path.read_bytes()
    lose(path)
    (decision,) = plan_clean([folder], lambda _: EAGER, NOTHING).decisions
    assert decision.deletes
    write(folder, copy)
    found = clean_one(decision, dry_run=False)
    assert found is not None
    assert (found.deleted, found.cause) == (False, Cause.BACK)
    assert beside(path).originals.exists()


def test_a_note_alone_goes(folder: Path) -> None:
    """A kill left it, after all else."""
    path = folder / "session.jsonl"
    lose(path)
    durable.remove(beside(path).originals)
    durable.remove(beside(path).journal)
    clean(folder)
    assert list(folder.iterdir()) == []


# What an attacker found


def test_a_run_meanwhile_keeps_what_was_to_go_by_age(aged: Path) -> None:
    """The journal is read again under the lock; what the run rewrote needs its originals."""
    path = aged / "c.jsonl"
    for limits in (Limits(older_than=90 * DAY), Limits(max_size=0)):
        planned = {each.holding.session: each for each in plan_clean([aged], lambda _: EAGER, limits).decisions}
        assert planned[path].deletes
        with path.open("ab") as file:
            file.write(session(PiSession(seed=str(limits))).bytes().split(b"\n", 1)[1])
        compress(path)
        found = clean_one(planned[path], dry_run=False)
        assert found is not None
        assert (found.deleted, found.cause, found.bytes_deleted) == (False, Cause.CHANGED, 0)
        assert beside(path).originals.exists()
        _date(path, 100)


def test_what_came_back_under_another_name_meanwhile_stays(folder: Path) -> None:
    """Looked for once more before it goes; its note goes."""
    path = folder / "session.jsonl"
    copy = path.read_bytes()
    lose(path)
    (decision,) = plan_clean([folder], lambda _: EAGER, NOTHING).decisions
    assert decision.deletes
    (folder / "renamed.jsonl").write_bytes(copy)
    found = clean_one(decision, dry_run=False)
    assert found is not None
    assert (found.deleted, found.cause) == (False, Cause.MOVED)
    assert beside(path).originals.exists()
    assert not beside(path).missing.exists()


def test_a_run_on_a_gone_one_meanwhile(folder: Path) -> None:
    """It came, was compressed and went again: its note is older than that run."""
    path = folder / "session.jsonl"
    copy = path.read_bytes()
    lose(path)
    (decision,) = plan_clean([folder], lambda _: EAGER, NOTHING).decisions
    note = beside(path).missing.read_bytes()
    write(folder, copy + session(PiSession(seed="more")).bytes().split(b"\n", 1)[1])
    compress(path)
    path.unlink()
    beside(path).missing.write_bytes(note)
    found = clean_one(decision, dry_run=False)
    assert found is not None
    assert (found.deleted, found.cause) == (False, Cause.MISSING)
    assert beside(path).originals.exists()


def linked_folder(folder: Path) -> None:
    """Move the session behind a link to a folder that is not below."""
    moves("disk", "session.jsonl")(folder)
    (folder / "archive").symlink_to(folder.parent / "disk")


def packed(ending: str) -> Callable[[Path], None]:
    """Return what packs the session where it is."""

    def act(folder: Path) -> None:
        lose(folder / "session.jsonl")
        (folder / f"session.jsonl{ending}").write_bytes(b"\x1f\x8b packed")

    return act


def forked(**header: str) -> Callable[[Path], None]:
    """Return what leaves a fork, with its markers, whose header names no file or id of the session."""

    def act(folder: Path) -> None:
        path = folder / "session.jsonl"
        first, _, rest = path.read_bytes().partition(b"\n")
        named = {**json.loads(first), "id": "another", **header}
        (folder / "fork.jsonl").write_bytes(json.dumps(named).encode() + b"\n" + rest)
        lose(path)

    return act


def another_at_its_path(folder: Path) -> None:
    """Rename the session; another one is written and compressed at its path, and gone."""
    path = folder / "session.jsonl"
    path.rename(folder / "renamed.jsonl")
    other = session(PiSession(seed="other", header={"id": "other"}))
    compress(write(folder, other))
    lose(path)


def rewritten_head(change: Callable[[dict[str, Any]], list[Any]]) -> Callable[[Path], None]:
    """Return what renames the session, with other lines in its header's place."""

    def act(folder: Path) -> None:
        path = folder / "session.jsonl"
        first, _, rest = path.read_bytes().partition(b"\n")
        head = "".join(json.dumps(each) + "\n" for each in change(json.loads(first)))
        (folder / "renamed.jsonl").write_bytes(head.encode() + rest)
        lose(path)

    return act


def early_entry(header: dict[str, Any]) -> list[Any]:
    """An extension wrote it; by it the file looks like another harness's."""
    return [header, {"type": "custom", "id": "x", "parentId": None, "customType": "x", "createdAt": 1}]


def behind_a_title(header: dict[str, Any]) -> list[Any]:
    """The title alone is longer than what is read of others."""
    return [{"type": "title", "title": "t" * 70_000}, header]


def noted_by_a_wrong_clock(folder: Path) -> None:
    """The note is older than the last run, which saw the session."""
    path = folder / "session.jsonl"
    missing.note(beside(path), id_of(path), 1000)
    path.unlink()


NOT_GONE: tuple[tuple[str, Callable[[Path], None], Cause], ...] = (
    ("another was compressed at its path", another_at_its_path, Cause.MOVED),
    ("behind a linked folder", linked_folder, Cause.MOVED),
    ("in node_modules", moves("sessions", "node_modules", "x", "s.jsonl"), Cause.MOVED),
    ("in .git", moves("sessions", ".git", "s.jsonl"), Cause.MOVED),
    ("a long header", rewritten_head(lambda header: [{"prompt": "x" * 70_000, **header}]), Cause.MOVED),
    ("a header behind a long title", rewritten_head(behind_a_title), Cause.MOVED),
    ("an early entry as of another harness", rewritten_head(early_entry), Cause.MOVED),
    ("gzip", packed(".gz"), Cause.MOVED),
    ("zstd", packed(".zst"), Cause.MOVED),
    ("a fork of a fork that is gone", forked(parentSession="/x/2026_gone.jsonl"), Cause.FORKED),
    ("a fork of its old name", forked(parentSession="/x/old.jsonl"), Cause.FORKED),
    ("a branch", forked(branchedFrom="/x/session.jsonl"), Cause.FORKED),
    ("a branch of what is gone", forked(branchedFrom="/x/gone.jsonl"), Cause.FORKED),
    ("a note older than the last run", noted_by_a_wrong_clock, Cause.MISSING),
)


@pytest.mark.parametrize(("_name", "act", "cause"), NOT_GONE, ids=[name for name, *_ in NOT_GONE])
def test_what_is_not_gone_stays(folder: Path, _name: str, act: Callable[[Path], None], cause: Cause) -> None:
    """However it was put out of sight."""
    act(folder)
    files = beside(folder / "session.jsonl")
    before = files.originals.read_bytes()
    found = clean(folder)["session.jsonl"]
    assert found is not None
    assert (found.deleted, found.cause) == (False, cause), found.reason
    assert files.originals.read_bytes() == before


@pytest.mark.parametrize("name", ["gemini.json", "gencode.json", "opencode.json"])
@pytest.mark.parametrize("indent", [None, 2], ids=["in one line", "in many"])
def test_a_moved_document_is_not_gone(tmp_path: Path, name: str, indent: int | None) -> None:
    """Its id stands in it, and in none of its lines."""
    folder = tmp_path / "exports"
    folder.mkdir()
    path = folder / name
    path.write_text(json.dumps(json.loads(fixture(name)), indent=indent))
    with days_ago(2 * MISSING_DAYS):
        compress(path)
    document = json.loads(path.read_bytes())
    session_id = document.get("sessionId") or (document.get("info") or document["metadata"])["id"]
    missing.note(beside(path), session_id, time.time() - LONG)
    path.rename(tmp_path / "work" / "moved")
    found = clean(folder, tmp_path / "work")[name]
    assert found is not None
    assert (found.deleted, found.cause) == (False, Cause.MOVED), found.reason


def test_a_fork_without_a_marker_of_it_is_no_hindrance(folder: Path) -> None:
    """Nor is a file whose name only begins alike and that says whose it is."""
    lose(folder / "session.jsonl")
    write(folder, PiSession(header={"id": "another", "parentSession": "/x/other.jsonl"}), "session.jsonl.fork")
    found = clean(folder)["session.jsonl"]
    assert found is not None
    assert found.cause is Cause.GONE


def test_a_wrong_note_is_begun_anew(folder: Path) -> None:
    """From then on the days count."""
    noted_by_a_wrong_clock(folder)
    path = folder / "session.jsonl"
    clean(folder)
    note = json.loads(beside(path).missing.read_bytes())
    assert time.time() - (times.read(note["missingSince"]) or 0) < 60


@pytest.mark.parametrize(
    ("name", "target"), [("link.jsonl", "off/s.jsonl"), ("archive", "off"), ("up", ".."), ("top", "/")]
)
def test_a_link_that_cannot_be_followed_is_said(folder: Path, name: str, target: str) -> None:
    """To a disk that is off, perhaps, or to a folder above: through it all there is would be looked at."""
    lose(folder / "session.jsonl")
    (folder / name).symlink_to(target)
    done = run("--yes", folder)
    assert done.exit_code == 3
    assert f"{name}: this link leads to" in done.stderr
    assert beside(folder / "session.jsonl").originals.exists()


def test_an_agents_folder_that_is_a_link_to_nothing_is_said(folder: Path, tmp_path: Path) -> None:
    """The sessions there may be on a disk that is off."""
    lose(folder / "session.jsonl")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".pi").symlink_to(tmp_path / "off")
    done = run("--yes", folder)
    assert done.exit_code == 3
    assert ".pi: this link leads to what is not there now" in done.stderr
    assert beside(folder / "session.jsonl").originals.exists()


def test_links_in_a_ring_are_gone_through_once(folder: Path) -> None:
    """They hinder nothing."""
    lose(folder / "session.jsonl")
    (folder / "a").mkdir()
    (folder / "a" / "back").symlink_to(folder)
    (folder / "b").symlink_to(folder / "a")
    found = clean(folder)["session.jsonl"]
    assert found is not None
    assert found.deleted


def test_a_head_that_is_too_long_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a session's; a long line that is no JSON object is none."""
    lose(folder / "session.jsonl")
    monkeypatch.setattr(heads, "_LONGEST_LINE", 100_000)
    (folder / "binary").write_bytes(b"x" * 200_000)
    assert clean(folder, dry_run=True)["session.jsonl"].deleted  # type: ignore[union-attr]
    (folder / "long").write_bytes(b'{"type":"session","x":"' + b"x" * 200_000)
    done = run("--yes", folder)
    assert done.exit_code == 3
    assert "long: its first lines are too long to look for a header" in done.stderr
    assert beside(folder / "session.jsonl").originals.exists()


@pytest.mark.parametrize("is_there", ["not there", "empty"])
def test_a_folder_that_may_be_on_a_disk_that_is_off(tmp_path: Path, is_there: str) -> None:
    """The originals in a backup folder stay."""
    policy = replace(EAGER, backup_dir=str(tmp_path / "backup"))
    (folder := tmp_path / "disk").mkdir()
    path = write(folder, session())
    with days_ago(2 * MISSING_DAYS):
        compress(path, policy)
    missing.note(beside(path, tmp_path / "backup"), id_of(path), time.time() - LONG)
    folder.rename(tmp_path.parent / f"{tmp_path.name} off")
    if is_there == "empty":
        folder.mkdir()
    found = clean(path, policy=policy)["session.jsonl"]
    assert found is not None
    assert (found.deleted, found.cause) == (False, Cause.UNKNOWN)
    assert "as where a disk is off" in found.reason
    assert beside(path, tmp_path / "backup").originals.exists()


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
        found = clean(folder, limits=limits)["session.jsonl"]
        assert found is not None
        assert (found.deleted, found.links_kept) == (True, 1)
        assert not beside(path).originals.exists()
        assert link.read_bytes() == b"late"
        said = run(folder).stdout
        assert "kept 1 late link with lines that came late, or may still come, or of another machine or user" in said
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
    beside(folder / "a.jsonl").missing.unlink()
    os.mkfifo(beside(folder / "a.jsonl").missing)
    said = run("--yes", "--json", folder)
    assert said.exit_code == 4
    told = {Path(each["path"]).name: each["status"] for each in json.loads(said.stdout)["files"]}
    assert told == {"session.jsonl": "deleted", "a.jsonl": "refused", "b.jsonl": "deleted"}
    assert beside(folder / "a.jsonl").originals.exists()


@pytest.mark.parametrize("command", ["clean", "forget"])
def test_one_folder_that_cannot_be_read_stops_no_other(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
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
    done = CliRunner().invoke(main, [command, "--yes", str(other), str(folder)])
    assert done.exit_code == 3
    assert f"{other / FOLDER}: permission denied" in done.stderr
    assert "total: 1 session: deleted" in done.stdout
    assert not beside(folder / "session.jsonl").originals.exists()


@pytest.mark.parametrize("limits", [("--older-than", "0d"), ("--max-size", "0KB")])
@pytest.mark.parametrize("harm", ["gone", "emptied"])
def test_what_has_no_age_is_said(folder: Path, harm: str, limits: tuple[str, ...]) -> None:
    """No limit deletes it, and the user asked for one."""
    journal = beside(folder / "session.jsonl").journal
    journal.write_bytes(b"")
    if harm == "gone":
        journal.unlink()
    done = run("--yes", *limits, folder)
    assert "session.jsonl: kept: no run that a journal dates is there" in done.stdout
    assert beside(folder / "session.jsonl").originals.exists()


def test_a_journal_without_an_id_whose_last_run_is_to_come(folder: Path) -> None:
    """It is there, and of version 0.1.0."""
    _date(folder / "session.jsonl", -40)
    without_an_id(folder)
    _date(folder / "session.jsonl", -40)
    assert "its journal, of version 0.1.0, has no id of it" in run(folder).stdout


def test_what_dead_runs_left_is_not_said_to_be_kept(folder: Path) -> None:
    """Neither where the session is there, nor where nothing else of it is."""
    for name in ("session.jsonl", "never.jsonl"):
        (folder / FOLDER / f"{name}.temp-0123abcd").write_bytes(b"dead")
        os.utime(folder / FOLDER / f"{name}.temp-0123abcd", (1, 1))
    first, second, _ = run(folder).stdout.splitlines()
    for line in (first, second):
        assert line.endswith("jsonl: would delete 1 file that ended runs left, 0 KB")


def test_another_clean_up_was_faster(folder: Path) -> None:
    """Nothing is left to be said."""
    lose(folder / "session.jsonl")
    (decision,) = plan_clean([folder], lambda _: EAGER, NOTHING).decisions
    clean(folder)
    assert clean_one(decision, dry_run=False) is None
    assert list(folder.iterdir()) == []
