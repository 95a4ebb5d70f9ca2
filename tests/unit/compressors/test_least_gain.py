"""Small cuts: a block of which less than 512 bytes could go stays, and does not count as removable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.compressors import View, arguments, redundancy, results
from sessioncompress.compressors.names import ends_of
from sessioncompress.compressors.preview import LEAST_GAIN, MARKER_BYTES
from sessioncompress.core import marker
from sessioncompress.core.model import Change, Kind
from sessioncompress.operations.compress import compress_session
from sessioncompress.pipeline.plan import in_question
from sessioncompress.pipeline.summary import Status
from tests.support.build import PiSession, Use
from tests.support.rollout import Rollout
from tests.support.runs import EAGER, compress, entries, old, result_texts, snapshot, view_of, write

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


@pytest.mark.parametrize(
    ("text", "stays"), [("x" * 1_000, True), ('"\n' * 500, True), ("\u00e9" * 500, True), ("x" * 1_001, False)]
)
@pytest.mark.parametrize("form", ["pi", "codex"])
def test_the_limit_of_results_is_one_of_their_text(form: str, text: str, stays: bool) -> None:
    """What JSON writes around it and into it does not count."""
    made: PiSession | Rollout = PiSession() if form == "pi" else Rollout()
    made.user("Go.")
    if isinstance(made, Rollout):
        made.function("look", {}, text)
    else:
        made.step("look", {}, text)
    view = view_of(made.bytes(), replace(LOW, tool_result_max_bytes=1_000))
    found = [block for line in view.lines for block in line.blocks if block.kind is Kind.RESULT]
    assert [results.counts(block, view.policy) for block in found] == [not stays]


@pytest.mark.parametrize(("build", "least"), [(each[1], each[3]) for each in EDGES[:2]], ids=["a result", "a call"])
def test_what_stays_is_not_removable(build: Scene, least: int) -> None:
    """A report that names it would never come down to nothing."""
    below, at = (view_of(build(size), LOW) for size in (least - 1, least))
    assert in_question(below, range(len(below.lines))) == (0, 0)
    assert in_question(at, range(len(at.lines)))[0] >= least


@pytest.mark.parametrize("options", [{}, {"dry_run": True}, {"force": True}], ids=["run", "dry run", "forced"])
def test_a_session_of_small_blocks_is_left_alone(tmp_path: Path, options: dict[str, Any]) -> None:
    """However many there are, all of them above the limits; nothing is said to be removable."""
    made = PiSession()
    made.user("Go.")
    for number in range(60):
        made.step("write", {"path": "a.py", "content": f"{number} {'x' * 700}"}, f"{number} {'y' * 700}")
    path = write(tmp_path, old(made))
    before = snapshot(path)
    stats = compress_session(path, LOW, **options)
    assert (stats.status, stats.removable_bytes, stats.lines_changed) == (Status.UNCHANGED, 0, 0)
    assert snapshot(path) == before


def test_a_block_between_small_ones_goes_alone(tmp_path: Path) -> None:
    made = PiSession()
    made.user("Go.")
    made.parallel([Use("bash", {"command": "make"}, text) for text in ("y" * 700, "z" * 9_000, "w" * 700)])
    path = write(tmp_path, old(made))
    compress(path, LOW)
    assert [marker.occurs_in(text) for text in result_texts(entries(path.read_bytes()))] == [False, True, False]
