"""Copilot CLI's events: which is what, what may change, and what is a subagent's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.model import Answer, JsonPath, Kind, Role, Treatment, Usage
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats.copilot import Copilot, CopilotReader
from sessioncompress.pipeline.reading import read_line
from tests.support.checkpoints import SUMMARY, checkpointed
from tests.support.runs import fixture, head_of_file, survey_of, units
from tests.support.stories.copilot import CopilotSession

LONG = "a line of output\n" * 60
GIVEN = {"path": "/tmp/a.py", "file_text": LONG}


def made() -> CopilotSession:
    return CopilotSession().user("Look.").used("create", GIVEN, LONG, LONG)


def blocks_of(session: CopilotSession) -> dict[tuple[int, JsonPath], Kind]:
    reader = CopilotReader()
    lines = [read_line(raw, reader) for raw in units(session.bytes())]
    return {(number, block.path): block.kind for number, line in enumerate(lines) for block in line.blocks}


def test_what_is_offered() -> None:
    """A result, arguments and thinking, and the copies of them; of instructions that are said anew all."""
    thoughts = dict.fromkeys(
        [(4, ("data", key)) for key in ("reasoningBlocks", "reasoningOpaque", "reasoningText")], Kind.THINKING
    )
    assert blocks_of(made()) == thoughts | {
        (2, ("data", "content")): Kind.MIRROR,
        (4, ("data", "toolRequests", 0, "arguments")): Kind.ARGUMENT,
        (5, ("data", "arguments", "file_text")): Kind.MIRROR,
        (6, ("data", "result", "content")): Kind.RESULT,
        (6, ("data", "result", "detailedContent")): Kind.MIRROR,
        (6, ("data", "toolTelemetry")): Kind.MIRROR,
    }


def test_a_patch_is_one_text() -> None:
    offered = blocks_of(CopilotSession().used("apply_patch", LONG, "Done."))
    assert offered[2, ("data", "toolRequests", 0, "arguments")] is Kind.ARGUMENT
    assert offered[3, ("data", "arguments")] is Kind.MIRROR


@pytest.mark.parametrize("key", ["encryptedContent", "serverTools"])
def test_thinking_that_is_bound_stays(key: str) -> None:
    session = made()
    session.events[4]["data"][key] = "sealed"
    assert Kind.THINKING not in {kind for (number, _), kind in blocks_of(session).items() if number == 4}
    assert not Copilot().may_change(session.events[4], ("data", "reasoningText"), REMOVED)


def test_a_picture_stays() -> None:
    """Its id is the SHA-256 of its bytes."""
    assert blocks_of(CopilotSession().event("session.binary_asset", assetId="sha256:0", data="A" * 9_000)) == {}


LEFT_ALONE: list[tuple[int, JsonPath, Any]] = [
    (1, ("data", "content"), "short"),
    (1, ("data", "transformedContent"), "short"),
    (2, ("data", "content"), REMOVED),
    (2, ("data", "role"), REMOVED),
    (3, ("data", "usage"), REMOVED),
    (4, ("data", "content"), "short"),
    (4, ("data", "toolRequests", 0, "arguments", "path"), "short"),
    (5, ("data", "arguments"), REMOVED),
    (6, ("data", "result", "content"), REMOVED),
    (6, ("data", "result"), REMOVED),
    (6, ("data", "success"), REMOVED),
]
"""The agent refuses the whole session where a field is missing that it requires."""


@pytest.mark.parametrize(("number", "path", "value"), LEFT_ALONE)
def test_left_alone(number: int, path: JsonPath, value: Any) -> None:
    assert not Copilot().may_change(made().events[number], path, value)


def test_what_takes_the_place_of_a_copy() -> None:
    form = Copilot()
    assert form.stand_in(("data", "content"), LONG) == ""
    assert form.stand_in(("data", "messages"), [1]) == []
    assert form.stand_in(("data", "toolTelemetry"), {}) is REMOVED
    assert form.stand_in(("data", "arguments", "file_text"), LONG) is Treatment.REFERENCE


TURNS: list[tuple[dict[str, Any], str, Role]] = [
    ({}, "", Role.USER),
    ({"source": "skill-pdf"}, "", Role.OTHER),
    ({"isAutopilotContinuation": True}, "", Role.OTHER),
    ({}, "30f0cc3a", Role.OTHER),
]


@pytest.mark.parametrize(("more", "agent", "role"), TURNS)
def test_where_a_turn_begins(more: dict[str, Any], agent: str, role: Role) -> None:
    session = CopilotSession()
    session.agent = agent
    assert read_line(units(session.user("Look.", **more).bytes())[1], CopilotReader()).role is role


def test_what_a_subagent_did_is_read_by_no_model_and_in_no_summary() -> None:
    session = made()
    session.agent = "30f0cc3a"
    before = len(session.events)
    session.ran("ls", LONG).event("session.compaction_complete", success=True, summaryContent="Seen.")
    lines, reader = survey_of(session.bytes()).lines, CopilotReader()
    assert not any(lines[number].reads for number in range(before, len(lines)))
    assert not [said for event in session.events[before:] for said in reader.said(event)]
    assert Role.CHECKPOINT not in lines.roles


@pytest.mark.parametrize(("data", "dead"), [({"success": True, "summaryContent": "x"}, 7), ({"success": False}, 0)])
def test_a_compaction_that_took_place_voids_what_was_before(data: dict[str, Any], dead: int) -> None:
    shape = survey_of(made().event("session.compaction_complete", **data).user("Go on.").bytes()).shape
    assert len(shape.dead) == dead


def test_a_summary_stands_before_what_is_kept() -> None:
    data = checkpointed(fixture("copilot.jsonl"))
    number = data.cut.kept[0]
    event = json.loads(units(data.after)[number])
    assert (event["type"], event["data"]["summaryContent"]) == ("session.compaction_complete", SUMMARY.text)
    assert event["parentId"] == json.loads(units(data.before)[number - 1])["id"]


def test_what_a_request_took() -> None:
    session = CopilotSession().answer("Silent.").event("session.error", errorType="query", message="too long")
    found = [Copilot().answer(event) for event in session.events]
    at = [answer.at for answer in found if answer]
    answered = Answer(model="claude-sonnet-4.5", usage=Usage(5_000, 210, 4_000), window=200_000, at=at[0])
    assert found == [None, answered, None, Answer(error="too long", at=at[1])]


@pytest.mark.parametrize("missing", ["sessionId", "copilotVersion"])
def test_a_header_of_others(missing: str) -> None:
    session = made()
    del session.events[0]["data"][missing]
    assert not Copilot().recognizes(head_of_file(session.bytes()))
