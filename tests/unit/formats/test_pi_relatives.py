"""oh-my-pi: title slot, starts of calls, payloads that are sent again; OpenClaw: its own tools and clocks."""

from __future__ import annotations

from typing import Any

import pytest

from sessioncompress.core.model import Role
from sessioncompress.core.splice import REMOVED, Added
from sessioncompress.formats.pi import OhMyPi
from tests.support.build import OmpAnthropicSession, OmpSession, OpenClawSession, blob
from tests.support.runs import (
    after,
    entries,
    old,
    survey_of,
    turn,
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


# OpenClaw


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
