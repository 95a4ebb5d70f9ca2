"""Resumes a session with the installed Copilot CLI, and returns the request that it sent to the model."""

from __future__ import annotations

import json
import platform
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.agents.installed import MODULES
from tests.agents.replies import Reply
from tests.agents.resuming import PROMPT, requests_of
from tests.agents.standin import Request

VERSION = "1.0.102"
_SYSTEM = {"Linux": "linux", "Darwin": "darwin"}.get(platform.system(), "win32")
_CHIP = "arm64" if platform.machine() in ("arm64", "aarch64") else "x64"
PROGRAM = MODULES / "@github" / f"copilot-{_SYSTEM}-{_CHIP}" / "copilot"
CACHE = MODULES / ".cache" / "copilot"
"""Where it unpacks itself, once for all homes."""


@cache
def installed() -> bool:
    return PROGRAM.is_file()


@dataclass(frozen=True, slots=True)
class Placed:
    home: Path
    cwd: Path
    session: Path


def resume(session: Path, folder: Path) -> Request:
    """Resume a copy of a session in this folder, which is emptied first, with one more prompt."""
    return max(go_on(placed(session, folder)), key=lambda request: request.size)


def placed(session: Path, folder: Path) -> Placed:
    """Put a copy of a session into this folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    home, cwd = folder / "home", folder.resolve() / "project"
    cwd.mkdir(parents=True)
    name = str(json.loads(session.read_bytes().splitlines()[0])["data"]["sessionId"])
    copy = home / ".copilot" / "session-state" / name / "events.jsonl"
    copy.parent.mkdir(parents=True)
    (copy.parent / "workspace.yaml").write_text(f"id: {name}\ncwd: {cwd}\n")
    shutil.copyfile(session, copy)
    return Placed(home, cwd, copy)


def go_on(there: Placed, first: Reply | None = None, prompt: str = PROMPT) -> list[Request]:
    """Go on with a session where it was placed, and return the requests; `first` answers the first one."""
    mode = ("--no-color", "--disable-client-telemetry")
    command = (str(PROGRAM), f"--resume={there.session.parent.name}", *mode, "-p", prompt)
    return requests_of(
        f"Copilot CLI {VERSION}", command, there.home, there.cwd, lambda url: _environment(there.home, url), first
    )


def _environment(home: Path, url: str) -> dict[str, str]:
    return {
        "COPILOT_HOME": str(home / ".copilot"),
        "COPILOT_CACHE_HOME": str(CACHE),
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_ALLOW_ALL": "true",
        "COPILOT_PROVIDER_BASE_URL": url,
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_API_KEY": "no-key",
        "COPILOT_MODEL": "claude-sonnet-4.5",
        "SHELL": "/bin/bash",
    }
