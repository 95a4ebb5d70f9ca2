"""Codex's events: what of them is a copy for the screen of what the model has in its items.

Codex itself empties the outputs of most commands when it writes such an event; so do we with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sessioncompress.formats import values
from sessioncompress.model import Block, Kind, Path

_TEXTS: Mapping[str, tuple[str, ...]] = {
    "exec_command_end": ("stdout", "stderr", "aggregated_output", "formatted_output"),
    "patch_apply_end": ("stdout", "stderr"),
}
_WHOLE: Mapping[str, tuple[Path, ...]] = {
    "mcp_tool_call_end": (
        ("invocation", "arguments"),
        ("result", "Ok", "content"),
        ("result", "Ok", "structuredContent"),
    ),
    "user_message": (("images",),),
}
_CHANGE = frozenset({"content", "unified_diff", "old_content", "new_content"})
"""The texts of a change to a file."""


def mirrors(root: str, event: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the copies that an event holds."""
    kind = values.text(event.get("type"))
    tool, call = kind.removesuffix("_end") if kind.endswith("_end") else "", values.text(event.get("call_id"))
    for path, value in _values(kind, event):
        yield from values.whole(Kind.MIRROR, (root, *path), value, tool, call)


def may_become(event: Mapping[str, Any], path: Path, value: Any) -> bool:
    """Say whether the value at a path of an event is such a copy, and that one an empty value of its type."""
    found = dict(_values(values.text(event.get("type")), event))
    return path in found and type(value) is type(found[path]) and not value


def _values(kind: str, event: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for key in _TEXTS.get(kind, ()):
        if isinstance(event.get(key), str):
            yield (key,), event[key]
    for path in _WHOLE.get(kind, ()):
        value: Any = event
        for step in path:
            value = values.fields(value).get(str(step))
        if isinstance(value, (list, dict)):
            yield path, value
    if kind == "patch_apply_end":
        yield from _changes(values.fields(event.get("changes")))


def _changes(files: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for file, change in files.items():
        for key, value in values.fields(change).items():
            if key in _CHANGE and isinstance(value, str):
                yield ("changes", file, key), value
