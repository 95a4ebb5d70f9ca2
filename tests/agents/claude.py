"""Resumes a session with an installed version of Claude Code, and returns the request that it sent to the model."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.agents.installed import MODULES, node, program
from tests.agents.resuming import PROMPT, request_of
from tests.agents.standin import Request

OLD, NEW = "2.1.100", "2.1.329"
"""The last that is a script for Node at hand, and one that is a program of its own."""


@cache
def command(version: str) -> tuple[str, ...]:
    """Return what starts a version; nothing where it is not installed."""
    if version == NEW:
        own = (path for path in MODULES.glob("@anthropic-ai/claude-code-*/claude") if os.access(path, os.X_OK))
        found = next((path for path in own if _version(path.parent) == version), None)
        return (str(found),) if found else ()
    package, runtime = MODULES / f"claude-code-{version}", node()
    return (str(runtime), str(program(package, "claude"))) if runtime and package.is_dir() else ()


def _version(package: Path) -> str:
    return str(json.loads((package / "package.json").read_bytes())["version"])


def resume(version: str, session: Path, folder: Path) -> Request:
    """Resume a copy of a session in this folder, which is emptied first, with one more prompt.

    The folder is the same for every session that is compared: the agent tells the model where it is.
    """
    shutil.rmtree(folder, ignore_errors=True)
    home, cwd = folder / "home", folder / "project"
    cwd.mkdir(parents=True)
    place = home / ".claude" / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", str(cwd.resolve()))
    place.mkdir(parents=True)
    name, model = _named(session)
    shutil.copyfile(session, place / f"{name}.jsonl")
    start = (*command(version), "-p", "--resume", name, "--model", model, PROMPT)
    return request_of(f"Claude Code {version}", start, home, cwd, _environment)


def entries(session: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session."""
    for line in session.read_bytes().splitlines():
        yield json.loads(line)


def _named(session: Path) -> tuple[str, str]:
    """Return a session's id, and the last model that answered in it: to it the agent sends its own thinking back."""
    found = list(entries(session))
    answers = (entry["message"]["model"] for entry in reversed(found) if entry.get("type") == "assistant")
    name = next(str(entry["sessionId"]) for entry in found if entry.get("sessionId"))
    return name, next(str(model) for model in answers if not model.startswith("<"))


def _environment(url: str) -> dict[str, str]:
    """Keep the agent to itself; nor may it sum up the session, which would be a request of its own."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "no-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_AUTO_COMPACT": "1",
    }
