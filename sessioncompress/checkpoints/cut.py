"""The cut of a session: how much of the recent conversation stays, and at which lines it may begin. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sessioncompress.core.checkpoint import Cut
from sessioncompress.core.lines import SPOKEN, Lines, Survey, turns_on
from sessioncompress.core.model import Role
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, estimate
from sessioncompress.policy.model import Compact, CutRule


class NoCut(NamedTuple):
    """The reason why a session is not cut."""

    reason: str


def find_cut(read: Survey, policy: Compact, *, splits: bool) -> Cut | NoCut:
    """Cut a session at the first allowed place at or after the wanted one, or else at the last one before it.

    With the rules that count tokens, the last place before it also wins if less than half of the wanted tokens would
    stay otherwise, because one step may be large. The kept part begins with a prompt (with `splits` also with an
    answer) and the silent entries just before it, but never between a call and its result.
    """
    order = for_the_model(read)
    lines = read.lines
    turns = turns_on(lines, order)
    messages = [position for position, number in enumerate(order) if lines.roles[number] in SPOKEN]
    wanted = _wanted(lines, order, turns, messages, policy)
    is_compacted = order and lines.roles[order[0]] is Role.CHECKPOINT
    if wanted is None or not messages:
        behind = " since it was compacted" if is_compacted else ""
        return NoCut("it has no user request" if messages else f"it has no messages{behind}")
    if wanted <= messages[0]:
        compacted = "it is compacted already: " if is_compacted else ""
        return NoCut(f"{compacted}nothing is old enough to summarize")
    starts = sorted({*turns, *_answers(lines, order)} if splits else turns)
    allowed = [start for start in _outside_pairs(lines, order, starts) if start > 0]
    if not allowed:
        return NoCut("there is no place at which it could be cut" if splits else "it holds a single request")
    start = next((each for each in allowed if each >= wanted), allowed[-1])
    if policy.keep in (CutRule.TOKENS, CutRule.SHARE):
        reads = [lines[number].reads for number in order]
        before = [each for each in allowed if each < wanted]
        start = before[-1] if before and sum(reads[start:]) * 2 < _characters(reads, policy) else start
    splits_turn = start not in turns
    while start > 1 and is_silent(lines, order[start - 1]):
        start -= 1
    old, kept = order[:start], order[start:]
    said = [lines[number].reads for number in old if lines.roles[number] in SPOKEN]
    if not said:
        return NoCut("nothing was said before what stays")
    if (dead := estimate(sum(said))) < policy.min_dead_tokens:
        least = f"the minimum is {policy.min_dead_tokens:,} (minDeadTokens)"
        return NoCut(f"only {dead:,} tokens (4 characters each) are old enough to summarize; {least}")
    return Cut(old, kept, splits_turn)


def for_the_model(read: Survey) -> list[int]:
    """Return the live lines in the order in which the model reads them: a checkpoint before the lines that it keeps."""
    lines, (live, dead) = read.lines, read.shape
    last = next((at for at in range(len(live) - 1, -1, -1) if lines.roles[live[at]] is Role.CHECKPOINT), None)
    there = [number for number in live if number not in dead]
    if any(lines.facts[number].edits for number in there):
        # An edit replaces the entry that it edits.
        places = {lines.ids[number]: at for at, number in enumerate(live)}
        edited = {number: lines.facts[number].edits for number in there if lines[number].reads}
        there.sort(key=lambda number: places.get(edited.get(number, ""), places[lines.ids[number]]))
    if last is None:
        return there
    checkpoint = live[last]
    return [checkpoint, *(number for number in there if number != checkpoint)]


def _wanted(
    lines: Lines, order: Sequence[int], turns: Sequence[int], messages: Sequence[int], policy: Compact
) -> int | None:
    """Return the position where the rule lets the kept part begin, or None if there is nothing to count."""
    newest = {CutRule.SINCE_PROMPT: (turns, 1), CutRule.TURNS: (turns, policy.keep_turns)}
    newest[CutRule.MESSAGES] = (messages, policy.keep_messages)
    if policy.keep in newest:
        places, number = newest[policy.keep]
        return places[max(len(places) - number, 0)] if places else None
    if not messages:
        return None
    reads = [lines[number].reads for number in order]
    most = _characters(reads, policy)
    position = len(order)
    while position and most > 0:
        position -= 1
        most -= reads[position]
    return position


def _characters(reads: Sequence[int], policy: Compact) -> float:
    if policy.keep is CutRule.SHARE:
        return sum(reads) * policy.keep_share
    return policy.keep_tokens * CHARACTERS_PER_TOKEN


def _answers(lines: Lines, order: Sequence[int]) -> list[int]:
    """Return the positions where answers begin; an answer in several lines counts once."""
    found = []
    seen: set[str] = set()
    for position, number in enumerate(order):
        response = lines.responses[number]
        if lines.roles[number] is Role.ASSISTANT and not (response and response in seen):
            found.append(position)
        seen.add(response)
    return found


def _outside_pairs(lines: Lines, order: Sequence[int], starts: Sequence[int]) -> list[int]:
    """Drop the starts between a call and its result, or inside an answer."""
    inside = [0] * (len(order) + 1)
    called: dict[str, int] = {}
    begun: dict[str, int] = {}

    def close(first: int, last: int) -> None:
        inside[first + 1] += 1
        inside[last + 1] -= 1

    for position, number in enumerate(order):
        line = lines[number]
        if line.response:
            close(begun.setdefault(line.response, position), position)
        for call in line.calls:
            called[call.id] = position
        for name in line.facts.several or (line.answers,):
            if name in called:
                close(called[name], position)
    depth, found = 0, []
    wanted = frozenset(starts)
    for position in range(len(order)):
        depth += inside[position]
        if not depth and position in wanted:
            found.append(position)
    return found


def is_silent(lines: Lines, number: int) -> bool:
    """True if a line is not a message and the model reads nothing of it."""
    return lines.roles[number] is Role.OTHER and not lines[number].reads
