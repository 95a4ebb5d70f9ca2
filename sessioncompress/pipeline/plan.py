"""Turn a view into changes. This is the only module that decides; it also checks the result before a commit.

Compressors only propose. The first compressor in the table to claim a value gets it, protected lines stay, and a line
changes only if the gain exceeds the disk space for its journal records and original. Bytes that a model reads count
twice, because every request sends them. A group of changes is applied completely or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping

from sessioncompress.compressors import COMPRESSORS, KINDS, View, beside, redundancy
from sessioncompress.compressors.preview import LEAST_GAIN
from sessioncompress.core.lines import Lines, callers
from sessioncompress.core.model import Block, Change, JsonPath, Kind, Line, Protection
from sessioncompress.errors import Damaged

Plan = Mapping[int, tuple[Change, ...]]
"""The changes of each line, in document order."""


def plan(view: View, known: Container[int], left_alone: Container[int]) -> Plan:
    """Decide what changes. The lines in `known` were rewritten by an earlier run, so their originals are stored.

    The lines in `left_alone` turned out not to accept a change. A group that includes one is dropped.
    """

    def cost(number: int) -> int:
        if view.policy.commit_originals == "history":
            # Nothing is stored, and git packs the original well. But it packs the digests in the record badly.
            return 2500
        # A rewritten line takes 250 bytes in the journal, and zstd compresses its original about fivefold. A line from
        # an earlier run is stored too, but it is short.
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
    # Count a group's own gains, and also the gains of its lines that weren't worth their cost alone.
    for group, members in groups.items():
        new = {change.line for change, _ in members} - worth
        gain = sum(gain for _, gain in members) + sum(alone.get(number, 0) for number in new)
        if gain > sum(map(cost, new)):
            accepted.add(group)
            worth |= new

    def accepts(change: Change) -> bool:
        return change.group in accepted if change.group else change.line in worth

    # If an argument or result is replaced, replace its copy at any cost: `forget` must not leave the content in it.
    of_calls = [(each, each.block) for each, _ in claimed if each.block and each.block.call]
    calls = {block.call for each, block in of_calls if block.kind is not Kind.MIRROR and accepts(each)}
    worth.update(each.line for each, block in of_calls if block.kind is Kind.MIRROR and block.call in calls)
    by_line: dict[int, list[Change]] = {}
    for change, _ in claimed:
        if accepts(change):
            by_line.setdefault(change.line, []).append(change)
    return {number: tuple(by_line[number]) for number in sorted(by_line)}


def _claimed(view: View, left_alone: Container[int]) -> list[tuple[Change, int]]:
    """Return the changes to make, each with its gain in bytes. Drop groups that can't be applied completely."""
    taken: set[tuple[int, JsonPath]] = set()
    claimed: list[tuple[Change, int]] = []
    broken: set[int] = set()
    pruned = set[str]()
    """Calls whose results are pruned. With `only`, only their mirrors can be removed as well."""
    only = view.policy.prune.enabled and view.policy.prune.only
    for compressor in (redundancy.prune, beside.propose_mirrors) if only else COMPRESSORS:
        for change in compressor(view):
            line, path, _, saves, block, *_ = change
            if only and block is not None:
                if block.kind is Kind.MIRROR and block.call not in pruned:
                    continue
                pruned.add(block.call)
            if line in left_alone or not view.allows(change):
                broken.add(change.group)
            elif (value := (line, path)) not in taken:
                taken.add(value)
                if block is not None:
                    kind = KINDS[block.kind]
                    unread = not kind.read or view.standing[line] is Protection.DEAD
                    saves = saves * (1 if unread else 2) - record_of(block)
                claimed.append((change, saves))
    broken.discard(0)
    return [each for each in claimed if each[0].group not in broken] if broken else claimed


def in_question(view: View, numbers: Iterable[int]) -> tuple[int, int]:
    """Sum the bytes of these lines' blocks: the removable ones over the threshold, and the protected ones."""
    removable = protected = 0
    for number in numbers:
        for block in view.lines[number].blocks:
            if view.holds_ours(block):
                continue
            if view.is_whole(number, block):
                protected += block.size
            elif KINDS[block.kind].counts(block, view.policy):
                removable += block.size
    return removable, protected


def record_of(block: Block) -> int:
    """Return a replaced block's journal size in bytes. Small thinking has no record, because no marker names it."""
    return 0 if block.kind is Kind.THINKING and block.size < LEAST_GAIN else KINDS[block.kind].record


def check(view: View, after: Lines, changed: Collection[int], where: str) -> None:
    """Check that lines, their order and their links are the same after a rewrite, and that protected content stayed.

    A protected line may lose only free copies. Raises Damaged, which means a bug in this program; the session isn't
    changed.
    """
    before = view.lines
    if len(before) != len(after):
        raise broken("the number of lines differs", where)
    for number in changed:
        was, now = before[number], after[number]
        fault = ""
        if view.standing[number] is Protection.PROTECTED and not _stays(view, number, now):
            fault = "a protected line would change"
        elif (was.role, was.id, was.parent, was.facts.keeps) != (now.role, now.id, now.parent, now.facts.keeps):
            fault = "a line's type, id or parent would change"
        elif len(was.calls) != len(now.calls) or was.facts.failed != now.facts.failed:
            fault = "a line's calls or its error flag would change"
        elif now.size >= was.size:
            fault = "a line would grow"
        if fault:
            raise broken(fault, where, number)
    ids_differ = False
    for number, (was, now) in enumerate(zip(before, after, strict=True)):
        if was is now:
            continue
        if was.digest != now.digest and number not in changed:
            raise broken("a line would change that the plan does not name", where, number)
        ids_differ |= was.answers != now.answers or was.calls != now.calls
    if ids_differ and callers(before) != callers(after):
        raise broken("calls and their results would not stay together", where)


def _stays(view: View, number: int, after: Line) -> bool:
    """True if a protected line lost only copies that no one reads again."""
    before = view.lines[number]

    def rest(line: Line) -> Line:
        blocks = tuple(block._replace(tool="") for block in line.blocks if not view.is_free(number, block))
        return line._replace(size=0, digest=0, blocks=blocks)

    return any(view.is_free(number, block) for block in before.blocks) and rest(before) == rest(after)


def broken(what: str, where: str, number: int | None = None) -> Damaged:
    """Build the error for a rewrite that failed a check."""
    return Damaged(
        f"the rewritten session failed its check: {what}",
        where=where,
        line=None if number is None else number + 1,
        remedy="This is a bug in sessioncompress; please report it.",
    )
