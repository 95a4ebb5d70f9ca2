"""Codex's checkpoints: what was said in a rollout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.checkpoint import Said, Say
from sessioncompress.core.model import Purpose
from sessioncompress.formats.codex import RolloutReader
from sessioncompress.formats.codex_checkpoint import framed


def words(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


def output(value: Any, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": "c1", "output": value}


RAN = "Chunk ID: bfde4b\nWall time: 0.6971 seconds\nProcess exited with code {}\nOriginal token count: 2\nOutput:\nok\n"

ITEMS: list[tuple[str, dict[str, Any], list[Said]]] = [
    ("a prompt", words("user", "Fix it."), [Said(Say.PROMPT, "Fix it.")]),
    ("a prompt in tags", words("user", "<task>Fix it.</task>"), [Said(Say.PROMPT, "<task>Fix it.</task>")]),
    ("a prompt in parts", words("user", "a", "<environment_context>\n", "b"), [Said(Say.PROMPT, "a\nb")]),
    ("an answer", words("assistant", "Done."), [Said(Say.ANSWER, "Done.")]),
    ("rules", words("developer", "Do not."), []),
    ("a guide", words("user", "# AGENTS.md instructions for /a\n", "<environment_context>\n"), []),
    ("an end", words("user", "<turn_aborted>\nThe user interrupted"), []),
    ("a skill", words("user", "<skill>\n<name>a</name>"), []),
    ("reasoning", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}, []),
    (
        "a call of a function",
        {"type": "function_call", "name": "exec_command", "call_id": "c1", "arguments": '{"cmd":"ls"}'},
        [Said(Say.CALL, tool="exec_command", call="c1", purpose=Purpose.COMMAND, given={"cmd": "ls"})],
    ),
    (
        "arguments that are no object",
        {"type": "function_call", "name": "wait_agent", "call_id": "c1", "arguments": "[1"},
        [Said(Say.CALL, tool="wait_agent", call="c1", purpose=Purpose.AGENT, given={"input": "[1"})],
    ),
    (
        "a call with plain input",
        {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c1", "input": '{"a":1}'},
        [Said(Say.CALL, tool="apply_patch", call="c1", given={"input": '{"a":1}'})],
    ),
    (
        "a shell",
        {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec", "command": ["ls", "-l"]}},
        [Said(Say.CALL, tool="local_shell", call="c1", purpose=Purpose.COMMAND, given={"command": ["ls", "-l"]})],
    ),
    ("a result", output(RAN.format(0)), [Said(Say.RESULT, RAN.format(0), call="c1", failed=False)]),
    ("a failed one", output(RAN.format(-1)), [Said(Say.RESULT, RAN.format(-1), call="c1", failed=True)]),
    (
        "one without a status",
        output("Wall time: 1 seconds\nOutput:\nExit code: 1\n"),
        [Said(Say.RESULT, "Wall time: 1 seconds\nOutput:\nExit code: 1\n", call="c1")],
    ),
    (
        "a wrapped one",
        output(json.dumps({"output": "no", "metadata": {"exit_code": 2, "duration_seconds": 1}})),
        [Said(Say.RESULT, "no", call="c1", failed=True)],
    ),
    (
        "a patch that did not fit",
        output("apply_patch verification failed: no", "custom_tool_call_output"),
        [Said(Say.RESULT, "apply_patch verification failed: no", call="c1", failed=True)],
    ),
    (
        "a result in parts",
        output([{"type": "input_text", "text": "a"}, {"type": "input_image"}, {"type": "input_text", "text": "b"}]),
        [Said(Say.RESULT, "a\nb", call="c1")],
    ),
]

SUMMARIES: list[tuple[str, dict[str, Any], list[Said]]] = [
    (
        "ours",
        {"message": framed("So."), "replacement_history": [words("user", framed("So."))]},
        [Said(Say.SUMMARY, "So.")],
    ),
    (
        "the agent's own, with the prompts that it keeps",
        {"message": framed("So."), "replacement_history": [words("user", "Fix it."), words("user", framed("So."))]},
        [Said(Say.SUMMARY, "So."), Said(Say.PROMPT, "Fix it.")],
    ),
    ("a sealed one", {"message": "", "replacement_history": [words("user", "Fix it."), {"type": "compaction"}]}, []),
]


def said(kind: str, payload: Any) -> list[Said]:
    return list(RolloutReader().said({"type": kind, "payload": payload}))


@pytest.mark.parametrize(("name", "item", "found"), ITEMS, ids=[name for name, *_ in ITEMS])
def test_what_was_said_is_read(name: str, item: dict[str, Any], found: list[Said]) -> None:
    assert said("response_item", item) == found


@pytest.mark.parametrize(("name", "payload", "found"), SUMMARIES, ids=[name for name, *_ in SUMMARIES])
def test_a_summary_comes_without_its_frame(name: str, payload: dict[str, Any], found: list[Said]) -> None:
    assert said("compacted", payload) == found


def test_events_say_nothing_again() -> None:
    assert said("event_msg", {"type": "user_message", "message": "Fix it."}) == []


@pytest.mark.parametrize("odd", [None, 3, "", [], {}, [None, 3, [], {"type": []}, {"type": "text", "text": 1}]])
def test_odd_values_say_nothing(odd: Any) -> None:
    assert said("response_item", odd) == []
    assert said("compacted", {"message": odd, "replacement_history": odd}) == []
    for role in ("user", "assistant", odd):
        assert said("response_item", {"type": "message", "role": role, "content": odd}) == []
    assert said("response_item", {"type": "function_call", "name": odd, "arguments": odd})[0].tool in ("", "function")
    assert said("response_item", output(odd)) == [Said(Say.RESULT, call="c1")]
