"""The commands of a user around `compact`: one is asked before a session is summed up, one is told afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import DecodeError, Struct, field, json

from sessioncompress.core import process
from sessioncompress.core.text import json_safe
from sessioncompress.errors import NOT_CHANGED, FileFailed, UsageError
from sessioncompress.operations.summarizer import LARGEST_PROMPT, words_of

SECONDS = 120.0
"""The time limit of a command."""
_MOST_PRESERVED = 16 * 1024
"""Bytes of JSON that the journal keeps for a command."""

BY = "beforeCommand"
"""What the journal says of a summary that the command wrote."""


class Before(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What the command says before a session is summed up.

    `cancel`: the session is left. `summary` stands in place of what was said, `context` is added to it. `prompt` is for
    a model that sums up, which alone heeds it. `preserve_data` is kept, and given to the command the next time.
    """

    cancel: bool = False
    summary: str | None = None
    prompt: str = ""
    context: tuple[str, ...] = ()
    preserve_data: dict[str, Any] = field(default_factory=dict)

    @property
    def preserved(self) -> str:
        """The JSON text of what is kept; empty where nothing is."""
        return orjson.dumps(self.preserve_data).decode() if self.preserve_data else ""


def ask_before(command: str, given: Mapping[str, Any], where: str) -> Before:
    """Ask the command about a session that is to be summed up.

    Raises FileFailed where it fails, or what it says is no answer, and UsageError where it is no command line.
    """
    said = _run(command, BY, given, where)
    try:
        answer = json.decode(said, type=Before) if said.strip() else Before()
        kept = len(answer.preserved)
    except (DecodeError, ValueError, TypeError, RecursionError) as error:
        raise failed(command, f"returned an unusable answer: {error}", where) from error
    for what, size, most in (("preserveData", kept, _MOST_PRESERVED), ("a prompt", len(answer.prompt), LARGEST_PROMPT)):
        if size > most:
            raise failed(command, f"returned {what} of more than {most // 1024} KB", where)
    return answer


def tell_after(command: str, given: Mapping[str, Any], where: str) -> str:
    """Tell the command what was done with a session; return what went wrong, since that stands in any case."""
    try:
        _run(command, "afterCommand", given, where)
    except (FileFailed, UsageError) as error:
        return error.what
    return ""


def _run(command: str, name: str, given: Mapping[str, Any], where: str) -> bytes:
    words = words_of(command, name, NOT_CHANGED, where)
    ran = process.run(words, orjson.dumps(json_safe(given)) + b"\n", seconds=SECONDS, most=1024 * 1024)
    if ran.failure:
        raise failed(command, f"failed: {ran.failure}", where, name)
    return ran.output


def failed(command: str, what: str, where: str, name: str = BY) -> FileFailed:
    """Make the error for a command that fails, or whose answer does not count."""
    # Its arguments may hold what is secret.
    program = command.split(maxsplit=1)[0]
    remedy = "Run the command by hand with such JSON on its stdin, and correct it."
    return FileFailed(f"the {name} {program} {what}", where=where, state=NOT_CHANGED, remedy=remedy)
