"""What every test runs with: a folder of its own for what belongs to a user and not to a session."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

_MADE: list[tempfile.TemporaryDirectory[str]] = []


def pytest_configure(config: pytest.Config) -> None:
    """Put it where commands that tests start find it too, and the key of late links in it."""
    del config
    made = tempfile.TemporaryDirectory(prefix="sessioncompress-state-")
    _MADE.append(made)
    os.environ["XDG_STATE_HOME"] = made.name
    key = Path(made.name, "sessioncompress", "late-links.key")
    key.parent.mkdir(mode=0o700)
    key.touch(mode=0o600)
    key.write_bytes(bytes(range(32)))
    # Tests of other users' rights run without root's.
    Path(made.name).chmod(0o755)
    key.parent.chmod(0o755)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove it."""
    del config
    _MADE.pop().cleanup()
