"""The folders and sessions in which the tests of commands work."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.support import homes
from tests.support.build import PiSession
from tests.support.commands import put, run
from tests.support.runs import HOMES, fixture


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


@pytest.fixture
def agents(here: Path) -> Path:
    """Put sessions of four agents into the home; return it."""
    home = here.parent / "home"
    homes.put(home / ".pi/agent/sessions/x/large.jsonl", fixture("pi-anthropic.jsonl"))
    homes.put(home / ".pi/agent/sessions/x/small.jsonl", PiSession().opening().bytes())
    homes.put(home / ".claude/projects/x/claude.jsonl", fixture("claude-code.jsonl"))
    homes.put(home / ".codex/sessions/2026/03/02/rollout.jsonl", fixture("codex.jsonl"))
    homes.put(home / ".gemini/tmp/x/chats/session.json", fixture("gemini.json"))
    homes.put(home / ".gemini/tmp/x/logs.json", b"[]")
    homes.put(home / ".claude/history.jsonl", b"{}\n")
    for path in home.rglob("*.json*"):
        os.utime(path, (time.time() - 3600,) * 2)
    old = time.time() - 8 * 24 * 3600
    for name in (".codex/sessions/2026/03/02/rollout.jsonl", ".claude/projects/x/claude.jsonl"):
        os.utime(home / name, (old, old))
    return home
