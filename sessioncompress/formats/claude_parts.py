"""The parts of Claude Code's messages: a result, an image, and the blocks in them."""

from __future__ import annotations

from typing import Any

from sessioncompress.core.model import Block, Kind, Path
from sessioncompress.formats import values

THOUGHTS = ("thinking", "redacted_thinking")
PICTURES = ("image", "document")
_USERS_WORDS = "The user doesn't want to "
"""So begins the result of a call that the user refused, perhaps saying why."""


def result(path: Path, content: Any, tool: str, call: str, blocks: list[Block]) -> int:
    """Add the blocks of one result; return how many characters it is."""
    if isinstance(content, str):
        if content.startswith(_USERS_WORDS):
            return len(content)
        blocks += values.long_text(Kind.RESULT, path, content, tool, call)
        return len(content)
    for index, part in enumerate(values.items(content)):
        text = values.text(values.fields(part).get("text"))
        if text and part.get("type") == "text":
            blocks += values.long_text(Kind.RESULT, (*path, index, "text"), text, tool, call)
        blocks += picture((*path, index), part, tool, call)
    return values.characters(content)


def picture(path: Path, part: Any, tool: str, call: str) -> list[Block]:
    """Return the block of an image or a document, none for any other part."""
    part = values.fields(part)
    data = values.fields(part.get("source")).get("data")
    return values.whole(Kind.IMAGE, path, part, tool, call) if part.get("type") in PICTURES and data else []
