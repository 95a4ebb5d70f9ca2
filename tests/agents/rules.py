"""The rules of the model APIs that a request must keep, as far as a request shows them: what a real API would refuse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.agents import rules_anthropic, rules_gemini, rules_responses
from tests.agents.bodies import Api, Body, Kind, Message, Part, api_of, messages


def problems(body: Body, reasoned: frozenset[str] = frozenset()) -> list[str]:
    """List the broken rules; `reasoned` are the ids of items that stood with a reasoning item when they were made."""
    api = api_of(body)
    found = [*_shape(messages(body))]
    match api:
        case Api.ANTHROPIC:
            found += [*_pairs_at_once(messages(body)), *rules_anthropic.problems(body)]
        case Api.CHAT:
            found += [*_pairs_at_once(_answers_joined(messages(body))), *_argument_strings(_chat_calls(body))]
        case Api.GEMINI:
            found += rules_gemini.problems(body)
        case Api.RESPONSES:
            found += [*_pairs_in_order(messages(body)), *_responses(body), *lone_items(body, reasoned)]
            found += rules_responses.problems(body)
    return found


def reasoned_ids(body: Body) -> frozenset[str]:
    """Return the ids of items that stand in one response with a reasoning item before them."""
    return frozenset(item for item, has_reasoning in _items_of_responses(body) if has_reasoning)


def lone_items(body: Body, reasoned: frozenset[str]) -> list[str]:
    """List the items that kept their id and lost the reasoning item that it needs."""
    found = _items_of_responses(body)
    return [f"item {item} stands without its reasoning item" for item, has in found if not has and item in reasoned]


def _items_of_responses(body: Body) -> Iterator[tuple[str, bool]]:
    """Yield each item id with whether a reasoning item stands before it since the last input."""
    if api_of(body) is not Api.RESPONSES or not isinstance(body["input"], list):
        return
    has_reasoning = False
    for item in body["input"]:
        if item.get("type") == "reasoning":
            has_reasoning = True
        elif item.get("role", "assistant") != "assistant" or str(item.get("type")).endswith("_output"):
            has_reasoning = False
        elif item.get("id"):
            yield item["id"], has_reasoning


def _shape(found: Sequence[Message]) -> Iterator[str]:
    for number, message in enumerate(found):
        if not message.parts:
            yield f"message {number} ({message.role}) has no content"
        for part in message.parts:
            if part.kind is Kind.TEXT and not part.signature and not str(part.value or "").strip():
                yield f"message {number} ({message.role}) has an empty text"
            if part.kind is Kind.CALL and not isinstance(part.value, str if _free_form(message) else dict):
                yield f"message {number}: the arguments of {part.call} are no object"


def _free_form(message: Message) -> bool:
    return isinstance(message.raw, dict) and message.raw.get("type") == "custom_tool_call"


def _of(kind: Kind, message: Message | None) -> list[Part]:
    return [part for part in message.parts if part.kind is kind] if message else []


def _pairs_at_once(found: Sequence[Message]) -> Iterator[str]:
    """Each call has its result in the very next message, each result its call in the one before."""
    before: Message | None = None
    seen: set[str] = set()
    for message in [*found, None]:
        calls = [part.call for part in _of(Kind.CALL, before)]
        results = [part.call for part in _of(Kind.RESULT, message)]
        yield from (f"call {call} has no result right after it" for call in calls if call not in results)
        yield from (f"result {call} has no call right before it" for call in results if call not in calls)
        yield from _repeated("result", results)
        yield from (f"call {call} occurs twice" for call in calls if call in seen)
        seen.update(calls)
        before = message


def _repeated(what: str, ids: Sequence[str]) -> Iterator[str]:
    yield from (f"{what} {one} occurs twice" for one in sorted(set(ids)) if ids.count(one) > 1)


def _answers_joined(found: Iterable[Message]) -> list[Message]:
    """Join the tool messages that follow each other: together they answer the calls of one message."""
    joined: list[Message] = []
    for message in found:
        if message.role == "tool" and joined and joined[-1].role == "tool":
            joined[-1] = Message("tool", (*joined[-1].parts, *message.parts))
        else:
            joined.append(message)
    return joined


def _pairs_in_order(found: Sequence[Message]) -> Iterator[str]:
    """In Responses a result may follow later, but before the next prompt."""
    waiting: list[str] = []
    answered: list[str] = []
    for message in found:
        if message.role == "user":
            yield from (f"call {call} has no result before the next prompt" for call in waiting)
            waiting = []
        waiting += [part.call for part in _of(Kind.CALL, message)]
        for part in _of(Kind.RESULT, message):
            if part.call not in waiting:
                yield f"result {part.call} has no call before it"
            else:
                waiting.remove(part.call)
            answered.append(part.call)
    yield from (f"call {call} has no result" for call in waiting)
    yield from _repeated("result", answered)


def _responses(body: Body) -> Iterator[str]:
    items: list[Any] = body["input"] if isinstance(body["input"], list) else []
    yield from _argument_strings(item for item in items if item.get("type") == "function_call")
    yield from _repeated("item", [item["id"] for item in items if item.get("id")])
    for item, after in zip(items, [*items, {}][1:], strict=True):
        of_model = after.get("role") == "assistant" or str(after.get("type")).endswith("_call")
        if item.get("type") == "reasoning" and not (of_model or after.get("type") == "reasoning"):
            yield f"reasoning {item.get('id')} stands without the item that follows it"


def _chat_calls(body: Body) -> Iterator[dict[str, Any]]:
    for message in body["messages"]:
        yield from (call.get("function") or {} for call in message.get("tool_calls") or ())


def _argument_strings(calls: Iterable[dict[str, Any]]) -> Iterator[str]:
    for call in calls:
        try:
            good = isinstance(json.loads(call["arguments"]), dict)
        except (KeyError, TypeError, ValueError):
            good = False
        if not good:
            yield f"the arguments of {call.get('name')} are no string that holds an object"
