"""Everything but texts of messages: an image becomes one line with type, size and reference; attachments mostly stay.

A document that is a text becomes a preview, like a result.

An attachment is text that the agent itself inserted. It is removed if the live path repeats it, or no model reads it.
In a session at rest, the agent's lists of skills, agents and tools are removed too: it writes new ones when someone
resumes.

Mirrors, which are copies for the agent's screen that no model sees, are removed, or replaced by what the screen
accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessioncompress.compressors import thinking
from sessioncompress.compressors.base import Context, View
from sessioncompress.compressors.names import ends_of
from sessioncompress.compressors.preview import LEAST_GAIN, MARKER_BYTES, Wording, preview, reference
from sessioncompress.core import marker
from sessioncompress.core.model import Change, Kind, Protection, Replacement, Role, Treatment
from sessioncompress.core.references import Attached, attached, content_of
from sessioncompress.core.splice import REMOVED, literal

_IMAGE_KEEPS = 160


def propose(view: View) -> Iterator[Change]:
    """Offer images larger than their line, dead attachments, and in a session at rest also listings."""
    for number, block in view.blocks(Kind.IMAGE):
        if block.size > _IMAGE_KEEPS and not block.marked:
            yield Change(number, block.path, view.treatment(number), block.size - _IMAGE_KEEPS, block)
    for number, block in view.blocks(Kind.ATTACHMENT, MARKER_BYTES + LEAST_GAIN):
        listed = view.policy.at_rest and block.tool in view.form.listings
        if (listed or view.standing[number] is Protection.DEAD) and not view.holds_ours(block):
            yield Change(number, block.path, Treatment.REFERENCE, block.size - MARKER_BYTES, block)


def render_image(change: Change, part: Any, context: Context) -> Iterator[Replacement]:
    """Replace an image with a text part; the reference names its data in the original base64.

    An image without a part around it leaves an empty text: there, any word would be taken for image data.
    """
    found, policy = attached(part), context.view.policy
    size = change.block.size if change.block else 0
    if not found.data or (found.is_text and size <= policy.result_limit):
        return
    content = found.content
    ref = context.refer(content)
    named = named_in_marker(found, ref)
    if found.is_text and change.treatment is Treatment.PREVIEW:
        text = content.decode(errors="replace")
        shown = preview(text, ends_of(len(text), policy), Wording(ref))
        if shown != text:
            named = f"{marker.name(found.title)}\n{shown}" if found.title else shown
    new = context.view.form.text_part(named, part) if isinstance(part, dict) else ""
    yield Replacement(change.path, new, change, size, literal(new), content)


def named_in_marker(found: Attached, ref: str | None, note: str = "") -> str:
    """Write a marker for an image or a document, with its title, type and size, and with what repeats it."""
    size = len(found.content) if found.is_text else len(found.data) * 3 // 4
    what = marker.name(found.title), marker.name(found.media or "image"), marker.amount(size), note
    return marker.marker(", ".join(filter(None, what)), ref)


def render_attachment(change: Change, text: str, context: Context) -> Iterator[Replacement]:
    """Replace an attachment with a reference and a note about the text that repeats it."""
    content = text.encode()
    new = reference(text, Wording(context.refer(content)), change.note)
    yield Replacement(change.path, new, change, len(literal(text)), literal(new), content)


def propose_mirrors(view: View) -> Iterator[Change]:
    """Offer every mirror except the newest of each state, which an extension may keep next to a tool's results."""
    newest: dict[tuple[str, object, int], tuple[int, object] | None] = {}
    task = 0
    live = frozenset(view.survey.shape.live)
    # Entries without an id are on no other branch.
    for number in (each for each, name in enumerate(view.lines.ids) if each in live or not name):
        line = view.lines[number]
        task += line.facts.task or line.role is Role.USER
        for block in line.blocks:
            is_theirs = block.kind is Kind.MIRROR and block.tool and block.tool.lower() not in view.form.tools
            # Our own replacement is not a state.
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


def render_mirror(change: Change, value: Any, context: Context) -> Iterator[Replacement]:
    """Remove the mirror, or replace it as the format requires: with a reference if it is a text."""
    content = content_of(value, Kind.MIRROR)
    was = len(literal(value)) if isinstance(value, str) else len(content)
    new = context.view.form.stand_in(change.path, value)
    if new is Treatment.REFERENCE:
        unseen = change.block is not None and change.block.unseen
        # No one sees it again, so it needs no text.
        new = "" if unseen else reference(value, Wording(context.refer(content)))
    yield Replacement(change.path, new, change, was, b"" if new is REMOVED else literal(new), content)
    bare = context.view.form.bare
    for path, other in bare.items() if change.path in bare else ():
        if path != change.path:
            yield Replacement(path, other, change._replace(block=None), change.saves, literal(other))
