"""What an outside judge finds of a session behind five rounds of `compact`."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.bench.conformance import dialogues, survival

pytest.importorskip("compaction_kit", reason="compaction-conformance-kit is not installed: pip install -e '.[dev]'")

_LEAST, _CLIFF = 0.75, 0.5
"""Of what was planted of a type, so much stands there behind the first round; and the kit's bar of a later one."""
_LEAST_OF_ALL = 0.85
"""Of what is planted in more dialogues, of which no two are alike."""


@pytest.mark.parametrize(
    ("number", "least"), [(1, _LEAST), (10, _LEAST_OF_ALL)], ids=["the kit's own", "made ones too"]
)
def test_what_was_planted_stays(number: int, least: float) -> None:
    """Of each type: rules, constraints, facts, goals, preferences; new work pushes no type out."""
    found = survival(islice(dialogues(3), number))
    assert len(found) == 5
    for kind, each in found.items():
        assert each.rates[0] >= least, (kind, each)
        assert min(each.rates) >= _CLIFF, (kind, each)
