"""Resumes a session with an installed version of Claude Code, and returns the request that it sent to the model."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.agents.installed import MODULES, node, program
from tests.agents.replies import Reply, anthropic_call
from tests.agents.resuming import PROMPT, request_of, requests_of
from tests.agents.standin import Request

OLD, NEW = "2.1.100", "2.1.332"
"""The last that is a script for Node at hand, and one that is a program of its own."""

KEY = "no-key"


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


@dataclass(frozen=True, slots=True)
class Placed:
    home: Path
    cwd: Path
    resuming: tuple[str, ...]
    """The options that name the session, and the model that answered last: to it the agent sends thinking back."""


def resume(version: str, session: Path, folder: Path) -> Request:
    """Resume a copy of a session with one more prompt; the folder is as for `placed`."""
    there = placed(session, folder)
    start = (*command(version), "-p", *there.resuming, PROMPT)
    return request_of(f"Claude Code {version}", start, there.home, there.cwd, environment)


def resume_subagent(version: str, session: Path, subagent: Path, folder: Path) -> Request:
    """Let the model of a resumed session send one of its subagents a message; return what that one sent to the model.

    The subagent's lines are put beside the session, as its own; the folder is as for `placed`.
    """
    there = placed(session, folder)
    name = next(str(entry["agentId"]) for entry in entries(subagent))
    beside = next(there.home.glob(".claude/projects/*")) / there.resuming[1] / "subagents"
    beside.mkdir(parents=True)
    shutil.copyfile(subagent, beside / f"agent-{name}.jsonl")
    asks = anthropic_call("SendMessage", {"to": name, "message": PROMPT, "summary": "The next step."})
    start = (*command(version), "-p", *there.resuming, PROMPT)
    found = requests_of(f"Claude Code {version}", start, there.home, there.cwd, _with_teams, asks)
    task = next(str(entry["message"]["content"]) for entry in entries(subagent))
    (own,) = (request for request in found if task in str(request.body["messages"][0]))
    return own


def go_on(
    version: str,
    there: Placed,
    first: Reply | None,
    *options: str,
    prompt: str = PROMPT,
    around: Callable[[str], Mapping[str, str]] | None = None,
    **how: Any,
) -> list[Request]:
    """Go on with a session where it was placed; `first` answers the first request. Returns the requests.

    `around` makes another environment; the rest is as for requests_of().
    """
    start = (*command(version), "-p", *there.resuming, *options, prompt)
    return requests_of(f"Claude Code {version}", start, there.home, there.cwd, around or environment, first, **how)


def placed(session: Path, folder: Path) -> Placed:
    """Put a copy of a session into this folder, which is emptied first.

    It is to be the same for all sessions that are compared: the agent tells the model where it is.
    """
    shutil.rmtree(folder, ignore_errors=True)
    home, cwd = folder.resolve() / "home", folder.resolve() / "project"
    cwd.mkdir(parents=True)
    place = home / ".claude" / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", str(cwd))
    place.mkdir(parents=True)
    found = list(entries(session))
    name = next(str(entry["sessionId"]) for entry in found if entry.get("sessionId"))
    answers = (str(entry["message"]["model"]) for entry in reversed(found) if entry.get("type") == "assistant")
    model = next(each for each in answers if not each.startswith("<"))
    shutil.copyfile(session, place / f"{name}.jsonl")
    return Placed(home, cwd, ("--resume", name, "--model", model))


def entries(session: Path) -> Iterator[dict[str, Any]]:
    for line in session.read_bytes().splitlines():
        yield json.loads(line)


def environment(url: str) -> dict[str, str]:
    """Keep the agent to itself, and let it neither sum up a long session first nor find it too long to be sent.

    How long a session is it takes from the usage that the session recorded, whatever has become of it since.
    """
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE": "100000000",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_AUTO_COMPACT": "1",
    }


def _with_teams(url: str) -> dict[str, str]:
    """Let the agent have its tool to send subagents messages, which the older version offers only when asked to."""
    return environment(url) | {"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1"}
