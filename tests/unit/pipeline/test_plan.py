"""The plan decides: no compressor can touch what is protected, part a group, or change a line that does not pay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest
from msgspec.structs import replace

from sessioncompress.compressors import KINDS, View
from sessioncompress.core.model import Block, Change, JsonPath, Kind, Treatment
from sessioncompress.pipeline import plan as planning
from sessioncompress.pipeline.plan import Plan, plan
from sessioncompress.policy.model import BALANCED
from tests.support.build import PiSession
from tests.support.runs import view_of

LONG = "a line of output\n" * 300
Propose = Callable[[View], Iterable[Change]]


def session() -> bytes:
    """Return a session with three old results (lines 3, 5, 7) and one in the last turn (line 10)."""
    made = PiSession()
    made.user("Go.")
    for number in range(3):
        made.step("bash", {"command": f"make {number}"}, LONG + str(number))
    made.user("And?")
    made.step("bash", {"command": "make more"}, LONG)
    return made.bytes()


def planned(
    monkeypatch: pytest.MonkeyPatch,
    *proposals: Propose,
    known: frozenset[int] = frozenset(),
    left: frozenset[int] = frozenset(),
) -> Plan:
    """Plan the session with these compressors instead of ours."""
    monkeypatch.setattr(planning, "COMPRESSORS", proposals)
    return plan(view_of(session()), known, left)


def change(view: View, line: int, saves: int = 4000, group: int = 0, path: JsonPath = ()) -> Change:
    block = view.lines[line].blocks[0]
    return Change(line, path or block.path, Treatment.REFERENCE, saves, block, group=group)


def _one(saves: int, view: View) -> list[Change]:
    return [change(view, 3, saves)]


def test_the_first_to_claim_a_value_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned(
        monkeypatch, lambda view: [change(view, 3, 4000)], lambda view: [change(view, 3, 4001), change(view, 5)]
    )
    assert [one.saves for one in found[3]] == [4000]
    assert list(found) == [3, 5]


def test_a_line_changes_only_where_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal's records and the line's original are counted."""
    size = view_of(session()).lines[3].size
    enough = (250 + size // 5 + 280) // 2 + 1
    for saves, pays in ((enough, True), (enough - 1, False), (0, False), (-5, False)):
        found = planned(monkeypatch, partial(_one, saves))
        assert bool(found) == pays, saves


def test_a_line_whose_original_is_stored_already_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    few = (250 + 280) // 2 + 1
    assert planned(monkeypatch, lambda view: [change(view, 3, few)]) == {}
    assert list(planned(monkeypatch, lambda view: [change(view, 3, few)], known=frozenset({3}))) == [3]


def test_what_no_model_reads_is_worth_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror's bytes are sent to nobody."""

    def mirrored(view: View, saves: int) -> list[Change]:
        block = view.lines[3].blocks[0]._replace(kind=Kind.MIRROR)
        return [Change(3, block.path, Treatment.REMOVE, saves, block)]

    cost = 250 + view_of(session()).lines[3].size // 5 + 190
    assert planned(monkeypatch, lambda view: mirrored(view, cost)) == {}
    assert list(planned(monkeypatch, lambda view: mirrored(view, cost + 1))) == [3]


def test_small_changes_ride_on_a_line_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are written anyway; also where only a group makes it pay."""

    def small(group: int, view: View) -> list[Change]:
        return [change(view, 3, 4000, group=group), change(view, 3, 200, path=("message", "x"))]

    for group in (0, 1):
        assert len(planned(monkeypatch, partial(small, group))[3]) == 2


def test_a_group_pays_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its small changes ride on its large ones, over several lines."""
    found = planned(
        monkeypatch,
        lambda view: [change(view, 3, 4000, group=1), Change(5, ("x",), Treatment.SET, 9, group=1, value="y")],
    )
    assert list(found) == [3, 5]
    alone = planned(monkeypatch, lambda view: [Change(5, ("x",), Treatment.SET, 9, group=1, value="y")])
    assert alone == {}


def test_changes_are_in_the_order_of_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned(monkeypatch, lambda view: [change(view, number) for number in (7, 3, 5)])
    assert list(found) == [3, 5, 7]


BLOCKS = [
    (Block(Kind.ARGUMENT, (), 500, 500), False),
    (Block(Kind.ARGUMENT, (), 501, 501), False),
    (Block(Kind.ARGUMENT, (), 2001, 2001, marked=True), False),
    (Block(Kind.ARGUMENT, (), 2001, 2001), True),
    (Block(Kind.RESULT, (), 1000, 1000), False),
    (Block(Kind.RESULT, (), 1001, 1001), True),
    (Block(Kind.IMAGE, (), 300, 300), True),
    (Block(Kind.IMAGE, (), 100, 0, marked=True), False),
    (Block(Kind.THINKING, (), 10, 10), True),
    (Block(Kind.MIRROR, (), 300, 300), True),
]


@pytest.mark.parametrize(
    ("block", "expected"), BLOCKS, ids=[f"{block.kind}-{block.size}-{block.marked}" for block, _ in BLOCKS]
)
def test_over_which_size_a_block_counts(block: Block, expected: bool) -> None:
    assert KINDS[block.kind].counts(block, BALANCED) == expected
    assert not KINDS[Kind.THINKING].counts(Block(Kind.THINKING, (), 10, 10), replace(BALANCED, strip_thinking=False))
