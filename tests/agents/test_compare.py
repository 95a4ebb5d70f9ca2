"""The comparison passes what a rewriting may do to a request, and names everything else."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.agents.bodies import Api, Body, api_of
from tests.agents.compare import context_differences, differences

LONG = "a line of output\n" * 40
SHORT = "a line of output\n[[sessioncompress: 39 of 40 lines, 0.6 KB, kept on disk: sessioncompress show 7f3a91c2e05b]]"
PICTURE = "[[sessioncompress: image/png, 2.0 KB, kept on disk: sessioncompress show 0f3a91c2e05b]]"


def anthropic() -> Body:
    return {
        "system": "You help.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "List the files."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I should list them.", "signature": "c2ln"},
                    {"type": "text", "text": "Listing."},
                    {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": LONG, "timeout": 5}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": LONG}, {"type": "image", "source": {"data": "AAAA"}}],
                    }
                ],
            },
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Done?", "signature": "c2lo"}]},
            {"role": "user", "content": "next step"},
        ],
    }


def responses() -> Body:
    return {
        "input": [
            {"role": "developer", "content": "You help."},
            {"role": "user", "content": [{"type": "input_text", "text": "List the files."}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
            {
                "type": "message",
                "role": "assistant",
                "id": "msg_1",
                "content": [{"type": "output_text", "text": "Listing."}],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "bash",
                "arguments": json.dumps({"command": LONG}),
            },
            {"type": "function_call_output", "call_id": "call_1", "output": LONG},
            {"role": "user", "content": [{"type": "input_text", "text": "next step"}]},
        ]
    }


def chat() -> Body:
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"c": LONG})}}
    return {
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": "List the files."},
            {"role": "assistant", "content": "Listing.", "reasoning_content": "Hm.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": LONG},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Attached image(s) from tool result:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            },
            {"role": "user", "content": "next step"},
        ]
    }


def gemini() -> Body:
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "List the files."}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I should list them.", "thought": True},
                    {"functionCall": {"name": "bash", "args": {"command": LONG}}, "thoughtSignature": "c2ln"},
                ],
            },
            {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"output": LONG}}}]},
            {"role": "user", "parts": [{"text": "next step"}]},
        ]
    }


BODIES = {Api.ANTHROPIC: anthropic, Api.RESPONSES: responses, Api.CHAT: chat, Api.GEMINI: gemini}


@pytest.mark.parametrize("api", Api)
def test_each_api_is_told_by_the_shape_of_its_body(api: Api) -> None:
    assert api_of(BODIES[api]()) is api


@pytest.mark.parametrize("api", Api)
def test_the_same_request_has_no_differences(api: Api) -> None:
    assert differences(BODIES[api](), BODIES[api]()) == []


@pytest.mark.parametrize("api", Api)
def test_results_and_arguments_may_become_markers(api: Api) -> None:
    assert differences(BODIES[api](), shortened(BODIES[api]())) == []


def shortened(body: Body) -> Body:
    escaped, short = json.dumps(json.dumps(LONG))[1:-1], json.dumps(json.dumps(SHORT))[1:-1]
    text = json.dumps(body).replace(escaped, short).replace(json.dumps(LONG), json.dumps(SHORT))
    assert "[[sessioncompress" in text
    changed: Body = json.loads(text)
    return changed


def without(items: list[Any], kind: str) -> list[Any]:
    return [item for item in items if item.get("type") != kind]


def test_thinking_may_go_with_the_message_that_held_nothing_else() -> None:
    body = anthropic()
    body["messages"][1]["content"] = without(body["messages"][1]["content"], "thinking")
    del body["messages"][3]
    assert differences(anthropic(), body) == []


@pytest.mark.parametrize(("key", "value"), [("thinking", "I should"), ("signature", "AAAA"), ("signature", "")])
def test_thinking_may_not_change(key: str, value: str) -> None:
    body = anthropic()
    body["messages"][1]["content"][0][key] = value
    assert any("thinking was changed or moved" in said for said in differences(anthropic(), body))


def test_thinking_may_not_change_places() -> None:
    body = anthropic()
    first, second = body["messages"][1]["content"], body["messages"][3]["content"]
    first[0], second[0] = second[0], first[0]
    assert any("thinking was changed or moved" in said for said in differences(anthropic(), body))


def test_reasoning_may_go_with_the_item_ids() -> None:
    body = responses()
    body["input"] = without(body["input"], "reasoning")
    for item in body["input"]:
        item.pop("id", None)
    assert differences(responses(), body) == []


def test_reasoning_may_not_go_without_the_item_ids() -> None:
    body = responses()
    body["input"] = without(body["input"], "reasoning")
    del body["input"][2]["id"]
    assert differences(responses(), body) == ["breaks a rule of the API: item fc_1 stands without its reasoning item"]


def test_thinking_of_another_model_is_sent_as_text_and_may_go() -> None:
    body = chat()
    body["messages"][2]["content"] = [{"type": "text", "text": "Hm."}, {"type": "text", "text": "Listing."}]
    assert differences(body, chat(), {"Hm."}) == []
    assert differences(body, chat()) != []


def test_an_image_may_become_a_marker_and_nothing_else() -> None:
    body = anthropic()
    result = body["messages"][2]["content"][0]
    result["content"][1] = {"type": "text", "text": PICTURE}
    assert differences(anthropic(), body) == []
    result["content"][1] = {"type": "text", "text": "a picture"}
    assert any("changed and does not say so" in said for said in differences(anthropic(), body))


@pytest.mark.parametrize(
    "said",
    [
        f"<system-reminder>\n{LONG}</system-reminder>\n",
        f"<system-notice>\nBackground job Look has completed.\n{LONG}</system-notice>\n",
    ],
    ids=["claude-code", "oh-my-pi"],
)
def test_what_the_agent_says_in_the_users_name_may_become_a_marker(said: str) -> None:
    body = anthropic()
    content = body["messages"][0]["content"]
    content.insert(0, {"type": "text", "text": said})
    rewritten = copy.deepcopy(body)
    rewritten["messages"][0]["content"][0]["text"] = said.replace(LONG, PICTURE)
    assert differences(body, rewritten) == []
    rewritten["messages"][0]["content"][0]["text"] = said.replace(LONG, "A file.")
    assert any("text changed" in said for said in differences(body, rewritten))


def test_a_text_may_end_its_line_before_one_that_was_an_image() -> None:
    body = anthropic()
    body["messages"][0]["content"].append({"type": "image", "source": {"data": "AAAA"}})
    rewritten = copy.deepcopy(body)
    rewritten["messages"][0]["content"] = [
        {"type": "text", "text": "List the files.\n"},
        {"type": "text", "text": PICTURE},
    ]
    assert differences(body, rewritten) == []


def test_the_message_that_carries_a_tools_pictures_goes_with_them() -> None:
    body = chat()
    del body["messages"][4]
    body["messages"][3]["content"] += PICTURE
    assert differences(chat(), body) == []


BROKEN: list[tuple[Api, list[Any], Any, str]] = [
    (Api.ANTHROPIC, ["messages", 0, "content", 0, "text"], "List files.", "text changed"),
    (Api.ANTHROPIC, ["messages", 1, "content", 1, "text"], SHORT, "text changed"),
    (Api.ANTHROPIC, ["messages", 1, "content", 2, "id"], "toolu_2", "call toolu_2 has no result right after it"),
    (Api.ANTHROPIC, ["messages", 1, "content", 2, "name"], "zsh", "call bash toolu_1 became zsh"),
    (Api.ANTHROPIC, ["messages", 1, "content", 2, "input"], SHORT, "the arguments of toolu_1 are no object"),
    (Api.ANTHROPIC, ["messages", 1, "content", 2, "input", "command"], "a line", "arguments of bash toolu_1.command"),
    (Api.ANTHROPIC, ["messages", 1, "content", 2, "input", "timeout"], SHORT, "arguments of bash toolu_1.timeout"),
    (Api.ANTHROPIC, ["messages", 1, "content", 2, "input", "more"], 1, "arguments of bash toolu_1 changed"),
    (Api.ANTHROPIC, ["messages", 2, "content", 0, "tool_use_id"], "x", "result x has no call right before it"),
    (Api.ANTHROPIC, ["messages", 2, "content", 0, "content"], "a line", "changed and does not say so"),
    (Api.ANTHROPIC, ["messages", 2, "content", 0, "content"], LONG * 2 + SHORT, "result toolu_1 grew"),
    (Api.ANTHROPIC, ["messages", 1, "content", 2, "note"], 1, "extra inputs are not permitted: ['note']"),
    (Api.ANTHROPIC, ["messages", 1, "role"], "user", "messages became 4: message 1 was assistant, is user"),
    (Api.RESPONSES, ["input", 4, "arguments"], {"command": LONG}, "no string that holds an object"),
    (Api.RESPONSES, ["input", 4, "arguments"], json.dumps({"command": "x"}), "arguments of bash call_1.command"),
    (Api.RESPONSES, ["input", 5, "call_id"], "call_2", "result call_2 has no call before it"),
    (Api.RESPONSES, ["input", 5, "output"], LONG[:99], "changed and does not say so"),
    (Api.RESPONSES, ["input", 2, "encrypted_content"], "gAAB", "thinking was changed or moved"),
    (Api.RESPONSES, ["input", 3, "content", 0, "text"], "Listing", "text changed"),
    (Api.CHAT, ["messages", 2, "tool_calls", 0, "id"], "call_2", "result call_1 has no call right before it"),
    (Api.CHAT, ["messages", 2, "reasoning_content"], "H", "thinking was changed or moved"),
    (Api.CHAT, ["messages", 1, "content"], "List the", "text changed"),
    (Api.GEMINI, ["contents", 1, "parts", 1, "thoughtSignature"], "c2lo", "the signature of call"),
    (Api.GEMINI, ["contents", 2, "parts", 0, "functionResponse", "name"], "ls", "follow calls of"),
    (Api.GEMINI, ["contents", 2, "parts", 0, "functionResponse", "response", "output"], "a", "does not say so"),
]


@pytest.mark.parametrize(("api", "place", "value", "said"), BROKEN, ids=[f"{b[0]}-{b[3][:30]}" for b in BROKEN])
def test_every_other_change_is_named(api: Api, place: list[Any], value: Any, said: str) -> None:
    body = BODIES[api]()
    inner: Any = body
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    assert any(said in difference for difference in differences(BODIES[api](), body))


@pytest.mark.parametrize("api", Api)
def test_a_missing_message_is_named(api: Api) -> None:
    body = BODIES[api]()
    (found,) = (items for items in body.values() if isinstance(items, list))
    del found[-1]
    assert any("messages became" in said for said in differences(BODIES[api](), body))


def context() -> list[dict[str, Any]]:
    call = {"type": "toolCall", "id": "call_1|fc_1", "name": "bash", "arguments": {"command": LONG}}
    thinking = {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "c2ln"}
    said = {"role": "assistant", "content": [thinking, call], "usage": {"output": 5}, "providerPayload": {"items": []}}
    result = {"role": "toolResult", "toolCallId": "call_1|fc_1", "toolName": "bash", "details": {"diff": LONG}}
    return [{"role": "user", "content": "Go."}, said, result | {"content": [{"type": "text", "text": LONG}]}]


def test_a_loaded_session_may_lose_mirrors_and_a_payload_with_its_ids() -> None:
    found = context()
    assert context_differences(found, copy.deepcopy(found)) == []
    del found[1]["providerPayload"], found[2]["details"], found[1]["content"][0]
    found[1]["content"][0]["id"] = found[2]["toolCallId"] = "call_1"
    assert context_differences(context(), found) == []


@pytest.mark.parametrize(
    ("place", "key", "value", "said"),
    [
        (1, "usage", {}, "usage changed"),
        (1, "providerPayload", {"items": [1]}, "payload changed"),
        (1, "providerPayload", None, "item ids that belong to it are not"),
        (1, "_compressed", True, "has the fields"),
        (0, "content", "Go", "text changed"),
    ],
)
def test_other_changes_to_a_loaded_session_are_named(place: int, key: str, value: Any, said: str) -> None:
    found = context()
    found[place][key] = value
    assert any(said in difference for difference in context_differences(context(), found))
