"""How near the estimate of tokens comes to what agents recorded, over the real sessions where they are there.

Between two answers of one model, without a compaction between them, what was sent grew by the first answer and by what
came behind it: so much the lines in between should be estimated at. Run it with `-s` to see the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from sessioncompress.core.lines import Survey
from sessioncompress.core.model import Answer, Role
from sessioncompress.core.text import estimate
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.usage import characters_per_token, made
from sessioncompress.store.journal import load
from sessioncompress.store.layout import store_in
from sessioncompress.store.lock import open_session
from tests.agents.sessions import CORPUS, ROOT

WITHIN = 0.25
"""So far from 1 may the median of estimate against growth be, for all sessions and for those of each agent."""


EACH = 0.3
"""And so far those of a model."""

ENOUGH = 50
"""Steps of a model that tell something of it."""


class Step(NamedTuple):
    """From one answer to the next: whose session it is, the model, and by how many tokens what was sent grew."""

    agent: str
    model: str
    estimate: int
    growth: int


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    if not CORPUS.is_dir():
        pytest.skip("there are no real sessions beside the repository")
    return [step for path in sorted(CORPUS.glob("*/*.json*")) for step in steps_in(path)]


def steps_in(path: Path) -> list[Step]:
    with open_session(path, writing=False) as session:
        known = reading.read_session(reading.Stored(session, store_in(path), load(store_in(path).journal)))
        return list(_steps(known.form.name, known.survey))


def _steps(agent: str, read: Survey) -> Iterator[Step]:
    """Yield the steps between answers with a usage; what a failed one between them added counts too.

    An answer adds what stands from the one before it, with that one, up to it; a compaction between them ends a step.
    """
    before: Answer | None = None
    added = last = 0
    for answer, first, _ in made(read):
        between = [read.lines[number] for number in read.shape.live[last:first]]
        added += estimate(sum(line.reads for line in between), characters_per_token(answer.model))
        if any(line.role is Role.CHECKPOINT for line in between):
            before = None
        last = first
        if answer.usage is None:
            continue
        if before and before.usage and before.model == answer.model:
            yield Step(agent, answer.model, added, answer.usage.prompt - before.usage.prompt)
        before, added = answer, 0


def shown(name: str, found: list[Step]) -> str:
    """Return the deciles of estimate against growth, and how many steps there are, grown and not."""
    ratios = sorted(step.estimate / step.growth for step in found if step.growth > 0)
    deciles = " ".join(f"{ratios[len(ratios) * tenth // 10]:5.2f}" for tenth in range(1, 10))
    whole = sum(step.estimate for step in found if step.growth > 0) / sum(
        step.growth for step in found if step.growth > 0
    )
    return f"{name:20} {len(ratios):6} {len(found) - len(ratios):4}  {deciles}  {whole:5.2f}"


def row(name: str, found: list[Step]) -> str:
    ratios = sorted(step.estimate / step.growth for step in found if step.growth > 0)
    low, half, high = (ratios[len(ratios) * tenth // 10] for tenth in (1, 5, 9))
    return f"| {name} | {len(ratios):,} | {low:.2f} | {half:.2f} | {high:.2f} |"


def test_the_figures_are_those_of_the_documents(steps: list[Step]) -> None:
    text = (ROOT / "docs" / "explanation" / "estimates.md").read_text()
    for name in sorted({step.agent for step in steps}):
        assert row(name, [step for step in steps if step.agent == name]) in text
    assert row("all", steps) in text


def test_the_estimate_is_near_what_was_recorded(steps: list[Step]) -> None:
    print(f"\n{'':20} {'grew':>6} {'not':>4}  {'deciles of estimate / growth':53}  of all")
    agents = sorted({step.agent for step in steps})
    for name in agents:
        print(shown(name, [step for step in steps if step.agent == name]))
    print(shown("all", steps))
    for name in (*agents, ""):
        ratios = [step.estimate / step.growth for step in steps if step.growth > 0 and name in ("", step.agent)]
        assert abs(median(ratios) - 1) <= WITHIN, name or "all"


def test_each_model_has_its_density(steps: list[Step]) -> None:
    """Of those with enough steps to tell."""
    print()
    for name in sorted({step.model for step in steps}):
        found = [step for step in steps if step.model == name and step.growth > 0]
        if len(found) >= ENOUGH:
            print(shown(name, found))
            assert abs(median(step.estimate / step.growth for step in found) - 1) <= EACH, name
