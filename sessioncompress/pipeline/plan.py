"""View to changes: the one place that decides. It guards protection and groups, and that every change pays.

Compressors only propose. Here the first of the table to claim a value has it, nothing protected is touched, and a
line changes only where that is worth what the journal and the original of the line will take on disk. Bytes that a
model reads count twice: they are sent with every request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sessioncompress.compressors import COMPRESSORS, View
from sessioncompress.core.model import Change, JsonPath, Kind, Standing
from sessioncompress.policy.model import Policy

_LINE_RECORD = 250
"""Bytes that the journal takes for a rewritten line."""

_BLOCK_RECORD = {
    Kind.ARGUMENT: 280,
    Kind.RESULT: 280,
    Kind.THINKING: 140,
    Kind.IMAGE: 280,
    Kind.MIRROR: 190,
    Kind.ATTACHMENT: 280,
}
"""Bytes that the journal takes for a replaced block."""

_ORIGINAL_SHARE = 5
"""zstd makes the original of a line about so many times smaller."""

NOTHING: frozenset[int] = frozenset()
NONE_KNOWN = b""

_NOT_TO_BE_HAD = -(1 << 40)
"""Bytes. A group with such a change is never worth it."""


Plan = Mapping[int, tuple[Change, ...]]
"""What is to change, line by line, in document order."""


def plan(view: View, known: bytes = NONE_KNOWN, left_alone: frozenset[int] = NOTHING) -> Plan:
    """Decide what changes. `known` is not 0 for each line that is our own rewriting: its original is stored.

    `left_alone` lines turned out not to bear a change; a group with one of them is dropped whole.
    """
    by_line: dict[int, list[Change]] = {}
    for change in _worth(view, *_claimed(view, left_alone), known):
        by_line.setdefault(change.line, []).append(change)
    return {number: tuple(by_line[number]) for number in sorted(by_line)}


def _claimed(view: View, left_alone: frozenset[int]) -> tuple[list[Change], list[int]]:
    """Return what may be done, and what each change is worth. What a group cannot have whole is worth nothing."""
    taken: set[tuple[int, JsonPath]] = set()
    standing = view.standing
    claimed: list[Change] = []
    gains: list[int] = []
    broken: set[int] = set()
    for compressor in COMPRESSORS:
        for change in compressor(view):
            line, path, *_ = change
            if line in left_alone or not view.allows(change):
                broken.add(change.group)
            elif (value := (line, path)) not in taken:
                taken.add(value)
                claimed.append(change)
                gains.append(_worth_of(change, dead=standing[line] is Standing.DEAD))
    broken.discard(0)
    for index, change in enumerate(claimed) if broken else ():
        if change.group in broken:
            gains[index] = _NOT_TO_BE_HAD
    return claimed, gains


def _worth(view: View, changes: Sequence[Change], gains: Sequence[int], known: bytes) -> Iterator[Change]:
    """Yield the changes of the lines where they are worth more than they cost, and the groups that still are beside."""
    alone: dict[int, int] = {}
    groups: dict[int, list[int]] = {}
    for index, (change, gain) in enumerate(zip(changes, gains, strict=True)):
        if change.group:
            groups.setdefault(change.group, []).append(index)
        else:
            alone[change.line] = alone.get(change.line, 0) + gain
    worth = bytearray(len(view.lines))
    for number, gain in alone.items():
        worth[number] = gain > _cost(view, number, known)
    accepted = set()
    for group, indexes in groups.items():
        new = {changes[index].line for index in indexes if not worth[changes[index].line]}
        gain = sum(gains[index] for index in indexes) + sum(alone.get(number, 0) for number in new)
        if gain > sum(_cost(view, number, known) for number in new):
            accepted.add(group)
            for number in new:
                worth[number] = True
    for change in changes:
        if change.group in accepted if change.group else worth[change.line]:
            yield change


def _worth_of(change: Change, *, dead: bool) -> int:
    if change.block is None:
        return change.saves
    unread = dead or change.block.kind is Kind.MIRROR
    return change.saves * (1 if unread else 2) - _BLOCK_RECORD[change.block.kind]


def _cost(view: View, number: int, known: bytes) -> int:
    if number < len(known) and known[number]:
        return _LINE_RECORD
    return _LINE_RECORD + view.lines[number].size // _ORIGINAL_SHARE


def in_question(view: View, numbers: Iterable[int]) -> tuple[int, int]:
    """Return the bytes of these lines' blocks over their kind's threshold: of those that may go, and that stay."""
    removable = protected = 0
    for number in numbers:
        for block in view.lines[number].blocks:
            if not counts(block.kind, block.size, view.policy, marked=block.marked):
                continue
            if block.marked and view.holds_ours(block):
                continue
            if view.is_whole(number, block):
                protected += block.size
            else:
                removable += block.size
    return removable, protected


def counts(kind: Kind, size: int, policy: Policy, *, marked: bool) -> bool:
    """Say whether a block is over its kind's threshold; a marked leaf is counted with the call it stands in."""
    if kind is Kind.ARGUMENT:
        return size > policy.call_limit and not marked
    if kind is Kind.IMAGE:
        return not marked
    if kind is Kind.RESULT:
        return size > policy.result_limit
    if kind is Kind.ATTACHMENT:
        return False
    return policy.strip_thinking if kind is Kind.THINKING else True
