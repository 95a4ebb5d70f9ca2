"""A small file is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.store import disk
from sessioncompress.store.disk import put, put_new


def noted(monkeypatch: pytest.MonkeyPatch, *calls: str) -> list[str]:
    """Return the list to which each of these calls adds its name."""
    done: list[str] = []
    for call in calls:
        was = getattr(disk.system, call)

        def note(*given: object, call: str = call, was: Callable[..., object] = was, **named: object) -> object:
            done.append(call)
            return was(*given, **named)

        monkeypatch.setattr(disk.system, call, note)
    return done


def test_a_new_file_is_its_owners(tmp_path: Path) -> None:
    put(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_an_old_one_keeps_its_mode_and_gets_a_time_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old and longer")
    path.chmod(0o644)
    os.utime(path, (1, 1))
    put(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.stat().st_mtime > 1
    assert os.listdir(tmp_path) == ["x"]


def test_its_bytes_are_on_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut leaves the old file or the new one, and after it the new one for good."""
    done = noted(monkeypatch, "write", "fsync", "replace")
    put(tmp_path / "x", b"new")
    assert done == ["write", "fsync", "replace", "fsync"]


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "utime"])
def test_a_failure_leaves_the_old_one_alone(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"old")

    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk.system, call, fails)
    with pytest.raises(OSError, match="Input"):
        put(tmp_path / "x", b"new")
    assert os.listdir(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"


# A file that must be new


def test_a_file_that_must_be_new_is_its_owners(tmp_path: Path) -> None:
    put_new(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["x"]


def test_one_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        put_new(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_the_bytes_of_a_new_one_are_on_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = noted(monkeypatch, "write", "fsync", "link", "unlink")
    put_new(tmp_path / "x", b"new")
    assert done == ["write", "fsync", "link", "unlink", "fsync"]


@pytest.mark.parametrize("call", ["write", "fsync", "link"])
def test_a_failure_leaves_no_new_one(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk.system, call, fails)
    with pytest.raises(OSError, match="Input"):
        put_new(tmp_path / "x", b"new")
    assert os.listdir(tmp_path) == []
