"""A user who works in a clone of a repository that somebody else made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.store.layout import FOLDER, all_stores
from tests.faults.tools import need
from tests.support.runs import as_user, fixture

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Victim:
    """A user with a home and a clone, in which a session lies; `tree` is all of it but for the log of hooks."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    @property
    def session(self) -> Path:
        return self.clone / "sessions" / "s.jsonl"

    @property
    def stores(self) -> Path:
        return self.session.parent / FOLDER

    def works(self) -> str:
        """Let the user have worked elsewhere before; return the name of the folder of hidden stores."""
        path = self.folder / "elsewhere.jsonl"
        path.write_bytes(fixture("claude-code.jsonl"))
        assert self.sessioncompress("compress", path).returncode == 0
        (store,) = all_stores(path)
        shutil.rmtree(store.work)
        return store.folder.name

    def commits(self, section: Mapping[str, Any] | str, name: str = "compression.json") -> Path:
        """Put a policy, or any text, into the clone."""
        file = self.clone / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(section if isinstance(section, str) else json.dumps({"session": section}))
        return file

    def configures(self, section: Mapping[str, Any]) -> Path:
        file = self.home / ".config" / "sessioncompress" / "config.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"session": section}))
        file.chmod(0o600)
        return file

    @property
    def environment(self) -> dict[str, str]:
        """All that a command of the user's finds in its environment."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "GIT_"))}
        state = str(self.folder / "state")
        return environment | {"HOME": str(self.home), "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": state}

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment | variables
        return subprocess.run(command, cwd=self.clone, env=environment, capture_output=True, text=True, check=False)

    def sessioncompress(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return as_user(self.environment, self.clone, *arguments)

    def sees(self) -> set[str]:
        self.run("git", "add", "--all")
        return set(self.run("git", "ls-files").stdout.split())

    def tree(self) -> dict[Path, bytes | None]:
        """Return every file of the user with its bytes, every folder without."""
        found = [path for path in self.folder.rglob("*") if "state" not in path.relative_to(self.folder).parts]
        return {path: path.read_bytes() if path.is_file() and not path.is_symlink() else None for path in found}


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    """Return a user who has cloned a repository and worked in it."""
    found = Victim(tmp_path)
    found.home.mkdir()
    found.session.parent.mkdir(parents=True)
    found.session.write_bytes(fixture("pi-anthropic.jsonl"))
    found.run(need("git"), "init", "--quiet")
    (found.clone / "out").symlink_to(found.home)
    (found.clone / "sessions" / "up").symlink_to("..")
    return found
