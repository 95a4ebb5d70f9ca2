"""A small file is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sessioncompress.store import disk
from sessioncompress.store.disk import put


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
    done: list[str] = []
    for call in ("write", "fsync", "replace"):
        was = getattr(disk.system, call)

        def noted(*given: object, call: str = call, was: Callable[..., object] = was) -> object:
            done.append(call)
            return was(*given)

        monkeypatch.setattr(disk.system, call, noted)
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
