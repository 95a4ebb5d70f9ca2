"""What the hooks share: their log, the protocol of an agent's settings, and the commands in them."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from sessioncompress.core.text import printable
from sessioncompress.errors import FileFailed
from sessioncompress.store import disk, layout

LARGEST = 256 * 1024
"""Bytes of the log, and of the previous one, which it replaces."""

_LONGEST = 2000


def log_file() -> Path:
    """Locate the log. Raises FileFailed if no home is known."""
    return layout.state_folder() / "hook.log"


def note_in_log(hook: str, text: str) -> None:
    """Add a line, if possible: a hook never fails."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = printable(f"{at} {hook}: {text}")[:_LONGEST] + "\n"
    with suppress(OSError, FileFailed):
        path = log_file()
        disk.make_folder(path.parent)
        if (layout.size_of(path) or 0) >= LARGEST:
            disk.system.replace(path, path.with_name(f"{path.name}.1"))
        with disk.appending(path) as add:
            add(line.encode())


class Piece(NamedTuple):
    """A text to insert, and the character that it goes before."""

    at: int
    text: str


class AgentHooks(Protocol):
    """One agent's settings. `text` is the content of its file, None if there is none; nothing here touches the file."""

    title: str
    """The agent's name in messages."""

    def file(self) -> Path:
        """Locate the settings. Raises FileFailed if no home is known."""

    def programs(self, text: str) -> list[str]:
        """List the programs that our hooks in the text start; empty without hooks of ours."""

    def is_current(self, text: str, *, compact: bool) -> bool:
        """Tell whether our hooks, and no others of ours, are in the text just as `added` inserts them."""

    def added(self, text: str | None, *, compact: bool) -> list[Piece]:
        """List what to insert into a text without our hooks; `compact`: sessions that ended are compacted too.

        Raises Refused.
        """

    def taken_out(self, text: str) -> str | None:
        """Remove our hooks when there is no record of their insertion. Raises Refused."""

    def switched_off(self, text: str) -> str:
        """Describe what in the text disables all hooks; empty if nothing does."""


_OPTIONS = ("-P", "-m", "sessioncompress.hooks")
"""`-P`: the agent starts hooks in a project's folder, whose modules must not shadow Python's."""


COMPACT = "--compact"
"""Behind the hook of a session's end: compact it before it is compressed."""


def ended(*, compact: bool) -> tuple[str, ...]:
    """Build the arguments of the hook of a session's end."""
    return ("ended", COMPACT) if compact else ("ended",)


def command(*arguments: str) -> tuple[str, ...]:
    """Build the command of a hook, with the absolute path of this Python: the agent may have any PATH."""
    return (sys.executable, *_OPTIONS, *arguments)


def shell_line(*arguments: str) -> str:
    """Build the command for a shell. It succeeds even if that Python is gone or too old for `-P`.

    Python would exit with 2 then, and the agent would refuse every call.
    """
    return f"{shlex.join(command(*arguments))} || true"


def program_of(line: str) -> str | None:
    """Name the Python that a shell line of ours starts; None if the line is not ours."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return words[0] if tuple(words[1 : 1 + len(_OPTIONS)]) == _OPTIONS else None
