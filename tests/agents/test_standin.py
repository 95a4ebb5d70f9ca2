"""The stand-in answers each API as its clients expect, records what came, and names the rules it breaks."""

from __future__ import annotations

import gzip
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from sessioncompress.store.originals import zstd
from tests.agents import replies
from tests.agents.bodies import Body
from tests.agents.rules import problems, reasoned_ids
from tests.agents.standin import StandIn


def post(url: str, body: Any, packed: str = "") -> list[Any]:
    raw = json.dumps(body).encode()
    raw = {"": raw, "gzip": gzip.compress(raw), "zstd": zstd.compress(raw)}[packed]
    request = urllib.request.Request(url, raw, {"Content-Encoding": packed} if packed else {})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        lines = [line.removeprefix("data: ") for line in answer.read().decode().splitlines()]
        return [json.loads(line) for line in lines if line.startswith("{")]


PROMPT = {"messages": [{"role": "user", "content": "Go."}]}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Go."}]}]}


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/v1/messages", PROMPT | {"system": "", "max_tokens": 5}, [2, "delta", "text"]),
        ("/v1/responses", {"input": "Go."}, [3, "delta"]),
        ("/backend-api/codex/responses", {"input": "Go."}, [7, "response", "output", 0, "content", 0, "text"]),
        ("/v1/chat/completions", PROMPT, [0, "choices", 0, "delta", "content"]),
        (
            "/v1beta/models/g:streamGenerateContent?alt=sse",
            CONTENTS,
            [0, "candidates", 0, "content", "parts", 0, "text"],
        ),
        (
            "/v1internal:streamGenerateContent?alt=sse",
            {"model": "g", "request": CONTENTS},
            [0, "response", "candidates", 0, "content", "parts", 0, "text"],
        ),
    ],
)
def test_each_api_is_answered_with_the_text(path: str, body: Body, place: list[Any]) -> None:
    with StandIn() as stand_in:
        found: Any = post(stand_in.url + path, body)
    for key in place:
        found = found[key]
    assert found == replies.TEXT
    (request,) = stand_in.requests
    assert (request.path, request.body, stand_in.problems) == (path.partition("?")[0], body, [])


@pytest.mark.parametrize("packed", ["gzip", "zstd"])
def test_a_packed_request_is_read_and_measured_unpacked(packed: str) -> None:
    with StandIn() as stand_in:
        post(f"{stand_in.url}/codex/responses", {"input": "Go."}, packed)
    assert stand_in.requests[0].body == {"input": "Go."}
    assert stand_in.requests[0].size == len(json.dumps({"input": "Go."}))


def test_what_is_no_model_request_is_refused_and_noted() -> None:
    with StandIn() as stand_in, pytest.raises(urllib.error.HTTPError) as refused:
        post(f"{stand_in.url}/telemetry", {})
    refused.value.close()
    assert (stand_in.requests, stand_in.strangers) == ([], ["POST /telemetry"])


def test_the_usage_is_the_one_asked_for() -> None:
    with StandIn(usage=77) as stand_in:
        events = post(f"{stand_in.url}/v1/messages", PROMPT | {"system": ""})
    assert events[0]["message"]["usage"]["input_tokens"] == 77


def test_the_first_request_may_be_answered_with_a_call() -> None:
    given = {"to": "a1", "message": "Go on."}
    with StandIn(first=replies.anthropic_call("SendMessage", given)) as stand_in:
        called, said = (post(f"{stand_in.url}/v1/messages", PROMPT | {"system": ""}) for _ in range(2))
    assert called[1]["content_block"]["name"] == "SendMessage"
    assert json.loads(called[2]["delta"]["partial_json"]) == given
    assert called[4]["delta"]["stop_reason"] == "tool_use"
    assert said[2]["delta"]["text"] == replies.TEXT


def call(one: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": one, "name": "ls", "input": {}}


def result(one: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": one, "content": "x"}


UNSIGNED = {"type": "thinking", "thinking": "Hm.", "signature": ""}


def anthropic(*contents: Any) -> Body:
    """Return a body of these contents, the user's and the model's in turn."""
    roles = ["user", "assistant"] * len(contents)
    said = zip(roles, ["Go.", *contents], strict=False)
    return {"system": "", "messages": [{"role": role, "content": content} for role, content in said]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (anthropic([call("a"), call("b")], [result("a"), result("b")]), []),
        (anthropic([call("a")]), ["call a has no result right after it"]),
        (anthropic("Yes.", [result("a")]), ["result a has no call right before it"]),
        (anthropic([call("a")], [result("a"), result("a")]), ["result a occurs twice"]),
        (anthropic([]), ["message 1 (assistant) has no content"]),
        (anthropic([{"type": "text", "text": " "}]), ["message 1 (assistant) has an empty text"]),
        (anthropic([UNSIGNED, {"type": "text", "text": "A"}]), ["a thinking block has no signature"]),
        (anthropic([{"type": "text", "text": "A", "x": 1}]), ["text: extra inputs are not permitted: ['x']"]),
        (anthropic([call("a") | {"input": "x"}], [result("a")]), ["message 1: the arguments of a are no object"]),
        (anthropic([call("a|b")], [result("a|b")]), ["message 1: the call id a|b has characters that are not allowed"]),
    ],
)
def test_the_rules_of_anthropic(body: Body, said: list[str]) -> None:
    assert [problem.removeprefix("message 1: ") for problem in problems(body)] == [
        problem.removeprefix("message 1: ") for problem in said
    ]


USER = {"role": "user", "content": [{"type": "input_text", "text": "Go."}]}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SAID = {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "Yes."}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "x"}


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([USER, REASONING, SAID, CALL, OUTPUT, USER], []),
        ([USER, CALL, USER], ["call call_1 has no result before the next prompt"]),
        ([USER, CALL], ["call call_1 has no result"]),
        ([USER, OUTPUT], ["result call_1 has no call before it"]),
        ([USER, CALL, OUTPUT, OUTPUT], ["result call_1 has no call before it", "result call_1 occurs twice"]),
        ([USER, REASONING, USER], ["reasoning rs_1 stands without the item that follows it"]),
        ([USER, SAID, SAID], ["item msg_1 occurs twice"]),
        (
            [USER, CALL | {"arguments": "[]"}, OUTPUT],
            ["the arguments of call_1 are no object", "the arguments of ls are no string that holds an object"],
        ),
    ],
)
def test_the_rules_of_responses(items: list[Any], said: list[str]) -> None:
    assert [problem.removeprefix("message 1: ") for problem in problems({"input": items})] == said


def test_an_item_that_was_made_with_reasoning_needs_it() -> None:
    reasoned = reasoned_ids({"input": [USER, REASONING, SAID, CALL, OUTPUT, SAID | {"id": "msg_2"}]})
    assert reasoned == {"msg_1", "fc_1"}
    alone: Body = {"input": [USER, {**SAID, "id": "msg_9"}, CALL, OUTPUT]}
    assert problems(alone, reasoned) == ["item fc_1 stands without its reasoning item"]
    del alone["input"][2]["id"]
    assert problems(alone, reasoned) == []


def chat_call(one: str, arguments: Any = "{}") -> dict[str, Any]:
    function = {"name": "ls", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": one, "type": "function", "function": function}]}


def chat_result(one: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": one, "content": "x"}


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([chat_call("a"), chat_result("a")], []),
        ([chat_call("a"), {"role": "user", "content": "Go."}], ["call a has no result right after it"]),
        ([chat_result("a")], ["result a has no call right before it"]),
        ([{"role": "assistant", "content": None}], ["message 0 (assistant) has no content"]),
        ([chat_call("a", {}), chat_result("a")], ["the arguments of ls are no string that holds an object"]),
    ],
)
def test_the_rules_of_chat_completions(messages: list[Any], said: list[str]) -> None:
    system = {"role": "system", "content": "You help."}
    found = problems({"messages": [*messages, system]})
    assert [problem for problem in found if "message 0: the arguments" not in problem] == said
