"""The table of formats, and the one question asked of it: whose a session is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sessioncompress.errors import UsageError
from sessioncompress.formats.base import HEAD_LINES, Entry, Format, Head
from sessioncompress.formats.chat import Chat
from sessioncompress.formats.claude import ClaudeCode
from sessioncompress.formats.codex import Codex
from sessioncompress.formats.family import FamilyFormat
from sessioncompress.formats.gemini import Gemini
from sessioncompress.formats.gencode import GenCode
from sessioncompress.formats.ohmypi import OhMyPi
from sessioncompress.formats.openclaw import OpenClaw
from sessioncompress.formats.opencode import OpenCode
from sessioncompress.formats.pi import Pi
from sessioncompress.jsonl import is_readable
from sessioncompress.nesting import loads

FORMATS: tuple[Format, ...] = (
    OhMyPi(),
    OpenClaw(),
    Pi(),
    ClaudeCode(),
    Codex(),
    Gemini(),
    OpenCode(),
    GenCode(),
    Chat(),
)
"""In the order they are asked: pi comes behind its relatives, since they are pi with more; a chat names nobody."""

NAMES = tuple(sorted(each.name for each in FORMATS))
NAMELESS = frozenset({Chat.name})
"""The formats that name no agent: a file of one that is only met in a folder may be anything, test data say."""
REVISED = frozenset({Gemini.name})
"""The formats whose later lines may take the place of any before them, or take it back: nothing of one is finished."""

AGENTS = (
    "pi, oh-my-pi, OpenClaw, GitClaw, Claude Code, Codex, Gemini CLI, OpenCode or gencode, or a chat in OpenAI's form"
)
"""Whose sessions these are, for the error that refuses a file."""

_BOM = b"\xef\xbb\xbf"


def head_of(lines: Iterable[bytes], document: Any = None) -> Head:
    """Parse a file's first lines; those that are no JSON object are passed over.

    Of a document the lines are its messages, and `document` is all else of it.
    """
    entries = (_entry(raw) for raw, _ in zip(lines, range(HEAD_LINES), strict=False))
    return Head(tuple(entry for entry in entries if entry is not None), document)


def detect(head: Head) -> Format | None:
    """Return the format of the file with this head, or None where it may be of none of the table, or of several."""
    found = recognising(head)
    return found[0] if len(found) == 1 else None


def recognising(head: Head) -> tuple[Format, ...]:
    """Return the formats that recognise this head; of pi and its relatives only the first, since they are pi too."""
    found = [each for each in FORMATS if each.recognises(head)]
    relatives = [each for each in found if isinstance(each, FamilyFormat)]
    return tuple(each for each in found if each not in relatives[1:])


def format_named(name: str) -> Format:
    """Return the format of that name. Raises UsageError where there is none."""
    found = next((each for each in FORMATS if each.name == name), None)
    if found is None:
        raise UsageError(f"{name!r} is no format", remedy=f"Name one of {', '.join(NAMES)}.")
    return found


def _entry(raw: bytes) -> Entry | None:
    try:
        value = loads(raw.removeprefix(_BOM)) if is_readable(raw) else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
