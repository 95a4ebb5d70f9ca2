"""Shared by the hooks: their log, the interface to an agent's settings, and the commands stored there."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from sessioncompress.core.text import printable
from sessioncompress.errors import FileFailed, Refused
from sessioncompress.store import disk, layout, machine

LARGEST = 256 * 1024
"""Maximum bytes of the log. A full log replaces the previous one."""


def log_file() -> Path:
    """Return the log's path. Raises FileFailed if no home is known."""
    return machine.state_folder() / "hook.log"


def note_in_log(hook: str, text: str) -> None:
    """Append a line to the log if possible. Errors are ignored, because a hook never fails."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = printable(f"{at} {hook}: {text}")[:2000] + "\n"
    with suppress(OSError, FileFailed):
        path = log_file()
        disk.make_folder(path.parent)
        if (layout.size_of(path) or 0) >= LARGEST:
            disk.system.replace(path, path.with_name(f"{path.name}.1"))
        with disk.appending(path) as add:
            add(line.encode())


class Piece(NamedTuple):
    """A text to insert, and the index of the character that it is inserted before."""

    at: int
    text: str


GUARD = ("guard",)
"""Arguments of the hook that runs before a tool."""

_ENDED = "ended"
_COMPACT = "--compact"
_PRESET = "--preset"


class Ending(NamedTuple):
    """The handling of a session that ended."""

    compact: bool = False
    """Compact the session before compressing it."""
    preset: str | None = None
    """Preset that the policy is based on."""

    def options(self) -> tuple[str, ...]:
        """Build the options for the hook, and for the process that it starts."""
        compact = (_COMPACT,) if self.compact else ()
        return (*compact, _PRESET, self.preset) if self.preset else compact

    def words(self) -> tuple[str, ...]:
        """Build the arguments of the session-end hook."""
        return (_ENDED, *self.options())

    @classmethod
    def of(cls, words: Sequence[str]) -> Ending:
        """Parse the options among these words."""
        named = dict(pairwise(words)).get(_PRESET)
        return cls(_COMPACT in words, named)


COMPRESSED = Ending()
"""The default: compress with the folder's policy."""


def ending_in(commands: Iterable[Sequence[str]]) -> Ending:
    """Parse what our hooks do with a session that ended."""
    return next((Ending.of(words) for words in commands if _ENDED in words), COMPRESSED)


class AgentHooks:
    """One agent's settings. `text` is the content of its file, or None if it doesn't exist. Does no file access."""

    title: str
    """The agent's name in messages."""
    compresses = True
    """True if the agent has a session-end hook that compresses; otherwise it has only the guard."""
    advice = ""
    """Instructions for the user after installing; empty if none."""
    elsewhere: str
    """Environment variable that overrides the `usual` folder."""
    usual: str
    below: str
    """The file's path relative to that folder."""

    def file(self) -> Path:
        """Return the path of the user's settings (a project's are shared). Raises FileFailed without a home."""
        return machine.at_home(os.environ.get(self.elsewhere) or self.usual) / self.below

    def commands(self, text: str) -> list[tuple[str, ...]]:
        """List the commands of our hooks in the text, each starting with its program."""
        raise NotImplementedError

    def is_current(self, text: str, ending: Ending) -> bool:
        """True if the text has exactly the hooks that `added` inserts, and no others that are ours."""
        raise NotImplementedError

    def added(self, text: str | None, ending: Ending) -> list[Piece]:
        """List the insertions for a text without our hooks. Raises Refused."""
        raise NotImplementedError

    def taken_out(self, text: str) -> str | None:
        """Remove our hooks without a record of how they were inserted. Raises Refused."""
        raise NotImplementedError

    def switched_off(self, text: str) -> str:
        """Describe what disables all hooks in the text; empty if nothing does."""
        del text
        return ""

    def refused(self, what: str, remedy: str) -> Refused:
        """Build the error for settings that stay unchanged."""
        return Refused(what, where=self.file(), state="It was not changed.", remedy=remedy)


_OPTIONS = ("-P", "-m", "sessioncompress.hooks")
"""`-P`: the agent starts hooks in a project's folder, and modules there must not shadow Python's."""


def command(*arguments: str) -> tuple[str, ...]:
    """Build a hook's command with this Python's absolute path, because the agent's PATH is unknown."""
    return (sys.executable, *_OPTIONS, *arguments)


def shell_line(*arguments: str) -> str:
    """Build a hook's shell command. It exits 0 even if that Python is missing or too old for `-P`.

    Otherwise the exit code 2 would make the agent refuse every tool call.
    """
    return f"{shlex.join(command(*arguments))} || true"


def command_in(line: str) -> tuple[str, ...] | None:
    """Parse our shell line into a command that starts with the Python; None if the line isn't ours."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return tuple(words) if tuple(words[1 : 1 + len(_OPTIONS)]) == _OPTIONS else None
