"""Thousands of sessions lie in one folder: what a command lists for each of them must not be the folder many times."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.formats.base import Format, Name
from sessioncompress.pipeline import reading, relatives
from sessioncompress.pipeline.relatives import Stranger, kin_of, name_of
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import FOLDER, store_in
from sessioncompress.store.lock import OpenSession
from tests.support.build import PiSession
from tests.support.runs import compress, run, write
from tests.support.sessions import session

HASTE = ("--force", "--keep-turns", "1", "--protect-tokens", "0")
FEW, MANY = 3, 9


def many(folder: Path, number: int) -> Path:
    """Make a folder of so many sessions with a store."""
    folder.mkdir()
    first = write(folder, session())
    compress(first)
    own = name_of(first).id.encode()
    for count in range(1, number):
        name = first.with_name(f"other-{count}.jsonl")
        name.write_bytes(first.read_bytes().replace(own, own[:-2] + f"{count:02}".encode()))
        shutil.copy2(store_in(first).originals, store_in(name).originals)
        shutil.copy2(store_in(first).journal, store_in(name).journal)
    return folder


def listings(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Counter[str]:
    """Return how often a command lists each folder as a whole, by the folder's name."""
    found: Counter[str] = Counter()
    real = os.listdir

    def listdir(path: Any = ".") -> list[Any]:
        found[Path(os.fsdecode(path)).name] += 1
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", listdir)
        patch.setattr(relatives, "_HEADER_SECONDS", 3600.0)
        patch.setattr(relatives, "_MARKER_SECONDS", 3600.0)
        run(*arguments)
    return found


@pytest.mark.parametrize("command", [("forget", "--gone", "--dry-run"), ("forget", "--dry-run")])
def test_a_folder_of_stores_without_sessions_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[object, ...]
) -> None:
    """While nothing in it changes: however many sessions are gone."""
    found = []
    for name, number in (("few", FEW), ("many", MANY)):
        folder = many(tmp_path / name, number)
        for path in sorted(folder.glob("*.jsonl"))[1:]:
            path.unlink()
        os.utime(folder / FOLDER, (0, 0))
        found.append(listings(monkeypatch, *command, folder))
    assert found[0][FOLDER] == found[1][FOLDER]
    assert found[0]["few"] == found[1]["many"]


@pytest.mark.parametrize(
    ("most", "command"),
    [
        (2, ("verify", "--jobs", 1)),
        (2, ("restore", "--jobs", 1)),
        (0, ("forget", "--yes", "--gone")),
        (14, ("forget", "--yes")),
    ],
)
def test_a_folder_is_listed_a_few_times_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, command: tuple[object, ...]
) -> None:
    """Under a session's lock once for what a dead run left, and once for stores of other machines.

    All else is listed once a command, however many lie there. `forget` also looks for the packs of other machines,
    and for those to whom a relative's markers belong, before it asks and as it deletes: however many relatives that has.
    """
    few = listings(monkeypatch, *command, many(tmp_path / "few", FEW))
    all_of_them = listings(monkeypatch, *command, many(tmp_path / "many", MANY))
    assert all_of_them[FOLDER] - few[FOLDER] <= most * (MANY - FEW)
    assert all_of_them["many"] == few["few"]


def test_a_run_lists_a_folder_a_few_times_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does the command that most often goes over all of them."""
    found = []
    for name, number in (("few", FEW), ("many", MANY)):
        (tmp_path / name).mkdir()
        for count in range(number):
            shutil.copy2(write(tmp_path, session()), tmp_path / name / f"{count}.jsonl")
        found.append(listings(monkeypatch, "compress", *HASTE, "--jobs", 1, tmp_path / name)[FOLDER])
    assert found[1] - found[0] <= 2 * (MANY - FEW)


def test_headers_are_looked_at_once_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose originals a fork still needs is asked of every session: it was looked for in all the others each time."""
    monkeypatch.setattr(relatives, "_HEADER_SECONDS", 3600.0)
    folder = many(tmp_path / "many", MANY)
    asked: list[Path] = []
    real = reading.whose

    def asking(path: Path) -> tuple[Format, Name]:
        asked.append(path)
        return real(path)

    monkeypatch.setattr(reading, "whose", asking)
    run("forget", "--yes", folder)
    assert len(asked) <= 3 * MANY


def test_markers_are_read_once_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any session may need the originals of any store: those that it lacks are looked for once, not for each store."""
    monkeypatch.setattr(relatives, "_MARKER_SECONDS", 3600.0)
    folder = many(tmp_path / "many", MANY)
    (folder / "empty.jsonl").touch()
    read: list[Path] = []
    real = relatives.strangers_of

    def reading_markers(session: OpenSession, journal: Journal) -> list[Stranger]:
        read.append(session.path)
        return real(session, journal)

    monkeypatch.setattr(relatives, "strangers_of", reading_markers)
    run("forget", "--dry-run", folder)
    assert sorted(read) == sorted({*folder.glob("*.jsonl")} - {folder / "empty.jsonl"})


def test_a_fork_that_comes_while_a_command_runs_is_seen(tmp_path: Path) -> None:
    """A folder in which a file came or went is looked at anew at once."""
    folder = many(tmp_path / "many", 1)
    path = folder / "session.jsonl"
    own = name_of(path).id
    assert kin_of(path, {own}) == []
    fork = folder / "fork.jsonl"
    shutil.copy2(path, fork)
    os.utime(folder, ns=(0, os.stat(folder).st_mtime_ns + 1))
    assert kin_of(path, {own}) == [fork]


def test_a_header_that_is_written_late_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent makes the file and writes its header a moment later, in which the folder does not change."""
    folder = many(tmp_path / "many", 1)
    path = folder / "session.jsonl"
    fork = folder / "fork.jsonl"
    fork.touch()
    own = name_of(path).id
    assert kin_of(path, {own}) == []
    fork.write_bytes(path.read_bytes())
    monkeypatch.setattr(relatives, "_HEADER_SECONDS", 1e-9)
    assert kin_of(path, {own}) == [fork]


def test_kin_of_kin_are_found(tmp_path: Path) -> None:
    """By its id, by the path of a parent, and over one that is found so."""
    path, second, third = (tmp_path / f"{name}.jsonl" for name in ("first", "second", "third"))
    PiSession(seed="first").opening().write(path)
    PiSession(seed="second", header={"parentSession": str(path)}).opening().write(second)
    PiSession(seed="third", header={"parentSession": f"/elsewhere/{second.name}"}).opening().write(third)
    PiSession(seed="other").opening().write(tmp_path / "other.jsonl")
    assert kin_of(path, set()) == [second, third]
    assert kin_of(third, set()) == []
