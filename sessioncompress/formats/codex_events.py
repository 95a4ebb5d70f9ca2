"""Codex's events: what of them is a copy for the screen of what the model has in its items.

Codex itself empties the outputs of most commands when it writes such an event; so do we with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from sessioncompress.core.model import Block, Kind, Path
from sessioncompress.formats import values

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
_PATCH = "patch_apply_end"
_CHANGE = frozenset({"content", "unified_diff", "old_content", "new_content"})
"""The texts of a change to a file."""


def mirrors(root: str, event: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the copies that an event holds."""
    kind = values.text(event.get("type"))
    tool, call = kind.removesuffix("_end") if kind.endswith("_end") else "", values.text(event.get("call_id"))
    changes = _changes(values.fields(event.get("changes")) if kind == _PATCH else {})
    for path, value in chain(_values(kind, event), changes):
        yield from values.whole(Kind.MIRROR, (root, *path), value, tool, call)


def may_become(event: Mapping[str, Any], path: Path, value: Any) -> bool:
    """Say whether the value at a path of an event is such a copy, and that one an empty value of its type."""
    copy = _at(values.text(event.get("type")), event, path)
    return copy is not None and type(value) is type(copy) and not value


def _at(kind: str, event: Mapping[str, Any], path: Path) -> Any:
    """Return the copy at a path; None where none stands there."""
    match path:
        case ("changes", str(file), _):
            files = values.fields(event.get("changes")) if kind == _PATCH else {}
            return dict(_changes({file: files.get(file)})).get(path)
    return dict(_values(kind, event)).get(path)


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


def _changes(files: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for file, change in files.items():
        for key, value in values.fields(change).items():
            if key in _CHANGE and isinstance(value, str):
                yield ("changes", file, key), value
