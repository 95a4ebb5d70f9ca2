"""Small cuts: a block of which less than 512 bytes could go stays, and does not count as removable."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from sessioncompress.compressors import View, arguments, redundancy, results
from sessioncompress.compressors.names import ends_of
from sessioncompress.compressors.preview import LEAST_GAIN, MARKER_BYTES
from sessioncompress.core.model import Change
from sessioncompress.pipeline.plan import in_question
from tests.support.build import PiSession
from tests.support.runs import EAGER, old, view_of

LOW = replace(EAGER, tool_result_max_bytes=300, tool_call_max_bytes=300)
NOTE = "same text as a later bash result"
Scene = Callable[[int], bytes]
Propose = Callable[[View], Iterator[Change]]


def result(size: int) -> bytes:
    """Return an old session with a result of so many bytes."""
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "make"}, "x" * (size - 2))
    return old(made)


def call(size: int) -> bytes:
    """Return an old session with a call whose text has so many bytes."""
    made = PiSession()
    made.user("Go.")
    made.step("write", {"path": "a.py", "content": "x" * size}, "ok")
    return old(made)


def repeated(size: int) -> bytes:
    """Return an old session with two equal results of so many bytes."""
    made = PiSession()
    made.user("Go.")
    for _ in range(2):
        made.step("bash", {"command": "make"}, "x" * (size - 2))
    return old(made)


EDGES: list[tuple[str, Scene, Propose, int]] = [
    ("a result", result, results.propose, MARKER_BYTES + ends_of(0, LOW) + LEAST_GAIN),
    ("a call", call, arguments.propose, LOW.leaf_limit + LEAST_GAIN),
    ("a repeated result", repeated, redundancy.propose, MARKER_BYTES + len(NOTE) + LEAST_GAIN),
]


@pytest.mark.parametrize(("build", "propose", "least"), [case[1:] for case in EDGES], ids=[case[0] for case in EDGES])
def test_the_edge(build: Scene, propose: Propose, least: int) -> None:
    assert list(propose(view_of(build(least - 1), LOW))) == []
    assert len(list(propose(view_of(build(least), LOW)))) == 1


@pytest.mark.parametrize(("build", "least"), [(each[1], each[3]) for each in EDGES[:2]], ids=["a result", "a call"])
def test_what_stays_is_not_removable(build: Scene, least: int) -> None:
    """A report that names it would never come down to nothing."""
    below, at = (view_of(build(size), LOW) for size in (least - 1, least))
    assert in_question(below, range(len(below.lines))) == (0, 0)
    assert in_question(at, range(len(at.lines)))[0] >= least
