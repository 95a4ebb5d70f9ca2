"""Resumes a session with the installed Qwen Code, and returns the request that it sent to the model."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.agents.installed import MODULES, node, program
from tests.agents.replies import Reply
from tests.agents.resuming import PROMPT, requests_of
from tests.agents.standin import Request

VERSION = "0.24.4"

SETTINGS: dict[str, Any] = {
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "openai"}},
    "telemetry": {"enabled": False},
}
_CWD = re.compile(rb'"cwd":"[^"]*"')


@cache
def installed() -> bool:
    """Tell whether Qwen Code and a Node to run it are there."""
    return (MODULES / "@qwen-code" / "qwen-code" / "package.json").is_file() and node() is not None


def resume(session: Path, folder: Path) -> Request:
    """Resume a copy of a session in this folder, which is emptied first, with one more prompt.

    Behind it the agent asks for something else, in a smaller request.
    """
    return max(go_on(placed(session, folder)), key=lambda request: request.size)


@dataclass(frozen=True, slots=True)
class Placed:
    home: Path
    cwd: Path
    session: Path


def placed(session: Path, folder: Path) -> Placed:
    """Put a copy of a session into this folder, which is emptied first.

    The agent takes only sessions of the folder in which it runs: the copy is of that one.
    """
    shutil.rmtree(folder, ignore_errors=True)
    home, cwd = folder / "home", folder.resolve() / "project"
    cwd.mkdir(parents=True)
    copy = copy_in(folder, session)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(_CWD.sub(b'"cwd":' + json.dumps(str(cwd)).encode(), session.read_bytes()))
    (home / ".qwen" / "settings.json").write_text(json.dumps(SETTINGS))
    return Placed(home, cwd, copy)


def go_on(there: Placed, first: Reply | None = None) -> list[Request]:
    """Go on with a session where it was placed, and return the requests; `first` answers the first one."""
    script = program(MODULES / "@qwen-code" / "qwen-code", "qwen")
    mode = ("--approval-mode", "yolo", "--auth-type", "openai", "--model", "qwen3-coder-plus")
    command = (str(node()), str(script), *mode, "--resume", there.session.stem, "-p", PROMPT)
    return requests_of(f"Qwen Code {VERSION}", command, there.home, there.cwd, environment, first)


def copy_in(folder: Path, session: Path) -> Path:
    """Return where a folder has its copy of a session."""
    name = str(json.loads(session.read_bytes().splitlines()[0])["sessionId"])
    project = re.sub("[^a-zA-Z0-9]", "-", str(folder.resolve() / "project"))
    return folder / "home" / ".qwen" / "projects" / project / "chats" / f"{name}.jsonl"


def environment(url: str) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "no-key",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_MODEL": "qwen3-coder-plus",
        "QWEN_TELEMETRY_ENABLED": "false",
    }
