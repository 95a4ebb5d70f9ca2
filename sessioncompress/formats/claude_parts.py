"""The parts of Claude Code's messages: the arguments of a call, a result, an image, and the blocks in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessioncompress import marker
from sessioncompress.formats import claude_notes, values
from sessioncompress.model import Block, Call, Kind, Path

THOUGHTS = ("thinking", "redacted_thinking")
PICTURES = ("image", "document")
_USERS_WORDS = "The user doesn't want to "
"""So begins the result of a call that the user refused, perhaps saying why."""


def arguments(path: Path, given: Any, made: Call, raw: bytes, blocks: list[Block]) -> int:
    """Add the blocks of one call; return how many characters its arguments are."""
    written = values.literal(given)
    if isinstance(given, dict) and len(written) >= values.SMALLEST_BLOCK:
        bulk = sum(values.long_leaves(given))
        blocks.append(Block(Kind.ARGUMENT, path, len(written), bulk, made.tool, made.name))
    if written and marker.PREFIX_BYTES in raw:
        blocks += values.marked_leaves(path, given, made.tool, made.name)
    return len(written)


def result(path: Path, content: Any, tool: str, call: str, blocks: list[Block]) -> int:
    """Add the blocks of one result; return how many characters it is."""
    if isinstance(content, str):
        if content.startswith(_USERS_WORDS):
            return len(content)
        blocks += claude_notes.text(Kind.RESULT, path, content, tool, call)
        return len(content)
    for index, part in enumerate(values.items(content)):
        text = values.text(values.fields(part).get("text"))
        if text and part.get("type") == "text":
            blocks += claude_notes.text(Kind.RESULT, (*path, index, "text"), text, tool, call)
        blocks += picture((*path, index), part, tool, call)
    return values.characters(content)


def picture(path: Path, part: Any, tool: str, call: str) -> list[Block]:
    """Return the block of an image or a document, none for any other part."""
    part = values.fields(part)
    data = values.fields(part.get("source")).get("data")
    return values.whole(Kind.IMAGE, path, part, tool, call) if part.get("type") in PICTURES and data else []


def marked_picture(path: Path, part: Mapping[str, Any]) -> list[Block]:
    """Find what may stand in an image's place in a prompt: a text that is a marker and nothing else."""
    text = values.text(part.get("text"))
    return [values.marked(Kind.IMAGE, path, text, "", "")] if marker.is_one(text) else []
