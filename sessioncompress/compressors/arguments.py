"""Arguments of tool calls: same keys, same types; each long text becomes its first and last lines.

Of the two texts of an edit those lines are shown that the other one has not; of a patch also the names of its files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

from sessioncompress.compressors import thinking
from sessioncompress.compressors.base import Context, View
from sessioncompress.compressors.preview import Part, Wording, differing, headings, preview, reference
from sessioncompress.core import marker
from sessioncompress.core.model import Change, JsonPath, Kind, Replacement, Treatment
from sessioncompress.core.splice import literal
from sessioncompress.formats import values

_MARKER_BYTES = 165
_PREVIEW_SHARE = 20
_SMALLEST_PREVIEW = 80
_PAIRS = (("oldText", "newText"), ("old_string", "new_string"), ("old_str", "new_str"))
_OTHER = {**dict(_PAIRS), **{new: old for old, new in _PAIRS}}
"""The key of the text that an edit puts in the place of another, and the other way round."""

_LONGEST_ESCAPE = 8
"""Bytes of JSON that a character may take, and more."""

_FILE_KEYS = frozenset({"path", "file_path", "filePath", "paths", "cwd", "workdir"})


def propose(view: View) -> Iterator[Change]:
    """Offer the arguments over the limit; those whose message holds a second copy of them, together with it."""
    loosened = thinking.loosened_lines(view)
    line, ours = -1, Counter[JsonPath]()
    for number, block in view.blocks(Kind.ARGUMENT, view.policy.call_limit):
        bound = view.lines[number].facts.bound
        if block.marked or block.size <= view.policy.call_limit:
            continue
        if number != line:
            line, ours = number, _ours(view, number)
        saves = block.bulk - ours[block.path] - view.policy.leaf_limit
        if saves <= 0 or (bound and number not in loosened):
            continue
        group = thinking.group_of(number) if bound else 0
        yield Change(number, block.path, view.treatment(number), saves, block, group=group)


def _ours(view: View, number: int) -> Counter[JsonPath]:
    """Return the bytes of a line's replacements of ours, by the arguments they are in: they never shrink again."""
    blocks = [block for block in view.lines[number].blocks if block.kind is Kind.ARGUMENT]
    lengths = {len(block.path) for block in blocks if not block.marked}
    found = Counter[JsonPath]()
    for block in blocks:
        if block.marked and view.holds_ours(block):
            for length in lengths:
                found[block.path[:length]] += block.size
    return found


def render(change: Change, arguments: Any, context: Context) -> Iterator[Replacement]:
    """Give a replacement for each long text at any depth; paths and short values stay."""
    limit = context.view.policy.leaf_limit
    call = change.block.call if change.block else ""
    if isinstance(arguments, str):
        # Some APIs have the arguments as a string that holds JSON; what holds none is a text like any other.
        arguments = values.given(arguments)
    for path, text, other in _leaves(arguments, change.path):
        if len(text) <= limit // _LONGEST_ESCAPE:
            continue
        was = len(literal(text))
        if was > limit and not context.view.is_ours(text, Kind.ARGUMENT, call):
            content = text.encode()
            new = _shortened(change, text, other, limit, Wording(context.refer(content), in_arguments=True))
            written = literal(new)
            if len(written) <= limit:
                yield Replacement(path, new, change, was, written, content)


def _shortened(change: Change, text: str, other: str, limit: int, wording: Wording) -> str:
    room = limit - _MARKER_BYTES - _PREVIEW_SHARE
    if change.treatment is Treatment.PREVIEW and room >= _SMALLEST_PREVIEW // 2:
        for new in chain(_compared(text, other, room, wording), _previews(text, room, wording)):
            if len(literal(new)) <= limit:
                return new
    return reference(text, wording, change.note)


def _compared(text: str, other: str, room: int, wording: Wording) -> Iterator[str]:
    """Yield what of a text another one has not, less and less of it, where they have something in common."""
    if not other:
        return
    difference = differing(text, other)
    for size in range(room, _SMALLEST_PREVIEW // 4, -_PREVIEW_SHARE):
        part = difference.within(size)
        if part == (0, len(text)):
            return
        yield preview(text, size, wording, part=Part(part))


def _previews(text: str, room: int, wording: Wording) -> Iterator[str]:
    share = min(max(len(text) // _PREVIEW_SHARE, _SMALLEST_PREVIEW), room)
    if (names := headings(text, room - _SMALLEST_PREVIEW // 2)) is not None:
        yield preview(text, min(share, room - names.budget), wording, keep=names)
    yield preview(text, share, wording)
    yield preview(text, share // 2, wording)


def _leaves(value: Any, path: JsonPath, other: str = "") -> Iterator[tuple[JsonPath, str, str]]:
    """Yield the strings at any depth, each with the other text of its edit, but those under a key that names files."""
    if isinstance(value, str):
        if next(step for step in reversed(path) if isinstance(step, str)) not in _FILE_KEYS:
            yield path, value, other
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _leaves(child, (*path, key), _other(value, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _leaves(child, (*path, index))


def _other(value: dict[str, Any], key: str) -> str:
    """Return the other text of an edit; what holds a marker is no text any more."""
    other = value.get(_OTHER.get(key, ""))
    return other if key in _OTHER and isinstance(other, str) and not marker.occurs_in(other) else ""
