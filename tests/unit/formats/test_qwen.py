"""Qwen Code's records: which line is what, what may change, and what a summary hangs on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.model import Answer, Role, Usage
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats.qwen import Qwen, QwenReader
from sessioncompress.pipeline.reading import read_line
from tests.support.checkpoints import checkpointed
from tests.support.runs import fixture, head_of_file, survey_of, units
from tests.support.stories.qwen import QwenSession

LONG = "a line of output\n" * 60
SHOWN = {"fileDiff": LONG, "newContent": LONG}


def made() -> QwenSession:
    return QwenSession().user("Look.").used("read_file", {"file_path": "/tmp/a.py", "more": LONG}, LONG, SHOWN)


LEFT_ALONE: list[tuple[int, tuple[str | int, ...], Any]] = [
    (0, ("message", "parts", 0, "text"), "short"),
    (2, ("systemPayload", "uiEvent", "success"), REMOVED),
    (3, ("message", "parts", 1, "functionCall", "args", "file_path"), "short"),
    (3, ("message", "parts", 1, "functionCall", "args"), REMOVED),
    (5, ("message", "parts", 0, "functionResponse", "response", "output"), REMOVED),
    (5, ("toolCallResult", "resultDisplay"), ""),
    (5, ("toolCallResult",), REMOVED),
]


@pytest.mark.parametrize(("number", "path", "value"), LEFT_ALONE)
def test_left_alone(number: int, path: tuple[str | int, ...], value: Any) -> None:
    assert not Qwen().may_change(json.loads(units(made().bytes())[number]), path, value)


TURNS = [
    ({}, "Look.", Role.USER),
    ({"subtype": "notification"}, "<task-notification>", Role.OTHER),
    ({"subtype": "cron"}, "Every hour.", Role.OTHER),
    ({"subtype": "mid_turn_user_message"}, "And faster.", Role.OTHER),
    ({}, " ", Role.OTHER),
]


@pytest.mark.parametrize(("more", "text", "role"), TURNS)
def test_where_a_turn_begins(more: dict[str, str], text: str, role: Role) -> None:
    message = {"role": "user", "parts": [{"text": text}]}
    session = QwenSession().record("user", "real_user", message=message, **more)
    assert read_line(session.bytes(), QwenReader()).role is role


def test_a_compaction_by_the_agent_itself_voids_what_was_before() -> None:
    summary = {"role": "user", "parts": [{"text": "Levels were read."}]}
    session = made().note("chat_compression", info={}, compressedHistory=[summary]).user("Go on.")
    shape = survey_of(session.bytes()).shape
    assert [number for number in shape.live if number not in shape.dead] == [6, 7, 8]


def test_a_summary_stands_between_what_is_old_and_what_is_kept() -> None:
    """The first record that is kept hangs on it; what the agent goes on with hangs on the last line, which counts."""
    data = checkpointed(fixture("qwen.jsonl"))
    entries = [json.loads(raw) for raw in units(data.after)]
    at = next(n for n, each in enumerate(entries) if "compressedHistory" in (each.get("systemPayload") or {}))
    assert entries[at]["parentUuid"] == entries[at - 1]["uuid"]
    assert entries[at + 1]["parentUuid"] == entries[at]["uuid"]
    assert entries[-1]["parentUuid"] == entries[-2]["uuid"]
    assert entries[-1]["systemPayload"]["info"]["newTokenCount"] == 9_000
    assert "compressedHistory" not in entries[-1]["systemPayload"]


def test_what_a_request_took() -> None:
    session = QwenSession().answer("Silent.", thought="Hm. " * 90).event("api_error", error_message="too long")
    found = [Qwen().answer(json.loads(raw)) for raw in units(session.bytes())]
    usage, at = Usage(5_000, 210, 4_000, 0, 90), [answer.at for answer in found if answer]
    answered = Answer(model="qwen3-coder-plus", usage=usage, window=1_000_000, at=at[0])
    assert found == [None, answered, Answer(error="too long", at=at[1])]


@pytest.mark.parametrize("missing", ["parentUuid", "sessionId", "type", "cwd"])
def test_a_header_of_others(missing: str) -> None:
    session = made()
    for each in session.records:
        del each[missing]
    assert not Qwen().recognizes(head_of_file(session.bytes()))
