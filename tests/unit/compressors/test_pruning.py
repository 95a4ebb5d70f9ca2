"""Pruning: whole results go for their age, or since they are said again; each boundary on both sides."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.policy.model import Policy, Prune
from tests.support import texts
from tests.support.build import PiSession
from tests.support.runs import EAGER, after, entries, old, result_texts, turn

LOG = texts.log_lines(random.Random(1), 120)
SOURCES = [texts.python_source(random.Random(number), 40) for number in range(4)]
SHORT = "x" * 500
"""Under the limit of results: nothing but pruning takes it."""

FREE = Prune(enabled=True, prune_minimum=0, prune_protect=0, protect_tools=(), preserve_recent_messages=0)
"""Prunes all that may go."""

Scene = Callable[[], bytes]


def pruning(base: Policy = EAGER, **changes: Any) -> Policy:
    return replace(base, prune=replace(FREE, **changes))


def session(*results: str, tool: str = "bash") -> bytes:
    return old(steps(*((tool, {"command": f"make {number}"}, each) for number, each in enumerate(results))))


def steps(*made: tuple[str, dict[str, Any], Any]) -> PiSession:
    """Return a session of one turn with these steps."""
    found = PiSession()
    found.user("Go.")
    for each in made:
        found.step(*each)
    return found


def cleared(data: bytes | PiSession, policy: Policy) -> list[bool]:
    return [marker.is_one(each) for each in result_texts(after(data, policy))]


def recent() -> bytes:
    """Return a session whose last turn, which is protected, holds the result."""
    made = turn(PiSession())
    made.user("Go.")
    made.step("bash", {"command": "make"}, LOG)
    return made.bytes()


def left_branch() -> bytes:
    """Return a session whose result is on a branch that was left."""
    made = PiSession()
    here = made.user("Go.")
    made.step("bash", {"command": "make"}, SHORT)
    made.branch(here)
    return old(made)


LEFT_ALONE: list[tuple[str, Scene, Policy]] = [
    ("pruning is off", lambda: session(SHORT), EAGER),
    ("in the protected part", recent, pruning()),
    ("of a tool that is protected altogether", lambda: session(LOG, tool="Skill"), pruning()),
    ("of a tool that is not pruned", lambda: session(SHORT, tool="Read"), pruning(protect_tools=("read",))),
    ("within the newest tool output", lambda: session(SHORT), pruning(prune_protect=1)),
    ("on a branch that was left", left_branch, pruning()),
    ("a skill that was read", lambda: old(steps(("read", {"path": "/a/SKILL.md"}, SHORT))), pruning()),
]


@pytest.mark.parametrize(("scene", "policy"), [case[1:] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(scene: Scene, policy: Policy) -> None:
    data = scene()
    assert result_texts(after(data, policy)) == result_texts(entries(data))


CLEARED: list[tuple[str, Scene, Policy]] = [
    ("a long one", lambda: session(LOG), pruning()),
    ("one that is too short for a preview", lambda: session(SHORT), pruning()),
    (
        "of a tool that is not pruned, under another name",
        lambda: session(SHORT, tool="reader"),
        pruning(protect_tools=("read",)),
    ),
]


@pytest.mark.parametrize(("scene", "policy"), [case[1:] for case in CLEARED], ids=[case[0] for case in CLEARED])
def test_cleared(scene: Scene, policy: Policy) -> None:
    assert cleared(scene(), policy) == [True]


AGAIN = [
    ("a read that is read again", (("read", {"path": "a"}, SOURCES[0]), ("read", {"path": "a"}, SOURCES[1]))),
    ("the same result again", (("bash", {"command": "a"}, SOURCES[0]), ("bash", {"command": "b"}, SOURCES[0]))),
]


@pytest.mark.parametrize("made", [case[1] for case in AGAIN], ids=[case[0] for case in AGAIN])
def test_what_is_said_again_goes_at_any_age_and_of_any_tool(made: Sequence[tuple[str, dict[str, Any], str]]) -> None:
    """Also where it is too short for anything else; what says it again stays."""
    short = [(tool, given, result[:600]) for tool, given, result in made]
    policy = pruning(prune_protect=1 << 30, protect_tools=("read", "bash"))
    assert cleared(old(steps(*short)), policy) == [True, False]
    assert cleared(old(steps(*short)), replace(policy, eliminate_redundancy=False)) == [False, False]
    assert cleared(old(steps(*short)), replace(policy, prune=replace(policy.prune, preserve_recent_messages=99))) == [
        False,
        False,
    ]
