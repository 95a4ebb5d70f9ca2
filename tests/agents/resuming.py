"""Starts an agent on a session in a home of its own, with the stand-in for all the world, and returns what it sent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.agents.installed import MODULES
from tests.agents.replies import Reply
from tests.agents.sessions import ROOT
from tests.agents.standin import Request, StandIn

PROMPT = "next step"
SECONDS = 120


class ResumeError(RuntimeError):
    """The agent did not go on with the session as it should."""


def request_of(
    agent: str, command: Sequence[str], home: Path, cwd: Path, environment: Callable[[str], Mapping[str, str]]
) -> Request:
    """Run a command and return the one request that it sent; for the rest see `requests_of`."""
    found = requests_of(agent, command, home, cwd, environment)
    if len(found) != 1:
        raise ResumeError(f"{agent} sent {[request.path for request in found]}")
    return found[0]


def requests_of(
    agent: str,
    command: Sequence[str],
    home: Path,
    cwd: Path,
    environment: Callable[[str], Mapping[str, str]],
    first: Reply | None = None,
    refuses: Callable[[Request], tuple[int, str] | None] = lambda _: None,
) -> list[Request]:
    """Run a command and return the requests that it sent.

    `environment` is given the address of the stand-in; `first` answers the first request, and those are refused that
    the stand-in `refuses`. Raises ResumeError where the command failed, or wanted to reach anything else.
    """
    with StandIn(first=first, refuses=refuses) as stand_in:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**environment_of(home, stand_in.url), **environment(stand_in.url)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    if done.returncode or stand_in.strangers:
        said = f"exit {done.returncode}, wanted {stand_in.strangers}"
        raise ResumeError(f"{agent}: {said}: {(done.stdout + done.stderr)[-2000:]}")
    return stand_in.requests


def environment_of(home: Path, url: str) -> dict[str, str]:
    """Return a fresh environment; whatever would leave the machine goes to the stand-in, which notes it."""
    return {
        "PATH": os.defpath,
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "HTTP_PROXY": url,
        "HTTPS_PROXY": url,
        "NO_PROXY": "127.0.0.1,localhost",
        "NODE_COMPILE_CACHE": str(MODULES / ".cache" / "compiled"),
    }
