"""Resumes a session with the installed Gemini CLI, and returns the request that it sent to the model."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.agents.installed import MODULES, node, program
from tests.agents.replies import Reply
from tests.agents.resuming import PROMPT, request_of, requests_of
from tests.agents.standin import Request

VERSION = "0.61.0"
PLACEHOLDER = "skip_thought_signature_validator"
"""The signature that the agent gives a call which has none of its own."""

SETTINGS: dict[str, Any] = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "telemetry": {"enabled": False},
}
_PROJECT = "project"


@cache
def installed() -> bool:
    """Tell whether the Gemini CLI and a Node to run it are there."""
    return (MODULES / "@google" / "gemini-cli" / "package.json").is_file() and node() is not None


def resume(session: Path, folder: Path) -> Request:
    """Resume a copy of a session in this folder, which is emptied first, with one more prompt.

    The folder is the same for every session that is compared: the agent tells the model where it is.
    """
    return request_of(f"Gemini CLI {VERSION}", *_started(session, folder, {}), environment)


@dataclass(frozen=True, slots=True)
class Placed:
    home: Path
    cwd: Path
    session: Path
    command: tuple[str, ...]


def placed(session: Path, folder: Path) -> Placed:
    """Put a copy of a session into this folder, which is emptied first; its agent may write files."""
    command, home, cwd = _started(session, folder, {})
    return Placed(home, cwd, copy_in(folder, session.suffix), (*command, "--approval-mode", "yolo"))


def go_on(there: Placed, first: Reply) -> list[Request]:
    """Go on with a session where it was placed, and return the requests; `first` answers the first one."""
    return requests_of(f"Gemini CLI {VERSION}", there.command, there.home, there.cwd, environment, first)


def resume_compressing(session: Path, folder: Path, threshold: float) -> list[Request]:
    """Resume a session whose history the agent sums up where it takes such a share of the model's window."""
    settings = {"model": {"compressionThreshold": threshold}}
    return requests_of(f"Gemini CLI {VERSION}", *_started(session, folder, settings), environment)


def _started(session: Path, folder: Path, settings: dict[str, Any]) -> tuple[tuple[str, ...], Path, Path]:
    """Lay out a home with a copy of the session; return the command, the home, and where it is to run."""
    shutil.rmtree(folder, ignore_errors=True)
    home, cwd = folder / "home", folder.resolve() / _PROJECT
    cwd.mkdir(parents=True)
    kept = copy_in(folder, session.suffix)
    kept.parent.mkdir(parents=True)
    (kept.parents[1] / ".project_root").write_text(str(cwd))
    (home / ".gemini" / "projects.json").write_text(json.dumps({"projects": {str(cwd): _PROJECT}}))
    (home / ".gemini" / "settings.json").write_text(json.dumps({**SETTINGS, **settings}))
    shutil.copyfile(session, kept)
    script = program(MODULES / "@google" / "gemini-cli", "gemini")
    return (str(node()), str(script), "--model", model_of(session), "--resume", "latest", "-p", PROMPT), home, cwd


def copy_in(folder: Path, suffix: str) -> Path:
    """Return where a folder has its session; the agent itself makes a `.jsonl` of a `.json` that it resumes."""
    chats = folder / "home" / ".gemini" / "tmp" / _PROJECT / "chats"
    return chats / f"session-2026-01-01T00-00-{'0' * 8}{suffix}"


def messages(session: Path) -> list[dict[str, Any]]:
    """Return the messages of a session: of its document, or the records of its lines."""
    if session.suffix == ".json":
        found: list[dict[str, Any]] = json.loads(session.read_bytes())["messages"]
        return found
    return [json.loads(line) for line in session.read_bytes().splitlines()]


def model_of(session: Path) -> str:
    """Return the last model that answered: without a name the agent asks a model which one to take."""
    found = [each for line in messages(session) for each in (line, *line.get("$set", {}).get("messages", ()))]
    return next(str(message["model"]) for message in reversed(found) if message.get("model"))


def environment(url: str) -> dict[str, str]:
    return {
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "no-key",
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
