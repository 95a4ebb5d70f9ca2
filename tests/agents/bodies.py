"""Request bodies of four model APIs, read into one form: messages made of texts, thinking, calls, results and images."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

Body = dict[str, Any]

TOOL_IMAGES = (["Attached image(s) from tool result:"], ["Tool result image:"])
"""The texts of the user message with which pi sends a tool's pictures where the API's results cannot hold any."""


class Api(StrEnum):
    ANTHROPIC = "anthropic"
    RESPONSES = "responses"
    CHAT = "chat"
    GEMINI = "gemini"


class Kind(StrEnum):
    TEXT = "text"
    THINKING = "thinking"
    CALL = "call"
    RESULT = "result"
    IMAGE = "image"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message; `value` is a text, the arguments of a call, or the parts of a result."""

    kind: Kind
    value: Any = ""
    call: str = ""
    name: str = ""
    signature: str = ""
    item: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request, or one item of a Responses input."""

    role: str
    parts: tuple[Part, ...] = ()
    raw: Any = field(default=None, compare=False)


def api_of(body: Body) -> Api:
    """Tell by its shape to which API a body was sent."""
    if "input" in body:
        return Api.RESPONSES
    if "contents" in body or "contents" in _inner(body):
        return Api.GEMINI
    if "system" in body or any("input_schema" in tool for tool in body.get("tools") or ()):
        return Api.ANTHROPIC
    blocks = (b for m in body.get("messages") or () if isinstance(m.get("content"), list) for b in m["content"])
    if any(block.get("type") in {"tool_use", "tool_result", "thinking", "redacted_thinking"} for block in blocks):
        return Api.ANTHROPIC
    openai = "max_tokens" not in body or any(m.get("role") in {"tool", "system"} for m in body.get("messages") or ())
    return Api.CHAT if openai else Api.ANTHROPIC


def messages(body: Body) -> list[Message]:
    match api_of(body):
        case Api.ANTHROPIC:
            return [_anthropic(m) for m in body["messages"]]
        case Api.RESPONSES:
            return list(_responses(body["input"]))
        case Api.CHAT:
            return list(_without_tool_images(_chat(m) for m in body["messages"]))
        case Api.GEMINI:
            return list(_without_tool_images(_gemini(m) for m in gemini_contents(body)))


def gemini_contents(body: Body) -> list[Any]:
    """Return the contents of a Gemini body, or of the Code Assist body that wraps one."""
    contents = body.get("contents", _inner(body).get("contents"))
    return contents if isinstance(contents, list) else []


def _inner(body: Body) -> dict[str, Any]:
    inner = body.get("request")
    return inner if isinstance(inner, dict) else {}


def _blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content or ())


def _anthropic(message: Any) -> Message:
    return Message(message["role"], tuple(_anthropic_part(b) for b in _blocks(message.get("content"))), message)


def _anthropic_part(block: Any) -> Part:
    match block.get("type"):
        case "text":
            return Part(Kind.TEXT, block.get("text"))
        case "thinking" | "redacted_thinking":
            signature = block.get("signature") or block.get("data") or ""
            return Part(Kind.THINKING, block.get("thinking", ""), signature=signature)
        case "tool_use":
            return Part(Kind.CALL, block.get("input"), call=block.get("id", ""), name=block.get("name", ""))
        case "tool_result":
            inner = tuple(_anthropic_part(b) for b in _blocks(block.get("content")))
            return Part(Kind.RESULT, inner, call=block.get("tool_use_id", ""))
        case "image":
            return Part(Kind.IMAGE, json.dumps(block.get("source"), sort_keys=True))
    return Part(Kind.OTHER, json.dumps(block, sort_keys=True))


def _responses(items: Any) -> Iterator[Message]:
    """Join each reasoning item to the item it belongs to, so that its absence changes no count."""
    pending: list[Part] = []
    for item in _blocks(items):
        if item.get("type") == "reasoning":
            pending.append(_reasoning(item))
            continue
        message = _responses_item(item)
        yield Message(message.role, (*pending, *message.parts), item)
        pending = []
    if pending:
        yield Message("assistant", tuple(pending))


def _reasoning(item: Any) -> Part:
    text = json.dumps([item.get("summary"), item.get("content")], sort_keys=True)
    return Part(Kind.THINKING, text, signature=item.get("encrypted_content") or "", item=item.get("id") or "")


def _responses_item(item: Any) -> Message:
    match item.get("type", "message"):
        case "function_call" | "custom_tool_call" as kind:
            value = _parsed(item.get("arguments")) if kind == "function_call" else item.get("input")
            call = Part(Kind.CALL, value, item.get("call_id", ""), item.get("name", ""), item=item.get("id") or "")
            return Message("assistant", (call,), item)
        case "local_shell_call":
            call = Part(
                Kind.CALL, item.get("action"), item.get("call_id", ""), "local_shell", item=item.get("id") or ""
            )
            return Message("assistant", (call,), item)
        case "function_call_output" | "custom_tool_call_output":
            inner = tuple(_responses_part(b) for b in _blocks(item.get("output")))
            return Message("tool", (Part(Kind.RESULT, inner, item.get("call_id", "")),), item)
        case "message":
            parts = tuple(_responses_part(b, item.get("id") or "") for b in _blocks(item.get("content")))
            phase = item.get("phase") or ""
            return Message(item.get("role", ""), tuple(replace(part, phase=phase) for part in parts), item)
    return Message("other", (Part(Kind.OTHER, json.dumps(item, sort_keys=True)),), item)


def _responses_part(block: Any, item: str = "") -> Part:
    match block.get("type"):
        case "text" | "input_text" | "output_text":
            return Part(Kind.TEXT, block.get("text"), item=item)
        case "input_image":
            return Part(Kind.IMAGE, json.dumps(block.get("image_url")), item=item)
    return Part(Kind.OTHER, json.dumps(block, sort_keys=True), item=item)


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _chat(message: Any) -> Message:
    role = message["role"]
    content = message.get("content")
    # Beside a call some write an empty content, and some none.
    inner = tuple(_chat_part(b) for b in _blocks(content)) if content else ()
    if role == "tool":
        return Message(role, (Part(Kind.RESULT, inner, message.get("tool_call_id", "")),), message)
    thinking = message.get("reasoning_content") or message.get("reasoning")
    before = (Part(Kind.THINKING, thinking),) if thinking else ()
    return Message(role, (*before, *inner, *(_chat_call(c) for c in message.get("tool_calls") or ())), message)


def _chat_part(block: Any) -> Part:
    match block.get("type"):
        case "text":
            return Part(Kind.TEXT, block.get("text"))
        case "image_url":
            return Part(Kind.IMAGE, json.dumps(block.get("image_url"), sort_keys=True))
    return Part(Kind.OTHER, json.dumps(block, sort_keys=True))


def _chat_call(call: Any) -> Part:
    function = call.get("function") or {}
    return Part(Kind.CALL, _parsed(function.get("arguments")), call.get("id", ""), function.get("name", ""))


def _gemini(message: Any) -> Message:
    return Message(message.get("role", ""), tuple(_gemini_part(p) for p in message.get("parts") or ()), message)


def _gemini_part(part: Any) -> Part:
    signature = part.get("thoughtSignature") or ""
    if "functionCall" in part:
        call = part["functionCall"]
        return Part(Kind.CALL, call.get("args", {}), call.get("id", ""), call.get("name", ""), signature)
    if "functionResponse" in part:
        given = part["functionResponse"]
        response = given.get("response")
        texts = response.values() if isinstance(response, dict) else ()
        inner = [Part(Kind.TEXT, v if isinstance(v, str) else json.dumps(v, sort_keys=True)) for v in texts]
        inner += [_gemini_part(p) for p in given.get("parts") or ()]
        return Part(Kind.RESULT, tuple(inner), given.get("id", ""), given.get("name", ""))
    if "inlineData" in part:
        return Part(Kind.IMAGE, json.dumps(part["inlineData"], sort_keys=True))
    if "text" in part:
        return Part(Kind.THINKING if part.get("thought") else Kind.TEXT, part["text"], signature=signature)
    return Part(Kind.OTHER, json.dumps(part, sort_keys=True))


def _without_tool_images(found: Iterable[Message]) -> Iterator[Message]:
    """Leave out the messages that only carry pictures of results: they go when the pictures go."""
    for message in found:
        texts = [part.value.strip() for part in message.parts if part.kind is Kind.TEXT]
        if not (texts in TOOL_IMAGES and {part.kind for part in message.parts} == {Kind.TEXT, Kind.IMAGE}):
            yield message


def agent_messages(found: Iterable[Any]) -> list[Message]:
    """Read the messages that pi and oh-my-pi hold in memory, before they are made into a request."""
    return [Message(m["role"], tuple(_agent_parts(m)), m) for m in found]


def _agent_parts(message: Any) -> Iterator[Part]:
    inner = [_agent_part(block) for block in _blocks(message.get("content"))]
    if message["role"] == "toolResult":
        yield Part(Kind.RESULT, tuple(inner), message["toolCallId"], message.get("toolName", ""))
        return
    yield from inner
    for key in ("summary", "command", "output"):
        if key in message:
            yield Part(Kind.TEXT, message[key])


def _agent_part(block: Any) -> Part:
    match block.get("type"):
        case "text":
            named = _parsed(block.get("textSignature"))
            return Part(Kind.TEXT, block["text"], phase=named.get("phase", "") if isinstance(named, dict) else "")
        case "thinking":
            return Part(Kind.THINKING, block["thinking"], signature=block.get("thinkingSignature") or "")
        case "toolCall":
            signature = block.get("thoughtSignature") or ""
            return Part(Kind.CALL, block["arguments"], block["id"], block["name"], signature)
        case "image":
            return Part(Kind.IMAGE, json.dumps([block.get("mimeType"), block.get("data")]))
    return Part(Kind.OTHER, json.dumps(block, sort_keys=True))
