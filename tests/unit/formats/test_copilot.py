"""Copilot CLI's events: which is what, what may change, and what is a subagent's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.model import Answer, JsonPath, Role, Treatment, Usage
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats.copilot import Copilot, CopilotReader
from sessioncompress.pipeline.reading import read_line
from tests.support.checkpoints import SUMMARY, checkpointed
from tests.support.runs import fixture, units
from tests.support.stories.copilot import CopilotSession

LONG = "a line of output\n" * 60
GIVEN = {"path": "/tmp/a.py", "file_text": LONG}


def made() -> CopilotSession:
    return CopilotSession().user("Look.").used("create", GIVEN, LONG, LONG)


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
