"""The data that Claude Code keeps only for its screen: where its bulk is, and what the screen accepts instead.

After a resume the screen shows nothing of some of it: the agent itself empties `originalFile`, the new content of a
file that existed before, and the result of a read (`stripForStorage` in 2.1.100), and does not load `progress` lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sessioncompress.core import marker
from sessioncompress.core.model import PLAIN, Block, Facts, JsonPath, Kind, Treatment, make_block
from sessioncompress.core.references import digest_of
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry

PICTURES = ("image", "document")

_RESULT = "toolUseResult"
"""A second form of a tool's result. It must stay truthy: a line without it would count as a prompt."""

_PROGRESS = "data"
"""A running tool's output, in a line of type `progress`."""

_NULLED = "originalFile"
"""The agent itself writes null here if a file is long."""

_PLACES = frozenset(
    {"filePath", "file_path", "path", "filename", "persistedOutputPath", "rawOutputPath", "outputFile", "cwd", "url"}
)
"""Names of files stay, whatever their length."""

_UNREAD: Mapping[str, Sequence[JsonPath]] = {
    "api-request-blob": (("message", "content"),),
    "api-request-shape": (("shape", "system"), ("shape", "tools")),
    "api-request": (("tail",), ("cacheControl",)),
    "content-replacement": (("replacements",),),
}
"""Records of requests, which repeat the session: the agent reads only hashes, or a replacement for a long result."""

_FILES_THEN: JsonPath = ("snapshot",)
"""The files before a prompt, for a rewind to it."""

_STATES: Mapping[str, Sequence[JsonPath]] = {
    "file-history-snapshot": (_FILES_THEN,),
    "prompt_snapshot": (("attachment", "systemPrompt"), ("attachment", "tools")),
}
"""States: the agent reads only the newest, and a rewind the one of the prompt that it returns to."""

_HOOKS = frozenset({"hook_success", "hook_non_blocking_error", "hook_blocking_error", "hook_error_during_execution"})
_HOOK_OUTPUT = ("stdout", "stderr")
"""The model reads only a hook's `content`."""


def screen_blocks(entry: Entry, tool: str, call: str) -> list[Block]:
    """Return the screen copies in a line."""
    found = [
        block._replace(unseen=path != _FILES_THEN)
        for path, name in _whole_copies(entry).items()
        for block in values.whole(Kind.MIRROR, path, values.at(entry, path), name, "")
    ]
    if shown := entry.get(_RESULT):
        _add_copies(shown, (_RESULT,), tool, call, found)
    if entry.get("type") == "progress":
        _add_copies(values.fields(entry.get(_PROGRESS)), (_PROGRESS,), tool, call, found)
    if "attachment" in entry:
        attachment = values.fields(entry["attachment"])
        if (hook := values.type_of(attachment)) in _HOOKS:
            for key in _HOOK_OUTPUT:
                _add_copies(attachment.get(key), ("attachment", key), hook, call, found)
    return [block._replace(unseen=True) if _is_unseen(entry, block.path) else block for block in found]


def _whole_copies(entry: Entry) -> dict[JsonPath, str]:
    """Return the lists and objects in a line that may be removed as a whole; of those with a name, the newest stays."""
    kind, attached = values.type_of(entry), values.type_of(entry.get("attachment"))
    found = dict.fromkeys(_UNREAD.get(kind, ()), "")
    found |= {path: str(path[-1]) for path in (*_STATES.get(kind, ()), *_STATES.get(attached, ()))}
    # Extra data of an MCP server, which the model did not get.
    found |= {("mcpMeta", key): "" for key in values.fields(entry.get("mcpMeta"))}
    return {path: name for path, name in found.items() if isinstance(values.at(entry, path), (list, dict, str))}


def stand_in(path: JsonPath, value: Any) -> Any:
    """Return the replacement of a copy: for a text its reference, because an empty copy counts as missing.

    An emptied snapshot must not name a prompt, or a rewind to that prompt would restore other files.
    """
    if path[-1] == _NULLED:
        return None
    if path == _FILES_THEN:
        return {**value, "messageId": "", "trackedFileBackups": {}}
    named = isinstance(value, str) and path[0] in (_RESULT, _PROGRESS, "attachment")
    return Treatment.REFERENCE if named else type(value)()


def _is_unseen(entry: Entry, path: JsonPath) -> bool:
    """True if no screen shows a copy again; a running tool's output counts once the tool is done."""
    if path == (_RESULT, "content"):
        # The screen shows the content of a new file, but only the diff of an existing one.
        return values.fields(entry.get(_RESULT)).get("type") == "update"
    # For a read, the screen shows only the number of lines, pages or bytes.
    was_read = path in ((_RESULT, "file", "content"), (_RESULT, "file", "base64"))
    return path[-1] == _NULLED or was_read or (path[0] == _PROGRESS and entry.get("type") == "progress")


def _is_emptied(path: JsonPath) -> bool:
    # Lists of many short values; an empty list works just as well for the screen.
    lists = ("structuredPatch", "filenames", "normalizedMessages")
    return path[-1] in lists or path == (_PROGRESS, "message", "message", "content")


def _add_copies(value: Any, path: JsonPath, tool: str, call: str, found: list[Block]) -> None:
    if isinstance(value, str):
        marked = marker.occurs_in(value)
        long = len(value) >= values.SMALLEST_BLOCK
        if (long or marked) and path[-1] not in _PLACES:
            written = values.literal(value)
            digest, size = digest_of(written) if marked else b"", len(written)
            found.append(make_block((Kind.MIRROR, path, size, size if long else 0, tool, call, digest, marked, False)))
    elif isinstance(value, list) and _is_emptied(path):
        found += values.whole(Kind.MIRROR, path, value, tool, call)
    elif isinstance(value, (dict, list)):
        for step, child in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(child, (dict, list)) or (isinstance(child, str) and _may_go(child)):
                _add_copies(child, (*path, step), tool, call, found)


def _may_go(text: str) -> bool:
    return len(text) >= values.SMALLEST_BLOCK or marker.PREFIX in text


_FILES: Mapping[str, JsonPath] = {
    "edited_text_file": ("attachment", "snippet"),
    "file": ("attachment", "content", "file", "content"),
}
"""Attachments that show the model a file, and the path of its text; the model reads it like a result."""

_PROMPTS = frozenset({"queued_command"})
"""Attachments that are the user's own words."""

LISTINGS = frozenset({"skill_listing", "agent_listing_delta", "deferred_tools_delta"})

_QUEUE = "queue-operation"


def note_blocks(entry: Entry) -> list[Block]:
    """Return what may be replaced in a line that is not a message."""
    kind = entry.get("type")
    if kind == _QUEUE and isinstance(entry.get("content"), str):
        return values.long_text(Kind.ATTACHMENT, ("content",), entry["content"], _QUEUE, "")
    if kind != "attachment":
        return []
    attachment = values.fields(entry.get("attachment"))
    name = values.type_of(attachment)
    found: list[Block] = []
    # Newer versions send what was rendered at the time of the attachment.
    rendered = [(("rendered", at, "content"), each.get("content")) for at, each in values.parts(entry.get("rendered"))]
    for place, content in [(("attachment", "prompt"), attachment.get("prompt")), *rendered]:
        for index, part in values.parts(content):
            found += picture((*place, index), part, name, "")
    if name in _PROMPTS or name in _STATES:
        return found
    for place, content in rendered:
        what = Kind.RESULT if name in _FILES else Kind.ATTACHMENT
        found += values.long_text(what, place, values.text(content), name, "")
    for path, value in _leaves(attachment, ("attachment",)):
        if not (name in _HOOKS and path[-1] in _HOOK_OUTPUT):
            what = Kind.RESULT if _FILES.get(name) == path else Kind.ATTACHMENT
            found += values.long_text(what, path, value, name, "")
    return found


def may_change(entry: Entry, path: JsonPath, old: Any, new: Any) -> bool:
    """True if a note's text, or a copy, may become `new`: same type, and not empty unless no screen shows it."""
    kind, attached = entry.get("type"), values.type_of(entry.get("attachment"))
    if path in _whole_copies(entry):
        return bool(new == stand_in(path, old))
    is_copy = is_note = False
    match path:
        case ("attachment", "prompt", int()) | ("rendered", int(), "content", int()):
            return values.type_of(old) in PICTURES and isinstance(new, dict)
        case ("rendered", int(), "content"):
            is_note = kind == "attachment" and attached not in _PROMPTS
        case ("content",):
            is_note = kind == _QUEUE
        case ("toolUseResult", *_):
            is_copy = True
        case ("data", _, *_):
            is_copy = kind == "progress"
        case ("attachment", *inner):
            is_note = attached not in _PROMPTS
            is_copy = attached in _HOOKS and inner in (["stdout"], ["stderr"])
    if not (is_copy or is_note) or path[-1] in _PLACES:
        return False
    if isinstance(old, str):
        if is_copy and path[-1] == _NULLED:
            return new is None
        return isinstance(new, str) and (new != "" or (is_copy and _is_unseen(entry, path)))
    return is_copy and isinstance(old, list) and _is_emptied(path) and isinstance(new, list) and not new


def facts_of(entry: Entry) -> Facts:
    """Return the digests of the user's words in a line, because a queue may hold the same words."""
    attachment = values.fields(entry.get("attachment"))
    message = values.fields(entry.get("message"))
    content = attachment.get("prompt") if values.type_of(attachment) in _PROMPTS else message.get("content")
    if not content:
        return PLAIN
    texts = [content] if isinstance(content, str) else map(values.part_text, values.items(content))
    long = (each for each in texts if len(each) >= values.SMALLEST_BLOCK)
    said = tuple(digest_of(values.literal(each)) for each in long)
    return Facts(repeats=said) if said else PLAIN


def picture(path: JsonPath, part: Any, tool: str, call: str) -> list[Block]:
    """Make the block of an image or a document; return [] for any other content part."""
    part = values.fields(part)
    data = values.fields(part.get("source")).get("data")
    return values.whole(Kind.IMAGE, path, part, tool, call) if part.get("type") in PICTURES and data else []


def _leaves(value: Any, path: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    for step, child in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(child, str):
            if _may_go(child) and step not in _PLACES:
                yield (*path, step), child
        elif isinstance(child, (dict, list)):
            yield from _leaves(child, (*path, step))
