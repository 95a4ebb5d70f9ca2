"""A result in the words with which its agent itself clears one, and what the agent notes beside them."""

from __future__ import annotations

from sessioncompress.compressors.base import Context
from sessioncompress.core.model import Block, Change, Replacement
from sessioncompress.core.splice import Added, literal


def render(change: Change, block: Block, text: str, reference: str, context: Context) -> list[Replacement]:
    """Return what takes a result's place; nothing where its agent has no words for it.

    Where the agent says its words only to the model, it is the `reference` that stands in the session.
    """
    found = context.view.form.cleared(context.entry, block, text, context.view.now)
    if found is None:
        return []
    new = reference if found.text is None else found.text
    bare = change._replace(block=None)
    flags = (Replacement(path, Added(value), bare, 0, b"") for path, value in found.flags.items())
    return [Replacement(change.path, new, change, block.size, literal(new), text.encode()), *flags]
