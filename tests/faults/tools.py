"""What a fault test needs of the machine; where it is missing the test skips, in CI only for what no CI can have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import sessioncompress

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(sessioncompress.__file__).parent.parent),
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}


def need(program: str) -> str:
    """Return where a program is; skip the test where it is not, and fail in CI: the promise would go untested."""
    found = shutil.which(program)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(f"{program} is not installed")
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def command(arguments: Sequence[str], path: Path) -> list[str]:
    """Return the command line that runs one of our commands on a session."""
    return [sys.executable, "-m", "sessioncompress", *arguments, str(path)]


def run(line: Sequence[str], environment: Mapping[str, str] = ENVIRONMENT) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end."""
    return subprocess.run(line, capture_output=True, text=True, env=environment, check=False, timeout=120)
