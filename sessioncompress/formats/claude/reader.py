"""Read the lines of a Claude Code session: messages, their calls, results and images, and notes beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from sys import intern
from typing import Any

from sessioncompress.core import marker
from sessioncompress.core.model import PLAIN, Block, Call, Facts, JsonPath, Kind, Line, Purpose, Role
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry, line_of, moment
from sessioncompress.formats.claude import screen

THOUGHTS = ("thinking", "redacted_thinking")
PICTURES = ("image", "document")
_USERS_WORDS = "The user doesn't want to "
"""So begins the result of a call that the user refused, perhaps saying why."""


def result(path: JsonPath, content: Any, tool: str, call: str, blocks: list[Block]) -> int:
    """Add the blocks of one result; count its characters."""
    if isinstance(content, str):
        if content.startswith(_USERS_WORDS):
            return len(content)
        blocks += values.long_text(Kind.RESULT, path, content, tool, call)
        return len(content)
    for index, part in enumerate(values.items(content)):
        text = values.part_text(part)
        if text and part.get("type") == "text":
            blocks += values.long_text(Kind.RESULT, (*path, index, "text"), text, tool, call)
        blocks += picture((*path, index), part, tool, call)
    return values.characters(content)


def picture(path: JsonPath, part: Any, tool: str, call: str) -> list[Block]:
    """Make the block of an image or a document, none of any other part."""
    part = values.fields(part)
    data = values.fields(part.get("source")).get("data")
    return values.whole(Kind.IMAGE, path, part, tool, call) if part.get("type") in PICTURES and data else []


_PURPOSES = {
    "read": Purpose.READ,
    "write": Purpose.WRITE,
    "bash": Purpose.COMMAND,
    "powershell": Purpose.COMMAND,
    "bashoutput": Purpose.COMMAND,
    "taskoutput": Purpose.COMMAND,
}
_THINKS = Facts(thinks=True)
_FAILED = Facts(failed=True)
_UNCHANGED = "File unchanged since last read"
_NUMBERED = "numbered"
_PARTS: JsonPath = ("message", "content")


class ClaudeReader:
    """Reads the lines of one session."""

    def __init__(self) -> None:
        self._asked: dict[str, Call] = {}
        """The calls that wait for their results, which do not name their tool."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        kind = entry.get("type")
        message = entry.get("message")
        if kind == "assistant" and isinstance(message, dict):
            return self._assistant(raw, entry, message)
        if kind == "user" and isinstance(message, dict):
            return self._user(raw, entry, message)
        if kind == "system" and entry.get("subtype") == "compact_boundary":
            return _boundary(raw, entry)
        return _note(raw, entry)

    def _assistant(self, raw: bytes, entry: Entry, message: Entry) -> Line:
        response = intern(values.text(message.get("id")))
        blocks: list[Block] = []
        calls: list[Call] = []
        thoughts: list[Block] = []
        says = characters = io = thinks = 0
        for index, part in enumerate(values.items(message.get("content"))):
            if not isinstance(part, dict):
                says += 1
                continue
            kind = part.get("type")
            if kind in THOUGHTS:
                thinks += 1
                characters += values.thought(part.get("thinking"), part.get("signature") or part.get("data"))
                if size := len(values.literal(part)):
                    thoughts.append(Block(Kind.THINKING, _part_path(index), size, size))
                continue
            says += 1
            text = part.get("text")
            if isinstance(text, str):
                characters += len(text)
            if kind == "tool_use":
                made = self._made(part)
                calls.append(made)
                io += values.arguments(_part_path(index, "input"), part.get("input"), made, blocks)
        if len(thoughts) == thinks and (says or response):
            # All thinking of a line goes or none; where nothing else would stay, other lines must hold the rest.
            blocks = thoughts + blocks
        blocks += screen.screen_blocks(entry, "", "")
        return _line(
            raw,
            entry,
            Role.ASSISTANT,
            blocks,
            calls=calls,
            io=io,
            reads=characters + io + values.CALL * len(calls),
            facts=_THINKS if thinks else PLAIN,
            response=response,
            time=_time(entry),
        )

    def _made(self, part: Mapping[str, Any]) -> Call:
        tool = intern(values.text(part.get("name")))
        name = values.text(part.get("id"))
        purpose = _PURPOSES.get(tool.lower(), Purpose.OTHER)
        file, within = values.about(values.fields(part.get("input")))
        if purpose is Purpose.READ:
            # Its lines come with their numbers: what it returns is never the file itself.
            within = f"{_NUMBERED},{within}" if within else _NUMBERED
        made = Call(name, name, tool, purpose, file, within)
        self._asked[name] = made
        return made

    def _user(self, raw: bytes, entry: Entry, message: Entry) -> Line:
        content = message.get("content")
        parts = values.items(content)
        blocks: list[Block] = []
        results: list[tuple[int, Mapping[str, Any]]] = []
        for index, part in enumerate(parts):
            if isinstance(part, dict):
                kind = part.get("type")
                if kind == "tool_result":
                    results.append((index, part))
                elif kind in PICTURES:
                    blocks += picture(_part_path(index), part, "", "")
        if parts and marker.PREFIX_BYTES in raw:
            blocks += values.marked_images(_PARTS, parts)
        answers, io = "", 0
        if not results:
            role = Role.USER if is_prompt(entry) else Role.OTHER
            facts = _repeating(entry)
            shown = screen.screen_blocks(entry, "", "")
        else:
            role = _role_of(results)
            calls = [self._answered(values.text(part.get("tool_use_id"))) for _, part in results]
            for (index, part), (name, tool) in zip(results, calls, strict=True):
                io += result(_part_path(index, "content"), part.get("content"), tool, name, blocks)
            failed = any(part.get("is_error") is True for _, part in results)
            if len(calls) == 1:
                answers, tool = calls[0]
                facts = _FAILED if failed else PLAIN
                shown = screen.screen_blocks(entry, tool, answers)
            else:
                facts = Facts(failed=failed, several=tuple(name for name, _ in calls))
                shown = screen.screen_blocks(entry, "", "")
        reads = values.characters(content) + io + values.pictures(blocks) + values.RESULT * len(results)
        blocks += shown
        return _line(raw, entry, role, blocks, answers=answers, io=io, reads=reads, facts=facts, time=_time(entry))

    def _answered(self, name: str) -> tuple[str, str]:
        """Find the id of a call and its tool; both are those of the call itself, held once."""
        made = self._asked.pop(name, None)
        return (name, "") if made is None else (made.id, made.tool)


def is_prompt(entry: Entry) -> bool:
    """Tell whether a user line without results is a turn of the user."""
    return not any(entry.get(key) for key in ("isMeta", "isCompactSummary", "isSidechain"))


def _role_of(results: Sequence[tuple[int, Mapping[str, Any]]]) -> Role:
    """A read that only says that its file is as it was supersedes no earlier read: to the plan it is no result."""
    unchanged = any(values.text(part.get("content")).startswith(_UNCHANGED) for _, part in results)
    return Role.OTHER if unchanged else Role.RESULT


def _boundary(raw: bytes, entry: Entry) -> Line:
    kept = values.fields(values.fields(entry.get("compactMetadata")).get("preservedSegment"))
    facts = Facts(keeps=values.text(kept.get("headUuid")))
    # A compaction has no parent, so that the agent's walk ends there; ours goes on, through what is dead.
    parent = values.text(entry.get("logicalParentUuid"))
    return line_of(raw, Role.CHECKPOINT, id=values.text(entry.get("uuid")), parent=parent, facts=facts)


def _note(raw: bytes, entry: Entry) -> Line:
    """Read a line beside the conversation, or one that the agent itself put into it."""
    shown = screen.note_blocks(entry)
    reads = sum(block.size for block in shown) if entry.get("type") == "attachment" else 0
    facts = _repeating(entry)
    if call := values.text(entry.get("parentToolUseID")):
        facts = facts._replace(reports=call)
    return _line(raw, entry, Role.OTHER, [*shown, *screen.screen_blocks(entry, "", "")], reads=reads, facts=facts)


def _repeating(entry: Entry) -> Facts:
    said = screen.said(entry)
    return Facts(repeats=said) if said else PLAIN


def _time(entry: Entry) -> int:
    """When a message was written; that of a subagent tells nothing of how the session hangs together."""
    return 0 if entry.get("isSidechain") else moment(values.text(entry.get("timestamp")))


@cache
def _part_path(index: int, *inner: str) -> JsonPath:
    return (*_PARTS, index, *inner)


def _line(raw: bytes, entry: Entry, role: Role, blocks: Iterable[Block], **fields: Any) -> Line:
    name, parent = values.text(entry.get("uuid")), values.text(entry.get("parentUuid"))
    return line_of(raw, role, blocks, id=name, parent=parent, **fields)
