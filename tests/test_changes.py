"""The changes of a plan: by line, in document order, as they were proposed."""

from __future__ import annotations

import pytest

from sessioncompress.changes import Changes, Proposals
from sessioncompress.model import Block, Change, Kind, Treatment

BLOCKS = tuple(Block(Kind.RESULT, ("content", index), 300, 300) for index in range(2))


def change(line: int, index: int | None, saves: int = 1) -> Change:
    """Return a change of a block, or of something that is none."""
    block = None if index is None else BLOCKS[index]
    path = ("id",) if block is None else block.path
    return Change(line, path, Treatment.REMOVE, saves, block, value="v", note="n", group=5, failures=True)


def test_changes_come_by_line() -> None:
    """In document order; those of one line as they were proposed."""
    offered = [change(2, 1), change(0, 0, 10), change(2, None), change(2, 0, 100)]
    changes = Changes(offered)
    assert list(changes) == [0, 2]
    assert (len(changes), bool(changes), changes.saves) == (2, True, 112)
    assert changes[0] == (offered[1],)
    assert changes[2] == (offered[0], offered[2], offered[3])
    assert changes.get(3) is None
    with pytest.raises(KeyError):
        changes[1]


def test_proposals_keep_what_each_is_worth() -> None:
    """In the order in which they came."""
    proposals = Proposals()
    offered = [change(2, 1), change(0, 0, 10)]
    for gain, each in enumerate(offered):
        proposals.add(each, gain)
    assert (proposals.changes, proposals.gains) == (offered, [0, 1])


def test_nothing_chosen_is_nothing() -> None:
    """As an empty mapping."""
    changes = Changes([])
    assert (dict(changes), bool(changes), len(changes), changes.saves) == ({}, False, 0, 0)
