"""The life of a session whose previews are longer than the limit of a result: nothing is offered twice, all comes back."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.policy.model import PRESETS, Policy, Prune
from tests.support import texts
from tests.support.build import OmpSession, PiSession
from tests.support.runs import (
    EAGER,
    append,
    compress,
    compress_again,
    entries,
    restore,
    result_texts,
    turn,
    write,
)

LONG = replace(EAGER, tool_result_max_bytes=300, preview_share=0.5, preview_max_bytes=4_000)
"""Makes previews much longer than the limit over which a result is offered."""
LESS = replace(LONG, preview_share=0.02, preview_max_bytes=200)
PRUNING = replace(LONG, prune=Prune(enabled=True, prune_minimum=0, prune_protect=0, preserve_recent_messages=0))
OTHERS = {name: replace(each, size_threshold_kb=0, min_saved_kb=0) for name, each in PRESETS.items()}

RNG = random.Random("previews")
OUTPUTS = {
    "log": texts.log_lines(RNG, 90),
    "source": texts.python_source(RNG, 90),
    "source again": texts.python_source(RNG, 90) + "\n",
    "prose": texts.prose(RNG, 60),
    "CJK": texts.unicode_text(RNG, 90),
    "binary": "\x00\x01read_gauge\x02" * 400,
    "its own index": "read_gauge(quay);\n" * 200 + "in it: fooBar | bazQux",
    "its own index above": "in it: fooBar | bazQux\n" + "read_tide(quay);\n" * 200,
    "quotes": "".join(f'"say_{number}": "\\n",\n' for number in range(200)),
    "a marker": "read_wave(quay);\n" * 200 + marker.marker("3 of 9 lines, 99 bytes", "7f3a91c2e05b") + "\nin it: a_b",
    "lone surrogates": "\ud800 tide_level(\udc00);\n" * 200,
}


REPORT = f"# Found\n\n{texts.prose(RNG, 90)}\n\n- It drifts.\n"


def session(made: PiSession | None = None) -> PiSession:
    """Return a session with these outputs, and a subagent's report."""
    made = made or OmpSession()
    made.user("Go.")
    for number, (name, output) in enumerate(OUTPUTS.items()):
        made.step("bash", {"command": name}, output, error=number % 3 == 0)
    made.step("task", {"prompt": "Look."}, REPORT)
    return turn(made)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = write(tmp_path, session())
    compress(path, LONG)
    return path


def previews(path: Path) -> list[str]:
    return result_texts(entries(path.read_bytes()))


def size(text: str) -> int:
    """Return the bytes of a text in JSON; some texts have no UTF-8."""
    return len(json.dumps(text, ensure_ascii=False).encode(errors="replace"))


def test_a_second_run_writes_nothing(path: Path) -> None:
    """By the journal, behind what is finished and from the first line on; previews are longer than the limit."""
    assert sum(size(text) > LONG.result_limit for text in previews(path)) > 5
    assert sum(map(marker.has_index, previews(path))) > 4
    compress_again(path, LONG)


@pytest.mark.parametrize("second", [LESS, PRUNING, *OTHERS.values()], ids=["less", "pruning", *OTHERS])
def test_another_policy(path: Path, second: Policy) -> None:
    """What is ours is offered by no policy again but as a reference; the next run writes nothing, and all comes back."""
    before = previews(path)
    compress_session(path, second)
    changed = [text for text, was in zip(previews(path), before, strict=True) if text != was]
    assert all(
        marker.is_one(text) or not marker.occurs_in(was)
        for text, was in zip(previews(path), before, strict=True)
        if text != was
    )
    assert changed or second not in (PRUNING, OTHERS["archive"])
    compress_again(path, second)
    verify_session(path, second)
    restore(path, second)
    assert path.read_bytes() == session().bytes()


def test_after_each_turn(path: Path) -> None:
    """The same, with turns of more output that repeats the names of the first."""
    made = session()
    for number in range(3):
        made.user("More.")
        made.step("bash", {"command": f"more {number}"}, texts.python_source(random.Random(number), 60))
        append(path, turn(made))
        compress(path, LONG)
        compress_again(path, LONG)
    verify_session(path, LONG)
    restore(path, LONG)
    assert path.read_bytes() == made.bytes()


def test_a_line_like_an_index_in_output_is_content(tmp_path: Path) -> None:
    """It is no marker, imitates none, and goes and comes back as any line."""
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "a"}, "in it: fooBar | bazQux\n" * 300)
    made.step("bash", {"command": "b"}, "in it: fooBar")
    path = write(tmp_path, turn(made))
    stats = compress(path)
    assert (stats.imitated_markers, stats.markers_without_journal) == (0, 0)
    assert previews(path)[1] == "in it: fooBar"
    assert marker.occurs_in(previews(path)[0])
    compress_again(path)
    restore(path)
    assert path.read_bytes() == made.bytes()
