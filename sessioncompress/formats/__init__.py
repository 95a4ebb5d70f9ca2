"""The table of formats, and the one question asked of it: whose a session is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from sessioncompress.formats.base import HEAD_LINES, Entry, Format, Head, Name
from sessioncompress.formats.chat import Chat
from sessioncompress.formats.claude import ClaudeCode
from sessioncompress.formats.codex import Codex
from sessioncompress.formats.family import claimed
from sessioncompress.formats.gemini import Gemini
from sessioncompress.formats.gencode import GenCode
from sessioncompress.formats.ohmypi import OhMyPi
from sessioncompress.formats.openclaw import OpenClaw
from sessioncompress.formats.opencode import OpenCode
from sessioncompress.formats.pi import Pi

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

AGENTS = (
    "pi, oh-my-pi, OpenClaw, GitClaw, Claude Code, Codex, Gemini CLI, OpenCode or gencode, or a chat in OpenAI's form"
)
"""Whose sessions these are, for the error that refuses a file."""

_BOM = b"\xef\xbb\xbf"
_KEYS_SHOWN = 8
_OLD_CODEX = frozenset({"id", "timestamp", "instructions"})


def head_of(lines: Iterable[bytes], document: Any = None) -> Head:
    """Parse a file's first lines; those that are no JSON object are passed over.

    Of a document the lines are its messages, and `document` is all else of it.
    """
    entries = (_entry(raw) for raw, _ in zip(lines, range(HEAD_LINES), strict=False))
    return Head(tuple(entry for entry in entries if entry is not None), document)


def detect(head: Head) -> Format | None:
    """Return the format of the file with this head, or None where no agent of the table wrote it."""
    return next((each for each in FORMATS if each.recognises(head)), None)


def claims(head: Head) -> Name:
    """Return whose session a file says it is, whether or not an agent of the table wrote it."""
    named = (each.named(head) for each in FORMATS)
    return next((name for name in named if name.id), claimed(head))


def seen(head: Head) -> str:
    """Say what the first line is, for the error that refuses a file."""
    if isinstance(head.document, dict):
        return "one JSON document with the keys " + ", ".join(list(head.document)[:_KEYS_SHOWN])
    if not head.entries:
        return "no JSON object in its first lines"
    if head.entries[0].keys() >= _OLD_CODEX and "type" not in head.entries[0]:
        return "it looks like a rollout of Codex from before its session_meta lines, of mid-2025"
    if all(isinstance(entry.get("messages"), list) for entry in head.entries):
        return "each entry is a whole conversation, as in data for training, with which no agent goes on"
    return "its first object has the keys " + ", ".join(list(head.entries[0])[:_KEYS_SHOWN])


def _entry(raw: bytes) -> Entry | None:
    try:
        value = orjson.loads(raw.removeprefix(_BOM))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
