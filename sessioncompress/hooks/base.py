"""What the hooks share: their log, what an agent's settings can do, and the commands in them."""

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
"""Bytes of the log, and of the previous one, which it replaces."""


def log_file() -> Path:
    """Locate the log. Raises FileFailed if no home is known."""
    return machine.state_folder() / "hook.log"


def note_in_log(hook: str, text: str) -> None:
    """Add a line, if possible: a hook never fails."""
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
    """A text to insert, and the character that it goes before."""

    at: int
    text: str


GUARD = ("guard",)
"""The arguments of the hook before a tool runs."""

_ENDED = "ended"
_COMPACT = "--compact"
_PRESET = "--preset"


class Ending(NamedTuple):
    """What is done with a session that ended."""

    compact: bool = False
    """Compact it before it is compressed."""
    preset: str | None = None
    """The base of its policy."""

    def options(self) -> tuple[str, ...]:
        """Build the options of the hook, and of the process that it starts."""
        compact = (_COMPACT,) if self.compact else ()
        return (*compact, _PRESET, self.preset) if self.preset else compact

    def words(self) -> tuple[str, ...]:
        """Build the arguments of the hook of a session's end."""
        return (_ENDED, *self.options())

    @classmethod
    def of(cls, words: Sequence[str]) -> Ending:
        """Read the options among these words."""
        named = dict(pairwise(words)).get(_PRESET)
        return cls(_COMPACT in words, named)


COMPRESSED = Ending()
"""Compressed, with the policy that its folder has."""


def ending_in(commands: Iterable[Sequence[str]]) -> Ending:
    """Read what our hooks do with a session that ended."""
    return next((Ending.of(words) for words in commands if _ENDED in words), COMPRESSED)


class AgentHooks:
    """One agent's settings. `text` is the content of its file, None if there is none; nothing here touches the file."""

    title: str
    """The agent's name in messages."""
    compresses = True
    """Whether a session that ended is compressed. Else there is only the guard."""
    advice = ""
    """What the user does after an installation; empty if nothing."""
    elsewhere: str
    """The variable that names another folder than the `usual` one."""
    usual: str
    below: str
    """The path of the file in that folder."""

    def file(self) -> Path:
        """Locate the settings: the user's, as a project's are shared with others. Raises FileFailed without a home."""
        return machine.at_home(os.environ.get(self.elsewhere) or self.usual) / self.below

    def commands(self, text: str) -> list[tuple[str, ...]]:
        """List the commands of our hooks in the text, each with its program first; empty without hooks of ours."""
        raise NotImplementedError

    def is_current(self, text: str, ending: Ending) -> bool:
        """Tell whether our hooks, and no others of ours, are in the text just as `added` inserts them."""
        raise NotImplementedError

    def added(self, text: str | None, ending: Ending) -> list[Piece]:
        """List what to insert into a text without our hooks. Raises Refused."""
        raise NotImplementedError

    def taken_out(self, text: str) -> str | None:
        """Remove our hooks when there is no record of their insertion. Raises Refused."""
        raise NotImplementedError

    def switched_off(self, text: str) -> str:
        """Describe what in the text disables all hooks; empty if nothing does."""
        del text
        return ""

    def refused(self, what: str, remedy: str) -> Refused:
        """Make the error for settings that are left as they are."""
        return Refused(what, where=self.file(), state="It was not changed.", remedy=remedy)


_OPTIONS = ("-P", "-m", "sessioncompress.hooks")
"""`-P`: the agent starts hooks in a project's folder, whose modules must not shadow Python's."""


def command(*arguments: str) -> tuple[str, ...]:
    """Build the command of a hook, with the absolute path of this Python: the agent may have any PATH."""
    return (sys.executable, *_OPTIONS, *arguments)


def shell_line(*arguments: str) -> str:
    """Build the command for a shell. It succeeds even if that Python is gone or too old for `-P`.

    Python would exit with 2 then, and the agent would refuse every call.
    """
    return f"{shlex.join(command(*arguments))} || true"


def command_in(line: str) -> tuple[str, ...] | None:
    """Read the command of a shell line of ours, the Python first; None if the line is not ours."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return tuple(words) if tuple(words[1 : 1 + len(_OPTIONS)]) == _OPTIONS else None
