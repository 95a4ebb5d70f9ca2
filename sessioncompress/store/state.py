"""The folder for what belongs to a user and not to a session: a key, the hooks' log, what hooks were put where."""

from __future__ import annotations

import os
from pathlib import Path

from sessioncompress.errors import FileFailed


def folder() -> Path:
    """Return the folder, there or not: in `XDG_STATE_HOME`, which counts only where it is absolute.

    Raises FileFailed where no home is known: the working folder may be anyone's project.
    """
    named = os.environ.get("XDG_STATE_HOME", "")
    home = named if os.path.isabs(named) else at_home("~/.local/state")  # noqa: PTH117 - as in the line below
    return Path(home, "sessioncompress")


def at_home(named: str) -> Path:
    """Return a path that may begin with `~`. Raises FileFailed where that is nobody's home."""
    path = os.path.expanduser(named)  # noqa: PTH111 - that of a Path raises what is no error of the system
    if named.startswith("~") and not os.path.isabs(path):  # noqa: PTH117
        state, remedy = "Nothing is changed.", "Set HOME."
        raise FileFailed("no home folder is known", where=named, state=state, remedy=remedy)
    return Path(path)
