"""gencode 0.4: one document, whose messages hold calls in the parts of the model and results in those of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from sys import intern
from typing import Any

from msgspec import Struct

from sessioncompress.core.lines import Lines
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
    Shape,
    Usage,
    beside,
    within,
)
from sessioncompress.core.splice import Added
from sessioncompress.formats import base, values
from sessioncompress.formats.base import Cleared, Entry, Head, Name, Reader, line_of

_PURPOSES = {"read": Purpose.READ, "write": Purpose.WRITE, "bash": Purpose.COMMAND}
_USERS_WORDS = "askuserquestion"
_TOOLS = "edit glob grep webfetch websearch todowrite task taskoutput skill enterplanmode exitplanmode"
_METADATA_KEYS = ("id", "createdAt", "updatedAt", "provider", "model", "cwd")
_ROLES = ("system", "user", "assistant")
_BESIDE = "anthropic"
"""The provider whose caches are counted beside the input."""

_CONTENT: JsonPath = ("content",)
_CLEARED = "[Old tool result content cleared]"
_PRUNED, _PRUNED_AT = "pruned", "prunedAt"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class GenCodeReader(Struct):
    """Reads the messages of one session."""

    _made: dict[str, Call] = {}
    """The calls that wait for their results, which do not name their tool."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        content = entry.get("content")
        parts = [(index, values.fields(part)) for index, part in enumerate(values.items(content))]
        size = values.characters(content)
        if entry.get("role") == "assistant":
            return self._answer(raw, parts, size)
        results = [(index, part) for index, part in parts if part.get("type") == "tool_result"]
        if results:
            return self._results(raw, results, size)
        return line_of(raw, Role.USER if entry.get("role") == "user" else Role.OTHER, reads=size)

    def _answer(self, raw: bytes, parts: Sequence[tuple[int, Mapping[str, Any]]], size: int) -> Line:
        blocks: list[Block] = []
        calls: list[Call] = []
        io = 0
        for index, part in parts:
            if part.get("type") == "tool_use":
                call = _call(part)
                # A signature covers the call.
                kept: list[Block] = [] if "thoughtSignature" in part else blocks
                io += values.arguments((*_CONTENT, index, "input"), part.get("input"), call, kept)
                calls.append(call)
                self._made[call.name] = call
        reads = size + io + values.CALL * len(calls)
        return line_of(raw, Role.ASSISTANT, blocks, calls=calls, io=io, reads=reads)

    def _results(self, raw: bytes, results: Sequence[tuple[int, Mapping[str, Any]]], size: int) -> Line:
        blocks: list[Block] = []
        names = tuple(values.text(part.get("toolUseId")) for _, part in results)
        io = 0
        for (index, part), name in zip(results, names, strict=True):
            made = self._made.pop(name, None) or Call(name, name, "", Purpose.OTHER)
            text = values.text(part.get("content"))
            io += len(text)
            if not made.reads_skill:
                blocks += values.long_text(Kind.RESULT, (*_CONTENT, index, "content"), text, made.tool, name)
        one = len(names) == 1
        failed = any(part.get("isError") is True for _, part in results)
        facts = Facts(failed=failed, several=() if one else names)
        reads = size + io + values.RESULT * len(names)
        return line_of(raw, Role.RESULT, blocks, answers=names[0] if one else "", io=io, reads=reads, facts=facts)


class GenCode(base.Format):
    """Sessions of gencode 0.4."""

    name = "gencode"
    tools = frozenset({*_PURPOSES, _USERS_WORDS, *_TOOLS.split()})
    kept_tools = frozenset({_USERS_WORDS})

    def recognizes(self, head: Head) -> bool:
        """Tell whether the document says of itself what this agent's sessions do, and its messages have their roles."""
        metadata = _metadata(head)
        if not all(isinstance(metadata.get(key), str) for key in _METADATA_KEYS):
            return False
        return all(values.text(entry.get("role")) in _ROLES and "content" in entry for entry in head.entries)

    def named(self, head: Head) -> Name:
        metadata = _metadata(head)
        parent = values.text(metadata.get("parentId"))
        return Name(values.text(metadata.get("id")), (parent,) if parent else (), values.text(metadata.get("cwd")))

    def reader(self) -> Reader:
        return GenCodeReader()

    def shape(self, lines: Lines) -> Shape:
        """All messages follow each other. A compaction takes those that it sums up out of the document."""
        return Shape(range(len(lines)), frozenset())

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        """Allow changes of results and of arguments.

        The agent marks what it left out itself (`pruned`, `prunedAt`), and reads neither mark: the text is all.
        """
        match path:
            case ("content", int(index), "content"):
                return isinstance(value, str) and entry["content"][index].get("type") == "tool_result"
            case ("content", int(index), ("pruned" | "prunedAt") as key):
                part = entry["content"][index]
                return isinstance(value, Added) and part.get("type") == "tool_result" and key not in part
            case ("content", int(index), "input", *_, step):
                part = entry["content"][index]
                return isinstance(value, str) and step not in values.FILE_KEYS and "thoughtSignature" not in part
        return False

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        """Give the agent's words, and its two marks; None where one of them is there."""
        del text
        part = block.path[:-1]
        if not entry["content"][part[-1]].keys().isdisjoint({_PRUNED, _PRUNED_AT}):
            return None
        at = (_EPOCH + timedelta(milliseconds=now)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Cleared(_CLEARED, {(*part, _PRUNED): True, (*part, _PRUNED_AT): at})

    def noted(self, document: Any) -> Mapping[int, Answer]:
        """Read the answers that the document notes in its head, each with the message that it ends with."""
        metadata = values.fields(values.fields(document).get("metadata"))
        notes = map(values.fields, values.items(metadata.get("completions")))
        model, read = values.text(metadata.get("model")), beside if metadata.get("provider") == _BESIDE else within
        found = ((note.get("afterMessageIndex"), values.fields(note.get("usage"))) for note in notes)
        return {
            number: Answer(model=model, usage=_usage(usage, read))
            for number, usage in found
            if isinstance(number, int) and number >= 0
        }


def _metadata(head: Head) -> Mapping[str, Any]:
    return values.fields(values.fields(head.document).get("metadata"))


def _call(part: Mapping[str, Any]) -> Call:
    tool = intern(values.text(part.get("name")))
    name = values.text(part.get("id"))
    purpose = _PURPOSES.get(tool.lower(), Purpose.OTHER)
    file, within = values.about(values.fields(part.get("input")))
    if purpose is Purpose.READ and file:
        # Its lines come with their numbers: what it returns is never the file itself.
        within = f"numbered,{within}"
    return Call(name, name, tool, purpose, file, within)


def _usage(recorded: Mapping[str, Any], read: Callable[..., Usage | None]) -> Usage | None:
    cache = values.fields(recorded.get("cache"))
    given = (recorded.get("inputTokens"), recorded.get("outputTokens"), cache.get("readTokens"))
    return read(*given, cache.get("writeTokens"), recorded.get("reasoningTokens"))
