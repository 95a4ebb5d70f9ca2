"""OpenClaw: its own tools, and entries that stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessioncompress.core.model import Kind, Purpose, Role
from tests.support.build import OpenClawSession
from tests.support.runs import compress, entries, restore, survey_of, turn, write

LONG = "a line of output\n" * 90


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
