"""The table of kinds: each kind has its row, and what a run replaced of it is told."""

from __future__ import annotations

import pytest

from sessioncompress.compressors import KINDS
from sessioncompress.compressors.base import Ours
from sessioncompress.core.model import Kind, Origin, OurKey
from sessioncompress.pipeline.stats import CompressionStats
from tests.support.runs import Held


def test_every_kind_has_its_row() -> None:
    """Its blocks are counted by a number that is there, and by no other kind's."""
    assert set(KINDS) == set(Kind)
    fields = [of.field for of in KINDS.values() if of.field]
    assert len(set(fields)) == len(fields)
    assert all(each.endswith(("_compressed", "_removed", "_replaced")) for each in fields)
    assert all(type(getattr(CompressionStats(""), each)) is int for each in fields)


# What counts as ours

KEY: OurKey = (b"d" * 16, Kind.RESULT, "c1")
ORIGIN = Origin("7f3a91c2e05b", "7f3a91c2e05b0123", ("a",), 9, 1)


@pytest.mark.parametrize("other", [(b"e" * 16, Kind.RESULT, "c1"), (KEY[0], Kind.IMAGE, "c1"), (*KEY[:2], "c2")])
def test_only_the_same_is_ours(other: OurKey) -> None:
    """Whether the journal knows it or the run under way has made it."""
    ours = Ours((Held({KEY: ORIGIN}),))
    ours.add((b"n" * 16, Kind.ARGUMENT, ""))
    assert KEY in ours
    assert (b"n" * 16, Kind.ARGUMENT, "") in ours
    assert other not in ours
    assert ours.origin(KEY) == ORIGIN
    assert ours.origin(other) is None
