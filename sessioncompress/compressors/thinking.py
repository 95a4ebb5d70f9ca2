"""Thinking: removed whole, never shortened, never unsigned, never from the latest message that has any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sessioncompress.compressors.base import Context, View
from sessioncompress.core.model import Change, Kind, Protection, Replacement, Treatment
from sessioncompress.core.references import content_of
from sessioncompress.core.splice import REMOVED, literal


def propose(view: View) -> Iterator[Change]:
    """Offer the thinking of every message except the latest; if ids are tied to it, they change together."""
    if not view.policy.strip_thinking:
        return
    loosened = loosened_lines(view)
    tied = frozenset(view.tied)
    first: dict[str, int] = {}
    for number, block in view.blocks(Kind.THINKING):
        response = view.lines.responses[number]
        if response and response not in view.speaking:
            continue
        if number not in view.latest_thinking and (number not in tied or number in loosened):
            group = group_of(number) if number in tied else 0
            if response:
                # All thinking of a message is removed, or none.
                group = group_of(first.setdefault(response, number))
            yield Change(number, block.path, Treatment.REMOVE, block.size, block, group=group)
    for number in sorted(loosened):
        yield from _loosen(view, number, group_of(first.get(view.lines.responses[number], number)))


def group_of(number: int) -> int:
    """The group of the changes that are tied to the thinking of this line."""
    return number + 1


def _loosen(view: View, number: int, group: int) -> Iterator[Change]:
    """Yield the changes to the ties of one loosened line, and of the results of its calls."""
    line = view.lines[number]
    cut = {tie.value for tie in line.facts.ties if tie.value}
    ids = {call.id for call in line.calls if call.name in cut}
    results = (answer for answer in view.answers.get(number, ()) if view.lines[answer].answers in ids)
    for each in (number, *results):
        ties, blocks = view.lines.facts[each].ties, view.lines[each].blocks
        by_path = {block.path: block for block in blocks} if ties else {}
        for tie in ties:
            treatment = Treatment.REMOVE if tie.value is None else Treatment.SET
            block = by_path.get(tie.path)
            saves = block.size if block else tie.size
            yield Change(each, tie.path, treatment, saves, block, value=tie.value, group=group)


def loosened_lines(view: View) -> frozenset[int]:
    """Return the lines whose thinking and ties can all go: none is protected, and no shortened id becomes ambiguous."""
    if view.loosened is not None:
        return view.loosened
    if not view.policy.strip_thinking or not view.tied:
        return frozenset()
    responses = view.lines.responses
    # The session's call ids after cutting every item id, including ids that only results name.
    cut = {tie.value for facts in view.lines.facts for tie in facts.ties if tie.value}
    ids = ((call.id, call.id.partition("|")[0]) for line in view.lines for call in line.calls)
    names = Counter(short if short in cut else whole for whole, short in ids)
    names.update(line.answers for line, call in zip(view.lines, view.asked, strict=True) if call is None)
    lines_of: dict[str, list[int]] = {name: [] for number in view.tied if (name := responses[number])}
    for number, name in enumerate(responses) if lines_of else ():
        if name in lines_of:
            lines_of[name].append(number)
    going = {name for name, numbers in lines_of.items() if _response_may_go(view, numbers)}
    view.loosened = frozenset(
        number
        for number in view.tied
        if number not in view.latest_thinking
        and (responses[number] in going if responses[number] else _line_may_go(view, number, names))
    )
    return view.loosened


def _response_may_go(view: View, numbers: Sequence[int]) -> bool:
    """True if a response in several lines may lose its thinking: it has some, and all may change."""
    facts = view.lines.facts
    thinks = [number for number in numbers if facts[number].thinks]
    bound = [number for number in numbers if facts[number].thinks or facts[number].ties or facts[number].sealed]
    return (
        bool(thinks)
        and view.lines.responses[numbers[0]] in view.speaking
        and all(_may_change(view, number) and number not in view.latest_thinking for number in bound)
        and all(_holds_thinking(view, number) for number in thinks)
    )


def _line_may_go(view: View, number: int, names: Counter[str]) -> bool:
    """True if a message in one line may lose its thinking: it loses all, no id is taken, and its results may change."""
    facts = view.lines.facts[number]
    if facts.thinks and not _holds_thinking(view, number):
        return False
    if not facts.thinks and not facts.bound:
        return False
    if any(names[tie.value] > 1 for tie in facts.ties if tie.value):
        return False
    return all(_may_change(view, answer) for answer in view.answers.get(number, ()))


def _holds_thinking(view: View, number: int) -> bool:
    return any(block.kind is Kind.THINKING for block in view.lines[number].blocks)


def _may_change(view: View, number: int) -> bool:
    return view.standing[number] is not Protection.PROTECTED and not view.lines.facts[number].sealed


def render(change: Change, value: object, context: Context) -> Iterator[Replacement]:
    """Remove the block."""
    del context
    yield Replacement(change.path, REMOVED, change, len(literal(value)), b"", content_of(value, Kind.THINKING))
