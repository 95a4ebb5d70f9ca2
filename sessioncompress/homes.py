"""Where agents keep their sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_AGENT_FOLDERS = (
    ("PI_CODING_AGENT_DIR", "~/.pi/agent", "sessions/*"),
    ("OMP_CODING_AGENT_DIR", "~/.omp/agent", "sessions/*"),
    ("CLAUDE_CONFIG_DIR", "~/.claude", "projects/*"),
    ("OPENCLAW_STATE_DIR", "~/.openclaw", "agents/*/sessions"),
    ("CODEX_HOME", "~/.codex", "sessions/*/*/*"),
    ("CODEX_HOME", "~/.codex", "archived_sessions"),
    ("GEMINI_CLI_HOME", "~", ".gemini/tmp/*/chats"),
)
"""Environment variable, folder without it, and where below it sessions lie."""
_BELOW = (".GITCLAW/state/sessions", "state/sessions")


def agent_folders() -> Iterator[Path]:
    """Yield the folders of this user's agents that may hold sessions."""
    for home, pattern in _homes():
        yield from sorted(home.glob(pattern))


def agent_roots() -> Iterator[Path]:
    """Yield the folders, there or not, below which all of those lie: what may not be read there is not passed over."""
    for home, pattern in _homes():
        yield home / pattern.partition("/")[0]


def below(folder: Path) -> Iterator[Path]:
    """Yield where an agent that keeps its state in a project has the sessions of a project in that folder."""
    yield from (folder / each for each in _BELOW)


def _homes() -> Iterator[tuple[Path, str]]:
    for variable, usual, pattern in _AGENT_FOLDERS:
        # Where nobody has such a home, `~` stays as it is, and nothing lies there.
        yield Path(os.path.expanduser(os.environ.get(variable) or usual)), pattern  # noqa: PTH111
