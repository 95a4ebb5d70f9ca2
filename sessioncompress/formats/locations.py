"""Where agents keep their sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

_AGENT_FOLDERS = (
    ("PI_CODING_AGENT_DIR", "~/.pi/agent", "sessions/*"),
    ("PI_CODING_AGENT_SESSION_DIR", "", ""),
    ("OMP_CODING_AGENT_DIR", "~/.omp/agent", "sessions/*"),
    ("", "~/.omp", "profiles/*/agent/sessions/*"),
    ("XDG_DATA_HOME", "", "omp/sessions/*"),
    ("XDG_DATA_HOME", "", "omp/profiles/*/sessions/*"),
    ("CLAUDE_CONFIG_DIR", "~/.claude", "projects/*"),
    ("CLAUDE_CONFIG_DIR", "~/.claude", "projects/*/*/subagents"),
    ("OPENCLAW_STATE_DIR", "~/.openclaw", "agents/*/sessions"),
    ("CLAWDBOT_STATE_DIR", "~/.clawdbot", "agents/*/sessions"),
    ("", "~/.moltbot", "agents/*/sessions"),
    ("CODEX_HOME", "~/.codex", "sessions/*/*/*"),
    ("CODEX_HOME", "~/.codex", "archived_sessions"),
    ("GEMINI_CLI_HOME", "~", ".gemini/tmp/*/chats"),
    ("", "~/.gen", "sessions"),
)
"""Environment variable, folder without it (where that is empty there is none), and where below it sessions lie.

oh-my-pi heeds the variable of pi too, and what it writes there is found there; `agent` is left out under
XDG_DATA_HOME. OpenClaw was Clawdbot and Moltbot before.
"""
_STORAGE = ("session", "message", "part")
_BELOW = (".GITCLAW/state/sessions", "state/sessions")


def agent_folders() -> Iterator[Path]:
    """Find the folders of this user's agents that may hold sessions."""
    for home, pattern in _homes():
        yield from sorted(home.glob(pattern)) if pattern else [home]


def agent_roots() -> Iterator[Path]:
    """List the folders, there or not, below which all of those lie: what may not be read there is not passed over."""
    roots = (home.joinpath(*takewhile(lambda step: step != "*", pattern.split("/"))) for home, pattern in _homes())
    yield from dict.fromkeys(roots)


def subagents(session: Path) -> list[Path]:
    """Find the sessions of a session's subagents, which Claude Code keeps in a folder of its name."""
    return sorted(session.with_suffix("").glob("subagents/*.jsonl"))


def below(folder: Path) -> Iterator[Path]:
    """Tell where an agent that keeps its state in a project has the sessions of a project in that folder."""
    yield from (folder / each for each in _BELOW)


def opencode() -> Path | None:
    """Find this user's folder of OpenCode where sessions lie in it, which only OpenCode itself can give out."""
    folder = _expanded(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "opencode"
    return folder if holds_opencode(folder) else None


def holds_opencode(folder: Path) -> bool:
    """Tell whether a folder is one in which OpenCode keeps sessions: its database, or the files that were before it."""
    stored = any(all(map(os.path.isdir, (top / each for each in _STORAGE))) for top in (folder, folder / "storage"))
    return stored or next(folder.glob("opencode*.db"), None) is not None


def _homes() -> Iterator[tuple[Path, str]]:
    for variable, usual, pattern in _AGENT_FOLDERS:
        if named := os.environ.get(variable) or usual:
            yield _expanded(named), pattern


def _expanded(named: str) -> Path:
    # Where nobody has such a home, `~` stays as it is, and nothing lies there.
    return Path(os.path.expanduser(named))  # noqa: PTH111


FIRST_BYTES = 4096
"""So much of a file is read: what names a session stands at its beginning."""

_SIGNS: tuple[tuple[bytes, ...], ...] = (
    (b'"sessionId"', b'"projectHash"'),
    (b'"info"', b'"projectID"', b'"directory"'),
    (b'"metadata"', b'"createdAt"', b'"provider"', b'"cwd"'),
)
"""The keys that stand there in sessions of Gemini CLI, in exports of OpenCode, and in sessions of gencode.

A chat names no agent: it has none, since a document that is only met may be anything.
"""


def may_be_session(first: bytes) -> bool:
    """Tell whether a document that begins so may be a session; whether it is one, its format tells from all of it."""
    return any(all(key in first for key in keys) for keys in _SIGNS)


_LINES: tuple[tuple[tuple[bytes, ...], tuple[bytes, ...]], ...] = (
    ((b'"type":"session"', b'"id"', b'"timestamp"', b'"cwd"'), (b'"createdAt"', b'"seq"')),
    ((b'"type":"session_meta"', b'"timestamp"', b'"payload"', b'"cwd"'), ()),
    ((b'"parentUuid"', b'"sessionId"', b'"type"'), (b'"parts"',)),
)
"""What stands there, and what does not, in lines as pi and its relatives, Codex and Claude Code write them."""


def is_plainly_session(first: bytes) -> bool:
    """Tell whether a file that begins so is a session for certain; of any other its format must be asked."""
    if not first.startswith(b"{"):
        return False
    lines = (all(key in first for key in has) and not any(key in first for key in lacks) for has, lacks in _LINES)
    return any(lines) or may_be_session(first)
