"""What was compressed is found again in its folder: whatever it is called, and whatever lies in its place by now."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from sessioncompress.cli.main import main
from sessioncompress.store.layout import FOLDER, HISTORY, ORIGINALS, hidden_in, plain_in, store_in
from sessioncompress.store.machine import folder_name
from tests.support.repository import Repository
from tests.support.runs import fixture, snapshot, told

NAMES = ("session.txt", ".hidden", "chat", "rollout.jsonl.bak", "notes.json")
COMMANDS = ("verify", "restore", "forget --yes")


def compressed(folder: Path, *names: str, options: str = "") -> list[Path]:
    """Write sessions, and compress them, each by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in names]
    for path in paths:
        path.write_bytes(fixture("pi-anthropic.jsonl"))
    assert told(f"compress --force {options}", *paths)[0] == 0
    return paths


def files_in(folder: Path) -> set[Path]:
    """Return the files of stores in a folder, and in those of hidden stores in it."""
    return {each for each in folder.rglob("*") if each.is_file() and each.name != ".gitignore"}


def make_plain(path: Path) -> None:
    """Move a session's store to where the first version made it."""
    made, plain = store_in(path), plain_in(path)
    made.originals.rename(plain.originals)
    made.journal.rename(plain.journal)
    made.folder.rmdir()
    assert store_in(path) == plain


@pytest.mark.parametrize("elsewhere", [False, True], ids=["beside", "in a backup folder"])
def test_whatever_it_is_called(tmp_path: Path, elsewhere: bool) -> None:
    """No command over its folder passes it over; what lies in a backup folder for other folders stays."""
    kept = f"--backup-dir {tmp_path / 'kept'}" if elsewhere else ""
    paths = compressed(tmp_path / "a" / "b", *NAMES, options=kept)
    compressed(tmp_path / "other", "session.txt", "more.txt", options=kept)
    store = tmp_path / "kept" if elsewhere else tmp_path / "a" / "b" / FOLDER
    made = files_in(store)
    assert len(made) == 2 * (len(NAMES) + 2 * elsewhere)
    code, said = told(f"verify {kept}", tmp_path / "a")
    assert (code, f"total: {len(NAMES)} sessions" in said) == (0, True), said
    code, said = told(f"verify --include *.txt --exclude b/.h* {kept}", tmp_path / "a")
    assert (code, "total: 1 session:" in said) == (0, True), said
    assert "total: 0 sessions" in told(f"verify --exclude b {kept}", tmp_path / "a")[1]
    code, said = told(f"restore {kept}", tmp_path / "a", tmp_path / "a" / "b" / "session.txt")
    assert (code, f"total: {len(NAMES)} sessions restored" in said) == (0, True), said
    assert all(path.read_bytes() == fixture("pi-anthropic.jsonl") for path in paths)
    code, said = told(f"forget --yes {kept}", tmp_path / "a")
    assert (code, f"total: {len(NAMES)} sessions: deleted" in said) == (0, True), said
    left = files_in(store)
    assert (len(left), left <= made) == (4 if elsewhere else 0, True)
    assert store.exists() == elsewhere
    assert told(f"verify {kept}", tmp_path / "other")[0] == 0


@pytest.mark.parametrize("place", ["hidden", "plain"])
@pytest.mark.parametrize("name", NAMES)
def test_damage_is_found_whatever_it_is_called(tmp_path: Path, name: str, place: str) -> None:
    (path,) = compressed(tmp_path, name)
    if place == "plain":
        make_plain(path)
    assert told("verify", tmp_path)[0] == 0
    store_in(path).originals.write_bytes(b"x")
    assert told("verify", tmp_path)[0] == 5


def missing(path: Path) -> None:
    path.unlink()


def a_link(path: Path) -> None:
    """Move the session away, and let a link lead there."""
    path.rename(path.parent / "moved")
    path.symlink_to("moved")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def store_of(path: Path) -> list[tuple[bytes, int, int]]:
    files = store_in(path)
    held = snapshot(files.journal)
    return [held[each.name] for each in (files.originals, files.journal)]


PLANTED: dict[Callable[[Path], None], str] = {
    missing: "the session is missing",
    a_link: "a symbolic link is where the session was",
    a_folder: "a folder is where the session was",
}


@pytest.mark.parametrize("place", ["hidden", "plain"])
@pytest.mark.parametrize("name", ["s.jsonl", "s.txt"])
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_something_else_in_its_place(tmp_path: Path, plant: Callable[[Path], None], name: str, place: str) -> None:
    """It is named, with what to do, and not taken for nothing; the others are gone through."""
    (path,) = compressed(tmp_path, name)
    if place == "plain":
        make_plain(path)
    (other,) = compressed(tmp_path, "zz.jsonl")
    plant(path)
    before = store_of(path)
    for command in ("verify", "restore"):
        code, said = told(command, tmp_path)
        assert "total: 1 session" in said
        if command == "verify" and plant is missing:
            assert (code, f"1 session is gone, but its store is there: {path}" in said) == (0, True), said
            continue
        assert (code, f"refused: {path}: {PLANTED[plant]}" in said) == (4, True), said
        assert f"'sessioncompress forget {path}' deletes them" in said
    assert other.read_bytes() == fixture("pi-anthropic.jsonl")
    assert store_of(path) == before
    code, said = told("forget --yes", tmp_path)
    assert code == (0 if plant is missing else 4), said
    assert (tmp_path / FOLDER).exists() == (plant is not missing)
    if plant is not missing:
        assert f"refused: {path}: {PLANTED[plant]}" in said
        assert f"refused: {path}: {PLANTED[plant]}" in told("forget --dry-run --unneeded", tmp_path)[1]
        path.rename(tmp_path / "away")
        assert told("forget --yes", path)[0] == 0
        assert not (tmp_path / FOLDER).exists()


def test_a_folder_that_is_named_in_a_sessions_place(tmp_path: Path) -> None:
    """It is walked as a folder, and there is more to say."""
    (path,) = compressed(tmp_path, "s.jsonl")
    a_folder(path)
    for command in COMMANDS:
        code, said = told(command, path)
        assert (code, "a folder is where the session was" in said) == (4, True), (command, said)


def test_what_the_message_says_brings_a_moved_session_back(tmp_path: Path) -> None:
    (path,) = compressed(tmp_path, "s.jsonl")
    a_link(path)
    code, said = told(f"restore --from-markers --originals {path}", tmp_path / "moved")
    assert code == 0, said
    assert b"[[sessioncompress" not in (tmp_path / "moved").read_bytes()


def test_nothing_is_said_where_no_store_lies(tmp_path: Path) -> None:
    """Links and files that are no sessions are passed over as ever; a live run's file is no store, a wrong policy no session."""
    (tmp_path / "a.txt").write_bytes(fixture("pi-anthropic.jsonl"))
    (tmp_path / "a.jsonl").symlink_to("a.txt")
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "b.jsonl.temp-0123abcd").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "compression.json").write_text("{")
    for command in ("verify", "restore"):
        assert told(command, tmp_path) == (0, "total: 0 sessions; 1 passed over (not sessions, or links)\n")


@pytest.mark.parametrize("elsewhere", [False, True], ids=["beside", "in a backup folder"])
@pytest.mark.parametrize("command", ["verify", "restore"])
def test_one_that_is_gone_and_named(tmp_path: Path, command: str, elsewhere: bool) -> None:
    """What was kept is told of it as in its folder, and stops no other; one of which nothing was kept stops all."""
    kept = f"--backup-dir {tmp_path / 'kept'}" if elsewhere else ""
    path, other = compressed(tmp_path / "a", "session.jsonl", "other.jsonl", options=kept)
    path.unlink()
    code, said = told(f"{command} {kept}", path, other)
    assert code == 4
    assert said.startswith(f"refused: {path}: the session is missing, but its store is still there.")
    assert f"restore --from-markers --originals {path} NEW_PATH" in said
    assert f"refused: {other}" not in said
    assert "total: 1 session" in said
    assert said.count("is still there") == 1
    code, said = told(f"{command} {kept}", tmp_path / "a" / "nowhere.jsonl", other)
    assert code == 2
    assert said.endswith("nowhere.jsonl' does not exist. Nothing was done.\n")


@pytest.mark.parametrize("folder", ["my dir", "it's", 'a "b" $(c)'])
def test_commands_in_messages_can_be_copied(tmp_path: Path, folder: str) -> None:
    """Whatever the names: a shell takes them as they are."""
    (path,) = compressed(tmp_path / folder, "a b.jsonl")
    moved = path.rename(tmp_path / "moved.jsonl")
    said = told("verify", path)[1]
    restore, forget = said.split("If it was moved, '")[1].split("' gives it")[0], said.split(", 'sessioncompress ")[-1]
    words = shlex.split(restore.replace("NEW_PATH", shlex.quote(str(moved))))[1:]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert moved.read_bytes() == fixture("pi-anthropic.jsonl")
    words = shlex.split(forget.removesuffix("' deletes them.\ntotal: 0 sessions\n").removesuffix("' deletes them.\n"))
    assert CliRunner().invoke(main, [*words, "--yes"], catch_exceptions=False).exit_code == 0
    assert not (path.parent / FOLDER).exists()


def committed(folder: Path, in_git: str) -> Path:
    """Return a compressed session in a repository: with its store in a commit, or hidden from git."""
    folder.mkdir(exist_ok=True)
    repository = Repository(folder)
    (path,) = compressed(folder, "a b.jsonl", options="--commit-originals" if in_git == "committed" else "")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "One.")
    return path


IN_GIT = pytest.mark.parametrize("in_git", ["committed", "ignored"])


@IN_GIT
@pytest.mark.parametrize("command", ["verify", "restore"])
def test_names_of_files_in_commands_too(tmp_path: Path, command: str, in_git: str) -> None:
    """Git is a remedy only for files that it has."""
    path = committed(tmp_path / "work", in_git)
    store = store_in(path)
    store.originals.write_bytes(store.originals.read_bytes()[:-1])
    said = told(command, path)[1]
    assert f"'zstd -dc {shlex.quote(str(store.originals))}' prints what comes before the damage." in said
    from_git = f"bytes of it with 'git checkout -- {shlex.quote(str(store.originals))}'." in said
    assert from_git == ("git checkout" in said) == (in_git == "committed")


@IN_GIT
@pytest.mark.parametrize("command", ["verify", "restore", "compress --force"])
@pytest.mark.parametrize("which", ["originals", "journal"])
def test_a_file_of_the_store_is_gone(tmp_path: Path, command: str, which: str, in_git: str) -> None:
    """As after a checkout that took it away: that it is not there is said, and where it may be, not that bytes are."""
    path = committed(tmp_path / "work", in_git)
    with path.open("ab") as file:
        file.write(fixture("pi-one-prompt.jsonl"))
    store = store_in(path)
    gone = store.originals if which == "originals" else store.journal
    gone.unlink()
    code, said = told(command, path)
    if (which, in_git, command) == ("journal", "committed", "compress --force"):
        # Whose originals git shows, only their journal says: a run keeps its own elsewhere.
        assert (code, "its store is missing" in said) == (0, True)
        return
    assert code == 5
    assert (f"{gone}: it is missing, and with it the " in said) == (which == "originals")
    from_git = f"or where git has it with 'git checkout -- {shlex.quote(str(gone))}'." in said
    assert from_git == ("git checkout" in said) == (in_git == "committed")
    assert "bytes are missing" not in said


NO_SESSIONS = [
    ("plain", "..zst"),
    ("plain", "...zst"),
    ("plain", "..session.refs.jsonl"),
    ("plain", "...session.refs.jsonl"),
    *(
        (place, name)
        for place in ("own", "another machine's")
        for name in (f".{ORIGINALS}", f"..{ORIGINALS}", f".{HISTORY}", f"..{HISTORY}", ORIGINALS, HISTORY)
    ),
    ("work", "..temp-01234567"),
    ("work", "...temp-01234567"),
]
"""Where each may be planted: `work` takes temp files."""


@pytest.mark.parametrize("elsewhere", [False, True], ids=["beside", "in a backup folder"])
@pytest.mark.parametrize(("place", "name"), NO_SESSIONS)
def test_a_name_that_is_no_sessions(tmp_path: Path, place: str, name: str, elsewhere: bool) -> None:
    """The folder itself, and the one above, lie where those would be: nothing is said of them, nothing goes."""
    folder = tmp_path / "a"
    folder.mkdir()
    kept = tmp_path / "kept"
    kept.mkdir()
    session, backups = folder / "any", kept if elsewhere else None
    plain, local = plain_in(session, backups), folder_name() if place == "own" else "local-00000000"
    planted = {
        "plain": plain.originals.with_name(plain.originals.name.removesuffix("any.zst") + name),
        "work": plain.work / name,
    }.get(place) or Path(f"{str(hidden_in(session, local, backups).journal).removesuffix(f'any{HISTORY}')}{name}")
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_bytes(b"x")
    options = f" --backup-dir {kept}" if elsewhere else ""
    for command in (*COMMANDS, "forget --yes --gone"):
        code, said = told(command + options, folder)
        assert (code, "there is a folder" in said) == (0, False), (command, said)
        assert planted.exists()
