"""What Claude Code itself puts into a session: files and notices that the model reads, prompts that waited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sessioncompress.core import marker
from sessioncompress.core.marker import digest_of
from sessioncompress.core.model import Block, Kind, Path
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry
from sessioncompress.formats.claude_screen import HOOK_OUTPUT, HOOKS, PLACES

_FILES: Mapping[str, Path] = {
    "edited_text_file": ("attachment", "snippet"),
    "file": ("attachment", "content", "file", "content"),
}
"""Attachments that show the model a file, and where in them its text stands: to the model it is like a result."""

_PROMPTS = frozenset({"queued_command"})
"""Attachments that are the user's own words."""

LISTINGS = frozenset({"skill_listing", "agent_listing_delta", "deferred_tools_delta"})
"""Attachments that list what the agent has."""

_QUEUE = "queue-operation"
_WAITING: Path = ("content",)


def blocks(entry: Entry) -> list[Block]:
    """Return the blocks of a line that is no message."""
    kind = entry.get("type")
    if kind == _QUEUE and isinstance(entry.get("content"), str):
        return values.long_text(Kind.ATTACHMENT, _WAITING, entry["content"], _QUEUE, "")
    if kind != "attachment":
        return []
    attachment = values.fields(entry.get("attachment"))
    name = values.text(attachment.get("type"))
    found: list[Block] = []
    for path, value in _leaves(attachment, ("attachment",)) if name not in _PROMPTS else ():
        if not (name in HOOKS and path[-1] in HOOK_OUTPUT):
            what = Kind.RESULT if _FILES.get(name) == path else Kind.ATTACHMENT
            found += values.long_text(what, path, value, name, "")
    return found


def may_change(entry: Entry, path: Path, old: Any, new: Any) -> bool:
    """Say whether this text may become that one."""
    if path == _WAITING:
        known = entry.get("type") == _QUEUE
    else:
        name = values.text(values.fields(entry.get("attachment")).get("type"))
        known = path[0] == "attachment" and name not in _PROMPTS and path[-1] not in PLACES
    return known and isinstance(old, str) and isinstance(new, str) and new != ""


def said(entry: Entry) -> tuple[bytes, ...]:
    """Return the digests of the user's words in a line: a queue may hold them once more."""
    attachment = values.fields(entry.get("attachment"))
    message = values.fields(entry.get("message"))
    content = attachment.get("prompt") if values.text(attachment.get("type")) in _PROMPTS else message.get("content")
    if not content:
        return ()
    texts = (
        [content] if isinstance(content, str) else [values.fields(part).get("text") for part in values.items(content)]
    )
    long = (each for each in texts if isinstance(each, str) and len(each) >= values.SMALLEST_BLOCK)
    return tuple(digest_of(values.literal(each)) for each in long)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the texts at any depth of an object or a list that may be blocks."""
    for step, child in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(child, str):
            if (len(child) >= values.SMALLEST_BLOCK or marker.PREFIX in child) and step not in PLACES:
                yield (*path, step), child
        elif isinstance(child, (dict, list)):
            yield from _leaves(child, (*path, step))
