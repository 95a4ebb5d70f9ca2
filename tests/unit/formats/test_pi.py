"""pi's entries: what is a block, a tie, a turn, and what no change may touch, whatever types the fields have."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import product
from typing import Any

import orjson
import pytest

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.core import marker
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.model import JsonPath, Kind, Line, Purpose, Role, Shape
from sessioncompress.core.references import References
from sessioncompress.core.splice import REMOVED, CannotSplice
from sessioncompress.formats.pi import Pi
from sessioncompress.pipeline.plan import plan
from sessioncompress.pipeline.reading import read_line
from sessioncompress.pipeline.rewrite import rewrite
from tests.support.build import PiSession, ResponsesSession, image, text, thinking
from tests.support.runs import GREEDY, paths, survey_of

LONG = "a line of output\n" * 60
ODD: list[Any] = [None, True, 7, 1.5, "", LONG, [], [1], [None], [[LONG]], {}, {"text": LONG}, {"type": 7}]


def read(entry: Any) -> Line:
    return read_line(json.dumps(entry).encode() + b"\n", Pi().reader())


def message(**fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": "0123abcd", "parentId": "89abcdef", "timestamp": "2026", "message": fields}


ENTRY = message(
    role="assistant",
    api="openai-responses",
    stopReason="toolUse",
    usage={"cost": {"total": 1}},
    content=[
        thinking(LONG),
        text("I make it.", textSignature="msg_1"),
        {
            "type": "toolCall",
            "id": "call_1|fc_1",
            "name": "write",
            "arguments": {"path": "a", "content": LONG},
            "partialJson": LONG,
            "partialArgs": LONG,
        },
    ],
)
RESULT = message(
    role="toolResult",
    toolCallId="call_1|fc_1",
    toolName="write",
    isError=True,
    content=[text(LONG), image("A" * 900)],
    details={"diff": LONG},
)


SHORT = {f"key {number}": "a short value" for number in range(99)}

ROLES: list[tuple[str, dict[str, Any], Role]] = [
    ("a prompt", message(role="user", content="x"), Role.USER),
    ("a short command of the user", message(role="bashExecution", command="ls", output="a"), Role.OTHER),
    ("a short file that a prompt names", message(role="fileMention", files=[{"content": "a"}]), Role.OTHER),
    ("files of another type", message(role="fileMention", files={"content": LONG}), Role.OTHER),
    ("what an extension has it do", message(role="custom", customType="plan-mode", content=LONG), Role.OTHER),
    ("what the user said to one", message(role="custom", attribution="user", content=LONG), Role.OTHER),
    ("a skill", {"type": "custom_message", "id": "a", "customType": "skill-prompt", "content": LONG}, Role.OTHER),
    ("our own handoff", {"type": "custom_message", "id": "a", "customType": "handoff", "content": LONG}, Role.OTHER),
    (
        "a prompt by the agent that began the session",
        message(role="user", content="x", attribution="agent"),
        Role.OTHER,
    ),
    ("a prompt by the user", message(role="user", content="x", attribution="user"), Role.USER),
    ("a prompt that a compaction made", message(role="user", content="x", synthetic=True), Role.OTHER),
    ("a system message", message(role="system", sections=[LONG]), Role.OTHER),
    ("a role of tomorrow", message(role="new", content=LONG), Role.OTHER),
    ("no role", message(content=LONG), Role.OTHER),
    ("a checkpoint", {"type": "compaction", "id": "a", "firstKeptEntryId": "b", "summary": LONG}, Role.CHECKPOINT),
    ("a branch's summary", {"type": "branch_summary", "id": "a", "summary": LONG}, Role.OTHER),
    ("an entry of nobody", {"type": "custom", "id": "a", "data": {"x": LONG}}, Role.OTHER),
    (
        "an item of an extension",
        {"type": "custom", "id": "a", "customType": "x", "data": {"x": LONG[:900]}},
        Role.OTHER,
    ),
    ("a state of short values", {"type": "custom", "id": "a", "customType": "x", "data": SHORT}, Role.OTHER),
    (
        "an edit of the context",
        {"type": "context_edit", "id": "a", "targetId": "b", "replacement": {"content": LONG}},
        Role.OTHER,
    ),
    ("the header", {"type": "session", "id": "a", "timestamp": "2026", "cwd": LONG}, Role.HEADER),
    ("a type of tomorrow", {"type": "new", "id": "a", "message": RESULT["message"]}, Role.OTHER),
    ("no type", {"id": "a", "message": RESULT["message"]}, Role.OTHER),
    ("a message that is none", {"type": "message", "id": "a", "message": [LONG]}, Role.OTHER),
]


@pytest.mark.parametrize(("entry", "role"), [case[1:] for case in ROLES], ids=[case[0] for case in ROLES])
def test_other_entries_have_a_role_and_no_blocks(entry: dict[str, Any], role: Role) -> None:
    """Text that people and models wrote is never replaced."""
    found = read(entry)
    assert found.role is role
    assert found.blocks == ()
    assert found.facts.ties == ()


RAN = message(role="bashExecution", command="make", output=LONG, exitCode=2)
UNREAD = message(role="bashExecution", command="make", output=LONG, excludeFromContext=True)
NAMED = message(role="fileMention", files=[{"path": "a", "content": LONG}, {"path": "SKILL.md", "content": LONG}])
TOLD = message(role="hookMessage", customType="x", content=LONG)
PARTS = {"type": "custom_message", "id": "a", "customType": "x", "content": [text("a"), text(LONG)]}
STATE = {"type": "custom", "id": "a", "customType": "x", "data": {"version": 1, "items": [LONG, LONG], "at": LONG}}

OUTPUTS: list[tuple[str, dict[str, Any], list[tuple[Kind, JsonPath, str]]]] = [
    ("a command of the user", RAN, [(Kind.RESULT, ("message", "output"), "bash")]),
    ("one that no model reads", UNREAD, [(Kind.MIRROR, ("message", "output"), "bash")]),
    (
        "a script of the user",
        message(role="pythonExecution", code="print(1)", output=LONG),
        [(Kind.RESULT, ("message", "output"), "bash")],
    ),
    (
        "files that a prompt names",
        NAMED,
        [(Kind.RESULT, ("message", "files", number, "content"), "read") for number in range(2)],
    ),
    ("words of an extension", TOLD, [(Kind.RESULT, ("message", "content"), "x")]),
    (
        "in parts",
        message(role="custom", customType="x", content=[text(LONG)]),
        [(Kind.RESULT, ("message", "content", 0, "text"), "x")],
    ),
    (
        "in an entry of their own, with what the screen shows",
        {**PARTS, "details": {"x": LONG}},
        [(Kind.RESULT, ("content", 1, "text"), "x"), (Kind.MIRROR, ("details",), "x")],
    ),
    ("an extension's state", STATE, [(Kind.MIRROR, ("data",), "x")]),
    ("a state that is a text", {**STATE, "data": LONG * 2}, [(Kind.MIRROR, ("data",), "x")]),
]


@pytest.mark.parametrize(("entry", "blocks"), [case[1:] for case in OUTPUTS], ids=[case[0] for case in OUTPUTS])
def test_what_is_no_result_is_an_output(entry: dict[str, Any], blocks: list[Any]) -> None:
    found = read(entry)
    assert [(block.kind, block.path, block.tool) for block in found.blocks] == blocks
    assert found.role is Role.OTHER
    for block in (each for each in found.blocks if each.path[-1] != "details"):
        assert Pi().may_change(
            entry, block.path, "x" if block.path != ("data",) else Pi().stand_in(block.path, entry["data"])
        )
        assert not Pi().may_change(entry, block.path, REMOVED)
        assert not Pi().may_change(entry, block.path, 7)


def test_what_a_file_is_and_whether_a_command_failed_is_known() -> None:
    """So that a skill stays, and what reports a failure."""
    assert [made.reads_skill for made in read(NAMED).calls] == [False, True]
    assert [read(entry).facts.failed for entry in (RAN, UNREAD)] == [True, False]


@pytest.mark.parametrize("entry", [RAN, NAMED, TOLD, PARTS, STATE], ids=["command", "files", "words", "parts", "state"])
def test_any_type_in_any_field_is_read(entry: dict[str, Any]) -> None:
    """Of entries that no fixture has: without an error, what is not as it should be is only not replaced."""
    for path, odd in product(paths(entry)[1:], ODD):
        changed = json.loads(json.dumps(entry))
        holder = changed
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = odd
        assert isinstance(read(changed), Line)


@pytest.mark.parametrize("depth", [198, 202, 255, 1018])
@pytest.mark.parametrize(
    "entry", [ENTRY, RESULT, RAN, NAMED, PARTS, STATE], ids=["answer", "result", "command", "files", "parts", "state"]
)
def test_a_value_of_any_depth_is_read(entry: dict[str, Any], depth: int) -> None:
    """Without an error, and left alone where it cannot be written again; also beside a text in the marker's form."""
    deep = b'[{"x":' * (depth // 2) + b'"' + LONG.encode().replace(b"\n", b" ") + b'"' + b"}]" * (depth // 2)
    for path in paths(entry)[1:]:
        changed = json.loads(json.dumps(entry))
        holder = changed
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = "@@"
        raw = json.dumps({**changed, "n": marker.marker("9 lines", None)}).encode().replace(b'"@@"', deep) + b"\n"
        found = read_line(raw, Pi().reader())
        assert found.size == len(raw)
        assert all(block.size > 0 for block in found.blocks)
        view = View(Survey(Lines([found]), Shape((), frozenset()), len(raw)), GREEDY, Pi(), Ours())
        for number, changes in plan(view, (), ()).items():
            assert number == 0
            with suppress(CannotSplice):
                rewrite(raw, orjson.loads(raw), changes, view, References().refer)


SIGNED = '{"v":1,"id":"msg_1","phase":"commentary"}'
NAMELESS = '{"v":1,"id":"","phase":"commentary"}'
PHASED = message(role="assistant", api="openai-responses", content=[text("I make it.", textSignature=SIGNED)])
SIGNATURES: list[tuple[str, Any, list[str | None]]] = [
    ("none", None, []),
    ("no text", {"v": 1, "id": "msg_1", "phase": "commentary"}, []),
    ("a phase and no id", NAMELESS, []),
    ("an id", "msg_1", [None]),
    ("an id in JSON", '{"v":1,"id":"msg_1"}', [None]),
    ("an id beside a phase that is no text", '{"v":1,"id":"msg_1","phase":["commentary"]}', [None]),
    ("an id that is no text", '{"v":1,"id":7,"phase":"commentary"}', [None]),
    ("another version", '{"v":2,"id":"msg_1","phase":"commentary"}', [None]),
    ("a list", '["commentary"]', [None]),
    ("JSON that is cut", SIGNED[:-1], [None]),
    ("JSON nested deep", '{"v":' + "[" * 5000 + "]" * 5000 + "}", [None]),
    ("an id and a phase", SIGNED, [NAMELESS]),
    ("the other phase", '{"v":1,"id":"msg_1","phase":"final_answer"}', ['{"v":1,"id":"","phase":"final_answer"}']),
    ("in another order", '{ "phase": "commentary", "id": "msg_1", "v": 1 }', [NAMELESS]),
]


@pytest.mark.parametrize(("signature", "kept"), [case[1:] for case in SIGNATURES], ids=[case[0] for case in SIGNATURES])
def test_what_of_a_signature_hangs_on_the_reasoning(signature: Any, kept: list[str | None]) -> None:
    """The item id; the phase stays, and a second run finds nothing left to cut."""
    said = text("I make it.") if signature is None else text("I make it.", textSignature=signature)
    entry = message(role="assistant", api="openai-responses", content=[said])
    ties = read(entry).facts.ties
    assert [tie.value for tie in ties] == kept
    for tie in ties:
        assert Pi().may_change(entry, tie.path, REMOVED if tie.value is None else tie.value)
        written = json.dumps(said, separators=(",", ":"))
        said = text("I make it.") if tie.value is None else text("I make it.", textSignature=tie.value)
        assert tie.size == len(written) - len(json.dumps(said, separators=(",", ":")))
        assert read(message(role="assistant", api="openai-responses", content=[said])).facts.ties == ()


MAY: list[tuple[str, dict[str, Any], JsonPath, Any]] = [
    ("a result's text", RESULT, ("message", "content", 0, "text"), "x"),
    ("a result's picture by a part", RESULT, ("message", "content", 1), text("x")),
    ("details gone", RESULT, ("message", "details"), REMOVED),
    ("the item id of a result", RESULT, ("message", "toolCallId"), "call_1"),
    ("the item id of a call", ENTRY, ("message", "content", 2, "id"), "call_1"),
    ("a long argument", ENTRY, ("message", "content", 2, "arguments", "content"), "x"),
    ("thinking gone", ENTRY, ("message", "content", 0), REMOVED),
    ("a signature gone", ENTRY, ("message", "content", 1, "textSignature"), REMOVED),
    ("a signature without its id", PHASED, ("message", "content", 0, "textSignature"), NAMELESS),
    ("a left-over gone", ENTRY, ("message", "content", 2, "partialJson"), REMOVED),
    ("a left-over of other providers gone", ENTRY, ("message", "content", 2, "partialArgs"), REMOVED),
]

MAY_NOT: list[tuple[str, dict[str, Any], JsonPath, Any]] = [
    ("an id", ENTRY, ("id",), "x"),
    ("a parent", ENTRY, ("parentId",), "x"),
    ("a parent gone", ENTRY, ("parentId",), REMOVED),
    ("a time", ENTRY, ("timestamp",), "x"),
    ("a type", ENTRY, ("type",), "x"),
    ("a whole message", ENTRY, ("message",), {}),
    ("the role", ENTRY, ("message", "role"), "user"),
    ("the usage", ENTRY, ("message", "usage"), REMOVED),
    ("the stop reason", ENTRY, ("message", "stopReason"), "stop"),
    ("all content", ENTRY, ("message", "content"), []),
    ("content as a text", RESULT, ("message", "content"), "x"),
    ("a text that the model wrote", ENTRY, ("message", "content", 1, "text"), "x"),
    ("a text part gone", ENTRY, ("message", "content", 1), REMOVED),
    ("a call gone", ENTRY, ("message", "content", 2), REMOVED),
    ("thinking shortened", ENTRY, ("message", "content", 0, "thinking"), "x"),
    ("a signature of thinking", ENTRY, ("message", "content", 0, "thinkingSignature"), REMOVED),
    ("thinking by a text", ENTRY, ("message", "content", 0), text("x")),
    ("another call id", ENTRY, ("message", "content", 2, "id"), "call_2"),
    ("an empty call id", ENTRY, ("message", "content", 2, "id"), ""),
    ("a tool's name", ENTRY, ("message", "content", 2, "name"), "x"),
    ("all arguments", ENTRY, ("message", "content", 2, "arguments"), {}),
    ("all arguments as a text", ENTRY, ("message", "content", 2, "arguments"), "x"),
    ("an argument gone", ENTRY, ("message", "content", 2, "arguments", "content"), REMOVED),
    ("an argument of another type", ENTRY, ("message", "content", 2, "arguments", "content"), 7),
    ("a path", ENTRY, ("message", "content", 2, "arguments", "path"), "x"),
    ("another result id", RESULT, ("message", "toolCallId"), "call_2"),
    ("the error flag", RESULT, ("message", "isError"), False),
    ("a result's text gone", RESULT, ("message", "content", 0, "text"), REMOVED),
    ("a result's part gone", RESULT, ("message", "content", 0), REMOVED),
    ("a result's text by a list", RESULT, ("message", "content", 0, "text"), []),
    ("a phase gone", PHASED, ("message", "content", 0, "textSignature"), REMOVED),
    (
        "another phase",
        PHASED,
        ("message", "content", 0, "textSignature"),
        NAMELESS.replace("commentary", "final_answer"),
    ),
    ("another id", PHASED, ("message", "content", 0, "textSignature"), SIGNED.replace("msg_1", "msg_2")),
    ("a signature by a phase", ENTRY, ("message", "content", 1, "textSignature"), NAMELESS),
    ("details by a text", RESULT, ("message", "details"), "x"),
    ("the command of the user", RAN, ("message", "command"), "x"),
    ("the path of a file", NAMED, ("message", "files", 0, "path"), "x"),
    ("a file that is not there", NAMED, ("message", "files", 2, "content"), "x"),
    ("words of the user", message(role="user", content=LONG), ("message", "content"), "x"),
    ("words of an extension for another", {**TOLD, "type": "new"}, ("message", "content"), "x"),
    ("a state by another", STATE, ("data",), {"version": 2, "items": [], "at": ""}),
    ("a state of no extension", {**STATE, "type": "new"}, ("data",), {"version": 1, "items": [], "at": ""}),
]


@pytest.mark.parametrize("case", [*MAY, *MAY_NOT], ids=lambda case: case[0])
def test_what_may_change(case: Any) -> None:
    assert Pi().may_change(*case[1:]) is (case in MAY)


def test_a_prompts_picture_may_become_a_text() -> None:
    entry = message(role="user", content=[text("x"), image("A" * 900)])
    assert Pi().may_change(entry, ("message", "content", 1), text("y"))
    assert not Pi().may_change(entry, ("message", "content", 0), text("y"))
    assert not Pi().may_change(entry, ("message", "content", 0, "text"), "y")


def test_ids_are_ties_only_over_responses() -> None:
    """A bar in another API's call id is part of the id."""
    made = PiSession()
    made.assistant(thinking(LONG), made.call("bash", {"command": "x"}, call_id="a|b"))
    assert survey_of(made).lines[1].facts.ties == ()
    other = ResponsesSession()
    other.assistant(other.think(LONG), other.call("bash", {"command": "x"}))
    assert len(survey_of(other).lines[1].facts.ties) == 1


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"path": "a"}, ""),
        ({"path": "a", "limit": 9, "offset": "1"}, "offset=1,limit=9"),
        ({"path": "a", "range": [1, 50]}, "range=[1,50]"),
        ({"path": "a", "range": {"from": 1.5}}, 'range={"from":1.5}'),
        ({"offset": 9}, ""),
    ],
    ids=str,
)
def test_the_part_of_a_file_that_a_call_is_about(arguments: dict[str, Any], part: str) -> None:
    """As its arguments say it, whatever their types."""
    made = PiSession()
    made.assistant(made.call("read", arguments))
    assert survey_of(made).lines[1].calls[0].part == part


@pytest.mark.parametrize("tool", ["read", "Read", "READ"])
def test_a_tool_is_known_in_any_spelling(tool: str) -> None:
    made = PiSession()
    made.assistant(made.call(tool, {"path": "a"}))
    assert survey_of(made).lines[1].calls[0].purpose is Purpose.READ
