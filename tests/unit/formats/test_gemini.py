"""Gemini CLI's documents: what is a turn, a block, what stays, and that the document around the messages does too."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core.model import Kind, Line, Role
from sessioncompress.formats.gemini import Gemini
from sessioncompress.formats.table import detect, head_of
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.reading import read_line
from sessioncompress.pipeline.summary import Status
from tests.support import texts
from tests.support.runs import EAGER

LONG = "a line of output\n" * 60
OUTER = {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00.000Z", "lastUpdated": "2026"}
ODD: list[Any] = [None, True, 7, 1.5, "", LONG, [], [1], [None], [[LONG]], {}, {"a": LONG}, {"text": 7}]


def read(message: Any) -> Line:
    """Read one message."""
    return read_line(json.dumps(message).encode(), Gemini().reader(), ended=False)


def message(kind: str, content: Any = "text", **fields: Any) -> dict[str, Any]:
    """Return a message."""
    return {"id": f"{kind}-1", "timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "content": content, **fields}


def used(name: str, arguments: Any, output: Any, **fields: Any) -> dict[str, Any]:
    """Return a call with its result."""
    response = {"functionResponse": {"id": f"{name}-7", "name": name, "response": {"output": output}}}
    return {"id": f"{name}-7", "name": name, "args": arguments, "result": [response], "status": "success", **fields}


def held(output: Any, *pictures: Any, **fields: Any) -> dict[str, Any]:
    """Return an answer with a call whose result has pictures inside its response."""
    call = used("glob", {}, output)
    call["result"][0]["functionResponse"] |= {"parts": list(pictures), **fields}
    return message("gemini", toolCalls=[call])


PICTURE = {"inlineData": {"mimeType": "image/png", "data": "A" * 400}}
OUTPUT = ("toolCalls", 0, "result", 0, "functionResponse", "response", "output")
TURNS = {
    "a prompt": (message("user", "Do it."), Role.USER),
    "a prompt in parts": (message("user", [{"text": "Do "}, {"text": "it."}]), Role.USER),
    "a command": (message("user", "/chat save x"), Role.OTHER),
    "a question for help": (message("user", "?"), Role.OTHER),
    "what the agent put there": (message("user", "<session_context>\n..."), Role.OTHER),
    "what makes the model go on": (message("user", "System: Please continue."), Role.OTHER),
    "a prompt that only begins alike": (message("user", "System: it is slow."), Role.USER),
    "a prompt with more": (message("user", "Please continue. Then mend b.py."), Role.USER),
    "a hook": (message("user", [{"text": "<hook_context>x"}]), Role.OTHER),
    "nothing": (message("user", ""), Role.OTHER),
    "an answer": (message("gemini"), Role.ASSISTANT),
    "a note": (message("info"), Role.OTHER),
    "an error": (message("error"), Role.OTHER),
}


@pytest.mark.parametrize(("entry", "role"), TURNS.values(), ids=TURNS)
def test_turns(entry: Any, role: Role) -> None:
    """What the user said is a turn; commands, and what the agent adds itself, are none."""
    assert read(entry).role is role


BLOCKS: dict[str, tuple[Any, list[tuple[Kind, tuple[str | int, ...]]]]] = {
    "text": (message("gemini", LONG), []),
    "a prompt": (message("user", LONG), []),
    "short ones": (message("gemini", toolCalls=[used("glob", {"pattern": "*"}, "short", resultDisplay="short")]), []),
    "a skill that was read": (message("gemini", toolCalls=[used("read_file", {"file_path": "a/SKILL.md"}, LONG)]), []),
    "no result yet": (message("gemini", toolCalls=[{"id": "1", "name": "glob", "args": {}, "result": None}]), []),
    "only thoughts": (message("gemini", "", thoughts=[{"subject": "x", "description": LONG}]), []),
    "a result": (
        message("gemini", toolCalls=[used("glob", {}, LONG)]),
        [(Kind.RESULT, ("toolCalls", 0, "result", 0, "functionResponse", "response", "output"))],
    ),
    "pictures inside a response without a text": (held("", PICTURE), []),
    "files that lie elsewhere": (held("Read.", {"fileData": {"fileUri": "gs://" + "a" * 400}}), []),
    "a picture inside a response": (held("Read.", PICTURE), [(Kind.RESULT, OUTPUT)]),
    "arguments": (
        message("gemini", toolCalls=[used("write_file", {"file_path": "a", "content": LONG}, "ok")]),
        [(Kind.ARGUMENT, ("toolCalls", 0, "args"))],
    ),
    "what the screen shows": (
        message("gemini", toolCalls=[used("glob", {}, "ok", resultDisplay={"fileDiff": LONG})]),
        [(Kind.MIRROR, ("toolCalls", 0, "resultDisplay"))],
    ),
    "thoughts": (
        message("gemini", "Now.", thoughts=[{"subject": "x", "description": LONG}]),
        [(Kind.THINKING, ("thoughts",))],
    ),
}


@pytest.mark.parametrize(("entry", "blocks"), BLOCKS.values(), ids=BLOCKS)
def test_blocks(entry: Any, blocks: Any) -> None:
    """What is left alone comes first."""
    assert [(block.kind, block.path) for block in read(entry).blocks] == blocks


def left_of(call: dict[str, Any], folder: Path) -> str:
    """Return what a run leaves of an old call's output."""
    made = [message("user", "Go."), message("gemini", toolCalls=[call])]
    for number in range(5):
        made += [{**message(kind, "And?"), "id": f"{kind}{number}"} for kind in ("user", "gemini")]
    path = folder / "s.json"
    path.write_text(json.dumps({**OUTER, "messages": made}))
    compress_session(path, EAGER)
    now = json.loads(path.read_bytes())["messages"][1]["toolCalls"][0]["result"][0]["functionResponse"]["response"]
    return str(now["output"])


@pytest.mark.parametrize("around", ["{}", "<untrusted_context>\n{}\n</untrusted_context>"], ids=["bare", "tagged"])
def test_the_exit_code_of_a_command_stays(around: str, tmp_path: Path) -> None:
    """It stands below the output, with more behind it."""
    names = "\n".join(f"tide_{each}_gauge.c: it is compiled" for each in range(200))
    output = around.format(f"Output: {names}\nExit Code: 2\nSignal: (none)\nProcess Group PGID: 7")
    now = left_of(used("run_shell_command", {"command": "make"}, output), tmp_path)
    assert "Exit Code: 2\n" in now
    assert "tide_100_gauge.c: it" not in now


def test_what_was_read_says_nothing_of_a_command(tmp_path: Path) -> None:
    """A log is no JSON, though it begins like a list."""
    lines = [f"[2026] tide_{each}_gauge is read" for each in range(200)]
    log = "\n".join([*lines[:100], "Exit Code: 3", *lines[100:], "Exit Code: 4", "Process Group PGID: 7"])
    now = left_of(used("read_file", {"file_path": "/ci.log"}, log), tmp_path)
    assert not now.startswith("Exit Code")


def test_an_error_is_known() -> None:
    """A write that failed supersedes no read."""
    parts = [{"functionResponse": {"id": "c", "response": {key: "x"}}} for key in ("error", "output")]
    assert [read(message("user", [each])).facts.failed for each in parts] == [True, False]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_types_in_every_field(odd: Any) -> None:
    """They are read, whatever they are."""
    whole = message("gemini", toolCalls=[used("glob", {"a": LONG}, LONG, resultDisplay=LONG)], thoughts=[{"a": LONG}])
    for key in whole:
        read({**whole, key: odd})
    for key in whole["toolCalls"][0]:
        read({**whole, "toolCalls": [{**whole["toolCalls"][0], key: odd}, odd]})
    read(
        {**whole, "toolCalls": [{"result": [{"functionResponse": {"response": odd}}, {"functionResponse": odd}, odd]}]}
    )


def document(indent: Any) -> bytes:
    """Return a session of six turns, each with much output."""
    messages = []
    for number in range(6):
        output = texts.log_lines(random.Random(number), 200)
        call = used("run_shell_command", {"command": f"cat {number}.log"}, output, resultDisplay=output)
        thoughts = [{"subject": "Logs", "description": LONG, "timestamp": "2026"}]
        messages.append({**message("user", f"Look at part {number}."), "id": f"u{number}"})
        messages.append({**message("gemini", "I look.", thoughts=thoughts, toolCalls=[call]), "id": f"g{number}"})
    return json.dumps({**OUTER, "messages": messages, "summary": "ü"}, indent=indent, ensure_ascii=False).encode()


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_end_to_end(tmp_path: Path, indent: Any) -> None:
    """Its messages are rewritten in their own formatting, and come back; a second run changes nothing."""
    path = tmp_path / "session-2026-01-01T00-00-x.json"
    data = document(indent)
    path.write_bytes(data)
    stats = compress_session(path, EAGER)
    assert stats.status is Status.COMPRESSED
    assert stats.compressed_size < len(data) / 2
    old, new = json.loads(data), json.loads(path.read_bytes())
    assert path.read_bytes() == json.dumps(new, indent=indent, ensure_ascii=False).encode()
    assert {**old, "messages": 0} == {**new, "messages": 0}
    for was, now in zip(old["messages"], new["messages"], strict=True):
        assert {key: was[key] for key in ("id", "timestamp", "type", "content")}.items() <= now.items()
        for call, other in zip(was.get("toolCalls", []), now.get("toolCalls", []), strict=True):
            assert call["args"] == other["args"]
            assert call["result"][0]["functionResponse"]["name"] == other["result"][0]["functionResponse"]["name"]
    assert old["messages"][-2:] == new["messages"][-2:]
    verify_session(path)
    assert compress_session(path, EAGER).status is Status.UNCHANGED
    restore_session(path)
    assert path.read_bytes() == data


def test_messages_that_the_agent_added_stay(tmp_path: Path) -> None:
    """It writes the whole document again; what was rewritten is known by its bytes."""
    path = tmp_path / "session.json"
    path.write_bytes(document(2))
    compress_session(path, EAGER)
    again = json.loads(path.read_bytes())
    added = {**message("user", "One more."), "id": "u9"}
    again["messages"].append(added)
    path.write_bytes(json.dumps({**again, "lastUpdated": "2027"}, indent=2, ensure_ascii=False).encode())
    restore_session(path)
    old = json.loads(document(2))
    assert json.loads(path.read_bytes()) == {**old, "lastUpdated": "2027", "messages": [*old["messages"], added]}


DETECTED: dict[str, tuple[Any, list[Any], bool]] = {
    "lines": (None, [message("user")], False),
    "a list": ([], [message("user")], False),
    "another document": ({"info": {}, "messages": []}, [message("user")], False),
    "other messages": ({**OUTER, "messages": []}, [{"role": "user", "content": "x"}], False),
    "a session": ({**OUTER, "messages": []}, [message("user"), message("gemini")], True),
    "a session without messages": ({**OUTER, "messages": []}, [], True),
}


@pytest.mark.parametrize(("outer", "messages", "is_one"), DETECTED.values(), ids=DETECTED)
def test_detection(outer: Any, messages: list[Any], is_one: bool) -> None:
    """By what the document holds."""
    form = detect(head_of([json.dumps(each).encode() for each in messages], outer))
    assert (form is not None and form.name == "gemini") is is_one
