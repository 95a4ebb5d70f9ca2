"""OpenCode, as `opencode export` writes it: one document, each message with its parts, a call and its result in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import intern
from typing import Any

from msgspec import Struct

from sessioncompress.core import marker
from sessioncompress.core.model import (
    Answer,
    Block,
    Call,
    Facts,
    JsonPath,
    Kind,
    Line,
    Purpose,
    Role,
    Tie,
    Usage,
    beside,
)
from sessioncompress.core.splice import REMOVED, Added
from sessioncompress.formats import base, values
from sessioncompress.formats.base import Cleared, Entry, Head, Name, Reader, line_of

_PURPOSES = {"read": Purpose.READ, "write": Purpose.WRITE, "bash": Purpose.COMMAND}
_TOOLS = (
    "edit multiedit apply_patch patch grep glob list webfetch websearch codesearch task todowrite todoread question "
    "lsp invalid"
)
_FILE_KEYS = ("filePath", "path")
_PART_KEYS = ("offset", "limit")
_TIED = frozenset({"openai", "copilot"})
"""Providers whose data at a text or a call names the reasoning before it; both are optional."""

_PRUNED = frozenset({"output", "attachments"})
"""What of a call the model does not get when the agent has pruned it."""

_DIFFS: JsonPath = ("info", "summary", "diffs")


class OpenCodeReader(Struct):
    """Reads the messages of one session."""

    _tails: dict[str, str] = {}
    """The first message that a compaction keeps, by the message that asked for it."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        info = values.fields(entry.get("info"))
        name = values.text(info.get("id"))
        parts = [(index, part) for index, part in enumerate(values.items(entry.get("parts"))) if isinstance(part, dict)]
        if info.get("role") == "assistant":
            return self._answer(raw, info, name, parts)
        compactions = [part for _, part in parts if part.get("type") == "compaction"]
        if compactions:
            self._tails[name] = values.text(compactions[0].get("tail_start_id")) or name
        role = Role.USER if info.get("role") == "user" and not compactions else Role.OTHER
        diffs = values.fields(info.get("summary")).get("diffs")
        # Only the screen shows them.
        blocks = values.whole(Kind.MIRROR, _DIFFS, diffs, "", "") if isinstance(diffs, list) else []
        return line_of(raw, role, blocks, id=name, reads=sum(len(values.text(part.get("text"))) for _, part in parts))

    def _answer(self, raw: bytes, info: Mapping[str, Any], name: str, parts: Sequence[tuple[int, Entry]]) -> Line:
        blocks: list[Block] = []
        calls: list[Call] = []
        io = 0
        for index, part in parts:
            if part.get("type") == "tool":
                state = values.fields(part.get("state"))
                calls.append(_call(part))
                blocks += _tool(("parts", index, "state"), state, calls[-1])
                output = "" if _is_pruned(state) else values.text(state.get("output"))
                io += len(values.literal(state.get("input"))) + len(output)
        texts = sum(
            len(values.text(part.get("text"))) for _, part in parts if part.get("type") in ("text", "reasoning")
        )
        thoughts = [(index, part) for index, part in parts if part.get("type") == "reasoning"]
        ties: tuple[Tie, ...] = ()
        if _may_go(parts):
            sizes = ((index, len(values.literal(part))) for index, part in thoughts)
            blocks += [Block(Kind.THINKING, ("parts", index), size, size) for index, size in sizes]
            ties = tuple(_tie(index, part, path) for index, part in parts if (path := _tied(part)))
        made = info.get("summary") is True and bool(info.get("finish")) and not info.get("error")
        keeps = self._tails.get(values.text(info.get("parentID")), "") if made else ""
        facts = Facts(ties=ties, thinks=bool(thoughts), keeps=keeps)
        role = Role.CHECKPOINT if keeps else Role.ASSISTANT
        reads = io + texts + (values.CALL + values.RESULT) * len(calls)
        return line_of(raw, role, blocks, id=name, calls=calls, io=io, reads=reads, facts=facts)


class OpenCode(base.Format):
    """Sessions of OpenCode, exported."""

    name = "opencode"
    tools = frozenset({*_PURPOSES, *_TOOLS.split()})
    answer_marks = (b'"assistant"',)

    def recognizes(self, head: Head) -> bool:
        """Tell whether the document is one session with its messages, as the export has them."""
        info = values.fields(values.fields(head.document).get("info"))
        if not all(isinstance(info.get(key), str) for key in ("id", "projectID", "directory")):
            return False
        return all(isinstance(each.get("info"), dict) and isinstance(each.get("parts"), list) for each in head.entries)

    def named(self, head: Head) -> Name:
        info = values.fields(values.fields(head.document).get("info"))
        parent = values.text(info.get("parentID"))
        return Name(values.text(info.get("id")), (parent,) if parent else (), values.text(info.get("directory")))

    def reader(self) -> Reader:
        return OpenCodeReader()

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        if path == _DIFFS:
            return bool(value == [])
        match path:
            case ("parts", int(index), *_):
                return _may_change_part(values.fields(entry["parts"][index]), path[2:], value)
        return False

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        """Give an empty one of its type, since the agent's schema asks for it."""
        del path
        return type(value)()

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        """Give the time by which the agent knows what it does not send; the words are its own, in the request."""
        del text
        part, state = block.path[:-1], entry["parts"][block.path[1]]["state"]
        return Cleared(None, {(*part, "time", "compacted"): now}) if _may_be_pruned(state) else None

    def image(self, part: Any) -> tuple[str, str]:
        return values.text(values.fields(part).get("mime")), values.text(values.fields(part).get("url")).partition(
            "base64,"
        )[2]

    def answer(self, entry: Entry) -> Answer | None:
        """Read what a message of the model says of its request, the last one where it took several."""
        info = values.fields(entry.get("info"))
        if info.get("role") != "assistant":
            return None
        error = _error(info.get("error"))
        return Answer(
            model=values.text(info.get("modelID")),
            usage=None if error else _usage(values.fields(info.get("tokens"))),
            error=error,
            at=base.moment(values.fields(info.get("time")).get("created")),
        )


def _may_change_part(part: Mapping[str, Any], rest: JsonPath, value: Any) -> bool:
    kind = part.get("type")
    match rest:
        case ():
            return kind == "reasoning" and value is REMOVED
        case ("metadata", *_):
            return value is REMOVED and rest == _tied(part)
        case ("state", *inner):
            return kind == "tool" and _may_change_state(values.fields(part.get("state")), tuple(inner), value)
    return False


def _may_change_state(state: Mapping[str, Any], path: JsonPath, value: Any) -> bool:
    match path:
        case ("metadata",):
            return bool(value == {})
        case ("output",):
            return isinstance(value, str)
        case ("attachments",):
            return _is_pruned(state) and bool(value == [])
        case ("time", "compacted"):
            return isinstance(value, Added) and _may_be_pruned(state)
        case ("input", *_, step):
            return isinstance(value, str) and step not in _FILE_KEYS
    return False


def _call(part: Entry) -> Call:
    tool = intern(values.text(part.get("tool")))
    name = values.text(part.get("callID"))
    arguments = values.fields(values.fields(part.get("state")).get("input"))
    file = next((values.text(arguments[key]) for key in _FILE_KEYS if key in arguments), "")
    named = ",".join(f"{key}={arguments[key]}" for key in _PART_KEYS if key in arguments)
    return Call(name, name, tool, _PURPOSES.get(tool, Purpose.OTHER), intern(file), named if file else "")


def _tool(path: JsonPath, state: Mapping[str, Any], call: Call) -> list[Block]:
    """Make the blocks of one call: what it was given, what it gave back, what the screen shows of it.

    Of a skill that was read what it gave back stays.
    """
    blocks: list[Block] = []
    values.arguments((*path, "input"), state.get("input"), call, blocks)
    if _is_pruned(state) and not marker.occurs_in(values.text(state.get("output"))):
        for key in sorted(_PRUNED & state.keys()):
            blocks += values.whole(Kind.MIRROR, (*path, key), state[key], call.tool, call.name)
    elif not call.reads_skill:
        blocks += values.long_text(
            Kind.RESULT, (*path, "output"), values.text(state.get("output")), call.tool, call.name
        )
    shown = state.get("metadata")
    # Of a call that was interrupted the model gets what stands there.
    if isinstance(shown, dict) and state.get("status") == "completed":
        blocks += values.whole(Kind.MIRROR, (*path, "metadata"), shown, call.tool, call.name)
    return blocks


def _is_pruned(state: Mapping[str, Any]) -> bool:
    """Tell whether the agent has taken what a call gave back out of what it sends: then only the screen shows it."""
    return state.get("status") == "completed" and bool(values.fields(state.get("time")).get("compacted"))


def _may_be_pruned(state: Mapping[str, Any]) -> bool:
    """Tell whether the agent could take the output of a call out of what it sends, and has not yet."""
    time = state.get("time")
    return state.get("status") == "completed" and isinstance(time, dict) and "compacted" not in time


def _tie(index: int, part: Entry, path: JsonPath) -> Tie:
    value: Any = part
    for step in path:
        value = value[step]
    return Tie(("parts", index, *path), None, len(values.literal(value)))


def _tied(part: Mapping[str, Any]) -> JsonPath | None:
    """Find where a text or a call names the reasoning that it came from; None where it does not.

    Beside a phase that is the item's id alone: OpenAI asks for the phase of each text in every later request.
    """
    metadata = values.fields(part.get("metadata"))
    if part.get("type") not in ("text", "tool") or not _TIED & metadata.keys():
        return None
    openai = values.fields(metadata.get("openai"))
    if len(metadata) > 1 or not openai.get("phase"):
        return ("metadata",)
    return ("metadata", "openai", "itemId") if "itemId" in openai else None


def _may_go(parts: Sequence[tuple[int, Entry]]) -> bool:
    """Tell whether the thinking may go: something else stays, and nothing hangs on it that we do not know."""
    others = [part for _, part in parts if part.get("type") in ("text", "tool")]
    known = all(values.fields(part.get("metadata")).keys() <= _TIED or _tied(part) is None for part in others)
    signed = any("google" in values.fields(part.get("metadata")) for part in others)
    return known and not signed and any(part.get("type") == "tool" or part.get("text") for part in others)


def _error(error: Any) -> str:
    found = values.fields(error)
    return values.text(values.fields(found.get("data")).get("message")) or values.text(found.get("name"))


def _usage(recorded: Mapping[str, Any]) -> Usage | None:
    """Read what was counted: the reasoning stands beside the output."""
    cache = values.fields(recorded.get("cache"))
    given = (recorded.get("input"), recorded.get("output"), cache.get("read"), cache.get("write"))
    usage = beside(*given, recorded.get("reasoning"))
    return usage and usage._replace(output=usage.output + usage.reasoning)
