"""What Claude Code keeps for its screen alone: where in it the bulk stands, and what its screen accepts there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessioncompress import marker
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry
from sessioncompress.model import Block, Kind, Path, Treatment
from sessioncompress.references import digest_of

RESULT: Path = ("toolUseResult",)
"""A second form of a tool's result. It stays, and stays truthy: a line without it would count as a prompt."""

PROGRESS: Path = ("data",)
"""What a tool said while it was at work."""

_SHOWN_CONTENT: Path = ("data", "message", "message", "content")
_EMPTIED = frozenset({"structuredPatch", "filenames", "normalizedMessages"})
"""Lists of many short values; an empty one is as good to the screen."""

_NULLED = "originalFile"
"""The agent itself writes null here where a file is long."""

PLACES = frozenset(
    {"filePath", "file_path", "path", "filename", "persistedOutputPath", "rawOutputPath", "outputFile", "cwd", "url"}
)
"""What names a file stays, however long."""

HOOKS = frozenset({"hook_success", "hook_non_blocking_error", "hook_blocking_error", "hook_error_during_execution"})
HOOK_OUTPUT = ("stdout", "stderr")
"""The model reads a hook's `content`."""


def blocks(entry: Entry, tool: str, call: str) -> list[Block]:
    """Return the blocks of a line's copies for the screen."""
    found = list(_copies(entry.get("toolUseResult"), RESULT, tool, call))
    if entry.get("type") == "progress":
        found += _copies(values.fields(entry.get("data")), PROGRESS, tool, call)
    attachment = values.fields(entry.get("attachment"))
    if values.text(attachment.get("type")) in HOOKS:
        for key in HOOK_OUTPUT:
            found += _copies(attachment.get(key), ("attachment", key), values.text(attachment.get("type")), call)
    return found


def stand_in(path: Path, value: Any) -> Any:
    """Return what takes the place of a copy: of a text the reference, since a copy that is nothing counts as none."""
    if path[-1] == _NULLED:
        return None
    return [] if isinstance(value, list) else Treatment.REFERENCE


def may_change(entry: Entry, path: Path, old: Any, new: Any) -> bool:
    """Say whether this value of a copy may become that one: of the same type, and never nothing."""
    if not _is_copy(entry, path) or path[-1] in PLACES:
        return False
    if isinstance(old, str):
        return new is None if path[-1] == _NULLED else isinstance(new, str) and new != ""
    return isinstance(old, list) and _is_emptied(path) and isinstance(new, list) and not new


def _is_copy(entry: Entry, path: Path) -> bool:
    match path:
        case ("toolUseResult", *_):
            return True
        case ("data", _, *_):
            return entry.get("type") == "progress"
        case ("attachment", key):
            return key in HOOK_OUTPUT and values.text(values.fields(entry.get("attachment")).get("type")) in HOOKS
    return False


def _is_emptied(path: Path) -> bool:
    return path[-1] in _EMPTIED or path == _SHOWN_CONTENT


def _copies(value: Any, path: Path, tool: str, call: str) -> Iterator[Block]:
    """Yield the long texts and lists at any depth."""
    if isinstance(value, str):
        yield from _text(value, path, tool, call)
    elif isinstance(value, list) and _is_emptied(path):
        yield from values.whole(Kind.MIRROR, path, value, tool, call)
    elif isinstance(value, (dict, list)):
        for step, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _copies(child, (*path, step), tool, call)


def _text(text: str, path: Path, tool: str, call: str) -> Iterator[Block]:
    marked = marker.occurs_in(text)
    long = len(text) >= values.SMALLEST_BLOCK
    if (long or marked) and path[-1] not in PLACES:
        written = values.literal(text)
        digest = digest_of(written) if marked else b""
        yield Block(Kind.MIRROR, path, len(written), len(written) if long else 0, tool, call, digest, marked)
