"""What is to be known of an agent so that hooks of ours can be put into its settings, and taken out."""

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
from sessioncompress.store.disk import appending

LARGEST = 256 * 1024
"""Bytes of the log, and of the one before it, which it takes the place of."""

_LONGEST = 2000


def log_file() -> Path:
    """Return where the log is."""
    return layout.state_folder() / "hook.log"


def note_in_log(hook: str, text: str) -> None:
    """Add a line. Where that cannot be done nothing happens: a hook never fails."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = printable(f"{at} {hook}: {text}")[:_LONGEST] + "\n"
    with suppress(OSError, FileFailed):
        _make_room(log_file())
        with appending(log_file()) as add:
            add(line.encode())


def _make_room(path: Path) -> None:
    disk.make_folder(path.parent)
    with suppress(FileNotFoundError):
        if path.lstat().st_size >= LARGEST:
            disk.replace(path, path.with_name(f"{path.name}.1"))


class Piece(NamedTuple):
    """A text that goes into a file, and before which character."""

    at: int
    text: str


class AgentHooks(Protocol):
    """One agent. A text is what its file holds, None where there is none; nothing here reads or writes a file."""

    title: str
    """The agent's name, as messages say it."""

    def file(self) -> Path:
        """Return where the hooks go. Raises FileFailed where no home is known."""

    def programs(self, text: str) -> list[str]:
        """Return the programs that hooks of ours in the text start: none where there are no such hooks."""

    def is_current(self, text: str) -> bool:
        """Say whether hooks of ours are in the text just as `added` puts them in."""

    def added(self, text: str | None) -> list[Piece]:
        """Return what is to be put into a text without hooks of ours. Raises Refused."""

    def taken_out(self, text: str) -> str | None:
        """Return the text without hooks of ours, of which nobody knows any more how they came in. Raises Refused."""

    def switched_off(self, text: str) -> str:
        """Say what in the text keeps the agent from calling any hook; empty where nothing does."""


_MODULE = "sessioncompress.hooks"
_OPTIONS = ("-P", "-m", _MODULE)
"""`-P`: the agent starts hooks in a project's folder, of which no module may be taken for one of Python's."""


def command(*arguments: str) -> tuple[str, ...]:
    """Return the words that run a hook with this Python, by its absolute path: an agent's PATH may be any."""
    return (sys.executable, *_OPTIONS, *arguments)


def shell_line(*arguments: str) -> str:
    """Return the same for a shell; it ends well even where that Python is gone, or is another that knows no `-P`.

    Python ends with 2 then, by which an agent would take each call for refused.
    """
    return f"{shlex.join(command(*arguments))} || true"


def program_of(line: str) -> str | None:
    """Return the Python that a shell line of ours starts, whichever it is; None where the line is not ours."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return words[0] if tuple(words[1 : 1 + len(_OPTIONS)]) == _OPTIONS else None
