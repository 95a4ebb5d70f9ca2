"""The command that a hook of ours runs, and how it is known again."""

from __future__ import annotations

import shlex
import sys

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
