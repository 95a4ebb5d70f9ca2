"""Reports of subagents: the newest stay whole if they are short; of long ones what sums them up stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sessioncompress.compressors.base import REPORT
from sessioncompress.core import marker
from sessioncompress.pipeline.plan import in_question
from sessioncompress.policy.model import PRESETS, Policy
from tests.support.build import OmpSession, PiSession
from tests.support.runs import EAGER, after, old, result_texts, view_of

ARCHIVE = replace(PRESETS["archive"], size_threshold_kb=0, min_saved_kb=0)
MOST = 20
"""So many reports are new."""


def reports(*texts: str, tool: str = "task", made: PiSession | None = None) -> bytes:
    """Return an old session of subagents' reports."""
    made = made or OmpSession()
    made.user("Go.")
    for number, text in enumerate(texts):
        made.step(tool, {"prompt": f"Look at part {number}."}, text)
    return old(made)


def texts_of(data: bytes, policy: Policy = EAGER) -> list[str]:
    return result_texts(after(data, policy))


def sized(size: int) -> str:
    return ("word " * size)[: size - 2]


LEFT_ALONE: list[tuple[str, Callable[[], bytes]]] = [
    ("short", lambda: reports(sized(2_000))),
    ("4 KB", lambda: reports(sized(REPORT))),
    ("a little more than 4 KB", lambda: reports(sized(REPORT + 110 + 511))),
    ("twenty of them", lambda: reports(*(f"{number} {sized(4_000)}" for number in range(MOST)))),
    ("one that repeats nothing", lambda: reports("error: no tide\n" * 200)),
]


@pytest.mark.parametrize("scene", [case[1] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_left_alone(scene: Callable[[], bytes]) -> None:
    data = scene()
    view = view_of(data)
    assert texts_of(data) == texts_of(data, replace(EAGER, turn_threshold_before_compress=99))
    results = [number for number, line in enumerate(view.lines) if line.answers]
    assert in_question(view, results)[1] > 0
    assert all(view.is_whole(number, view.lines[number].blocks[0]) for number in results)


def test_the_oldest_of_21_goes() -> None:
    whole = [
        not marker.occurs_in(text) for text in texts_of(reports(*(f"{n} {sized(3_000)}" for n in range(MOST + 1))))
    ]
    assert whole == [False, *[True] * MOST]


OTHERS: list[tuple[str, Callable[[], bytes], Policy]] = [
    ("of a tool that is no subagent", lambda: reports(sized(3_000), tool="bash"), EAGER),
    ("pi has no such tool", lambda: reports(sized(3_000), made=PiSession()), EAGER),
    ("archive keeps none", lambda: reports(sized(3_000)), ARCHIVE),
]


@pytest.mark.parametrize(("scene", "policy"), [case[1:] for case in OTHERS], ids=[case[0] for case in OTHERS])
def test_output_is_no_report(scene: Callable[[], bytes], policy: Policy) -> None:
    assert marker.occurs_in(texts_of(scene(), policy)[0])
