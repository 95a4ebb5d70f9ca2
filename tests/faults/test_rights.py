"""Owner's rights: what an owner set stays, and what an owner forbade is not done.

Each kind of metadata alone is in tests/unit/store/test_disk.py.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessioncompress.operations.restore import restore_session
from sessioncompress.store.layout import store_in
from tests.faults.forging import reference
from tests.faults.nobody import folder_of_nobody, give, run_as_nobody
from tests.faults.scenes import SCENES, SIZES, built
from tests.support.runs import compress, invoke, split, write
from tests.unit.store.tools import everything

COMMANDS = (
    ("compress", "--force", "--keep-turns", "1"),
    ("compress", "--force", "--dry-run"),
    ("stats",),
    ("verify",),
    ("restore",),
    ("restore", "--from-markers"),
    ("forget", "--yes"),
    ("show", "0123456789ab"),
)
WRITING = COMMANDS[:1] + COMMANDS[4:7]
REPLACING = COMMANDS[:1] + COMMANDS[4:6]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a session that was compressed and went on, in a folder of its own."""
    (tmp_path / "work").mkdir()
    return SCENES[1].prepare(tmp_path / "work", SIZES[0])


# What an owner set


def owned(path: Path) -> tuple[object, ...]:
    """Return what a file's owner set."""
    found = path.stat()
    names = sorted(os.listxattr(path)) if sys.platform == "linux" else []
    attributes = [(name, os.getxattr(path, name)) for name in names] if sys.platform == "linux" else []
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime_ns, attributes


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o664, 0o4755])
@pytest.mark.parametrize("from_markers", [False, True])
def test_what_an_owner_set_stays(path: Path, mode: int, from_markers: bool) -> None:
    """Mode, owner, group, time and attributes are those of the session that was there, after each command."""
    if os.geteuid() == 0:
        os.chown(path, 1234, 5678)
    path.chmod(mode)
    if sys.platform == "linux":
        os.setxattr(path, "user.tag", b"\0kept")
    os.utime(path, ns=(1, 1_600_000_000_123_456_789))
    before = owned(path)
    compress(path)
    assert owned(path) == before
    restore_session(path, from_markers=from_markers)
    assert path.read_bytes() == built(SIZES[0], 2).bytes()
    assert owned(path) == before


@pytest.mark.parametrize("apart", [False, True], ids=["beside", "backup folder"])
def test_what_lies_beside_is_private_under_an_open_umask(tmp_path: Path, apart: bool) -> None:
    """Files 0600, folders 0700, the .gitignore too: after a first run, another, a restore."""
    (tmp_path / ".git").mkdir()
    path = write(tmp_path, built(SIZES[0], 1))
    backup = ("--backup-dir", str(tmp_path / "deep" / "backup")) if apart else ()
    before = os.umask(0)
    try:
        for part, command in ((1, COMMANDS[0]), (2, COMMANDS[0]), (2, ("restore",))):
            with path.open("ab") as file:
                file.write(b"".join(built(SIZES[0], part).lines()[path.read_bytes().count(b"\n") :]))
            done = invoke(*command, *backup, path)
            assert done.exit_code == 0, done.output
            _all_private(tmp_path, path)
    finally:
        os.umask(before)


def _all_private(folder: Path, path: Path) -> None:
    made = {each: stat.S_IMODE(each.lstat().st_mode) for each in folder.rglob("*") if each != path}
    made.pop(folder / ".git")
    assert len(made) > 3
    for each, mode in made.items():
        assert mode == (0o700 if each.is_dir() else 0o600), each


# What an owner forbade


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """Return such a session of a user who is not root, in a folder that it may write to."""
    with folder_of_nobody() as folder:
        (folder / "work").mkdir()
        path = SCENES[1].prepare(folder / "work", SIZES[0])
        give(folder)
        yield path


FORBIDDEN: dict[str, tuple[Callable[[Path], Path], int, tuple[tuple[str, ...], ...]]] = {
    "a folder that cannot be written to": (lambda path: path.parent, 0o500, REPLACING),
    "a folder that cannot be entered": (lambda path: path.parent, 0o600, COMMANDS),
    "a session that cannot be read": (lambda path: path, 0o200, COMMANDS[:-1]),
    "a folder of ours that cannot be written to": (lambda path: store_in(path).work, 0o500, WRITING),
    "a folder of ours that cannot be entered": (lambda path: store_in(path).work, 0o600, COMMANDS),
    # What is there already may be written to.
    "a folder of stores that cannot be written to": (lambda path: store_in(path).folder, 0o500, WRITING[-1:]),
    "a folder of stores that cannot be entered": (lambda path: store_in(path).folder, 0o600, COMMANDS),
    "a folder of stores of a lost key that cannot be entered": (
        lambda path: store_in(path).folder.rename(store_in(path).work / "local-12345678"),
        0,
        COMMANDS,
    ),
    "a journal that cannot be read": (lambda path: store_in(path).journal, 0o200, COMMANDS),
    "originals that cannot be read": (lambda path: store_in(path).originals, 0o200, (("verify",), ("restore",))),
    "originals that cannot be written to": (lambda path: store_in(path).originals, 0o400, COMMANDS[:1]),
}


@pytest.mark.parametrize("case", FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_is_forbidden_is_told_and_not_done(
    nobodys: Path, case: tuple[Callable[[Path], Path], int, tuple[tuple[str, ...], ...]]
) -> None:
    """Each command fails by name, and leaves all as it was."""
    forbidden, mode, failing = case
    path, place = nobodys, forbidden(nobodys)
    folder = path.parent.parent
    before, usual = everything(folder), stat.S_IMODE(place.stat().st_mode)
    for command in failing:
        place.chmod(mode)
        ended = run_as_nobody(*command, path)
        place.chmod(usual)
        assert ended.code in (2, 3), (command, ended)
        assert mode != 0o500 or f"permission denied: this user may not write to the folder {place}. " in ended.said
        assert "ermi" in ended.said or "not readable" in ended.said or "does not exist" in ended.said, (command, ended)
        assert everything(folder) == before, command


def test_forget_deletes_where_the_empty_folder_must_stay(nobodys: Path) -> None:
    """What it was asked to do is done then."""
    work = store_in(nobodys).work
    nobodys.parent.chmod(0o500)
    ended = run_as_nobody("forget", "--yes", nobodys)
    nobodys.parent.chmod(0o700)
    assert ended.code == 0, ended
    assert ": deleted " in ended.said
    assert list(work.rglob("*")) == []


def test_forget_deletes_all_stores_or_none(nobodys: Path) -> None:
    store, other = store_in(nobodys), store_in(nobodys).work / "local-12345678"
    shutil.copytree(store.folder, other)
    for folder in (other, store.folder):
        for each in (folder, *folder.iterdir()):
            shutil.chown(each, *store.work.stat()[4:6])
        before = everything(nobodys.parent)
        folder.chmod(0o500)
        ended = run_as_nobody("forget", "--yes", nobodys)
        folder.chmod(0o700)
        assert ended.code == 3, ended
        assert everything(nobodys.parent) == before


def test_another_users_closed_folder_of_stores_is_none_of_ours(nobodys: Path) -> None:
    """In a shared folder that is usual."""
    work = store_in(nobodys).work
    (work / "local-12345678").mkdir(mode=0o700)
    for command in (("verify",), COMMANDS[0], ("restore",), ("restore", "--from-markers"), ("forget", "--yes")):
        assert run_as_nobody(*command, nobodys).code == 0, command


def test_another_users_closed_folder_hides_no_relative(nobodys: Path) -> None:
    """A fork that names its parent by id finds the parent's store beside it."""
    header, *rest = split(nobodys.read_bytes())
    fork = nobodys.with_name("fork.jsonl")
    named = json.loads(header)
    fork.write_bytes(json.dumps({**named, "id": "f", "parentSession": named["id"]}).encode() + b"\n" + b"".join(rest))
    (store_in(nobodys).work / "local-12345678").mkdir(mode=0o700)
    ended = run_as_nobody("verify", fork)
    assert ended.code == 0, ended
    assert "with originals in a relative's store" in ended.said


def test_what_may_only_be_read_is_read(nobodys: Path) -> None:
    """Commands that change nothing need no more than that."""
    shown = ("show", reference(nobodys))
    for place in (nobodys, *store_in(nobodys).folder.iterdir()):
        place.chmod(0o400)
    store_in(nobodys).folder.chmod(0o500)
    nobodys.parent.chmod(0o500)
    for command in (*COMMANDS[1:4], shown):
        assert run_as_nobody(*command, nobodys).code == 0, command


def test_a_dry_run_says_where_a_run_could_not_write(nobodys: Path) -> None:
    """It needs no rights itself, but what it promises does."""
    warning = f"warning: {nobodys.parent} is not writable: a run would change nothing in it\n"
    for mode in (0o500, 0o700):
        nobodys.parent.chmod(mode)
        ended = run_as_nobody(*COMMANDS[0], "--dry-run", nobodys)
        assert ended.code == 0
        assert "would become" in ended.said
        assert (warning in ended.said) is (mode == 0o500)


def test_a_session_that_is_read_only_may_be_replaced(nobodys: Path) -> None:
    """Its mode says who may write into it; the folder's, who may replace it. It stays read-only."""
    nobodys.chmod(0o400)
    old = nobodys.read_bytes()
    assert run_as_nobody(*COMMANDS[0], nobodys).code == 0
    assert nobodys.read_bytes() != old
    assert stat.S_IMODE(nobodys.stat().st_mode) == 0o400


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("mode", [0o644, 0o666])
def test_a_session_of_another_user_is_not_taken_over(nobodys: Path, mode: int) -> None:
    """Who may write to the folder could replace it, but not as that user's: it stays as it is."""
    os.chown(nobodys, 0, 0)
    nobodys.chmod(mode)
    old = nobodys.read_bytes()
    ended = run_as_nobody(*COMMANDS[0], nobodys)
    assert ended.code == 3, ended
    assert f"{nobodys}: operation not permitted. The session was not changed. Only its owner may do that" in ended.said
    assert (nobodys.read_bytes(), nobodys.stat().st_uid) == (old, 0)
    assert not [each for each in everything(nobodys.parent) if ".temp-" in each or ".late-" in each]


@pytest.mark.parametrize(
    ("command", "code"),
    [((), 0), (("history",), 0), (("sessions",), 0), (("verify", "--all"), 0), (("show", "0123456789ab"), 2)],
)
def test_a_home_that_may_not_be_entered(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], code: int) -> None:
    """As of another user, with sudo or in a container: nothing of it is this user's."""
    with folder_of_nobody() as folder:
        monkeypatch.setenv("HOME", str(folder / "home"))
        (folder / "home/.pi/agent/sessions").mkdir(parents=True)
        give(folder)
        (folder / "home").chmod(0)
        done = run_as_nobody(*command)
    assert done.code == code, done
