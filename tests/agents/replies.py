"""What the stand-in answers: one short text with its usage, in the event stream of each API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

TEXT = "Understood. Here is the next step."

Reply = Callable[[str, int], Iterator[bytes]]
"""Answers a request, given the model that it names and the tokens that it is to count."""


Block = tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]
"""A block of Anthropic's as it begins, and what is added to it."""


def anthropic(model: str, usage: int) -> Iterator[bytes]:
    return anthropic_blocks([anthropic_text(TEXT)], "msg_end_turn")(model, usage)


def anthropic_text(text: str) -> Block:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]


def anthropic_call(name: str, given: Mapping[str, Any], call: str = "toolu_standin") -> Reply:
    """Return what answers `POST /v1/messages` with a call."""
    return anthropic_blocks([anthropic_use(name, given, call)], "msg_tool_use")


def anthropic_use(name: str, given: Mapping[str, Any], call: str) -> Block:
    block = {"type": "tool_use", "id": call, "name": name, "input": {}}
    return block, [{"type": "input_json_delta", "partial_json": json.dumps(given)}]


def anthropic_blocks(blocks: Sequence[Block], name: str) -> Reply:
    """Return what answers `POST /v1/messages` with these blocks, in a message of that name."""
    reason = "tool_use" if any(block["type"] == "tool_use" for block, _ in blocks) else "end_turn"

    def reply(model: str, usage: int) -> Iterator[bytes]:
        start = {"id": name, "type": "message", "role": "assistant", "model": model, "content": []}
        counts = {
            "input_tokens": usage,
            "output_tokens": 1,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        }
        yield _named({"type": "message_start", "message": start | {"stop_reason": None, "usage": counts}})
        for index, (block, deltas) in enumerate(blocks):
            yield _named({"type": "content_block_start", "index": index, "content_block": block})
            for delta in deltas:
                yield _named({"type": "content_block_delta", "index": index, "delta": delta})
            yield _named({"type": "content_block_stop", "index": index})
        end = {"stop_reason": reason, "stop_sequence": None}
        yield _named({"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}})
        yield _named({"type": "message_stop"})

    return reply


def responses(model: str, usage: int) -> Iterator[bytes]:
    """Answer `POST /responses`, for OpenAI's own API and for Codex."""
    text = {"type": "output_text", "text": TEXT, "annotations": []}
    empty = {"id": "msg_standin", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    item = empty | {"status": "completed", "content": [text]}
    response = {"id": "resp_standin", "object": "response", "model": model, "status": "in_progress", "output": []}
    place = {"item_id": "msg_standin", "output_index": 0, "content_index": 0}
    counts = {"input_tokens": usage, "output_tokens": 9, "total_tokens": usage + 9}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        {"type": "response.content_part.added", **place, "part": text | {"text": ""}},
        {"type": "response.output_text.delta", **place, "delta": TEXT},
        {"type": "response.output_text.done", **place, "text": TEXT},
        {"type": "response.content_part.done", **place, "part": text},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": response | {"status": "completed", "output": [item], "usage": counts | details},
        },
    ]
    yield from (_named(event | {"sequence_number": number}) for number, event in enumerate(events))


def responses_call(item: Mapping[str, Any]) -> Reply:
    """Return what answers `POST /responses` with a call: an item of type `function_call` or `custom_tool_call`."""
    return responses_items([{"id": "fc_standin", "status": "completed", "call_id": "call_standin", **item}])


def responses_items(items: Sequence[Mapping[str, Any]]) -> Reply:
    """Return what answers `POST /responses` with these items."""

    def reply(model: str, usage: int) -> Iterator[bytes]:
        response = {"id": "resp_call", "object": "response", "model": model, "status": "in_progress", "output": []}
        counts = {"input_tokens": usage, "output_tokens": 9, "total_tokens": usage + 9}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        done = response | {"status": "completed", "output": items, "usage": counts | details}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": response},
            *(
                {"type": "response.output_item.done", "output_index": index, "item": item}
                for index, item in enumerate(items)
            ),
            {"type": "response.completed", "response": done},
        ]
        yield from (_named(event | {"sequence_number": number}) for number, event in enumerate(events))

    return reply


def chat(model: str, usage: int) -> Iterator[bytes]:
    chunk = {"id": "chatcmpl-standin", "object": "chat.completion.chunk", "created": 0, "model": model}
    first = {"index": 0, "delta": {"role": "assistant", "content": TEXT}, "finish_reason": None}
    yield _data(chunk | {"choices": [first]})
    yield _data(chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    counts = {"prompt_tokens": usage, "completion_tokens": 9, "total_tokens": usage + 9}
    yield _data(chunk | {"choices": [], "usage": counts})
    yield b"data: [DONE]\n\n"


def chat_calls(*calls: tuple[str, Mapping[str, Any]]) -> Reply:
    """Return what answers `POST /chat/completions` with calls, each the name of a tool and what that is given."""
    functions = [{"name": name, "arguments": json.dumps(given)} for name, given in calls]
    made = [
        {"index": at, "id": f"call_{at}", "type": "function", "function": each} for at, each in enumerate(functions)
    ]
    delta = {"role": "assistant", "tool_calls": made}

    def reply(model: str, usage: int) -> Iterator[bytes]:
        chunk = {"id": "chatcmpl-call", "object": "chat.completion.chunk", "created": 0, "model": model}
        yield _data(chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield _data(chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        yield b"data: [DONE]\n\n"

    return reply


def gemini(model: str, usage: int) -> Iterator[bytes]:
    """Answer `POST /models/...:streamGenerateContent`."""
    yield _data(_gemini(model, usage))


def gemini_call(name: str, given: Mapping[str, Any]) -> Reply:
    """Return what answers `POST /models/...:streamGenerateContent` with a call."""
    return gemini_parts([{"functionCall": {"name": name, "args": given}}])


def gemini_parts(parts: Sequence[Mapping[str, Any]]) -> Reply:
    """Return what answers `POST /models/...:streamGenerateContent` with these parts."""
    return lambda model, usage: iter([_data(_gemini(model, usage, parts))])


def gemini_whole(model: str, usage: int) -> Iterator[bytes]:
    """Answer `POST /models/...:generateContent`, with which the agent asks for a summary."""
    yield json.dumps(_gemini(model, usage)).encode()


def code_assist(model: str, usage: int) -> Iterator[bytes]:
    """Answer `POST /v1internal:streamGenerateContent`, which wraps what Gemini answers."""
    yield _data({"response": _gemini(model, usage)})


def _gemini(model: str, usage: int, parts: Sequence[Mapping[str, Any]] = ({"text": TEXT},)) -> dict[str, Any]:
    content = {"role": "model", "parts": parts}
    counts = {"promptTokenCount": usage, "candidatesTokenCount": 9, "totalTokenCount": usage + 9}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": model, "responseId": "standin"}


def _named(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\n".encode() + _data(event)


def _data(event: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"
