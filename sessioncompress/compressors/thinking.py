"""Thinking: taken out whole, never shortened, never unsigned, never from the latest message that has any."""

from __future__ import annotations

from collections.abc import Iterator

from sessioncompress.compressors import ties
from sessioncompress.compressors.base import Context, View
from sessioncompress.core.marker import content_of
from sessioncompress.core.model import Change, Kind, Replacement, Treatment
from sessioncompress.core.splice import REMOVED, literal


def propose(view: View) -> Iterator[Change]:
    """Offer the thinking of every message but the latest; where ids hang on it, together with them."""
    if not view.policy.strip_thinking:
        return
    loosened = ties.loosened(view)
    tied = frozenset(view.tied)
    first: dict[str, int] = {}
    for number, block in view.blocks(Kind.THINKING):
        response = view.lines.responses[number]
        if response and response not in view.speaking:
            continue
        if number not in view.latest_thinking and (number not in tied or number in loosened):
            group = ties.group_of(number) if number in tied else 0
            if response:
                # All thinking of a message goes or none.
                group = ties.group_of(first.setdefault(response, number))
            yield Change(number, block.path, Treatment.REMOVE, block.size, block, group=group)
    for number in sorted(loosened):
        yield from ties.changes(view, number, ties.group_of(first.get(view.lines.responses[number], number)))


def render(change: Change, value: object, context: Context) -> Iterator[Replacement]:
    """Take the block out."""
    del context
    content = content_of(value, Kind.THINKING)
    yield Replacement(change.path, REMOVED, change, len(literal(value)), b"", content)
