"""What Anthropic's API would refuse in the messages of a request, beside calls without results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.agents.bodies import Body

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_FIELDS = {
    "text": {"text", "citations"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input", "caller"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "tool_reference": {"tool_name"},
}
_THOUGHTS = {"thinking", "redacted_thinking"}


def problems(body: Body) -> Iterator[str]:
    """List what the messages' order and their blocks break."""
    found = body["messages"]
    if found and found[0]["role"] != "user":
        yield "the first message is not the user's"
    for number, (before, after) in enumerate(pairwise(found), 1):
        if before["role"] == after["role"] == "assistant":
            yield f"message {number} (assistant) follows another of its kind"
    for number, message in enumerate(found):
        content = message["content"]
        for said in _order(message["role"], content) if isinstance(content, list) else ():
            yield f"message {number}: {said}"
        for block in content if isinstance(content, list) else ():
            yield from (f"message {number}: {said}" for said in _block(block))


def _order(role: str, content: Sequence[dict[str, Any]]) -> Iterator[str]:
    """In an answer thinking comes before what was thought out, in a prompt results before what is said of them."""
    kinds = [str(block.get("type")) for block in content]
    if role == "assistant" and kinds and kinds[-1] in _THOUGHTS:
        yield "the last block of an answer is thinking"
    first, then = (_THOUGHTS, {"tool_use"}) if role == "assistant" else ({"tool_result"}, {"text", "image", "document"})
    for before, after in pairwise(kinds):
        if before in then and after in first:
            yield f"{after} comes behind {before}"


def _block(block: dict[str, Any]) -> Iterator[str]:
    kind = str(block.get("type"))
    extra = set(block) - _FIELDS.get(kind, set()) - {"type", "cache_control"}
    if extra:
        yield f"{kind}: extra inputs are not permitted: {sorted(extra)}"
    if kind == "thinking" and not block.get("signature"):
        yield "a thinking block has no signature"
    if kind == "redacted_thinking" and not block.get("data"):
        yield "a redacted thinking block has no data"
    if kind == "tool_use" and not _ID.fullmatch(str(block.get("id"))):
        yield f"the call id {block.get('id')} has characters that are not allowed"
    if kind == "tool_result" and isinstance(block.get("content"), list):
        for inner in block["content"]:
            yield from _block(inner)
