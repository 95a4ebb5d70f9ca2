"""Finds what npm installed beside this file: the agents, and a runtime for each."""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from pathlib import Path

import pytest

MODULES = Path(__file__).parent / "node_modules"
HOW = "npm install --prefix tests/agents --no-package-lock"


@cache
def node(modules: Path = MODULES) -> Path | None:
    """Return the Node that was installed with the agents, or else the one on the path."""
    own = (path for path in sorted(modules.glob("node-*/bin/node")) if os.access(path, os.X_OK))
    found = next(own, None) or shutil.which("node")
    return Path(found) if found else None


@cache
def bun(modules: Path = MODULES) -> Path | None:
    """Return the bun that was installed with the agents, or else the one on the path."""
    own = (path for path in sorted(modules.glob("@oven/bun-*/bin/bun")) if os.access(path, os.X_OK))
    found = next(own, None) or shutil.which("bun")
    return Path(found) if found else None


def program(package: Path, name: str) -> Path:
    """Return the script that a package installs under a name."""
    return package / str(json.loads((package / "package.json").read_bytes())["bin"][name])


def need(present: object, what: str) -> None:
    """Skip where an agent is missing; in CI that is a failure, or the promise would go untested unseen."""
    if present:
        return
    reason = f"{what} is not installed: {HOW}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
