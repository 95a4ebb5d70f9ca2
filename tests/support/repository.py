"""A git repository made for a test, which knows nothing of the configuration of whoever runs it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.faults.tools import need

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "tester",
    "GIT_AUTHOR_EMAIL": "tester@example.org",
    "GIT_COMMITTER_NAME": "tester",
    "GIT_COMMITTER_EMAIL": "tester@example.org",
}


class Repository:
    """A work tree with git in it; `environment` is added to every call, without what would lead to other sources."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        need("git")
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHONPATH"))},
            **ENVIRONMENT,
            **(environment or {}),
        }
        if not (folder / ".git").exists():
            folder.mkdir(parents=True, exist_ok=True)
            self.git("init", "--quiet", "--initial-branch", "main")

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )

    def git(self, *arguments: str | Path) -> str:
        """Call git, which must succeed; return what it printed."""
        done = self.run("git", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def commit(self, message: str = "a turn") -> None:
        """Commit everything that git sees, past all hooks."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--no-verify", "--message", message)

    def staged(self) -> set[str]:
        """Return the files that differ between the index and the last commit."""
        return set(self.git("diff", "--cached", "--name-only").splitlines())

    def tracked(self) -> set[str]:
        return set(self.git("ls-tree", "-r", "--name-only", "HEAD").splitlines())

    def clone(self, folder: Path) -> Repository:
        """Return a fresh clone of what is committed."""
        self.git("clone", "--quiet", "--no-local", self.folder, folder)
        return Repository(folder, self.environment)
