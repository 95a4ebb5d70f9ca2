"""Attachments: what the agent itself put in stays, but where the live path says it again, or no model reads it."""

from __future__ import annotations

from collections.abc import Iterator

from sessioncompress.compressors.base import Context, View
from sessioncompress.compressors.preview import Wording, reference
from sessioncompress.compressors.results import MARKER_BYTES
from sessioncompress.model import Change, Kind, Replacement, Treatment
from sessioncompress.splice import literal


def propose(view: View) -> Iterator[Change]:
    """Offer what has become dead history."""
    for number, block in view.blocks(Kind.ATTACHMENT, MARKER_BYTES):
        if view.treatment(number) is Treatment.REFERENCE and not view.holds_ours(block):
            yield Change(number, block.path, Treatment.REFERENCE, block.size - MARKER_BYTES, block)


def render(change: Change, text: str, context: Context) -> Iterator[Replacement]:
    """Put the reference in its place, with what it repeats."""
    content = text.encode()
    new = reference(text, Wording(context.refer(content)), change.note)
    yield Replacement(change.path, new, change, len(literal(text)), literal(new), content)
