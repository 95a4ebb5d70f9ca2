"""What the tests of the hooks in real agents share: installing, waiting for the process that comes after an end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tests.agents.sessions import ROOT
from tests.agents.standin import Request

SECONDS = 30
POLICY = {"sizeThresholdKB": 0, "minSavedKB": 0, "turnThresholdBeforeCompress": 1}
"""A fixture is to be compressed, however small it is."""


def hook(action: str, agent: str, home: Path, *options: str, **environment: str) -> str:
    """Run `sessioncompress hook` as a user with that home would; return what it said."""
    start = [sys.executable, "-P", "-m", "sessioncompress", "hook", action, agent, "--yes", *options]
    own = {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(start, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def small_pays(folder: Path) -> None:
    """Let sessions in this folder be compressed whatever their size."""
    (folder / "compression.json").write_text(json.dumps({"session": POLICY}))


def reference_after(session: Path, home: Path) -> str:
    """Wait until the session was compressed behind the agent; return a marker of it. The agent itself let it grow."""
    log = home / ".local" / "state" / "sessioncompress" / "hook.log"
    until = time.monotonic() + SECONDS
    while not (log.exists() and " compress: " in log.read_text()):
        assert time.monotonic() < until, log.read_text() if log.exists() else f"nothing in {log}"
        time.sleep(0.1)
    assert re.search(r" compress: .* smaller", log.read_text()), log.read_text()
    assert (session.parent / ".sessioncompress").is_dir()
    form = r"\[\[sessioncompress: [^\]]* kept on disk: sessioncompress show [0-9a-f]+\]\]"
    found = re.search(form, session.read_text(encoding="utf-8"))
    assert found
    return found[0]


def said_back(requests: Iterable[Request]) -> str:
    """Return what the model gets to read after its call."""
    *_, last = requests
    said = next(last.body[key] for key in ("messages", "input", "contents") if key in last.body)
    return json.dumps(said[-1])
