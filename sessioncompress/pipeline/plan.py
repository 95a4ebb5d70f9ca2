"""View to changes: the one place that decides. It guards protection and groups, and that every change pays.

Compressors only propose. Here the first of the table to claim a value has it, nothing protected is touched, and a
line changes only where that is worth what the journal and the original of the line will take on disk. Bytes that a
model reads count twice: they are sent with every request.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from sessioncompress.compressors import COMPRESSORS, KINDS, View, record_of
from sessioncompress.core.model import Block, Change, JsonPath, Kind, Standing
from sessioncompress.policy.model import Policy

Plan = Mapping[int, tuple[Change, ...]]
"""What is to change, line by line, in document order."""


def plan(view: View, known: Container[int] = (), left_alone: Container[int] = ()) -> Plan:
    """Decide what changes. `known` lines are our own rewritings: their originals are stored.

    `left_alone` lines turned out not to bear a change; a group with one of them is dropped whole.
    """

    def cost(number: int) -> int:
        # The journal takes 250 bytes for a rewritten line, and zstd makes the original of one about 5 times smaller.
        # What an earlier run left is kept too, but it is short.
        return 250 + (0 if number in known else view.lines[number].size // 5)

    claimed = _claimed(view, left_alone)
    alone: dict[int, int] = {}
    groups: dict[int, list[tuple[Change, int]]] = {}
    for change, gain in claimed:
        if change.group:
            groups.setdefault(change.group, []).append((change, gain))
        else:
            alone[change.line] = alone.get(change.line, 0) + gain
    worth = {number for number, gain in alone.items() if gain > cost(number)}
    accepted = set()
    # A group is worth its own gains, and those of its lines that were not worth their cost without it.
    for group, members in groups.items():
        new = {change.line for change, _ in members} - worth
        gain = sum(gain for _, gain in members) + sum(alone.get(number, 0) for number in new)
        if gain > sum(map(cost, new)):
            accepted.add(group)
            worth |= new

    def accepts(change: Change) -> bool:
        return change.group in accepted if change.group else change.line in worth

    # A copy goes with what it copies, whatever it costs: `forget` would leave it.
    of_calls = [(each, each.block) for each, _ in claimed if each.block and each.block.call]
    calls = {block.call for each, block in of_calls if block.kind is not Kind.MIRROR and accepts(each)}
    worth.update(each.line for each, block in of_calls if block.kind is Kind.MIRROR and block.call in calls)
    by_line: dict[int, list[Change]] = {}
    for change, _ in claimed:
        if accepts(change):
            by_line.setdefault(change.line, []).append(change)
    return {number: tuple(by_line[number]) for number in sorted(by_line)}


def _claimed(view: View, left_alone: Container[int]) -> list[tuple[Change, int]]:
    """Choose what may be done, each change with its gain in bytes; of a group that cannot be had whole nothing is."""
    taken: set[tuple[int, JsonPath]] = set()
    claimed: list[tuple[Change, int]] = []
    broken: set[int] = set()
    for compressor in COMPRESSORS:
        for change in compressor(view):
            line, path, _, saves, block, *_ = change
            if line in left_alone or not view.allows(change):
                broken.add(change.group)
            elif (value := (line, path)) not in taken:
                taken.add(value)
                if block is not None:
                    kind = KINDS[block.kind]
                    unread = not kind.read or view.standing[line] is Standing.DEAD
                    saves = saves * (1 if unread else 2) - record_of(block)
                claimed.append((change, saves))
    broken.discard(0)
    return [each for each in claimed if each[0].group not in broken] if broken else claimed


def in_question(view: View, numbers: Iterable[int]) -> tuple[int, int]:
    """Sum up the bytes of these lines' blocks over their kind's threshold: of those that may go, and that stay."""
    removable = protected = 0
    for number in numbers:
        for block in view.lines[number].blocks:
            if not counts(block, view.policy) or view.holds_ours(block):
                continue
            if view.is_whole(number, block):
                protected += block.size
            else:
                removable += block.size
    return removable, protected


def counts(block: Block, policy: Policy) -> bool:
    """Tell whether a block is over its kind's threshold."""
    return KINDS[block.kind].counts(block, policy)
