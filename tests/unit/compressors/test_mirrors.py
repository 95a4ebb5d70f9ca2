"""Mirrors: copies for the screen go; what an extension may keep its state in stays where it is the newest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.build import OmpAnthropicSession, OpenClawSession, PiSession
from tests.support.runs import after, entries, old, turn

DIFF = "+ a line of the patch\n" * 80
Scene = Callable[[], bytes]


def session(details: Any, tool: str = "edit", made: PiSession | None = None, times: int = 1) -> bytes:
    """Return an old session with steps that have these details."""
    made = made or PiSession()
    made.user("Go.")
    for _ in range(times):
        made.step(tool, {"path": "a.py"}, "done", details=details)
    return old(made)


def details(lines: list[Any]) -> list[Any]:
    results = [entry["message"] for entry in lines if entry.get("message", {}).get("role") == "toolResult"]
    return [message.get("details", "missing") for message in results]


def states(*items: str, branches: bool = False, made: PiSession | None = None) -> bytes:
    """Return a session in which an extension noted its state so often, or each time on a branch of its own."""
    made = made or PiSession()
    made.user("Go.")
    here = made.leaf
    for item in items:
        made.branch(here if branches else made.leaf)
        made.entry("custom", customType="board", data={"version": 1, "items": [item]})
    return old(made)


def recent() -> bytes:
    """Return a session whose last turn holds the details."""
    made = turn(PiSession())
    made.user("Go.")
    made.step("edit", {"path": "a.py"}, "done", details={"diff": DIFF})
    return made.bytes()


LEFT_ALONE: list[tuple[str, Scene]] = [
    ("in the last turn", recent),
    ("short", lambda: session({"diff": "x" * 100})),
    ("empty", lambda: session({})),
    ("a text", lambda: session(DIFF)),
    ("a number", lambda: session(7)),
    ("null", lambda: session(None)),
    ("the newest of a tool we do not know", lambda: session({"items": [DIFF]}, "todo")),
    ("the newest state of an extension, however long", lambda: states(DIFF * 50)),
    ("a state where another branch ends", lambda: states(DIFF, DIFF, branches=True)),
    ("of the tool skill", lambda: session({"diff": DIFF}, "skill")),
]


@pytest.mark.parametrize("scene", [case[1] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(scene: Scene) -> None:
    data = scene()
    assert after(data) == entries(data)


GONE: list[tuple[str, Scene]] = [
    ("details of a tool of pi", lambda: session({"diff": DIFF, "patch": DIFF})),
    ("a list", lambda: session([DIFF])),
    ("of OpenClaw's exec", lambda: session({"aggregated": DIFF}, "exec", OpenClawSession().opening())),
    ("of oh-my-pi's grep", lambda: session({"displayContent": DIFF}, "grep", OmpAnthropicSession().opening())),
    ("in another spelling", lambda: session({"diff": DIFF}, "Edit")),
]


@pytest.mark.parametrize("scene", [case[1] for case in GONE], ids=[case[0] for case in GONE])
def test_details_go_whole(scene: Scene) -> None:
    found = after(scene())
    assert details(found) == ["missing"]
    assert [entry["message"]["content"] for entry in found if entry.get("message", {}).get("role") == "toolResult"] == [
        [{"type": "text", "text": "done"}]
    ]
