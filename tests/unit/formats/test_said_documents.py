"""What was said in sessions of Gemini CLI, OpenCode and gencode, and in chats; and what was not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.core.model import Purpose, Role
from sessioncompress.formats.base import Reader
from sessioncompress.formats.chat import SUMMARY, ChatReader, GenCodeReader
from sessioncompress.formats.gemini import THANKS, GeminiReader
from sessioncompress.formats.opencode import OpenCodeReader
from sessioncompress.pipeline.reading import read_line

READ = Utterance(Say.CALL, tool="read", call="c1", purpose=Purpose.READ, given={"path": "a.py"})
READ_FILE = READ._replace(tool="read_file")
SNAPSHOT = "<state_snapshot>\nIt was so.\n</state_snapshot>"
WAS = [Utterance(Say.SUMMARY, "It was so.")]
GIVEN_BACK: dict[str, Any] = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "x = 1"}}}
ASKS: dict[str, Any] = {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "a.py"}}}


def answered(text: str = "x = 1", failed: bool | None = None) -> Utterance:
    return Utterance(Say.RESULT, text, call="c1", failed=failed)


def gemini(*results: Any, status: str = "success", content: Any = "") -> dict[str, Any]:
    calls = [
        {"id": "c1", "name": "read_file", "args": {"path": "a.py"}, "status": status, "result": each}
        for each in results
    ]
    return {"id": "m", "type": "gemini", "content": content, "toolCalls": calls, "thoughts": [{"description": "Hm."}]}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"type": "user", "content": "Go on."}, [Utterance(Say.PROMPT, "Go on.")]),
        ({"type": "user", "content": [{"text": "Go "}, "on."]}, [Utterance(Say.PROMPT, "Go on.")]),
        ({"type": "user", "content": "/help"}, []),
        ({"type": "user", "content": "<session_context>\nToday"}, []),
        ({"type": "info", "content": "Update."}, []),
        ({"type": "user", "content": [{"text": SNAPSHOT}]}, WAS),
        ({"type": "user", "content": f"<scratchpad>Hm.</scratchpad>\n{SNAPSHOT}"}, WAS),
        ({"type": "user", "content": f"Look: {SNAPSHOT}"}, [Utterance(Say.PROMPT, f"Look: {SNAPSHOT}")]),
        ({"type": "gemini", "content": [{"text": THANKS}]}, []),
        ({"type": "gemini", "content": [{"text": "Hm.", "thought": True}, {"text": "Done."}, ASKS]},
         [Utterance(Say.ANSWER, "Done."), READ_FILE]),
        (gemini([GIVEN_BACK], content="Done."), [Utterance(Say.ANSWER, "Done."), READ_FILE, answered(failed=False)]),
        (gemini([GIVEN_BACK], content=[ASKS]), [READ_FILE, answered(failed=False)]),
        (gemini("x = 1"), [READ_FILE, answered(failed=False)]),
        (gemini([GIVEN_BACK], status="error"), [READ_FILE, answered(failed=True)]),
        (gemini("no\nExit Code: 2"), [READ_FILE, answered("no\nExit Code: 2", failed=True)]),
        (gemini("ok\nExit Code: 0\n"), [READ_FILE, answered("ok\nExit Code: 0\n", failed=False)]),
        (gemini("ok\nExit Code: (none)"), [READ_FILE, answered("ok\nExit Code: (none)", failed=False)]),
        (gemini(None, status="executing"), [READ_FILE]),
        ({"type": "user", "content": [GIVEN_BACK]}, [answered()]),
        ({"type": "user", "content": [{"functionResponse": {"id": "c1", "response": {"error": "no"}}}]},
         [answered("no", failed=True)]),
        ({"$set": {"lastUpdated": "now"}}, []),
    ],
)  # fmt: skip
def test_gemini(entry: Any, said: list[Utterance]) -> None:
    assert list(GeminiReader().said(entry)) == said


def opencode(role: str, *parts: Any, **info: Any) -> dict[str, Any]:
    return {"info": {"role": role, "id": "m", **info}, "parts": list(parts)}


def tool(**state: Any) -> dict[str, Any]:
    return {"type": "tool", "callID": "c1", "tool": "read", "state": {"input": {"path": "a.py"}, **state}}


SAYS: dict[str, Any] = {"type": "text", "text": "Done."}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (opencode("user", SAYS), [Utterance(Say.PROMPT, "Done.")]),
        (opencode("user", {**SAYS, "synthetic": True}, {**SAYS, "ignored": True}), []),
        (opencode("user", {"type": "compaction", "auto": True}), []),
        (opencode("assistant", {"type": "reasoning", "text": "Hm."}, SAYS), [Utterance(Say.ANSWER, "Done.")]),
        (opencode("assistant", SAYS, summary=True, finish="stop"), [Utterance(Say.SUMMARY, "Done.")]),
        (opencode("assistant", SAYS, error={"name": "APIError"}), []),
        (opencode("assistant", SAYS, error={"name": "MessageAbortedError"}), [Utterance(Say.ANSWER, "Done.")]),
        (opencode("assistant", tool(status="completed", output="x = 1")), [READ, answered(failed=False)]),
        (opencode("assistant", tool(status="completed", output="x", metadata={"exit": 1})),
         [READ, answered("x", failed=True)]),
        (opencode("assistant", tool(status="error", error="no")), [READ, answered("no", failed=True)]),
        (opencode("assistant", tool(status="running")), [READ]),
    ],
)  # fmt: skip
def test_opencode(entry: Any, said: list[Utterance]) -> None:
    assert list(OpenCodeReader().said(entry)) == said


USES = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.py"}}
GIVES: dict[str, Any] = {"type": "tool_result", "toolUseId": "c1", "content": "x = 1"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"role": "system", "content": "You are an agent."}, []),
        ({"role": "system", "content": "[Earlier conversation - 12 messages summarized]\n\nIt was so."}, WAS),
        ({"role": "user", "content": "Go on."}, [Utterance(Say.PROMPT, "Go on.")]),
        ({"role": "user", "content": [SAYS]}, [Utterance(Say.PROMPT, "Done.")]),
        ({"role": "user", "content": [GIVES]}, [answered()]),
        ({"role": "user", "content": [{**GIVES, "isError": True}]}, [answered(failed=True)]),
        ({"role": "assistant", "content": [SAYS, USES]}, [Utterance(Say.ANSWER, "Done."), READ]),
    ],
)
def test_gencode(entry: Any, said: list[Utterance]) -> None:
    assert list(GenCodeReader().said(entry)) == said


def chat(**given: Any) -> dict[str, Any]:
    function = {"name": "read", "arguments": json.dumps(given)}
    return {"role": "assistant", "content": "Done.", "tool_calls": [{"id": "c1", "function": function}]}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"role": "system", "content": "You are an agent."}, []),
        ({"role": "user", "content": "Go on."}, [Utterance(Say.PROMPT, "Go on.")]),
        ({"role": "user", "content": f"{SUMMARY}It was so."}, WAS),
        (chat(path="a.py"), [Utterance(Say.ANSWER, "Done."), READ]),
        ({"role": "assistant", "reasoning": "Hm.", "content": None}, []),
        ({"role": "tool", "tool_call_id": "c1", "content": "x = 1"}, [answered()]),
        ({"role": "tool", "tool_call_id": "c1", "content": "x\nexit code: 1"}, [answered("x\nexit code: 1", failed=True)]),
        ({"role": "tool", "tool_call_id": "c1", "content": "exit code: 0"}, [answered("exit code: 0", failed=False)]),
    ],
)  # fmt: skip
def test_chats(entry: Any, said: list[Utterance]) -> None:
    assert list(ChatReader().said(entry)) == said


@pytest.mark.parametrize(
    ("reader", "entry"),
    [
        (GeminiReader, {"id": "m", "type": "user", "content": [{"text": SNAPSHOT}]}),
        (GenCodeReader, {"role": "system", "content": "[Earlier conversation - 12 messages summarized]\n\nSo."}),
        (ChatReader, {"role": "user", "content": f"{SUMMARY}It was so."}),
    ],
)
def test_a_summary_is_a_checkpoint_before_which_nothing_is_dead(reader: type[Reader], entry: Any) -> None:
    line = read_line(json.dumps(entry).encode(), reader(), ended=False)
    assert line.role is Role.CHECKPOINT
    assert line.reads > 0
