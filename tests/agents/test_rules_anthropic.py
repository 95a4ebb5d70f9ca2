"""What is right passes Anthropic's rules, and each thing that the API would refuse is named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.rules import problems

TEXT = {"type": "text", "text": "Listing."}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
SEALED = {"type": "redacted_thinking", "data": "c2ln"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
PROMPT = {"role": "user", "content": "Go."}


def answer(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def prompt(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


CASES: dict[str, tuple[list[Any], list[str]]] = {
    "a prompt": ([PROMPT], []),
    "two prompts": ([PROMPT, PROMPT], []),
    "thinking, text, calls": ([PROMPT, answer(THOUGHT, SEALED, TEXT, CALL), prompt(RESULT, TEXT)], []),
    "thinking between texts": ([PROMPT, answer(THOUGHT, TEXT, THOUGHT, TEXT), PROMPT], []),
    "a picture in a result": ([PROMPT, answer(CALL), prompt({**RESULT, "content": [TEXT, PICTURE]})], []),
    "no prompt": ([answer(TEXT)], ["the first message is not the user's"]),
    "two answers": ([PROMPT, answer(TEXT), answer(TEXT)], ["message 2 (assistant) follows another of its kind"]),
    "only thinking": ([PROMPT, answer(THOUGHT), PROMPT], ["message 1: the last block of an answer is thinking"]),
    "thinking behind a call": (
        [PROMPT, answer(CALL, SEALED, TEXT), prompt(RESULT)],
        ["message 1: redacted_thinking comes behind tool_use"],
    ),
    "words before a result": (
        [PROMPT, answer(CALL), prompt(TEXT, RESULT)],
        ["message 2: tool_result comes behind text"],
    ),
    "thinking without its seal": (
        [PROMPT, answer({**SEALED, "data": ""}, TEXT)],
        ["message 1: a redacted thinking block has no data"],
    ),
    "a field of ours in a result's text": (
        [PROMPT, answer(CALL), prompt({**RESULT, "content": [{**TEXT, "ref": "1"}]})],
        ["message 2: text: extra inputs are not permitted: ['ref']"],
    ),
}


@pytest.mark.parametrize(("messages", "said"), CASES.values(), ids=CASES)
def test_the_rules_of_anthropic(messages: list[Any], said: list[str]) -> None:
    assert problems({"system": "", "messages": messages}) == said
