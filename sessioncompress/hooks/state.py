"""Where hooks keep what is of no session: their log, and what was put into which file."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """Return the folder, there or not: in `XDG_STATE_HOME`, which counts only where it is absolute."""
    named = os.environ.get("XDG_STATE_HOME", "")
    home = named if os.path.isabs(named) else os.path.expanduser("~/.local/state")  # noqa: PTH111, PTH117 - no import
    return Path(home, "sessioncompress")
