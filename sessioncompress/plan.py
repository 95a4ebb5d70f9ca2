"""View to changes: the one place that decides. It guards protection and groups, and that every change pays.

Compressors only propose. Here the first of the table to claim a value has it, nothing protected is touched, and a
line changes only where that is worth what the journal and the original of the line will take on disk. Bytes that a
model reads count twice: they are sent with every request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sessioncompress.compressors import COMPRESSORS, View
from sessioncompress.model import Block, Change, Kind, Path, Standing
from sessioncompress.policy import Policy

_LINE_RECORD = 250
"""Bytes that the journal takes for a rewritten line."""

_BLOCK_RECORD = {Kind.ARGUMENT: 280, Kind.RESULT: 280, Kind.THINKING: 140, Kind.IMAGE: 280, Kind.MIRROR: 190}
"""Bytes that the journal takes for a replaced block."""

_ORIGINAL_SHARE = 5
"""zstd makes the original of a line about so many times smaller."""

NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to change, line by line, in document order; and how many bytes were in question."""

    changes: Mapping[int, tuple[Change, ...]]
    removable: int
    protected: int


def plan(view: View, known: frozenset[int] = NOTHING, left_alone: frozenset[int] = NOTHING) -> Plan:
    """Decide what changes. `known` lines are our own rewritings (their originals are stored already).

    `left_alone` lines turned out not to bear a change; a group with one of them is dropped whole.
    """
    proposed = _claimed(view, left_alone)
    worth = _worth(view, proposed, known)
    changes = {number: tuple(found) for number, found in sorted(worth.items())}
    removable, protected = _in_question(view)
    return Plan(changes, removable, protected)


def _claimed(view: View, left_alone: frozenset[int]) -> list[Change]:
    taken: set[tuple[int, Path]] = set()
    claimed: list[Change] = []
    broken: set[int] = set()
    for compressor in COMPRESSORS:
        for change in compressor(view):
            if change.line in left_alone or view.standing[change.line] is Standing.PROTECTED:
                broken.add(change.group)
            elif (change.line, change.path) not in taken:
                taken.add((change.line, change.path))
                claimed.append(change)
    return [change for change in claimed if not change.group or change.group not in broken]


def _worth(view: View, proposed: Iterable[Change], known: frozenset[int]) -> dict[int, list[Change]]:
    """Keep the lines whose changes save more than they cost, then the groups that still do beside them."""
    alone: dict[int, list[Change]] = defaultdict(list)
    groups: dict[int, list[Change]] = defaultdict(list)
    for change in proposed:
        (groups[change.group] if change.group else alone[change.line]).append(change)
    worth = {number: changes for number, changes in alone.items() if _gain(view, changes) > _cost(view, number, known)}
    for changes in groups.values():
        numbers = {change.line for change in changes}
        new = [number for number in numbers if number not in worth]
        beside = [change for number in new for change in alone.get(number, ())]
        if _gain(view, changes) + _gain(view, beside) > sum(_cost(view, number, known) for number in new):
            for number in new:
                worth[number] = list(alone.get(number, ()))
            for change in changes:
                worth[change.line].append(change)
    return worth


def _gain(view: View, changes: Iterable[Change]) -> int:
    """Return what changes are worth, beside their own records in the journal."""
    return sum(_worth_of(change, dead=view.standing[change.line] is Standing.DEAD) for change in changes)


def _worth_of(change: Change, *, dead: bool) -> int:
    if change.block is None:
        return change.saves
    unread = dead or change.block.kind is Kind.MIRROR
    return change.saves * (1 if unread else 2) - _BLOCK_RECORD[change.block.kind]


def _cost(view: View, number: int, known: frozenset[int]) -> int:
    return _LINE_RECORD + (0 if number in known else view.lines[number].size // _ORIGINAL_SHARE)


def _in_question(view: View) -> tuple[int, int]:
    """Return the bytes of all blocks over their kind's threshold: outside the protected part, and inside."""
    removable = protected = 0
    for number, line in enumerate(view.lines):
        for block in line.blocks:
            if counts(block, view.policy) and view.origin(block) is None:
                if is_whole(view, number, block):
                    protected += block.size
                else:
                    removable += block.size
    return removable, protected


def is_whole(view: View, number: int, block: Block) -> bool:
    """Say whether the policy keeps this block as it is."""
    latest = block.kind is Kind.THINKING and number == view.latest_thinking
    return view.standing[number] is Standing.PROTECTED or latest or view.stays(number, block)


def counts(block: Block, policy: Policy) -> bool:
    """Say whether a block is over its kind's threshold; a marked leaf is counted with the call it stands in."""
    if block.kind is Kind.ARGUMENT:
        return block.size > policy.call_limit and not block.marked
    if block.kind is Kind.IMAGE:
        return not block.marked
    if block.kind is Kind.RESULT:
        return block.size > policy.result_limit
    return policy.strip_thinking if block.kind is Kind.THINKING else True
