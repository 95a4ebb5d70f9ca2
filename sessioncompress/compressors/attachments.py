"""What was put beside the text: images become one line that says type, size and reference; attachments mostly stay.

An attachment is text that the agent itself put in. It goes where the live path says it again, or no model reads it. In
a session at rest the agent's lists of skills, agents and tools go too: it makes them anew for whoever works on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessioncompress.compressors.base import Context, View
from sessioncompress.compressors.preview import LEAST_GAIN, MARKER_BYTES, Wording, reference
from sessioncompress.core import marker
from sessioncompress.core.model import Change, Kind, Replacement, Standing, Treatment
from sessioncompress.core.splice import literal

_IMAGE_KEEPS = 160


def propose(view: View) -> Iterator[Change]:
    """Offer images larger than their line, attachments that are dead, and in a session at rest what lists things."""
    for number, block in view.blocks(Kind.IMAGE):
        if block.size > _IMAGE_KEEPS and not block.marked:
            yield Change(number, block.path, Treatment.REFERENCE, block.size - _IMAGE_KEEPS, block)
    for number, block in view.blocks(Kind.ATTACHMENT, MARKER_BYTES + LEAST_GAIN):
        listed = view.policy.at_rest and block.tool in view.form.listings
        if (listed or view.standing[number] is Standing.DEAD) and not view.holds_ours(block):
            yield Change(number, block.path, Treatment.REFERENCE, block.size - MARKER_BYTES, block)


def render_image(change: Change, part: Any, context: Context) -> Iterator[Replacement]:
    """Put a text part in the image's place; the reference names its data, as base64 as it was.

    What stands there without a part around it leaves an empty text: no word would be taken for one.
    """
    form = context.view.form
    media, data = form.image(part)
    if not data:
        return
    content = data.encode()
    what = f"{marker.name(media or 'image')}, {marker.amount(len(data) * 3 // 4)}"
    named = marker.marker(what, context.refer(content))
    new = form.text_part(named) if isinstance(part, dict) else ""
    size = change.block.size if change.block else 0
    yield Replacement(change.path, new, change, size, literal(new), content)


def render(change: Change, text: str, context: Context) -> Iterator[Replacement]:
    """Put the reference in an attachment's place, with what it repeats."""
    content = text.encode()
    new = reference(text, Wording(context.refer(content)), change.note)
    yield Replacement(change.path, new, change, len(literal(text)), literal(new), content)
