"""Loads a session with oh-my-pi's own session loader, and returns the messages that it would go on from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.agents.installed import MODULES, bun

SCRIPT = Path(__file__).with_name("omp_context.ts")
SECONDS = 60


class LoadError(RuntimeError):
    """oh-my-pi did not load the session."""


def installed() -> bool:
    """Tell whether oh-my-pi and a bun to run it are there."""
    return (MODULES / "@oh-my-pi" / "pi-coding-agent" / "package.json").is_file() and bun() is not None


def context(session: Path, workdir: Path) -> list[dict[str, Any]]:
    """Return the messages of a session, loaded from a copy: the loader may write what it migrates."""
    runtime = bun()
    if runtime is None:
        raise LoadError("no bun was found")
    home = workdir / "omp-home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    copy = shutil.copyfile(session, home / session.name)
    output = home / "messages.json"
    done = subprocess.run(
        [str(runtime), str(SCRIPT), str(copy), str(output)],
        cwd=SCRIPT.parent,
        env={
            "PATH": os.defpath,
            "HOME": str(home),
            "PI_CODING_AGENT_DIR": str(home / "agent"),
            "BUN_RUNTIME_TRANSPILER_CACHE_PATH": str(MODULES / ".cache" / "bun"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode or not output.exists():
        raise LoadError(f"oh-my-pi: exit {done.returncode}: {done.stderr[-2000:]}")
    found: list[dict[str, Any]] = json.loads(output.read_bytes())
    return found
