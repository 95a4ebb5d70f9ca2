"""Mirrors: copies for the agent's screen that no model sees; taken out, or what the screen accepts in their place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessioncompress.compressors import thinking
from sessioncompress.compressors.base import Context, View
from sessioncompress.compressors.preview import Wording, reference
from sessioncompress.core.model import Change, Kind, Replacement, Role, Treatment
from sessioncompress.core.references import content_of
from sessioncompress.core.splice import REMOVED, literal


def propose(view: View) -> Iterator[Change]:
    """Offer every mirror, but of each state the newest one, as an extension may keep it beside a tool's results."""
    newest: dict[tuple[str, object, int], tuple[int, object] | None] = {}
    task = 0
    live = frozenset(view.survey.shape.live)
    # What has no id is on no other branch.
    for number in (each for each, name in enumerate(view.lines.ids) if each in live or not name):
        line = view.lines[number]
        task += line.facts.task or line.role is Role.USER
        for block in line.blocks:
            is_theirs = block.kind is Kind.MIRROR and block.tool and block.tool.lower() not in view.form.tools
            # Our own replacement is no state.
            if is_theirs and not view.holds_ours(block):
                is_state = not block.call or block.size <= view.form.longest_state
                of = block.tool, block.path, task if block.tool in view.form.of_tasks else 0
                # If the newest is removed, do not keep an older one instead.
                newest[of] = (number, block.path) if is_state else None
    stay = frozenset(newest.values())
    loosened = thinking.loosened_lines(view)
    for number, block in view.blocks(Kind.MIRROR):
        bound = view.lines.facts[number].bound
        # The state may be the newest one of another branch.
        elsewhere = block.tool and not block.call and view.lines.ids[number] and number not in live
        if (number, block.path) in stay or (bound and number not in loosened) or elsewhere:
            continue
        group = thinking.group_of(number) if bound else 0
        yield Change(number, block.path, Treatment.REMOVE, block.size, block, group=group)


def render(change: Change, value: Any, context: Context) -> Iterator[Replacement]:
    """Take the mirror out, or put in its place what the format says: of a text, the reference."""
    content = content_of(value, Kind.MIRROR)
    was = len(literal(value)) if isinstance(value, str) else len(content)
    new = context.view.form.stand_in(change.path, value)
    if new is Treatment.REFERENCE:
        unseen = change.block is not None and change.block.unseen
        # Nobody meets it again: no word is needed there.
        new = "" if unseen else reference(value, Wording(context.refer(content)))
    yield Replacement(change.path, new, change, was, b"" if new is REMOVED else literal(new), content)
    bare = context.view.form.bare
    for path, other in bare.items() if change.path in bare else ():
        if path != change.path:
            yield Replacement(path, other, change._replace(block=None), change.saves, literal(other))
