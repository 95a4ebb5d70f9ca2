"""oh-my-pi: title slot, starts of calls, payloads that are sent again; OpenClaw: its own tools and clocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core.marker import INDEX
from sessioncompress.core.model import Kind, Purpose, Role
from sessioncompress.core.splice import REMOVED, Added
from sessioncompress.formats.pi import OhMyPi
from sessioncompress.pipeline.reading import read_line
from tests.support.build import OmpAnthropicSession, OmpGeminiSession, OmpSession, OpenClawSession, blob, image, text
from tests.support.runs import (
    EAGER,
    after,
    compress,
    entries,
    old,
    restore,
    result_texts,
    split,
    survey_of,
    turn,
    write,
)

# oh-my-pi

LONG = "a line of output\n" * 120
START: dict[str, Any] = {
    "type": "custom",
    "customType": "tool_execution_start",
    "data": {"toolName": "bash", "args": {"command": LONG}},
}


def session(made: OmpSession | None = None) -> OmpSession:
    made = made or OmpSession()
    made.opening()
    made.user("Go.")
    for number in range(2):
        made.step("write", {"path": "a", "content": LONG}, LONG + str(number), thinking=LONG)
    made.user("And?")
    made.assistant(made.think(LONG), "The latest.")
    turn(made)
    return made


def test_the_title_slot_stays_to_the_byte(tmp_path: Path) -> None:
    """It is overwritten in place, so its 256 bytes must stay where they are."""
    path = write(tmp_path, session())
    first = split(path.read_bytes())[0]
    compress(path)
    assert split(path.read_bytes())[0] == first
    assert len(first) == 256


def test_the_roles_of_the_first_lines() -> None:
    found = survey_of(session())
    assert [line.role for line in found.lines[:3]] == [Role.OTHER, Role.HEADER, Role.OTHER]
    assert 0 not in found.shape.live


def test_a_message_with_a_payload_is_bound() -> None:
    """Its payload is a block and a tie; a payload of another kind seals the line."""
    made = OmpSession()
    made.assistant(made.think(LONG), "Done.")
    made.assistant(made.think(LONG), "Done.", providerPayload={"type": "new", "x": LONG})
    made.assistant(made.think(LONG), "Done.", providerPayload=LONG)
    facts = [line.facts for line in survey_of(made).lines[2:]]
    assert [(each.bound, each.sealed) for each in facts] == [(True, False), (True, True), (True, True)]
    assert ("message", "providerPayload") in [tie.path for tie in facts[0].ties]
    assert [tie.path for tie in facts[1].ties if tie.path == ("message", "providerPayload")] == []


@pytest.mark.parametrize("make", [OmpSession, OmpGeminiSession, OmpAnthropicSession])
def test_a_start_is_a_mirror(make: type[OmpAnthropicSession]) -> None:
    made = make().opening()
    made.step("bash", {"command": LONG}, "ok", thinking="Hm.")
    blocks = [block for line in survey_of(made).lines for block in line.blocks if block.path == ("data", "args")]
    assert [(block.kind, block.tool) for block in blocks] == [(Kind.MIRROR, "")]


@pytest.mark.parametrize(
    ("path", "value", "may"),
    [
        (("data", "args"), {}, True),
        (("data", "args"), REMOVED, False),
        (("data", "args"), {"command": "x"}, False),
        (("data",), {}, False),
        (("data", "toolName"), "x", False),
        (("customType",), REMOVED, False),
    ],
    ids=str,
)
def test_of_a_start_only_the_arguments_may_be_emptied(path: tuple[str, ...], value: Any, may: bool) -> None:
    assert OhMyPi().may_change(START, path, value) == may


@pytest.mark.parametrize(
    ("message", "value", "may"),
    [
        ({"role": "toolResult"}, Added(1), True),
        ({"role": "toolResult"}, 1, False),
        ({"role": "toolResult", "prunedAt": 1}, Added(1), False),
        ({"role": "assistant"}, Added(1), False),
        (None, Added(1), False),
    ],
    ids=str,
)
def test_of_a_result_it_may_be_noted_when_it_was_pruned(message: Any, value: Any, may: bool) -> None:
    assert OhMyPi().may_change({"type": "message", "message": message}, ("message", "prunedAt"), value) == may


@pytest.mark.parametrize(
    ("deep", "blocks"),
    [(b"7", 1), (b"[" * 90 + b"]" * 90, 1), (b"[" * 600 + b"]" * 600, 0), (b"[" * 1015 + b"]" * 1015, 0)],
    ids=["flat", "nested", "deep", "deeper"],
)
def test_a_start_may_hold_anything(deep: bytes, blocks: int) -> None:
    """Names that are none, and values that are nested deep."""
    entry = {**START, "data": {**START["data"], "toolName": "@@", "toolCallId": "@@"}}
    raw = json.dumps(entry).encode().replace(b'"@@"', deep) + b"\n"
    assert [(block.tool, block.call) for block in read_line(raw, OhMyPi().reader()).blocks] == [("", "")] * blocks
    raw = raw.replace(json.dumps(LONG).encode(), deep)
    assert read_line(raw, OhMyPi().reader()).blocks == ()


def test_a_payload_too_deep_to_be_looked_through_stays() -> None:
    made = OmpSession()
    made.assistant(made.think(LONG), "Done.", providerPayload={"type": "openaiResponsesHistory", "x": "@@"})
    raw = made.take_last().replace(b'"@@"', b"[" * 300 + b'"' + blob("a").encode() + b'"' + b"]" * 300)
    assert read_line(raw, OhMyPi().reader()).facts.sealed


def test_other_custom_entries_are_the_extensions_own() -> None:
    """They go as its state does, and not as a start."""
    made = OmpAnthropicSession().opening()
    made.entry("custom", customType="todo", data={"args": {"x": LONG}})
    assert [block.path for block in survey_of(made).lines[-1].blocks] == [("data",)]
    assert not OhMyPi().may_change({**START, "customType": "todo"}, ("data", "args"), {})


KEPT: dict[str, Any] = {"snapcompact": {"frames": [{"data": LONG}], "text": LONG, "totalChars": 9}, "x": LONG}


def test_what_a_compaction_keeps_beside_its_text_goes_with_it() -> None:
    """Not before a later one stands: the model reads it. What names a blob stays."""
    made = session(OmpSession())
    made.compaction("So.", made.ids[-5], preserveData=KEPT)
    assert next(entry for entry in after(old(made)) if "preserveData" in entry)["preserveData"] == KEPT
    turn(made)
    made.compaction("So.", made.ids[-1], preserveData={"snapcompact": {"frames": [{"data": blob("a") + LONG}]}})
    made.compaction("So.", made.ids[-2])
    kept = [entry["preserveData"] for entry in after(old(made)) if "preserveData" in entry]
    assert kept == [
        {"snapcompact": {"totalChars": 9}, "x": LONG},
        {"snapcompact": {"frames": [{"data": blob("a") + LONG}]}},
    ]


def test_blobs_and_artifacts_stay_named(tmp_path: Path) -> None:
    """A reference that is cut is a reference lost: blobs are never touched, artifacts are named at a result's end."""
    made = OmpAnthropicSession().opening()
    made.user("Go.", [image(blob("a"))])
    made.step("bash", {"command": "make"}, LONG + "\n\n[raw output: artifact://7]", thinking="Hm.")
    made.step("read", {"path": "a.png"}, [text("a picture"), image(blob("b")), text(LONG)], thinking="Hm.")
    path = write(tmp_path, turn(made))
    compress(path, EAGER)
    now = path.read_bytes()
    assert now.count(b"blob:sha256:") == 2
    assert b"artifact://7" in now


def test_artifacts_are_named_above_the_index(tmp_path: Path) -> None:
    """The index is the last line of a preview; elsewhere it would count as a line of the text."""
    made = OmpAnthropicSession().opening()
    made.user("Go.")
    rows = [f"{{make_part_{each}}} -> (artifact://{each}, built)" for each in range(60)]
    made.step("read", {"path": "notes"}, "\n".join(rows), thinking="Hm.")
    path = write(tmp_path, turn(made))
    compress(path, EAGER)
    (new,) = result_texts(entries(path.read_bytes()))
    assert "artifact://" in new
    assert [line.startswith(INDEX) for line in new.split("\n")] == [False] * new.count("\n") + [True]


NAMING: list[tuple[str, type[OmpSession | OmpAnthropicSession], int, list[str | int]]] = [
    ("the arguments of a start", OmpAnthropicSession, 6, ["data", "args"]),
    ("the arguments of a call", OmpAnthropicSession, 7, ["message", "content", 0, "arguments"]),
    ("a left-over of the stream", OmpAnthropicSession, 7, ["message", "content", 0, "partialJson"]),
    ("a result", OmpAnthropicSession, 8, ["message", "content", 0, "text"]),
    ("details", OmpAnthropicSession, 8, ["message", "details"]),
    ("a message with a payload", OmpSession, 7, ["message"]),
]


@pytest.mark.parametrize(("make", "number", "path"), [case[1:] for case in NAMING], ids=[case[0] for case in NAMING])
def test_what_names_a_blob_stays(
    make: type[OmpSession | OmpAnthropicSession], number: int, path: list[str | int]
) -> None:
    """Of whatever kind: the agent deletes blobs that no session names."""
    for name, stays in (("blob:sha1:" + "0" * 64, False), (blob("a"), True)):
        made = make().opening()
        made.user("Go.")
        arguments = {"path": "a", "content": LONG, "from": name}
        made.entry("custom", customType="tool_execution_start", data={"toolName": "write", "args": arguments})
        made.assistant(made.call("write", arguments, call_id="c|i", partialJson=LONG + name))
        made.result("c|i", LONG + name, "write", details={"images": [{"data": name}], "diff": LONG})
        before, new = (at(lines[number], path) for lines in (entries(old(made)), after(made)))
        assert (new == before) is stays


def at(value: Any, path: list[str | int]) -> Any:
    """Return the value at a path; None where its key is gone."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else value[int(step)]
    return value


def test_the_system_prompt_stays(tmp_path: Path) -> None:
    """It is what the agent starts with."""
    made = session(OmpSession())
    path = write(tmp_path, made)
    compress(path)
    before = [entry for entry in entries(made.bytes()) if entry["type"] in ("session_init", "model_change", "title")]
    assert [
        entry for entry in entries(path.read_bytes()) if entry["type"] in ("session_init", "model_change", "title")
    ] == before


# OpenClaw


@pytest.mark.parametrize(
    ("tool", "purpose"),
    [
        ("exec", Purpose.COMMAND),
        ("process", Purpose.COMMAND),
        ("read", Purpose.READ),
        ("write", Purpose.WRITE),
        ("edit", Purpose.OTHER),
    ],
)
def test_what_its_tools_are_for(tool: str, purpose: Purpose) -> None:
    """`bash` is called exec there."""
    made = OpenClawSession().opening()
    made.assistant(made.call(tool, {"path": "a"}))
    assert survey_of(made).lines[-1].calls[0].purpose is purpose


def test_the_output_once_more_is_a_mirror() -> None:
    """`details.aggregated`."""
    made = OpenClawSession().opening()
    made.run("make", LONG)
    assert [block.kind for block in survey_of(made).lines[-1].blocks] == [Kind.RESULT, Kind.MIRROR]


def test_a_failed_command_keeps_its_report(tmp_path: Path) -> None:
    """By the status at its end, which OpenClaw puts in brackets."""
    made = OpenClawSession().opening()
    made.user("Go.")
    made.run("make", LONG * 3 + "error: no tide\n" + LONG * 3, 2)
    made.end_turn("It failed.")
    path = write(tmp_path, turn(made))
    compress(path)
    assert b"error: no tide" in path.read_bytes()
    kept = [entry for entry in entries(path.read_bytes()) if entry["type"] == "custom"]
    assert kept == [entry for entry in entries(made.bytes()) if entry["type"] == "custom"]
    restore(path)
    assert path.read_bytes() == made.bytes()


CLOCKS = [
    "[OpenClaw heartbeat poll]",
    "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly.",
    "[cron:f37c dream] Go on.",
    "System: [12:00] Done.",
    "System: [12:00] One.\nSystem: \nSystem: [12:01] Two.\n\nRead HEARTBEAT.md if it exists (workspace context).",
]


@pytest.mark.parametrize("said", CLOCKS)
def test_what_a_clock_asks_begins_no_turn(said: str) -> None:
    made = OpenClawSession().opening()
    made.user(said)
    assert survey_of(made).lines[-1].role is Role.OTHER
    made.user("System: [12:00] The model was changed.\n\nWhat is the tide?")
    assert survey_of(made).lines[-1].role is Role.USER
    made.user("System: Ubuntu. Why does pip fail?")
    assert survey_of(made).lines[-1].role is Role.USER
    made.user(f"What does {said} say?")
    assert survey_of(made).lines[-1].role is Role.USER
