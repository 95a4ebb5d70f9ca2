"""Thinking: taken out whole, never shortened, never unsigned, never from the latest message that has any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sessioncompress.compressors.base import Context, View
from sessioncompress.core.marker import content_of
from sessioncompress.core.model import Change, Kind, Line, Replacement, Standing, Treatment
from sessioncompress.core.splice import REMOVED, literal

_LOOSENED = "loosened"


def group_of(number: int) -> int:
    """Return the group of the changes that hang on the thinking of this line."""
    return number + 1


def loosened_lines(view: View) -> frozenset[int]:
    """Return the lines whose thinking and ties can all go: none is protected, no id would stand for two calls."""
    found: frozenset[int] | None = view.found.get(_LOOSENED)
    if found is None:
        found = view.found[_LOOSENED] = _loosened(view)
    return found


def _loosened(view: View) -> frozenset[int]:
    if not view.policy.strip_thinking or not view.tied:
        return frozenset()
    names = _names(view)
    kept = {name for name, numbers in _spread(view).items() if not _may_go(view, numbers)}
    return frozenset(
        number
        for number in view.tied
        if number not in view.latest_thinking
        and (
            view.lines.responses[number] not in kept if view.lines.responses[number] else _all_free(view, number, names)
        )
    )


def changes(view: View, number: int, group: int) -> Iterator[Change]:
    """Yield the changes to the ties of one loosened line and of the results of its calls."""
    line = view.lines[number]
    yield from _own(number, line, group)
    cut = {tie.value for tie in line.facts.ties if tie.value}
    ids = {call.id for call in line.calls if call.name in cut}
    for answer in view.answers.get(number, ()):
        if view.lines[answer].answers in ids:
            yield from _own(answer, view.lines[answer], group)


def _own(number: int, line: Line, group: int) -> Iterator[Change]:
    blocks = {block.path: block for block in line.blocks} if line.facts.ties else {}
    for tie in line.facts.ties:
        treatment = Treatment.REMOVE if tie.value is None else Treatment.SET
        block = blocks.get(tie.path)
        saves = block.size if block else tie.size
        yield Change(number, tie.path, treatment, saves, block, value=tie.value, group=group)


def _spread(view: View) -> Mapping[str, Sequence[int]]:
    """Return the lines of the responses that an agent writes in several, and in which something is tied."""
    found: dict[str, list[int]] = {}
    for number in view.tied:
        if name := view.lines.responses[number]:
            found[name] = []
    for number, name in enumerate(view.lines.responses) if found else ():
        if name in found:
            found[name].append(number)
    return found


def _may_go(view: View, numbers: Sequence[int]) -> bool:
    """Say whether a response may lose its thinking: it has some, none of its lines must stay, one says something."""
    facts = view.lines.facts
    bound = [number for number in numbers if facts[number].thinks or facts[number].ties or facts[number].sealed]
    thinks = [number for number in numbers if facts[number].thinks]
    return (
        bool(thinks)
        and view.lines.responses[numbers[0]] in view.speaking
        and all(_may_change(view, number) and number not in view.latest_thinking for number in bound)
        and all(_holds_thinking(view, number) for number in thinks)
    )


def _holds_thinking(view: View, number: int) -> bool:
    return any(block.kind is Kind.THINKING for block in view.lines[number].blocks)


def _names(view: View) -> Counter[str]:
    """Count the call ids of the session as they would be with every item id cut, and those that only results name."""
    cut = {tie.value for facts in view.lines.facts for tie in facts.ties if tie.value}
    short = {name: name for name in cut}
    names = Counter(_cut(call.id, short) for line in view.lines for call in line.calls)
    names.update(line.answers for line, call in zip(view.lines, view.asked, strict=True) if call is None)
    return names


def _cut(call: str, short: dict[str, str]) -> str:
    return short.get(call.partition("|")[0], call)


def _all_free(view: View, number: int, names: Counter[str]) -> bool:
    """Say whether every line of the group may change and the message keeps no thinking."""
    line = view.lines[number]
    if line.facts.thinks and not _holds_thinking(view, number):
        return False
    if not line.facts.thinks and not line.facts.bound:
        return False
    if any(names[tie.value] > 1 for tie in line.facts.ties if tie.value):
        return False
    return all(_may_change(view, answer) for answer in view.answers.get(number, ()))


def _may_change(view: View, number: int) -> bool:
    return view.standing[number] is not Standing.PROTECTED and not view.lines.facts[number].sealed


def propose(view: View) -> Iterator[Change]:
    """Offer the thinking of every message but the latest; where ids hang on it, together with them."""
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
                # All thinking of a message goes or none.
                group = group_of(first.setdefault(response, number))
            yield Change(number, block.path, Treatment.REMOVE, block.size, block, group=group)
    for number in sorted(loosened):
        yield from changes(view, number, group_of(first.get(view.lines.responses[number], number)))


def render(change: Change, value: object, context: Context) -> Iterator[Replacement]:
    """Take the block out."""
    del context
    content = content_of(value, Kind.THINKING)
    yield Replacement(change.path, REMOVED, change, len(literal(value)), b"", content)
