"""Tool results: head and tail in their order; of a command also the lines that report what failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sessioncompress.compressors.base import REPORT, Context, View
from sessioncompress.compressors.names import NOTHING, Index, ends_of
from sessioncompress.compressors.preview import (
    LEAST_GAIN,
    MARKER_BYTES,
    Form,
    Special,
    Wording,
    bare,
    lines_of,
    outline,
    own_part,
    preview,
    reference,
)
from sessioncompress.core.model import Block, Change, Kind, Purpose, Replacement, Treatment
from sessioncompress.core.splice import Added, literal
from sessioncompress.policy.model import Policy

_CONCLUSIONS = Special(
    (
        Form(re.compile(r"^#{1,6} \S", re.MULTILINE)),
        Form(re.compile(r"^[ \t]{0,8}(?:[-*+\u2022]|\d{1,3}[.)]) \S", re.MULTILINE)),
        Form(re.compile(r"(?<=\n\n)\S")),
    ),
    REPORT,
    MARKER_BYTES // 2,
)
"""The headings, the bullets and the first lines of paragraphs of a subagent's report."""


def propose(view: View) -> Iterator[Change]:
    """Offer every result over the limit, and previews of ours in what has become dead history."""
    for number, block in view.blocks(Kind.RESULT, view.policy.result_limit):
        treatment = view.treatment(number)
        if treatment is Treatment.PREVIEW if view.holds_ours(block) else block.size <= view.policy.result_limit:
            continue
        keeps = REPORT if view.is_report(number, block) else ends_of(block.size, view.policy)
        saves = block.size - MARKER_BYTES - (0 if treatment is Treatment.REFERENCE else keeps)
        if saves >= (1 if view.holds_ours(block) else LEAST_GAIN):
            made = view.asking(number, block.call)
            is_command = made is not None and made.purpose is Purpose.COMMAND
            failures = view.lines.facts[number].failed or is_command
            yield Change(number, block.path, treatment, saves, block, failures=failures)


def counts(block: Block, policy: Policy) -> bool:
    """Tell whether enough of a result could go."""
    return block.size > policy.result_limit and block.size - MARKER_BYTES - ends_of(block.size, policy) >= LEAST_GAIN


def render(change: Change, text: str, context: Context) -> Iterator[Replacement]:
    """Give the longest of what the plan asked for that stays within the limit: a preview, or the marker alone.

    What is to be cleared is so in the words of its agent, if that has any.
    """
    block = change.block
    if block is None:
        return
    if block.marked and (origin := context.view.ours.origin((block.digest, block.kind, block.call))) is not None:
        new = _with_links(bare(origin.lines, origin.bytes, Wording(origin.ref), change.note), text, context)
        yield Replacement(change.path, new, change, block.size, literal(new), origin=origin)
        return
    content = text.encode()
    wording = Wording(context.refer(content))
    if change.treatment is Treatment.CLEAR:
        found = context.view.form.cleared(context.entry, block, text, context.view.now)
        if found is not None:
            # If the agent says its words only to the model, it is the reference that stands in the session.
            new = reference(text, wording, change.note) if found.text is None else found.text
            yield Replacement(change.path, new, change, block.size, literal(new), content)
            alone = change._replace(block=None)
            for path, value in found.flags.items():
                yield Replacement(path, Added(value), alone, 0, b"")
            return
    most = REPORT if context.view.is_report(change.line, block) else context.view.policy.preview_max_bytes
    limit = min(most + context.view.policy.result_limit, block.size * 3 // 4)
    shorter = _previews(change, block, text, wording, context) if change.treatment is Treatment.PREVIEW else ()
    for each, index in shorter:
        new = _with_links(each, text, context, index)
        written = literal(new)
        if len(written) <= limit:
            break
    else:
        new = _with_links(reference(text, wording, change.note), text, context)
        written = literal(new)
    yield Replacement(change.path, new, change, block.size, written, content)


def _with_links(new: str, text: str, context: Context, index: Index = NOTHING) -> str:
    """Add the names of the agent's files that the text holds and the preview has lost, a few at most, and an index."""
    names = index.line(new)
    if (links := context.view.form.links) is not None:
        lost = [link for link in dict.fromkeys(links.findall(text)) if link not in new + names]
        new = "\n".join([new, *lost[:8]])
    # The index is the last line, by which it is known.
    return (new if new.endswith("\n") else f"{new}\n") + names if names else new


def _previews(
    change: Change, block: Block, text: str, wording: Wording, context: Context
) -> Iterator[tuple[str, Index]]:
    """Yield previews, shorter and shorter: the ends of the text, or of what is named one line, each with its index."""
    index = context.view.indexes.get((change.line, change.path))
    if index is None:
        # A report; or the line was read otherwise when the names were chosen.
        index = NOTHING._replace(ends=ends_of(len(text), context.view.policy))
    named = bool(index.pieces or index.alone)
    room, failed = index.ends, context.view.lines.facts[change.line].failed
    part = below = own_part(text)
    if (preamble := context.view.form.preamble) and (above := preamble.match(text)):
        room += len(above.group())
        first, last = part.span
        if not failed and first < above.end() < last:
            # The agent says there how a command ended: well.
            below = part._replace(span=(above.end(), last))
    if context.view.is_report(change.line, block):
        yield preview(text, room, wording, keep=_CONCLUSIONS, part=part), NOTHING
    keep = lines_of(text, failed) if change.failures else None
    if index.ends:
        yield preview(text, room, wording, keep=keep, part=part), index
        yield preview(text, room // 2, wording, keep=keep, part=part), index
    # Of what is no text nothing is shown.
    last = change.failures and (index.first or named)
    with_failures = outline(text, wording, below, first=index.first, last=last, keep=keep)
    yield with_failures, index
    without = outline(text, wording, below, first=index.first, last=last)
    if with_failures != without:
        # What failed says more than names.
        yield with_failures, NOTHING
    yield without, index
    yield outline(text, wording, below, first=not named, last=False), index
