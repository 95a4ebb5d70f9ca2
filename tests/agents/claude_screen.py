"""Opens a session on the screen of an installed Claude Code, and returns what is drawn there."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.agents import claude
from tests.agents.resuming import SECONDS, ResumeError, environment_of
from tests.agents.standin import StandIn

_ROWS, _COLUMNS = 500, 160
"""All of a small session at once."""

_SETTLED = 1.0
"""Seconds without a further character after which all is drawn."""

_CONTROLS = re.compile(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78c]")


def drawn(version: str, session: Path, folder: Path, last: str) -> str:
    """Return what is drawn, without any white space, once that shows the session's last words.

    Raises ResumeError where it never does. The folder is emptied first.
    """
    there = claude.placed(session, folder)
    (there.home / ".claude.json").write_text(json.dumps(settings(version, there.cwd)))
    start = (*claude.command(version), *there.resuming)
    with StandIn() as stand_in:
        environment = {**environment_of(there.home, stand_in.url), **claude.environment(stand_in.url)}
        return shown(start, there.cwd, environment, last)


def shown(start: Sequence[str], cwd: Path, environment: dict[str, str], last: str) -> str:
    """Run a command, and return what it draws, as `drawn` does."""
    with _terminal(start, cwd, environment) as screen:
        return _read(screen, bare(last))


def bare(text: str) -> str:
    """Return a text without white space, for which the agent moves the cursor."""
    return "".join(text.split())


def settings(version: str, cwd: Path) -> dict[str, object]:
    """Answer the questions that the agent asks at its first start."""
    return {
        "hasCompletedOnboarding": True,
        "lastOnboardingVersion": version,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [claude.KEY], "rejected": []},
        "projects": {str(cwd): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }


@contextmanager
def _terminal(start: Sequence[str], cwd: Path, settings: dict[str, str]) -> Iterator[int]:
    """Run a command in a terminal, and yield the descriptor of what it draws; it is ended with the block."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    environment = {**settings, "TERM": "xterm-256color"}
    with subprocess.Popen(start, cwd=cwd, env=environment, stdin=its, stdout=its, stderr=its) as running:
        os.close(its)
        try:
            yield ours
        finally:
            running.kill()
            os.close(ours)


def _read(screen: int, last: str) -> str:
    raw = b""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if select.select([screen], [], [], _SETTLED)[0]:
            raw += os.read(screen, 1 << 16)
        elif last in (shown := bare(_CONTROLS.sub(b"", raw).decode(errors="replace"))):
            return shown
    raise ResumeError(f"the screen never showed {last!r}: {raw[-2000:]!r}")
