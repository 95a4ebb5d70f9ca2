"""Mirrors: copies for the screen go; what an extension may keep its state in stays where it is the newest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import OmpAnthropicSession, OmpSession, OpenClawSession, PiSession
from tests.support.runs import after, compress, compress_again, entries, old, restore, turn, write

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
    """Return the details of all results, MISSING where there are none."""
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


def branched() -> bytes:
    """Return a session in which the newest details of an unknown tool are on the live path, newer ones are not."""
    made = PiSession()
    made.user("Go.")
    made.step("todo", {}, "done", details={"items": [DIFF]})
    here = made.leaf
    made.step("todo", {}, "done", details={"items": [DIFF]})
    made.branch(here)
    return old(made)


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


SKILL = "/home/a/.pi/skills/x/SKILL.md"


@pytest.mark.parametrize("tool", ["read", "edit", "write"])
def test_details_of_a_skill_file_go_whole(tool: str) -> None:
    """Of a skill only what a read returned is kept; no model sees its mirror."""
    made = PiSession()
    made.user("Go.")
    made.step(tool, {"path": SKILL}, "done", details={"diff": DIFF})
    assert details(after(old(made))) == ["missing"]


def test_of_a_tool_we_do_not_know_the_newest_stays() -> None:
    found = details(after(session({"items": [DIFF]}, "todo", times=3)))
    assert found == ["missing", "missing", {"items": [DIFF]}]
    assert details(after(branched())) == [{"items": [DIFF]}, "missing"]


def test_what_is_longer_than_a_state_is_output() -> None:
    assert details(after(session({"output": DIFF * 8}, "process"))) == [{"output": DIFF * 8}]
    assert details(after(session({"output": DIFF * 9}, "process"))) == ["missing"]


def test_details_of_what_an_extension_says_go_too() -> None:
    """But for the newest, as of a tool that we do not know."""
    made = PiSession()
    made.user("Go.")
    for item in (DIFF, DIFF * 2):
        made.entry("custom_message", customType="board", content="New.", display=True, details={"items": [item]})
    found = [entry.get("details") for entry in after(old(made)) if entry["type"] == "custom_message"]
    assert found == [None, {"items": [DIFF * 2]}]


@pytest.mark.parametrize("make", [PiSession, OmpAnthropicSession, lambda: OpenClawSession().opening()])
def test_a_state_that_a_newer_one_follows_is_emptied(make: Callable[[], PiSession], tmp_path: Path) -> None:
    """It keeps its form; a second run finds nothing, and all comes back."""
    data = states(DIFF, DIFF * 2, DIFF * 3, made=make())
    path = write(tmp_path, data)
    compress(path)
    found = [entry["data"] for entry in entries(path.read_bytes()) if entry.get("customType") == "board"]
    assert found == [{"version": 1, "items": []}, {"version": 1, "items": []}, {"version": 1, "items": [DIFF * 3]}]
    compress_again(path)
    restore(path)
    assert path.read_bytes() == data


def test_an_older_state_does_not_stand_for_one_that_is_too_long(tmp_path: Path) -> None:
    """All of them go, and a second run finds nothing."""
    made = PiSession()
    made.user("Go.")
    for state in ([DIFF], [DIFF * 2], [DIFF * 15]):
        made.step("board", {}, "done", details={"items": state})
    path = write(tmp_path, old(made))
    compress(path)
    assert details(entries(path.read_bytes()))[:3] == ["missing"] * 3
    compress_again(path)


def test_the_arguments_of_a_call_are_no_state() -> None:
    """However new they are; the newest state beside a result stays."""
    made = PiSession()
    made.user("Go.")
    for number in range(3):
        call = {**made.call("board", {"items": [DIFF]}), "partialArgs": DIFF * (1 + 9 * number)}
        made.assistant(call)
        # The last one has none.
        made.result(call["id"], "done", "board", details={"items": [DIFF]} if number < 2 else None)
    new = after(old(made))
    calls = [part for line in new for part in line.get("message", {}).get("content", ()) if isinstance(part, dict)]
    assert not any("partialArgs" in part for part in calls)
    assert details(new)[:3] == ["missing", {"items": [DIFF]}, "missing"]


def test_a_left_over_of_the_stream_goes() -> None:
    """`partialJson` repeats the arguments."""
    made = PiSession()
    made.user("Go.")
    arguments = {"path": "a.py", "content": "x" * 300}
    made.assistant({**made.call("write", arguments), "partialJson": json.dumps(arguments) * 9})
    found = after(old(made))[2]["message"]["content"][0]
    assert "partialJson" not in found
    assert found["arguments"] == arguments


def test_the_arguments_of_a_start_are_emptied() -> None:
    """oh-my-pi reads the key, so it stays, with its type."""
    made = OmpSession().opening()
    made.user("Go.")
    made.step("bash", {"command": DIFF}, "done", thinking="Hm.")
    data = old(made)
    starts = [
        (old_entry, entry)
        for old_entry, entry in zip(entries(data), after(data), strict=True)
        if entry.get("customType")
    ]
    assert [entry["data"]["args"] for _, entry in starts] == [{}]
    assert [{**entry["data"], "args": old_entry["data"]["args"]} for old_entry, entry in starts] == [
        starts[0][0]["data"]
    ]


def test_protected_starts_stay() -> None:
    made = turn(OmpSession().opening())
    made.user("Go.")
    made.step("bash", {"command": DIFF}, "done", thinking="Hm.")
    assert after(made) == entries(made.bytes())
