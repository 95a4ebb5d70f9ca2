"""The table of kinds: each kind has its row, and what a run replaced of it is told."""

from __future__ import annotations

from sessioncompress.compressors import KINDS
from sessioncompress.core.model import Kind
from sessioncompress.pipeline.summary import CompressionStats


def test_every_kind_has_its_row() -> None:
    """Its blocks are counted by a number that is there, and by no other kind's."""
    assert set(KINDS) == set(Kind)
    fields = [of.field for of in KINDS.values() if of.field]
    assert len(set(fields)) == len(fields)
    assert all(each.endswith(("_compressed", "_removed", "_replaced")) for each in fields)
    assert all(type(getattr(CompressionStats(""), each)) is int for each in fields)
