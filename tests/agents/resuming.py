"""Starts an agent on a session in a home of its own, with the stand-in for all the world, and returns the request it sent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.agents.standin import Request, StandIn

PROMPT = "next step"
SECONDS = 120


class ResumeError(RuntimeError):
    """The agent did not send the one request of a resumed session."""


def request_of(
    agent: str, command: Sequence[str], home: Path, cwd: Path, environment: Callable[[str], Mapping[str, str]]
) -> Request:
    """Run a command and return the request that it sent; `environment` is given the address of the stand-in.

    Raises ResumeError where it failed, sent none or several, or wanted to reach anything else.
    """
    with StandIn() as stand_in:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**_environment(home, stand_in.url), **environment(stand_in.url)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    sent = [request.path for request in stand_in.requests]
    if len(sent) != 1 or done.returncode or stand_in.strangers:
        said = f"exit {done.returncode}, sent {sent}, wanted {stand_in.strangers}"
        raise ResumeError(f"{agent}: {said}: {(done.stdout + done.stderr)[-2000:]}")
    return stand_in.requests[0]


def _environment(home: Path, url: str) -> dict[str, str]:
    """Return a fresh environment; whatever would leave the machine goes to the stand-in, which notes it."""
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "HTTP_PROXY": url,
        "HTTPS_PROXY": url,
        "NO_PROXY": "127.0.0.1,localhost",
    }
