"""Images in results and old prompts: one line of text that says type, size and reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessioncompress.compressors.base import Context, View
from sessioncompress.core import marker
from sessioncompress.core.model import Change, Kind, Replacement, Treatment
from sessioncompress.core.splice import literal

_KEEPS = 160


def propose(view: View) -> Iterator[Change]:
    """Offer every image that is larger than the line in its place."""
    for number, block in view.blocks(Kind.IMAGE):
        if block.size > _KEEPS and not block.marked:
            yield Change(number, block.path, Treatment.REFERENCE, block.size - _KEEPS, block)


def render(change: Change, part: Any, context: Context) -> Iterator[Replacement]:
    """Put a text part in the image's place; the reference names its data, as base64 as it was."""
    form = context.view.form
    media, data = form.image(part)
    content = data.encode()
    what = f"{marker.name(media or 'image')}, {marker.amount(len(data) * 3 // 4)}"
    new = form.text_part(marker.marker(what, context.refer(content)))
    size = change.block.size if change.block else 0
    yield Replacement(change.path, new, change, size, literal(new), content)
