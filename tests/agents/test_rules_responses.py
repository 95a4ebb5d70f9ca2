"""Each rule of the Responses API's items, problems once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.rules_responses import problems

ASKED = {"role": "user", "content": [{"type": "input_text", "text": "Go."}]}
SAID = {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "Yes."}]}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "exec", "input": "x"}


@pytest.mark.parametrize("item", [ASKED, SAID, REASONING, CALL, OUTPUT, CUSTOM, {"type": "item_of_tomorrow", "x": 1}])
def test_what_the_api_takes(item: Any) -> None:
    assert list(problems({"input": [item], "store": False})) == []


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (CALL | {"_compressed": True}, "function_call fc_1: unknown fields ['_compressed']"),
        ({**CALL, "id": "call_1"}, "function_call call_1: the id does not begin with fc_"),
        (
            {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"},
            "function_call fc_1: lacks ['arguments']",
        ),
        (OUTPUT | {"output": {}}, "function_call_output : the output is neither a text nor a list"),
        (OUTPUT | {"output": [{"type": "text"}]}, "function_call_output : has a part text"),
        (SAID | {"content": []}, "message msg_1: has no content"),
        (SAID | {"content": [{"type": "input_text", "text": "x"}]}, "message msg_1: has a part input_text"),
        (REASONING | {"encrypted_content": ""}, "reasoning rs_1 has no sealed content, and nothing is stored"),
        ({"type": "reasoning", "summary": [], "encrypted_content": "x"}, "reasoning : has no id"),
        ({"type": "web_search_call", "status": "completed"}, "web_search_call : has no id"),
    ],
)
def test_what_it_refuses(item: Any, said: str) -> None:
    assert list(problems({"input": [item], "store": False})) == [said]
