"""The table of kinds: each kind has its row, and what a run replaced of it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sessioncompress.compressors import KINDS
from sessioncompress.core.model import Kind
from sessioncompress.operations import wording
from sessioncompress.pipeline.summary import CompressionStats
from tests.support.build import ClaudeSession
from tests.support.runs import EAGER, compress, write

LONG = "- deploy: puts a build on the servers\n" * 100


def test_every_kind_has_its_row() -> None:
    """Its blocks are counted by a number that is there, and by no other kind's."""
    assert set(KINDS) == set(Kind)
    fields = [of.field for of in KINDS.values() if of.field]
    assert len(set(fields)) == len(fields)
    assert all(each.endswith(("_compressed", "_removed", "_replaced")) for each in fields)
    assert all(type(getattr(CompressionStats(""), each)) is int for each in fields)


def test_what_was_replaced_of_each_kind_is_told() -> None:
    """Of kinds with a number of their own, and without; of several sessions the sum."""
    numbers = {kind: at + 2 for at, kind in enumerate(KINDS)}
    own: dict[str, Any] = {of.field: numbers[kind] for kind, of in KINDS.items() if of.field}
    others = {kind.value: numbers[kind] for kind, of in KINDS.items() if not of.field}
    stats = CompressionStats("a.jsonl", others_replaced=others, **own)
    said = ", ".join(f"{numbers[kind]} {of.several}" for kind, of in KINDS.items())
    assert f"; {said}; " in wording.change(stats, "->")
    said = ", ".join(f"{2 * numbers[kind]} {of.several}" for kind, of in KINDS.items())
    assert f"; {said}; " in wording.change(wording.total([stats, stats]), "->")


def test_a_run_that_replaced_only_attachments_says_so(tmp_path: Path) -> None:
    """They have no number of their own in the JSON document."""
    made = ClaudeSession()
    made.user("Go.")
    for _ in range(2):
        made.attachment("skill_listing", content=LONG, skillCount=3)
        made.turn()
    made.turn()
    stats = compress(write(tmp_path, made.bytes()), EAGER)
    assert "; 1 attachment; " in wording.line(stats)
    assert "replaced: 1 attachment" in "\n".join(wording.total_lines([stats]))
    assert "attachment" not in str(wording.document([stats]))
