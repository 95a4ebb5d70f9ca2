"""Tool results: head and tail in order; for a command also the lines that report failures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sessioncompress.compressors.base import REPORT, Context, View
from sessioncompress.compressors.beside import named_in_marker
from sessioncompress.compressors.names import NOTHING, Visible, ends_of
from sessioncompress.compressors.preview import (
    LEAST_GAIN,
    MARKER_BYTES,
    NAMED,
    Form,
    Special,
    Wording,
    bare,
    lines_of,
    outline,
    own_part,
    preview,
    reference,
    said,
)
from sessioncompress.core.model import Block, Change, Kind, Purpose, Replacement, Treatment
from sessioncompress.core.references import attached
from sessioncompress.core.splice import REMOVED, Added, literal
from sessioncompress.formats import values
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
"""The headings, bullets and first lines of paragraphs in a subagent's report."""

_WORDS, _LEAST_WORDS = 120, 24
"""Characters shown before the name of an agent's file, and how many of them decide whether they are shown."""
_JSON = re.compile(r"\s{0,8}(?:\[\s{0,8})?\{")
_AT_ENDS = 240  # characters of a result in which an agent reports how a command ended
_MOST_ENDED = 8
"""Maximum commands in one result whose exit a preview reports."""
_FAILED = re.compile(r"(?:exited|xit)\D{1,16}[1-9]\d*$")


def propose(view: View) -> Iterator[Change]:
    """Offer every result over the limit, and our previews in what has become dead history."""
    for number, block in view.blocks(Kind.RESULT, view.policy.result_limit):
        treatment = view.treatment(number)
        if treatment is Treatment.PREVIEW if view.holds_ours(block) else block.bulk <= view.policy.result_limit:
            continue
        keeps = REPORT if view.is_report(number, block) else ends_of(block.size, view.policy)
        saves = block.size - MARKER_BYTES - (0 if treatment is Treatment.REFERENCE else keeps)
        if saves >= (1 if view.holds_ours(block) else LEAST_GAIN):
            made = view.asking(number, block.call)
            is_command = made is not None and made.purpose is Purpose.COMMAND
            # For a file tool, the first line names the failure; the code after it may contain any word.
            of_file = made is not None and made.purpose in (Purpose.READ, Purpose.WRITE)
            failures = is_command or (view.lines.facts[number].failed and not of_file)
            yield Change(number, block.path, treatment, saves, block, failures=failures)


def counts(block: Block, policy: Policy) -> bool:
    """True if enough of a result could go."""
    return block.bulk > policy.result_limit and block.size - MARKER_BYTES - ends_of(block.size, policy) >= LEAST_GAIN


def render(change: Change, text: str, context: Context) -> Iterator[Replacement]:
    """Yield the new text of a result: its agent's words if it is cleared and there are any, else what fits.

    Images next to the text are removed with it; each is named below the text.
    """
    block, view = change.block, context.view
    if block is None:
        return
    if view.holds_ours(block):
        if (origin := context.origin((block.digest, block.kind, block.call))) is not None:
            new = _with_links(bare(origin.lines, origin.bytes, Wording(origin.ref), change.note), text, context)
            yield Replacement(change.path, new, change, block.size, literal(new), origin=origin)
        return
    place = view.form.images_of(change.path)
    held = values.large(place, values.at(context.entry, place)) if place else ()
    beside = [(path, attached(part)) for path, part in held]
    images = [named_in_marker(image, context.refer(image.content), change.note) for _, image in beside]
    content = text.encode()
    wording = Wording(context.refer(content))
    found = view.form.cleared(context.entry, block, text, view.now) if change.treatment is Treatment.CLEAR else None
    if found is None:
        new = _longest_fitting(change, block, text, images, wording, context)
    else:
        # If the agent shows its words only to the model, the session gets the reference.
        new = reference(text, wording, change.note) if found.text is None else found.text
    written = literal(new)
    yield Replacement(change.path, new, change, block.size, written, content)
    for path, value in found.flags.items() if found else ():
        yield Replacement(path, Added(value), change._replace(block=None), 0, b"")
    # They are counted with the text.
    of_image = change._replace(block=block._replace(kind=Kind.IMAGE, marked=True))
    for path, image in beside if len(written) < block.size else ():
        yield Replacement(path, REMOVED, of_image, block.size, b"", image.content)


def _longest_fitting(
    change: Change, block: Block, text: str, images: Sequence[str], wording: Wording, context: Context
) -> str:
    """Return the longest requested form of a result that stays within the limit: a preview, or only the marker."""
    view, shown = context.view, change.treatment is Treatment.PREVIEW
    most = REPORT if view.is_report(change.line, block) else view.policy.preview_max_bytes
    limit = min(most + view.policy.result_limit, block.size * 3 // 4)
    above, rest, own = _parted(text, context)
    ended = _ended(change, above, rest, context) if change.note or shown else []
    shorter = _previews(change, block, own, ended, wording, context) if shown else iter(())
    if images and len(text) <= view.policy.result_limit:
        # It is replaced only because of the images.
        own, shorter = "", iter([(text, NOTHING)])
    for each, index in shorter:
        if each != own:
            new = _with_links(_headed(each, ended), text, context, images, index)
            if len(literal(new)) <= limit:
                return new
    return _with_links(_headed(reference(text, wording, change.note), ended), text, context, images)


def _ended(change: Change, above: str, rest: str, context: Context) -> list[str]:
    """Find the agent's reports of how commands ended: in its preamble `above`, or else in the rest."""
    if (ending := context.view.form.ended) is None:
        return []
    # In JSON, quotes inside texts are escaped.
    ends = rest if _JSON.match(rest) else f"{rest[:_AT_ENDS]}\n{rest[-_AT_ENDS:]}" if change.failures else ""
    return list(dict.fromkeys(ending.findall(above) or ending.findall(ends)))[:_MOST_ENDED]


def _with_links(new: str, text: str, context: Context, images: Sequence[str] = (), index: Visible = NOTHING) -> str:
    """Add markers of images, the lost names of the agent's files (8 at most), and an index.

    A name is preceded by the words of its line, which explain the file, unless the preview already has them.
    """
    names = index.line(new)
    if (links := context.view.form.links) is not None:
        lost = dict[str, str]()
        for link in links.finditer(text):
            words = text[max(text.rfind("\n", 0, link.start()) + 1, link.start() - _WORDS) : link.start()].lstrip(" [(")
            if link.group() not in new:
                lost.setdefault(link.group(), "" if words[:_LEAST_WORDS] in new else words)
        new = "\n".join([new, *[words + link for link, words in list(lost.items())[:8]]])
        names = index.line(new)
    new = "\n".join([new.removesuffix("\n"), *images]) if images else new
    # The index is recognized by being the last line.
    return (new if new.endswith("\n") else f"{new}\n") + names if names else new


def _parted(text: str, context: Context) -> tuple[str, str, str]:
    """Split off the agent's preamble or its frame around a file; return it, the rest, and the rest's text."""
    preamble = context.view.form.preamble
    if preamble and (above := preamble.match(text)):
        rest = text[above.end() :]
        return above.group(), rest, said(rest)
    if text.startswith(NAMED):
        content = text[slice(*own_part(text).span)]
        return "", content, content
    return "", text, said(text)


def _headed(new: str, ended: Sequence[str]) -> str:
    """Prepend how the commands ended, unless the preview shows that."""
    missing = ", ".join(each for each in ended if each not in new)
    return f"{missing}\n{new}" if missing else new


def _previews(
    change: Change, block: Block, text: str, ended: Sequence[str], wording: Wording, context: Context
) -> Iterator[tuple[str, Visible]]:
    """Yield shorter and shorter previews, each with its index: the ends of the text, or one line if names are shown."""
    index = context.view.indexes.get((change.line, change.path))
    if index is None:
        # A report, or the line was read differently when names were chosen.
        index = NOTHING._replace(ends=ends_of(len(text), context.view.policy))
    named = bool(index.pieces or index.alone)
    failed = context.view.lines.facts[change.line].failed or any(map(_FAILED.search, ended))
    room, part = index.ends, own_part(text)
    if context.view.is_report(change.line, block):
        yield preview(text, room, wording, keep=_CONCLUSIONS, part=part), NOTHING
    # Only a command reports how it ended, even if another tool waited for it.
    ran = change.failures or bool(ended)
    keep = lines_of(text, failed) if ran else None
    if index.ends:
        yield preview(text, room, wording, keep=keep, part=part), index
        yield preview(text, room // 2, wording, keep=keep, part=part), index
    first = index.first or (failed and not ran)
    # Data that is not text shows nothing.
    last = ran and (index.first or named)
    with_failures = outline(text, wording, part, first=first, last=last, keep=keep)
    yield with_failures, index
    without = outline(text, wording, part, first=first, last=last)
    if with_failures != without:
        # Failures tell more than names.
        yield with_failures, NOTHING
    yield without, index
    yield outline(text, wording, part, first=not named, last=False), index
