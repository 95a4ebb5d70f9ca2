"""What was said in a session of pi and its relatives, and what was not."""

from __future__ import annotations

from typing import Any

import pytest

from sessioncompress.core.checkpoint import Said, Say
from sessioncompress.core.model import Purpose
from sessioncompress.formats.pi import OhMyPiReader, OpenClawReader, PiReader

CALL: dict[str, Any] = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a.py"}}
TEXT: dict[str, Any] = {"type": "text", "text": "Done."}
LISTS = "<read-files>\na.py\n</read-files>\n\n<modified-files>\nb.py\n</modified-files>"
ODD: tuple[Any, ...] = (None, 7, [], {}, "text", [7, None, "x"], {"content": 7})


def message(role: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": "e1", "message": {"role": role, **fields}}


def result(failed: bool | None, text: str = "Done.") -> Said:
    return Said(Say.RESULT, text, call="c1", failed=failed)


READ = Said(Say.CALL, tool="read", call="c1", purpose=Purpose.READ, given={"path": "a.py"})
RUN = Said(Say.CALL, tool="bash", call="e1", purpose=Purpose.COMMAND, given={"command": "make"})


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (message("user", content="Go on."), [Said(Say.PROMPT, "Go on.")]),
        (message("user", content=[TEXT, {"type": "image", "data": "aa"}, TEXT]), [Said(Say.PROMPT, "Done.\nDone.")]),
        (message("developer", content="Be brief."), []),
        (message("custom", content="Put in."), []),
        ({"type": "custom_message", "content": "Put in."}, []),
        ({"type": "custom", "customType": "tool_execution_start", "data": {"args": {"path": "a"}}}, []),
        (message("assistant", content=[TEXT, {"type": "thinking", "thinking": "Hm."}, CALL], stopReason="toolUse"),
         [Said(Say.ANSWER, "Done."), READ]),
        (message("assistant", content=[TEXT, CALL], stopReason="error"), []),
        (message("assistant", content=[TEXT, CALL], stopReason="aborted"), []),
        (message("toolResult", toolCallId="c1", content=[TEXT], isError=False), [result(failed=False)]),
        (message("toolResult", toolCallId="c1", content=[TEXT], isError=True), [result(failed=True)]),
        (message("toolResult", toolCallId="c1", content=[TEXT]), [result(None)]),
        (message("toolResult", toolCallId="c1", content=[TEXT], isError=False, details={"exitCode": 2}),
         [result(failed=True)]),
        (message("toolResult", toolCallId="c1", content=[TEXT], isError=False, details={"status": "failed"}),
         [result(failed=True)]),
        (message("bashExecution", command="make", output="ok", exitCode=0),
         [RUN, Said(Say.RESULT, "ok", call="e1", failed=False)]),
        (message("bashExecution", command="make", output="no", exitCode=2),
         [RUN, Said(Say.RESULT, "no", call="e1", failed=True)]),
        (message("bashExecution", command="make", output="", cancelled=True),
         [RUN, Said(Say.RESULT, "", call="e1", failed=True)]),
        (message("bashExecution", command="make", output="ok"), [RUN, Said(Say.RESULT, "ok", call="e1")]),
        (message("bashExecution", command="make", output="ok", exitCode=0, excludeFromContext=True), []),
        ({"type": "compaction", "summary": f"It was so.\n\n{LISTS}"}, [Said(Say.SUMMARY, "It was so.")]),
        ({"type": "compaction", "summary": "So.\n\n<files>\n# src/\na.py (RW)\n</files>"}, [Said(Say.SUMMARY, "So.")]),
        ({"type": "compaction", "summary": f"{LISTS}\n\nIt was so."}, [Said(Say.SUMMARY, f"{LISTS}\n\nIt was so.")]),
        ({"type": "branch_summary", "summary": "Left."}, [Said(Say.SUMMARY, "Left.")]),
        (message("compactionSummary", summary="It was so."), [Said(Say.SUMMARY, "It was so.")]),
        ({"type": "context_edit", "targetId": "e0", "replacement": None}, []),
        ({"type": "context_edit", "targetId": "e0", "replacement": {"content": [TEXT]}}, []),
        ({"type": "context_edit", "targetId": "e0", "replacement": {"content": "Go."}}, [Said(Say.PROMPT, "Go.")]),
        ({"type": "session", "id": "s"}, []),
    ],
)  # fmt: skip
def test_what_is_said(entry: Any, said: list[Said]) -> None:
    assert list(PiReader().said(entry)) == said


@pytest.mark.parametrize(
    ("reader", "tool", "purpose"),
    [
        (PiReader, "Bash", Purpose.COMMAND),
        (OpenClawReader, "exec", Purpose.COMMAND),
        (OpenClawReader, "bash", Purpose.OTHER),
        (OhMyPiReader, "task", Purpose.AGENT),
    ],
)
def test_what_a_tool_is_for(reader: type[PiReader], tool: str, purpose: Purpose) -> None:
    entry = message("assistant", content=[{**CALL, "name": tool}])
    assert [said.purpose for said in reader().said(entry)] == [purpose]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("role", ["user", "assistant", "toolResult", "bashExecution", "compactionSummary", 7])
def test_odd_values_are_not_said(role: Any, odd: Any) -> None:
    fields = ("content", "toolCallId", "isError", "details", "command", "output", "exitCode", "summary", "stopReason")
    for entry in ({"type": "message", "message": odd}, message(role, **dict.fromkeys(fields, odd)), {"type": odd}):
        for said in PiReader().said(entry):
            assert isinstance(said.text, str)
    part = {"type": "toolCall", "id": odd, "name": odd, "arguments": odd}
    list(PiReader().said(message(role, content=[part, {"type": "text", "text": odd}])))
