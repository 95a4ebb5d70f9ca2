"""What is right passes Gemini's rules, and each thing that the API would refuse is named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.rules import problems

PROMPT = {"role": "user", "parts": [{"text": "Go."}]}


def call(one: str = "", name: str = "ls", **more: Any) -> dict[str, Any]:
    named = {"id": one} if one else {}
    return {"functionCall": {**named, "name": name, "args": {}, **more}}


def result(one: str = "", name: str = "ls", **more: Any) -> dict[str, Any]:
    named = {"id": one} if one else {}
    return {"functionResponse": {**named, "name": name, "response": {"output": "x"}, **more}}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


CASES: dict[str, tuple[list[Any], list[str]]] = {
    "a call and its result": ([PROMPT, model(call()), user(result())], []),
    "with ids": ([PROMPT, model(call("a"), call("b")), user(result("b"), result("a"))], []),
    "with thinking and a signature": (
        [PROMPT, model({"text": "Hm.", "thought": True}, {**call(), "thoughtSignature": "c2ln"}), user(result())],
        [],
    ),
    "a picture in a result": (
        [PROMPT, model(call()), user(result(parts=[{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]))],
        [],
    ),
    "no prompt": ([model({"text": "A"})], ["the first content is not the user's"]),
    "two prompts": ([PROMPT, PROMPT], ["message 1: user follows user"]),
    "a call without a result": ([PROMPT, model(call()), PROMPT], ["message 2: results of [] follow calls of ['ls']"]),
    "a result without a call": (
        [PROMPT, model({"text": "A"}), user(result())],
        ["message 2: results of ['ls'] follow calls of []"],
    ),
    "another call's result": (
        [PROMPT, model(call("a")), user(result("b"))],
        ["message 2: results ['b'] follow calls ['a']"],
    ),
    "a result without its call's id": (
        [PROMPT, model(call("a")), user(result())],
        ["message 2: results [''] follow calls ['a']"],
    ),
    "a response that is a text": (
        [PROMPT, model(call()), user(result(response="x"))],
        ["message 2: response of ls is no object"],
    ),
    "arguments that are a list": (
        [PROMPT, model(call(args=[])), user(result())],
        ["message 1: the arguments of  are no object", "message 1: args of ls is no object"],
    ),
    "a field of ours in a call": (
        [PROMPT, model(call(ref="1")), user(result())],
        ["message 1: functionCall: unknown name ['ref']"],
    ),
    "a field of ours in a part": (
        [PROMPT, model({"text": "A", "ref": "1"})],
        ["message 1: part: unknown name ['ref']"],
    ),
    "a part that holds nothing": ([PROMPT, model({"thought": True})], ["message 1: a part holds [], not one of them"]),
    "a picture that is a text": ([PROMPT, model({"inlineData": "AAAA"})], ["message 1: inlineData is of another type"]),
}


@pytest.mark.parametrize(("contents", "said"), CASES.values(), ids=CASES)
def test_the_rules_of_gemini(contents: list[Any], said: list[str]) -> None:
    assert problems({"contents": contents}) == said
    assert problems({"model": "g", "request": {"contents": contents}}) == said
