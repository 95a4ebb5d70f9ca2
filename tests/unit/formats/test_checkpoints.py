"""What holds of the checkpoint that each format writes, on the fixtures of its stories."""

from __future__ import annotations

import pytest

from sessioncompress.core.model import Role
from sessioncompress.formats.base import Format
from sessioncompress.formats.table import NAMES, format_named
from tests.support.checkpoints import checkpointed
from tests.support.runs import fixture, survey_of, units
from tests.support.stories import of_format

NONE = {"chat.jsonl", "claude-agent.jsonl", "pi-v1.jsonl"}
"""No summary can be written into these."""

REPEATED = {"codex-paginated.jsonl", "gemini.jsonl"}
"""Here one line says again what is kept."""

SHORT = {"claude-compacted.jsonl", "codex-paginated.jsonl", "omp-gemini.jsonl"}
"""Nothing is left in these that a second summary could stand for."""

WRITTEN = [name for name in NAMES if type(format_named(name)).checkpoint is not Format.checkpoint]
"""The formats that write summaries."""

FIXTURES = [name for name in of_format(*WRITTEN) if name not in NONE]


def live(data: bytes) -> list[int]:
    shape = survey_of(data).shape
    return [number for number in shape.live if number not in shape.dead]


@pytest.mark.parametrize("name", [name for name in FIXTURES if name not in REPEATED])
def test_what_is_old_is_dead_or_gone_and_what_is_kept_is_live(name: str) -> None:
    """To the byte, and in its order; of all that was there before, every line that is not removed is there."""
    data = fixture(name)
    made = checkpointed(data)
    before, after, lines = units(data), units(made.after), survey_of(data).lines
    now = [after[number] for number in live(made.after)]
    before = [made.checkpoint.changed.get(number, raw) for number, raw in enumerate(before)]
    kept = [before[number] for number in made.cut.kept if number not in made.checkpoint.removed]
    assert [raw for raw in now if raw in kept] == kept
    assert {before[number] for number in made.cut.old if lines[number].role is not Role.OTHER}.isdisjoint(now)
    stay = iter(after)
    assert all(raw in stay for number, raw in enumerate(before) if number not in made.checkpoint.removed)


@pytest.mark.parametrize("name", [name for name in FIXTURES if name not in SHORT])
def test_one_is_live_and_another_takes_its_place(name: str) -> None:
    """The same is written again for the same session."""
    data = fixture(name)
    made = checkpointed(data)
    assert checkpointed(data).after == made.after
    for after in (made.after, checkpointed(made.after).after):
        lines = survey_of(after).lines
        assert [lines[number].role for number in live(after)].count(Role.CHECKPOINT) == 1
