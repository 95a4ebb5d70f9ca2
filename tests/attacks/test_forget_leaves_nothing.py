"""A secret that is forgotten is gone: whatever killed the run before, and wherever the store was put."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.forget import forget_session
from sessioncompress.policy.model import PRESETS
from sessioncompress.store.layout import FOLDER, store_in
from tests.support.runs import fixture, told
from tests.support.stores import PLACES, at_place
from tests.unit.store.tools import disk, in_a_child

SECRET = b"SECRETZZ"


def session_with_a_secret(folder: Path) -> Path:
    """Write a session in whose results a secret stands."""
    path = folder / "s.jsonl"
    path.write_bytes(fixture("pi-anthropic.jsonl").replace(b"tidewatch", SECRET))
    path.chmod(0o644)
    return path


def killed_at_its_first(call: str, path: Path) -> None:
    """Compress a session in a child that is killed before it makes a call of that name."""

    def kill(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        del number, arguments
        if name == call:
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        with disk(kill):
            compress_session(path, PRESETS["archive"])

    assert in_a_child(work) == signal.SIGKILL


@pytest.mark.parametrize("call", ["unlink", "chmod", "utime", "link", "fsync"])
def test_after_a_killed_run(tmp_path: Path, call: str) -> None:
    """The replaced file has a name of its own until the run ends: forget finishes that run first."""
    path = session_with_a_secret(tmp_path)
    killed_at_its_first(call, path)
    code, said = told("forget", "--yes", path)
    assert code == 0, said
    assert [each.name for each in tmp_path.rglob("*") if each.is_file() and each != path] == []


def test_a_link_that_must_stay_is_named(tmp_path: Path) -> None:
    """A program still writes to the replaced file: its lines must not go, and the user must not think that they did."""
    path = session_with_a_secret(tmp_path)
    killed_at_its_first("unlink", path)
    (link,) = tmp_path.rglob("*.late-*")
    with link.open("ab"):
        code, said = told("forget", "--yes", path)
        assert code == 4
        assert "kept 1 late link" in said
        assert link.exists()
    # Its markers are of the store that is gone by now.
    assert told("forget", "--yes", path)[0] == 4
    assert [each.name for each in tmp_path.rglob("*") if each.is_file() and each != path] == []


def test_without_the_folder_that_the_store_is_in(tmp_path: Path) -> None:
    """The session's markers tell that there is a store: forget does not say that nothing lies there."""
    path = session_with_a_secret(tmp_path)
    told("compress", "--preset", "archive", "--backup-dir", tmp_path / "backup", path)
    code, said = told("forget", "--yes", path)
    assert code == 4
    assert "--backup-dir" in said
    assert "it has no store" not in said
    assert told("forget", "--yes", "--backup-dir", tmp_path / "backup", path)[0] == 0
    assert not list((tmp_path / "backup").rglob("s.*"))


@pytest.mark.parametrize("beside_it", ["what a killed run left", "a second store", *PLACES])
def test_without_that_folder_where_something_else_lies(tmp_path: Path, beside_it: str) -> None:
    """It goes, and the markers of the store that stays are told of as where nothing lies there.

    At each of the places these are originals without a journal.
    """
    path = session_with_a_secret(tmp_path)
    told("compress", "--force", "--backup-dir", tmp_path / "backup", path)
    if beside_it == "a second store":
        told("compress", "--force", "--preset", "archive", path)
        assert store_in(path).journal.exists()
    else:
        left = tmp_path / FOLDER / "s.jsonl.temp-0123abcd"
        left = PLACES[beside_it](path).originals if beside_it in PLACES else left
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_bytes(b"x")
    code, said = told("forget", "--yes", path)
    assert (code, "that no journal here knew" in said, "--backup-dir" in said) == (4, True, True), said
    assert not (tmp_path / FOLDER).exists()
    assert told("forget", "--yes", "--backup-dir", tmp_path / "backup", path)[0] == (beside_it == "a second store") * 4
    assert not list((tmp_path / "backup").rglob("s.*"))


def test_markers_that_its_own_journal_knows(tmp_path: Path) -> None:
    """Nothing is told of those, however often it was compressed."""
    path = session_with_a_secret(tmp_path)
    told("compress", "--force", path)
    told("compress", "--preset", "archive", path)
    code, said = told("forget", "--yes", path)
    assert (code, "no journal here" in said) == (0, False), said


def test_a_session_without_markers(tmp_path: Path) -> None:
    """Where nothing was ever compressed there is nothing to forget."""
    path = session_with_a_secret(tmp_path)
    code, said = told("forget", "--yes", path)
    assert code == 0
    assert "it has no store" in said


@pytest.mark.parametrize("gone", [False, True], ids=["the session is there", "the session is gone"])
@pytest.mark.parametrize("which", ["originals", "journal"])
@pytest.mark.parametrize("place", PLACES)
def test_a_folder_in_the_place_of_a_file_of_ours(tmp_path: Path, place: str, which: str, gone: bool) -> None:
    """Every command says that one lies there, and none that forget deletes it: it may be anybody's, and stays."""
    path = session_with_a_secret(tmp_path)
    (theirs := Path(getattr(PLACES[place](path), which))).mkdir(parents=True)
    (theirs / "notes").write_bytes(b"mine")
    if gone:
        path.unlink()
    for command in ("forget --yes", "forget --yes --max-size 0KB", "compress --force", "verify", "restore"):
        if gone and command in ("forget --yes --max-size 0KB", "compress --force", "verify", "restore"):
            continue
        code, said = told(*command.split(), path)
        assert (code, f"{theirs}: there is a folder here" in said) == (4, True), (command, said)
        assert "deletes" not in said
        assert (theirs / "notes").read_bytes() == b"mine"


@pytest.mark.parametrize("gone", [False, True], ids=["the session is there", "the session is gone"])
@pytest.mark.parametrize("which", ["originals", "journal"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["a pipe", "a link"])
def test_no_file_in_the_place_of_a_file_of_ours(tmp_path: Path, kind: str, place: str, which: str, gone: bool) -> None:
    """It goes, as what it is, and so does what lies beside it; what a link leads to stays."""
    path = session_with_a_secret(tmp_path)
    told("compress", "--force", path)
    (planted := Path(getattr(at_place(path, place), which))).rename(tmp_path / "elsewhere")
    if kind == "a pipe":
        os.mkfifo(planted)
    else:
        planted.symlink_to(tmp_path / "elsewhere")
    if gone:
        path.unlink()
    code, said = told("forget", "--yes", path)
    assert (code, "deleted" in said) == (0, True), said
    assert not (tmp_path / FOLDER).exists()
    assert (tmp_path / "elsewhere").exists()


BYTES_READ = Path("/proc/self/io")


@pytest.mark.skipif(not BYTES_READ.exists(), reason="the system does not count the bytes that a process reads")
def test_a_journal_with_a_hole_of_a_gigabyte(tmp_path: Path) -> None:
    """What can hold no record is not read: originals are deleted as fast as ever, and counted."""

    def read() -> int:
        return int(BYTES_READ.read_text().split()[1])

    path = session_with_a_secret(tmp_path)
    told("compress", "--force", path)
    journal = store_in(path).journal
    would = forget_session(path, dry_run=True)
    with journal.open("r+b") as file:
        file.truncate(1 << 30)
    before = read()
    code, said = told("forget", "--yes", path)
    assert read() - before < 32 << 20
    assert (code, f" {would.originals} originals" in said) == (0, True), said
    assert not journal.exists()
