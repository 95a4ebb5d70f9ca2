"""Attachments: what the agent itself put in stays, but where the live path says it again, or no model reads it.

In a session at rest its lists of skills, agents and tools go too: it makes them anew for whoever works on.
"""

from __future__ import annotations

from collections.abc import Iterator

from sessioncompress.compressors.base import Context, View
from sessioncompress.compressors.preview import MARKER_BYTES, Wording, reference
from sessioncompress.core.model import Change, Kind, Replacement, Standing, Treatment
from sessioncompress.core.splice import literal


def propose(view: View) -> Iterator[Change]:
    """Offer what has become dead history, and in a session at rest what lists what the agent has."""
    for number, block in view.blocks(Kind.ATTACHMENT, MARKER_BYTES):
        listed = view.policy.at_rest and block.tool in view.form.listings
        if (listed or view.standing[number] is Standing.DEAD) and not view.holds_ours(block):
            yield Change(number, block.path, Treatment.REFERENCE, block.size - MARKER_BYTES, block)


def render(change: Change, text: str, context: Context) -> Iterator[Replacement]:
    """Put the reference in its place, with what it repeats."""
    content = text.encode()
    new = reference(text, Wording(context.refer(content)), change.note)
    if (frame := context.view.form.frame) and (framed := frame.fullmatch(text)):
        new = f"{framed[1]}{new}{framed[2]}"
    yield Replacement(change.path, new, change, len(literal(text)), literal(new), content)
