"""Arguments of tool calls: same keys, same types; each long text becomes its first and last lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessioncompress.compressors import ties
from sessioncompress.compressors.base import Context, View
from sessioncompress.compressors.preview import Wording, preview, reference
from sessioncompress.model import Change, Kind, Path, Replacement, Treatment
from sessioncompress.splice import literal

_MARKER_BYTES = 165
_PREVIEW_SHARE = 20
_SMALLEST_PREVIEW = 80
_FILE_KEYS = frozenset({"path", "file_path", "filePath", "paths", "cwd", "workdir"})


def propose(view: View) -> Iterator[Change]:
    """Offer the arguments over the limit; those whose message holds a second copy of them, together with it."""
    loosened = ties.loosened(view)
    for number, block in view.blocks(Kind.ARGUMENT, view.policy.call_limit):
        bound = view.lines.facts[number].bound
        if block.marked:
            continue
        saves = block.bulk - min(block.bulk, view.policy.leaf_limit)
        if block.size <= view.policy.call_limit or saves <= 0 or (bound and number not in loosened):
            continue
        group = ties.group_of(number) if bound else 0
        yield Change(number, block.path, view.treatment(number), saves, block, group=group)


def render(change: Change, arguments: Any, context: Context) -> Iterator[Replacement]:
    """Give a replacement for each long text at any depth; paths and short values stay."""
    limit = context.view.policy.leaf_limit
    call = change.block.call if change.block else ""
    for path, text in _leaves(arguments, change.path):
        was = len(literal(text))
        if was > limit and not context.view.is_ours(text, Kind.ARGUMENT, call):
            content = text.encode()
            new = _shortened(change, text, limit, Wording(context.refer(content), in_arguments=True))
            written = literal(new)
            if len(written) <= limit:
                yield Replacement(path, new, change, was, written, content)


def _shortened(change: Change, text: str, limit: int, wording: Wording) -> str:
    room = limit - _MARKER_BYTES - _PREVIEW_SHARE
    if change.treatment is Treatment.PREVIEW and room >= _SMALLEST_PREVIEW // 2:
        share = min(max(len(text) // _PREVIEW_SHARE, _SMALLEST_PREVIEW), room)
        for size in (share, share // 2):
            new = preview(text, size, wording)
            if len(literal(new)) <= limit:
                return new
    return reference(text, wording, change.note)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the strings at any depth, but those under a key that names files."""
    if isinstance(value, str):
        if next(step for step in reversed(path) if isinstance(step, str)) not in _FILE_KEYS:
            yield path, value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _leaves(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _leaves(child, (*path, index))
