"""What Claude Code keeps for its screen alone: where in it the bulk stands, and what its screen accepts there.

Of some of it the screen shows nothing when a session is resumed: the agent itself empties `originalFile`, the new
content of a file that was there before, and what a read returned (`stripForStorage` in 2.1.100), and loads no
`progress` lines.
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
"""A second form of a tool's result. It stays, and stays truthy: a line without it would count as a prompt."""

_PROGRESS = "data"
"""What a tool said while it was at work, in a line of the type `progress`."""

_NULLED = "originalFile"
"""The agent itself writes null here where a file is long."""

_PLACES = frozenset(
    {"filePath", "file_path", "path", "filename", "persistedOutputPath", "rawOutputPath", "outputFile", "cwd", "url"}
)
"""What names a file stays, however long."""

_UNREAD: Mapping[str, Sequence[JsonPath]] = {
    "api-request-blob": (("message", "content"),),
    "api-request-shape": (("shape", "system"), ("shape", "tools")),
    "api-request": (("tail",), ("cacheControl",)),
    "content-replacement": (("replacements",),),
}
"""Records of what was sent, which repeat the session: the agent reads hashes, or sends one for a long result."""

_FILES_THEN: JsonPath = ("snapshot",)
"""The files as they were before a prompt, for a rewind to it."""

_STATES: Mapping[str, Sequence[JsonPath]] = {
    "file-history-snapshot": (_FILES_THEN,),
    "prompt_snapshot": (("attachment", "systemPrompt"), ("attachment", "tools")),
}
"""States of which the agent reads the newest, and a rewind the one of the prompt that it goes back to."""

_HOOKS = frozenset({"hook_success", "hook_non_blocking_error", "hook_blocking_error", "hook_error_during_execution"})
_HOOK_OUTPUT = ("stdout", "stderr")
"""The model reads a hook's `content`."""


def screen_blocks(entry: Entry, tool: str, call: str) -> list[Block]:
    """Find the copies for the screen in a line."""
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
    """Find the lists and objects in a line that may go as a whole; of those with a name the newest stays."""
    kind, attached = values.type_of(entry), values.type_of(entry.get("attachment"))
    found = dict.fromkeys(_UNREAD.get(kind, ()), "")
    found |= {path: str(path[-1]) for path in (*_STATES.get(kind, ()), *_STATES.get(attached, ()))}
    # What an MCP server gave back besides the text that the model got.
    found |= {("mcpMeta", key): "" for key in values.fields(entry.get("mcpMeta"))}
    return {path: name for path, name in found.items() if isinstance(values.at(entry, path), (list, dict, str))}


def stand_in(path: JsonPath, value: Any) -> Any:
    """Give what takes the place of a copy: of a text the reference, since a copy that is nothing counts as none.

    A snapshot of files without any files must be of no prompt, or a rewind to that would take others in their place.
    """
    if path[-1] == _NULLED:
        return None
    if path == _FILES_THEN:
        return {**value, "messageId": "", "trackedFileBackups": {}}
    named = isinstance(value, str) and path[0] in (_RESULT, _PROGRESS, "attachment")
    return Treatment.REFERENCE if named else type(value)()


def _is_unseen(entry: Entry, path: JsonPath) -> bool:
    """Tell whether no screen shows a copy again; one of what was said at work, once that is done."""
    if path == (_RESULT, "content"):
        # The screen shows the content of a new file, and of one that was there before the difference.
        return values.fields(entry.get(_RESULT)).get("type") == "update"
    # Of what a read returned it says how many lines, pages or bytes that were.
    was_read = path in ((_RESULT, "file", "content"), (_RESULT, "file", "base64"))
    return path[-1] == _NULLED or was_read or (path[0] == _PROGRESS and entry.get("type") == "progress")


def _is_emptied(path: JsonPath) -> bool:
    # Lists of many short values; an empty one is as good to the screen.
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
"""Attachments that show the model a file, and where in them its text stands: to the model it is like a result."""

_PROMPTS = frozenset({"queued_command"})
"""Attachments that are the user's own words."""

LISTINGS = frozenset({"skill_listing", "agent_listing_delta", "deferred_tools_delta"})
"""Attachments that list what the agent has."""

_QUEUE = "queue-operation"


def note_blocks(entry: Entry) -> list[Block]:
    """Find what may be replaced in a line that is no message."""
    kind = entry.get("type")
    if kind == _QUEUE and isinstance(entry.get("content"), str):
        return values.long_text(Kind.ATTACHMENT, ("content",), entry["content"], _QUEUE, "")
    if kind != "attachment":
        return []
    attachment = values.fields(entry.get("attachment"))
    name = values.type_of(attachment)
    found: list[Block] = []
    # The newest versions send what was rendered when it was attached.
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
    """Tell whether a text of a note, or a copy, may become that: of the same type, and never nothing."""
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
    """Digest the user's words in a line: a queue may hold them once more."""
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
    """Make the block of an image or a document; none of any other part of a content."""
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
