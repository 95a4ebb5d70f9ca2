"""Gemini CLI's records and documents: what a resume reads, what may change, and that it reads the same afterwards."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core.model import Kind, Line, Role
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats.gemini import Gemini, GeminiReader
from sessioncompress.pipeline.reading import read_line
from tests.support import texts
from tests.support.records import GeminiRecords
from tests.support.runs import compress, restore, split, survey_of, units

LONG = "a line of output\n" * 60


def resumed(data: bytes) -> list[dict[str, Any]]:
    """Return the messages that the agent has after it loaded these records, in its order."""
    found: dict[str, dict[str, Any]] = {}
    for line in split(data):
        record = json.loads(line)
        if "$rewindTo" in record:
            names = list(found)
            for name in names[names.index(record["$rewindTo"]) if record["$rewindTo"] in found else 0 :]:
                del found[name]
        elif "id" in record:
            found[record["id"]] = record
        elif "messages" in record.get("$set", {}):
            found = {message["id"]: message for message in record["$set"]["messages"]}
    return list(found.values())


def live(made: GeminiRecords) -> list[dict[str, Any]]:
    return [json.loads(units(made.bytes())[number]) for number in survey_of(made.bytes()).shape.live]


def asked() -> GeminiRecords:
    made = GeminiRecords().user("Look.")
    made.steps("I look.", made.used("run_shell_command", {"command": "cat a.log"}, LONG, LONG), thought="Hm. " * 90)
    return made.answer("Silent.").user("And now?").answer("Still.")


PATHS: dict[str, GeminiRecords] = {
    "nothing said": GeminiRecords(),
    "messages that are written again": asked(),
    "back to a message": asked().back(4).user("Once more.").answer("Yes."),
    "back to what is not there": asked().record({"$rewindTo": "x"}).user("Once more."),
    "resumed": asked().resume().user("Once more."),
    "resumed, with more set behind the messages": asked().resume(summary="x").user("Once more."),
    "resumed twice": asked().resume().user("Once more.").resume(),
    "resumed and gone back into what was set": asked().resume().back(2).user("Once more."),
    "resumed, and a message of it written again": asked().resume().again(content="New.").user("More."),
    "set to nothing": asked().record({"$set": {"messages": []}}).user("Once more."),
    "a header that comes again": asked().record({**asked().outer, "lastUpdated": "2027"}).user("Once more."),
}


@pytest.mark.parametrize("made", PATHS.values(), ids=PATHS)
def test_the_live_path_is_what_a_resume_reads(made: GeminiRecords) -> None:
    """In its order; every other message is dead."""
    shape = survey_of(made.bytes()).shape
    whole = [message for message in live(made) if "$set" not in message]
    assert whole == resumed(made.bytes())
    messages = {number for number, raw in enumerate(units(made.bytes())) if "id" in json.loads(raw)}
    assert shape.dead == messages - set(shape.live)


NOT_CUT: dict[str, bytes] = {
    "spaces": b'{"$set": {"messages": [{"id":"1","timestamp":"","type":"user","content":"x"}]}}\n',
    "messages twice": b'{"$set":{"messages":[{"id":"1"}],"messages":[{"id":"2"}]}}\n',
    "no end": b'{"$set":{"messages":[{"id":"1","timestamp":"","type":"user","content":"x"}]}}',
    "a message that is none": b'{"$set":{"messages":[{"id":"1"},7]}}\n',
    "nothing": b'{"$set":{"messages":[]}}\n',
}


@pytest.mark.parametrize("last", NOT_CUT.values(), ids=NOT_CUT)
def test_a_line_that_is_not_cut_stays_whole(last: bytes) -> None:
    """It takes the place of all before it all the same, and nothing in it changes."""
    data = asked().bytes() + last
    found = survey_of(data)
    assert list(found.shape.live) == [len(found.lines) - 1]
    assert not found.lines[-1].blocks


def test_a_last_line_without_lf_behind_what_was_set_never_changes() -> None:
    """It may still be being written, other than a message in a line that has its end."""
    made = asked().resume()
    made.steps("", made.used("glob", {}, LONG))
    found = survey_of(b"".join(made.lines()[:-1])[:-1])
    assert found.lines[-1].facts.sealed
    assert not any(line.facts.sealed for line in found.lines[:-1])


def read(message: Any, reader: GeminiReader | None = None) -> Line:
    return read_line(json.dumps(message).encode(), reader or GeminiReader(), ended=False)


def message(kind: str, content: Any = "text", **fields: Any) -> dict[str, Any]:
    return {"id": f"{kind}-1", "timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "content": content, **fields}


def call(**more: Any) -> dict[str, Any]:
    return {
        "functionCall": {"id": "write-7", "name": "write_file", "args": {"file_path": "a", "content": LONG}},
        **more,
    }


def result(name: str = "write-7", **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": name, "name": "glob", "response": response}}


MADE = {"id": "write-7", "name": "write_file", "args": {"file_path": "a", "content": LONG}}
THOUGHT = {"text": LONG, "thought": True}
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo" * 50}}
UNNAMED = {"functionCall": {"name": "write_file", "args": {"content": LONG}}}


def used(name: str, arguments: Any, output: Any, **fields: Any) -> dict[str, Any]:
    response = {"functionResponse": {"id": f"{name}-7", "name": name, "response": {"output": output}}}
    return {"id": f"{name}-7", "name": name, "args": arguments, "result": [response], "status": "success", **fields}


def held(output: Any, *pictures: Any, **fields: Any) -> dict[str, Any]:
    """Return an answer with a call whose result has pictures inside its response."""
    call = used("glob", {}, output)
    call["result"][0]["functionResponse"] |= {"parts": list(pictures), **fields}
    return message("gemini", toolCalls=[call])


OUTPUT = ("toolCalls", 0, "result", 0, "functionResponse", "response", "output")

BLOCKS: dict[str, tuple[Any, list[tuple[Kind, tuple[str | int, ...]]]]] = {
    "a text": (message("gemini", LONG), []),
    "a prompt in one text": (message("user", LONG), []),
    "short ones": (message("gemini", toolCalls=[used("glob", {"pattern": "*"}, "short", resultDisplay="short")]), []),
    "a skill that was read": (message("gemini", toolCalls=[used("read_file", {"file_path": "a/SKILL.md"}, LONG)]), []),
    "no result yet": (message("gemini", toolCalls=[{"id": "1", "name": "glob", "args": {}, "result": None}]), []),
    "only thoughts": (message("gemini", "", thoughts=[{"subject": "x", "description": LONG}]), []),
    "a result with its call": (
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
    "text parts": (message("gemini", [{"text": LONG}]), []),
    "a prompt in parts": (message("user", [{"text": LONG}]), []),
    "what the user typed": (message("user", [{"text": "x"}], displayContent=[{"text": LONG}]), []),
    "a call that is signed": (message("gemini", [call(thoughtSignature="x")]), []),
    "a call without an id, and its copy": (message("gemini", [UNNAMED], toolCalls=[MADE]), []),
    "only a thought": (message("gemini", [THOUGHT]), []),
    "a thought that is signed": (message("gemini", [{**THOUGHT, "thoughtSignature": "x"}, {"text": "Now."}]), []),
    "a thought by which the parts are known": (message("gemini", [THOUGHT], toolCalls=[{**MADE, "args": {}}]), []),
    "a picture that is signed": (message("user", [{**PICTURE, "thoughtSignature": "x"}]), []),
    "a way back": ({"$rewindTo": LONG}, []),
    "an update": ({"$set": {"summary": LONG}}, []),
    "a thought before a text": (message("gemini", [THOUGHT, {"text": "Now."}]), [(Kind.THINKING, ("content", 0))]),
    "a thought before a call": (
        message("gemini", [THOUGHT, call()]),
        [(Kind.ARGUMENT, ("content", 1, "functionCall", "args")), (Kind.THINKING, ("content", 0))],
    ),
    "a call, and its copy": (
        message("gemini", [call()], toolCalls=[MADE]),
        [(Kind.ARGUMENT, ("toolCalls", 0, "args")), (Kind.ARGUMENT, ("content", 0, "functionCall", "args"))],
    ),
    "a result": (
        message("user", [result(output=LONG)]),
        [(Kind.RESULT, ("content", 0, "functionResponse", "response", "output"))],
    ),
    "an error, and a picture": (
        message("user", [result(error=LONG), PICTURE]),
        [(Kind.RESULT, ("content", 0, "functionResponse", "response", "error")), (Kind.IMAGE, ("content", 1))],
    ),
    "a result that is a text": (
        message("gemini", "", toolCalls=[{**MADE, "args": {}, "result": LONG}]),
        [(Kind.RESULT, ("toolCalls", 0, "result"))],
    ),
    "a picture beside a result": (
        message("gemini", "", toolCalls=[{**MADE, "args": {}, "result": [result(output="ok"), PICTURE]}]),
        [(Kind.IMAGE, ("toolCalls", 0, "result", 1))],
    ),
    "a picture that a tool made": (message("info", [PICTURE]), [(Kind.IMAGE, ("content", 0))]),
    "a picture in a prompt": (message("user", [{"text": "x"}, PICTURE]), [(Kind.IMAGE, ("content", 1))]),
}


@pytest.mark.parametrize(("entry", "blocks"), BLOCKS.values(), ids=BLOCKS)
def test_blocks(entry: Any, blocks: Any) -> None:
    assert [(block.kind, block.path) for block in read(entry).blocks] == blocks


ROLES = {
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
    "the header": ({"sessionId": "x", "projectHash": "y", "startTime": "z"}, Role.HEADER),
    "an update": ({"$set": {"lastUpdated": "x"}}, Role.OTHER),
    "all messages": ({"$set": {"messages": []}}, Role.CHECKPOINT),
    "a way back": ({"$rewindTo": "x"}, Role.OTHER),
    "what the model gets": (message("user", [result(output="x")]), Role.RESULT),
    "a prompt in plain texts": (message("user", ["Do ", "it."]), Role.USER),
    "nothing in parts": (message("user", [{}, None]), Role.OTHER),
    "a command behind a space": (message("user", [{"text": " /stats"}]), Role.OTHER),
    "a picture alone": (message("user", [PICTURE]), Role.USER),
}


@pytest.mark.parametrize(("entry", "role"), ROLES.values(), ids=ROLES)
def test_roles(entry: Any, role: Role) -> None:
    """What the user said is a turn; results, commands, and what the agent adds itself, are none."""
    assert read(entry).role is role


ANSWER = message("gemini", [THOUGHT, call(), {**THOUGHT, "thoughtSignature": "x"}, call(thoughtSignature="x")])
GIVEN = message("user", [result(output=LONG), {"text": "x"}, PICTURE])
RESULT = ("functionResponse", "response", "output")
MAY: list[tuple[Any, tuple[str | int, ...], Any]] = [
    (ANSWER, ("content", 0), REMOVED),
    (ANSWER, ("content", 1, "functionCall", "args", "content"), "x"),
    (GIVEN, ("content", 0, *RESULT), "x"),
    (GIVEN, ("content", 2), {"text": "x"}),
    (message("gemini", "", toolCalls=[{"result": "x"}]), ("toolCalls", 0, "result"), "y"),
]
MAY_NOT: list[tuple[Any, tuple[str | int, ...], Any]] = [
    (ANSWER, ("content", 0, "text"), "x"),
    (ANSWER, ("content", 1), REMOVED),
    (ANSWER, ("content", 1, "functionCall", "args"), {}),
    (ANSWER, ("content", 1, "functionCall", "args", "file_path"), "x"),
    (ANSWER, ("content", 1, "functionCall", "id"), "x"),
    (ANSWER, ("content", 2), REMOVED),
    (ANSWER, ("content", 3, "functionCall", "args", "content"), "x"),
    (ANSWER, ("content",), []),
    (GIVEN, ("content", 0), REMOVED),
    (GIVEN, ("content", 0, *RESULT), {}),
    (GIVEN, ("content", 1), {"text": "x"}),
    (GIVEN, ("content", 1, "text"), "x"),
    (GIVEN, ("content", 2), REMOVED),
    (message("gemini", "", toolCalls=[{"result": [{}]}]), ("toolCalls", 0, "result"), "y"),
    (message("gemini", "", toolCalls=[{"result": None}]), ("toolCalls", 0, "result"), "y"),
    ({"$rewindTo": "x"}, ("$rewindTo",), "y"),
]


@pytest.mark.parametrize("case", [*MAY, *MAY_NOT], ids=lambda case: f"{case[1]} {case[2]}")
def test_what_may_change(case: Any) -> None:
    assert Gemini().may_change(*case) is (case in MAY)


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after another run"])
def test_what_a_resume_reads_comes_back_too(tmp_path: Path, again: bool) -> None:
    """The agent set all messages anew, as they were rewritten: a copy of each, without the LF of its line."""
    path = tmp_path / "session.jsonl"
    made = asked().user("More.").answer("Yes.").user("Once more.").answer("Yes.")
    data, was = made.bytes(), resumed(made.bytes())
    path.write_bytes(data)
    compress(path)
    made.records, made.messages = split(path.read_bytes()), resumed(path.read_bytes())
    assert made.messages != was
    made.record({"$set": {"messages": made.messages}}).user("And now?")
    made.steps("", made.used("run_shell_command", {"command": "cat b.log"}, LONG * 9, LONG * 9))
    path.write_bytes(made.answer("Done.").user("Good.").answer("Yes.").user("So long.").bytes())
    if again:
        compress(path)
    restore(path)
    assert path.read_bytes().startswith(data)
    assert resumed(path.read_bytes())[: len(was)] == was


def test_a_session_that_is_resumed_after_each_run_stays_small(tmp_path: Path) -> None:
    """Each resume writes all messages again: those that were old before keep their previews, and the others get one."""
    path = tmp_path / "session.jsonl"
    made = GeminiRecords()
    for number in range(5):
        output = texts.log_lines(random.Random(number), 120)
        made.user(f"Part {number}.")
        made.steps("", made.used("run_shell_command", {"command": f"cat {number}.log"}, output, output))
        made.answer("Done.")
        before = path.read_bytes() if path.exists() else b""
        path.write_bytes(before + b"".join(made.lines()[len(split(before)) :]))
        if number:
            compress(path)
        # The agent goes on with what it read.
        made.messages = resumed(path.read_bytes())
        made.records = split(path.read_bytes())
        made.resume()
    last = json.loads(made.lines()[-1])["$set"]["messages"]
    sizes = [len(json.dumps(each)) for each in last if each.get("toolCalls")]
    assert max(sizes[:-1]) < 3_000 < sizes[-1]
