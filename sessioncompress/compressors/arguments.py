"""Arguments of tool calls: same keys, same types; each long text is reduced to its first and last lines.

For the two texts of an edit, the differing lines are shown. A patch also shows the names of its files in an index, and
a program that calls tools its commands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from math import ceil
from posixpath import commonprefix
from typing import Any

from sessioncompress.compressors import thinking
from sessioncompress.compressors.base import Context, View
from sessioncompress.compressors.names import BETWEEN, Visible
from sessioncompress.compressors.preview import (
    FIRST_SHARE,
    LEAST_GAIN,
    LINE,
    Part,
    Wording,
    between_words,
    differing,
    preview,
    reference,
)
from sessioncompress.core import marker
from sessioncompress.core.model import Block, Change, JsonPath, Kind, Protection, Purpose, Replacement, Treatment
from sessioncompress.core.references import digest_of
from sessioncompress.core.splice import literal
from sessioncompress.formats import values
from sessioncompress.policy.model import Policy

_MARKER_BYTES = 165
_PREVIEW_SHARE = 20
_SMALLEST_PREVIEW = 80
_PAIRS = [(old, old.replace("old", "new")) for old in values.OLD_TEXT_KEYS]
_OTHER = {**dict(_PAIRS), **{new: old for old, new in _PAIRS}}
"""Maps the key of an edit's old text to the key of its new text, and vice versa."""

_MOST_NAMED = 2_000
"""Bytes for the names of commands and changed files of a call."""
_DIFFED = re.compile(r"^--- (?:a/)?(\S.*)\n\+\+\+ (\S[^\t\r\n]*)", re.MULTILINE)
_MORE = "and {} more"
_FIRST_LINE = re.compile(r"(?:\s|\\n)*((?:[^\\\n]|\\[^n])*)")
"""The first line in a literal, where line breaks are escaped."""


def propose(view: View) -> Iterator[Change]:
    """Offer arguments over the limit; if their message repeats them elsewhere, both change together."""
    loosened = thinking.loosened_lines(view)
    line, ours = -1, Counter[JsonPath]()
    for number, block in view.blocks(Kind.ARGUMENT, view.policy.call_limit):
        bound = view.lines.facts[number].bound
        if block.marked or block.size <= view.policy.call_limit:
            continue
        if number != line:
            line, ours = number, _bytes_of_ours(view, number)
        saves = block.bulk - ours[block.path] - view.policy.leaf_limit
        if saves < LEAST_GAIN or (bound and number not in loosened):
            continue
        group = thinking.group_of(number) if bound else 0
        yield Change(number, block.path, view.treatment(number), saves, block, group=group)


def counts(block: Block, policy: Policy) -> bool:
    """True if enough of the arguments could go; our replacement of a string counts with the call around it."""
    return block.size > policy.call_limit and block.bulk - policy.leaf_limit >= LEAST_GAIN and not block.marked


def _bytes_of_ours(view: View, number: int) -> Counter[JsonPath]:
    """Sum up the bytes of our replacements, which never shrink again, by the arguments that contain them."""
    blocks = [block for block in view.lines[number].blocks if block.kind is Kind.ARGUMENT]
    lengths = {len(block.path) for block in blocks if not block.marked}
    found = Counter[JsonPath]()
    for block in blocks:
        if view.holds_ours(block):
            for length in lengths:
                found[block.path[:length]] += block.size
    return found


def render(change: Change, arguments: Any, context: Context) -> Iterator[Replacement]:
    """Yield a replacement for each long text at any depth; paths and short values stay."""
    limit = context.view.policy.leaf_limit
    room = limit - _MARKER_BYTES - _PREVIEW_SHARE
    call = change.block.call if change.block else ""
    made = context.view.asking(change.line, call)
    runs = made is not None and made.purpose is Purpose.COMMAND
    if isinstance(arguments, str):
        # Some APIs give arguments as a string of JSON; a string that is not JSON is an ordinary text.
        arguments = values.given(arguments)
    for path, text, other in _leaves(arguments, change.path):
        # A character takes less than 8 bytes of JSON.
        if len(text) <= limit // 8:
            continue
        old = literal(text)
        if len(old) <= limit:
            continue
        if marker.PREFIX in text and (digest_of(old), Kind.ARGUMENT, call) in context.view.ours:
            continue
        content = text.encode()
        wording = Wording(context.refer(content), in_arguments=True)
        previewed = change.treatment is Treatment.PREVIEW and room >= _SMALLEST_PREVIEW // 2
        most = max(limit, min(len(old) * 3 // 4, _MARKER_BYTES + _MOST_NAMED))
        # Dead history keeps only the reference.
        dead = context.view.standing[change.line] is Protection.DEAD
        named = [] if dead else _named(text, most - _MARKER_BYTES - _PREVIEW_SHARE, previewed)
        names = Visible(named, (), 0, first=False)
        # The ends of a program add nothing to its commands.
        shown = previewed and (not names.pieces or text.startswith(("*** ", "--- ", "diff ")))
        previews = _previews(text, other, room, wording, runs) if shown else ()
        for new in (*previews, reference(text, wording, change.note)):
            index = names.line(new)
            new = "\n".join((new.rstrip("\n"), index)) if index else new  # noqa: PLW2901
            if len(written := literal(new)) <= (most if index else limit):
                yield Replacement(path, new, change, len(old), written, content)
                break


def _named(text: str, room: int, commands: bool) -> list[str]:
    """Return the files of a patch, and with `commands` the first line of each command in a program, verbatim."""
    changed = [path if how in ("written", "edited") else f"{how} {path}" for path, how, _ in values.patched(text)]
    changed += [new if new != "/dev/null" else f"deleted {old}" for old, new in _DIFFED.findall(text)]
    names = list(dict.fromkeys(changed))
    if sum(map(len, names)) + len(BETWEEN) * len(names) > room:
        # Write the common folder once.
        folder = "".join(commonprefix(names).rpartition("/")[:2])
        short = [name.removeprefix(folder) for name in names]
        sizes = accumulate((len(name) + 1 for name in short), initial=len(folder) + len(_MORE.format(len(short))))
        fitting = max(sum(size <= room for size in sizes) - 1, 0)
        more = [_MORE.format(len(short) - fitting)] if fitting < len(short) else []
        names = [" ".join(filter(None, [folder, *short[:fitting], *more]))]
    if commands and "tools." in text and (run := values.commands(text, templates=True)):
        left = room - sum(map(len, names)) - len(BETWEEN) * (len(names) + len(run))
        longest = min(max(left // len(run), _SMALLEST_PREVIEW // 4), LINE)
        lines = [found[1].strip() for raw in run if (found := _FIRST_LINE.match(raw))]
        ends = [len(line) if len(line) <= longest else between_words(line, longest, -1) for line in lines]
        heads = (
            line if end == len(line) else f"{line[:end].rstrip()} ..." for line, end in zip(lines, ends, strict=True)
        )
        names = [*dict.fromkeys(filter(None, heads)), *names]
    return names


def _previews(text: str, other: str, room: int, wording: Wording, runs: bool) -> Iterator[str]:
    """Yield shorter and shorter previews: of the part that differs from an edit's other text, or of any text.

    The first line of a shell command (`runs`) stays whole if there is room: it explains the rest.
    """
    if other:
        bare, wide = differing(text, other)
        for size in range(room, _SMALLEST_PREVIEW // 4, -_PREVIEW_SHARE):
            part = bare if bare[0] < bare[1] and wide[1] - wide[0] > size else wide
            if part == (0, len(text)):
                break
            yield preview(text, size, wording, part=Part(part))
    share = min(max(len(text) // _PREVIEW_SHARE, _SMALLEST_PREVIEW), room)
    first = ceil((text.find("\n") + 1) / FIRST_SHARE)
    yield preview(text, max(share, first) if runs and first <= room else share, wording)
    yield preview(text, share // 2, wording)


def _leaves(value: Any, path: JsonPath, other: str = "") -> Iterator[tuple[JsonPath, str, str]]:
    """Yield the strings at any depth, except file names by key, each with the other text of its edit."""
    if isinstance(value, str):
        if next(step for step in reversed(path) if isinstance(step, str)) not in values.PLACE_KEYS:
            yield path, value, other
    elif isinstance(value, dict):
        for key, child in value.items():
            partner = value.get(_OTHER[key]) if key in _OTHER else ""
            if not isinstance(partner, str) or marker.occurs_in(partner):
                # A text with a marker is no longer the original text.
                partner = ""
            yield from _leaves(child, (*path, key), partner)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _leaves(child, (*path, index))
