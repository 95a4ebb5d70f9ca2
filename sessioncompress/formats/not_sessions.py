"""The table of files that are no sessions but may be taken for one: what each is, and what to name instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sessioncompress.formats import values
from sessioncompress.formats.base import Entry


class Sample(NamedTuple):
    """What is looked at of a file: its first bytes, its first objects, and all of it where that is one JSON value."""

    first: bytes
    entries: tuple[Entry, ...] = ()
    value: Any = None


class Other(NamedTuple):
    """One kind of file: what it is, in a clause behind `it is`, and what to do, in a sentence."""

    what: str
    remedy: str
    recognizes: Callable[[Sample], bool]


def seen(sample: Sample) -> str:
    """Word what a file of no known kind begins with, or what one JSON value holds."""
    if not sample.first:
        return "it is empty"
    if isinstance(sample.value, list):
        return "one JSON list"
    if isinstance(sample.value, dict) or sample.entries:
        shown = sample.value if isinstance(sample.value, dict) else sample.entries[0]
        what = "one JSON document with" if shown is sample.value else "its first object has"
        return f"{what} the keys {', '.join(list(shown)[:8]) or '(none)'}"
    if sample.first.lstrip()[:1] in (b"{", b"["):
        return "it starts like one JSON document, but is not JSON (cut off, or not UTF-8), or has over a million values"
    return "no JSON object in its first lines"


def _begins(magic: bytes) -> Callable[[Sample], bool]:
    return lambda sample: sample.first.startswith(magic)


def _stored(start: str, *keys: str) -> Callable[[Sample], bool]:
    """Recognize a document by how its id starts and by strings that it has."""

    def recognizes(sample: Sample) -> bool:
        found = values.fields(sample.value)
        return values.text(found.get("id")).startswith(start) and all(isinstance(found.get(key), str) for key in keys)

    return recognizes


def _is_list_of(value: Any, *keys: str) -> bool:
    found = values.items(value)
    return bool(found) and all(isinstance(each, dict) and each.keys() >= set(keys) for each in found)


def _is_other_harness(sample: Sample) -> bool:
    first = sample.entries[0] if sample.entries else {}
    return first.get("type") == "session" and ("createdAt" in first or any("seq" in each for each in sample.entries))


def _is_old_rollout(sample: Sample) -> bool:
    first = sample.entries[0] if sample.entries else {}
    return first.keys() >= {"id", "timestamp", "instructions"} and "type" not in first


def _is_restore_point(sample: Sample) -> bool:
    found = values.fields(sample.value)
    return "toolCall" in found and not found.keys().isdisjoint({"history", "clientHistory", "commitHash"})


_EXPORT = "Use the file that 'opencode export SESSION > FILE' writes."
_CHATS = "Name the session itself: Gemini CLI keeps them in folders 'chats'."

OTHERS: tuple[Other, ...] = (
    Other(
        "an SQLite database, in which OpenCode and newer versions of OpenClaw keep sessions, and oh-my-pi its state",
        "For OpenCode, use the file that 'opencode export SESSION > FILE' writes.",
        _begins(b"SQLite format 3\0"),
    ),
    Other(
        "packed with zstd, as Codex and OpenClaw pack old sessions",
        "Unpack it with 'zstd -d FILE', or a tar archive with 'tar --zstd -xf FILE', and use the unpacked file.",
        _begins(b"\x28\xb5\x2f\xfd"),
    ),
    Other("packed with gzip", "Unpack it with 'gunzip FILE' and use the unpacked file.", _begins(b"\x1f\x8b")),
    Other(
        "the header of a session in OpenCode's storage, whose messages are in other files",
        _EXPORT,
        _stored("ses", "projectID", "directory"),
    ),
    Other("the header of one message in OpenCode's storage", _EXPORT, _stored("msg", "sessionID", "role")),
    Other("one part of a message in OpenCode's storage", _EXPORT, _stored("prt", "sessionID", "messageID", "type")),
    Other(
        "a session of another harness (DeepSeek's): it starts like one of pi's, but dates its header 'createdAt' or "
        "numbers its lines 'seq'",
        "",
        _is_other_harness,
    ),
    Other(
        "the list of prompts that Gemini CLI logs (logs.json)",
        _CHATS,
        lambda sample: _is_list_of(sample.value, "sessionId", "messageId", "type", "message"),
    ),
    Other("what Gemini CLI keeps for /restore before a tool changes files", _CHATS, _is_restore_point),
    Other(
        "a conversation saved with /chat save of Gemini CLI (checkpoint-TAG.json)",
        _CHATS,
        lambda sample: _is_list_of(values.fields(sample.value).get("history", sample.value), "role", "parts"),
    ),
    Other(
        "a list of whole conversations, as in training data, which no agent can resume",
        "",
        lambda sample: bool(sample.entries) and all(isinstance(each.get("messages"), list) for each in sample.entries),
    ),
    Other("a rollout of Codex from before its session_meta lines, of mid-2025", "", _is_old_rollout),
)
"""In the order they are asked; the remedy is empty where nothing can be done but to name another file."""
