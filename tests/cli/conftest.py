"""The folders and sessions in which the tests of commands work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.commands import put, run
from tests.support.runs import HOMES


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with a home that is empty too."""
    home = tmp_path / "home"
    folder = tmp_path / "work"
    for each in (home, folder):
        each.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(home))
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def session(here: Path) -> Path:
    return put(here / "session.jsonl")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compress such a session once; return its folder."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        assert run("compress", put(folder / "session.jsonl")).exit_code == 0
    return folder


@pytest.fixture
def compressed(made: Path, here: Path) -> Path:
    shutil.copytree(made, here, dirs_exist_ok=True)
    return here / "session.jsonl"
