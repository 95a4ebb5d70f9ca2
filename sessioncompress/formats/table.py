"""The table of formats, by which a session's format is detected from its content.

A format is imported when a session may be its own: to import all takes longer than to compress a small session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

from sessioncompress.core.jsonl import is_readable, loads
from sessioncompress.errors import UsageError
from sessioncompress.formats.base import HEAD_LINES, Entry, Format, Head


class _Row(NamedTuple):
    """One format: its name, its module and class there, and a sign that every session of it shows."""

    name: str
    module: str
    kind: str
    shows: Callable[[Head], bool]
    is_relative: bool = False
    """Of pi: what is one of these is a session of pi, too, with more in it."""


def _begins_as_pi(head: Head) -> bool:
    return any(entry.get("type") == "session" for entry in head.entries[:2])


def _begins_as_codex(head: Head) -> bool:
    return bool(head.entries) and head.entries[0].get("type") == "session_meta"


def _begins_as_gemini(head: Head) -> bool:
    return any(isinstance(each, dict) and "projectHash" in each for each in (head.document, *head.entries[:1]))


def _has_roles(head: Head) -> bool:
    return bool(head.entries) and all("role" in entry for entry in head.entries)


def _is_document_with(key: str) -> Callable[[Head], bool]:
    return lambda head: isinstance(head.document, dict) and key in head.document


_TABLE = (
    _Row("oh-my-pi", "ohmypi", "OhMyPi", _begins_as_pi, is_relative=True),
    _Row("openclaw", "openclaw", "OpenClaw", _begins_as_pi, is_relative=True),
    _Row("pi", "pi", "Pi", _begins_as_pi, is_relative=True),
    _Row("claude-code", "claude.format", "ClaudeCode", lambda head: any("parentUuid" in each for each in head.entries)),
    _Row(
        "codex",
        "codex.format",
        "Codex",
        _begins_as_codex,
    ),
    _Row("gemini", "gemini", "Gemini", _begins_as_gemini),
    _Row("opencode", "opencode", "OpenCode", _is_document_with("info")),
    _Row("gencode", "gencode", "GenCode", _is_document_with("metadata")),
    _Row(
        "openai-chat",
        "openai_chat",
        "Chat",
        _has_roles,
    ),
)
"""In the order they are asked: pi comes behind its relatives, since they are pi with more; a chat names nobody."""

NAMES = tuple(sorted(row.name for row in _TABLE))
NAMELESS = frozenset({"openai-chat"})
"""The formats that name no agent: a file of one that is only met in a folder may be anything, test data say."""
REVISED = frozenset({"gemini"})
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
    entries: list[Entry] = []
    parsed: dict[bytes, Entry] = {}
    for raw in islice(lines, HEAD_LINES):
        try:
            entry = loads(raw.removeprefix(_BOM)) if is_readable(raw) else None
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
            if not raw.startswith(_BOM):
                parsed[raw] = entry
    return Head(tuple(entries), document, parsed)


def detect(head: Head) -> Format | None:
    """Detect the format of the file with this head; None where no format of the table recognizes it, or several do."""
    found = recognizing(head)
    return found[0] if len(found) == 1 else None


def recognizing(head: Head) -> tuple[Format, ...]:
    """Find the formats that recognize this head; of pi and its relatives only the first, since they are pi too."""
    found: list[Format] = []
    is_pi = False
    for row in _TABLE:
        if row.shows(head) and not (row.is_relative and is_pi) and _made(row).recognizes(head):
            found.append(_made(row))
            is_pi |= row.is_relative
    return tuple(found)


def format_named(name: str) -> Format:
    """Look a format up by its name. Raises UsageError where there is none."""
    found = next((row for row in _TABLE if row.name == name), None)
    if found is None:
        raise UsageError(f"{name!r} is no format", remedy=f"Name one of {', '.join(NAMES)}.")
    return _made(found)


def every() -> tuple[Format, ...]:
    """Make all formats, in the order in which they are asked."""
    return tuple(map(_made, _TABLE))


@cache
def _made(row: _Row) -> Format:
    made: Format = getattr(import_module(f"sessioncompress.formats.{row.module}"), row.kind)()
    return made
