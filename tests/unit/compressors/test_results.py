"""Results: what is short, recent, protected or ours stays; the rest becomes a preview that is never above the limit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.core.splice import literal
from sessioncompress.policy.model import Policy
from tests.support import texts
from tests.support.build import PiSession, Use
from tests.support.runs import EAGER, after, old, plan_of, result_texts, turn

LOG = texts.log_lines(random.Random(1), 120)
Scene = Callable[[], bytes]


def session(*results: Any, tool: str = "bash", arguments: Any = None, **said: Any) -> bytes:
    """Return an old session of calls with these results."""
    made = PiSession()
    made.user("Go.")
    for number, result in enumerate(results):
        made.step(tool, arguments or {"command": f"make {number}"}, result, **said)
    return old(made)


def one(result: Any, policy: Policy = EAGER, **said: Any) -> str:
    return result_texts(after(session(result, **said), policy))[0]


def recent() -> bytes:
    """Return a session whose last turn holds the result."""
    made = turn(PiSession())
    made.user("Go.")
    made.step("bash", {"command": "make"}, LOG)
    return made.bytes()


def skill_under_a_used_id() -> bytes:
    """Return a session in which a skill was read by a call whose id came again."""
    made = PiSession()
    made.user("Go.")
    made.parallel([Use("read", {"path": "x/SKILL.md"}, LOG, call_id="call_0")])
    made.parallel([Use("bash", {"command": "make"}, "ok", call_id="call_0")])
    return old(made)


def parallel_recent() -> bytes:
    """Return a session in which the user steered between a call and its results."""
    made = turn(PiSession())
    call, other = (made.call("bash", {"command": "make"}) for _ in range(2))
    made.assistant(call, other)
    made.result(call["id"], LOG)
    made.user("Stop, do something else.")
    made.result(other["id"], LOG + ".")
    return made.bytes()


def odd(content: Any) -> bytes:
    """Return a session with a result whose content no agent writes."""
    made = PiSession()
    made.user("Go.")
    part = made.call("bash", {"command": "make"})
    made.assistant(part)
    made.message("toolResult", toolCallId=part["id"], toolName="bash", content=content, isError=False)
    return old(made)


LEFT_ALONE: list[tuple[str, Scene]] = [
    ("short", lambda: session("x" * 900)),
    ("at the limit", lambda: session("x" * 998)),
    ("in the last turn", recent),
    ("its call is before the boundary, the second result behind it", parallel_recent),
    ("of the tool skill", lambda: session(LOG, tool="skill")),
    ("a skill that was read under an id that came again", skill_under_a_used_id),
    ("a skill that was read", lambda: session(LOG, tool="read", arguments={"path": "/home/a/.pi/skills/x/SKILL.md"})),
    ("no text parts", lambda: session([])),
    ("parts that are no objects", lambda: odd(["x" * 3000, None, 7, ["x" * 3000]])),
    ("a part of another type", lambda: session([{"type": "resource", "text": "x" * 3000}])),
    ("a part without a type", lambda: session([{"text": "x" * 3000}])),
    ("content that is null", lambda: odd(None)),
    ("content as a string", lambda: odd("x" * 3000)),
    ("a part whose text is no text", lambda: session([{"type": "text", "text": ["x" * 3000]}])),
    (
        "a reference to a blob",
        lambda: session([{"type": "image", "data": "blob:sha256:" + "0" * 64, "mimeType": "image/png"}]),
    ),
]


@pytest.mark.parametrize("scene", [case[1] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(scene: Scene) -> None:
    assert plan_of(scene()) == {}


SHAPES: list[tuple[str, str]] = [
    ("lines", LOG),
    ("one giant line", "x" * 100_000),
    ("a giant first line", "x" * 5000 + "\nend"),
    ("a giant last line", "begin\n" + "x" * 5000),
    ("a giant line between", "begin\n" + "x" * 5000 + "\nend"),
    ("only line ends", "\n" * 5000),
    ("only spaces", " " * 5000),
    ("line ends between words", "a" + "\n" * 5000 + "b"),
    ("CRLF", LOG.replace("\n", "\r\n")),
    ("CR", LOG.replace("\n", "\r")),
    ("an end with LF", LOG + "\n"),
    ("control characters", "\x01\x1b" * 3000),
    ("lines of control characters", "\x01\x1b\n" * 3000),
    ("CJK", "漢字" * 3000),
    ("lines of CJK", "漢字漢字\n" * 1000),
    ("emoji with joiners", "👩‍👩‍👧‍👦" * 1000),
    ("quotes", '"' * 5000),
    ("backslashes", "\\" * 5000),
    ("NUL", "\0" * 5000),
    ("other line ends", "a\u2028b\u2029c\x85" * 900),
    ("markers", (marker.marker("9 lines", "0" * 12) + "\n") * 60),
    ("half a marker", "[[sessioncompress: " * 300),
    ("failures", "error: it failed\n" * 500),
    ("a long failure", "fine\n" * 300 + "error " * 300 + "\n" + "fine\n" * 300),
]
POLICIES: Sequence[Policy] = [
    EAGER,
    replace(EAGER, tool_result_max_bytes=0),
    replace(EAGER, tool_result_max_bytes=300),
    replace(EAGER, tool_result_max_bytes=100, preview_max_bytes=0),
]


@pytest.mark.parametrize("policy", POLICIES, ids=["1000", "256", "300", "no preview"])
@pytest.mark.parametrize("value", [case[1] for case in SHAPES], ids=[case[0] for case in SHAPES])
@pytest.mark.parametrize("error", [False, True], ids=["ok", "failed"])
def test_a_replacement_is_never_above_the_limit(value: str, policy: Policy, error: bool) -> None:
    """In bytes of JSON, and below three quarters of what it stands for; it names its original, and is never empty."""
    new = one(value, policy, error=error)
    most = min(policy.result_limit + policy.preview_max_bytes, len(literal(value)) * 3 // 4)
    assert len(literal(new)) <= most or marker.is_one(new)
    assert len(marker.references(new)) >= 1
    assert marker.occurs_in(new)


@pytest.mark.parametrize("value", [case[1] for case in SHAPES], ids=[case[0] for case in SHAPES])
def test_what_is_kept_is_text_of_the_result(value: str) -> None:
    """All but the markers stands in the original, in its order."""
    new = one(value)
    position = 0
    for piece in marker.around(new):
        found = value.find(piece.removeprefix("\n"), position)
        if "[[sessioncompress" not in value:
            assert found >= 0, piece
            position = found


FAILURE = "src/tide.py:12: error: the gauge is not there"
FAILING = "\n".join([*LOG.split("\n")[:60], FAILURE, *LOG.split("\n")[60:]])

REPORTS: list[tuple[str, bool, bytes]] = [
    ("a command with its error flag", True, session(FAILING, error=True)),
    ("a command that says its exit status", True, session(FAILING + "\n\nCommand exited with code 1")),
    ("a command that succeeded", False, session(FAILING)),
    ("a command that says status 0", False, session(FAILING + "\n\nCommand exited with code 0")),
    ("source code that was read", False, session(FAILING, tool="read", arguments={"path": "a.py"})),
    (
        "a text read that ends like a command",
        False,
        session(FAILING + "\nexit code 1", tool="read", arguments={"path": "a"}),
    ),
]


@pytest.mark.parametrize(("kept", "data"), [case[1:] for case in REPORTS], ids=[case[0] for case in REPORTS])
def test_the_lines_that_report_a_failure_stay_where_something_failed(kept: bool, data: bytes) -> None:
    """In their place; a failure word alone means nothing."""
    new = result_texts(after(data))[0]
    assert (FAILURE in new.split("\n")) == kept
    if kept:
        markers = [line for line in new.split("\n") if marker.is_one(line)]
        assert len(markers) == 2
        assert [len(marker.references(line)) for line in markers] == [1, 0]
