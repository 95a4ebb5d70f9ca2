"""Claude Code's lines to what the plan must know: calls, results, thinking, images, copies for the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from xxhash import xxh3_64_intdigest

from sessioncompress import marker
from sessioncompress.formats import claude_notes, claude_parts, claude_screen, values
from sessioncompress.formats.base import Entry
from sessioncompress.formats.requests import moment
from sessioncompress.model import PLAIN, Block, Call, Facts, Kind, Line, Path, Purpose, Role

_PURPOSES = {
    "read": Purpose.READ,
    "write": Purpose.WRITE,
    "bash": Purpose.COMMAND,
    "powershell": Purpose.COMMAND,
    "bashoutput": Purpose.COMMAND,
    "taskoutput": Purpose.COMMAND,
}
_UNCHANGED = "File unchanged since last read"
_NUMBERED = "numbered"
_PARTS: Path = ("message", "content")


@dataclass(slots=True)
class ClaudeReader:
    """Reads the lines of one session."""

    _asked: dict[str, Call] = field(default_factory=dict)
    """The calls that wait for their results, which do not name their tool."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        """Return what the plan must know of this line."""
        kind = entry.get("type")
        message = entry.get("message")
        if kind == "assistant" and isinstance(message, dict):
            line = self._assistant(raw, entry, message)
        elif kind == "user" and isinstance(message, dict):
            line = self._user(raw, entry, message)
        elif kind == "system" and entry.get("subtype") == "compact_boundary":
            return _boundary(raw, entry)
        else:
            return _note(raw, entry)
        return line if entry.get("isSidechain") else line._replace(time=moment(values.text(entry.get("timestamp"))))

    def _assistant(self, raw: bytes, entry: Entry, message: Entry) -> Line:
        response = intern(values.text(message.get("id")))
        blocks: list[Block] = []
        calls: list[Call] = []
        thoughts: list[Block] = []
        says = characters = io = thinks = 0
        for index, part in enumerate(values.items(message.get("content"))):
            kind = values.fields(part).get("type")
            if kind in claude_parts.THOUGHTS:
                thinks += 1
                characters += values.thought(part.get("thinking"), part.get("signature") or part.get("data"))
                if size := len(values.literal(part)):
                    thoughts.append(Block(Kind.THINKING, (*_PARTS, index), size, size))
                continue
            says += 1
            characters += len(values.text(values.fields(part).get("text")))
            if kind == "tool_use":
                calls.append(self._made(part))
                io += values.arguments((*_PARTS, index, "input"), part.get("input"), calls[-1], blocks)
        if len(thoughts) == thinks and (says or response):
            # All thinking of a line goes or none; where nothing else would stay, other lines must hold the rest.
            blocks = thoughts + blocks
        blocks += claude_screen.blocks(entry, "", "")
        return _line(
            raw,
            entry,
            Role.ASSISTANT,
            blocks=tuple(blocks),
            calls=tuple(calls),
            io=io,
            reads=characters + io + values.CALL * len(calls),
            facts=_facts(thinks=thinks > 0),
            response=response,
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
        parts = [(index, values.fields(part)) for index, part in enumerate(values.items(content))]
        results = [(index, part) for index, part in parts if part.get("type") == "tool_result"]
        blocks = [block for index, part in parts for block in claude_parts.picture((*_PARTS, index), part, "", "")]
        if marker.PREFIX_BYTES in raw:
            blocks += values.marked_images(_PARTS, values.items(content))
        if not results:
            return _line(
                raw,
                entry,
                _role(entry),
                blocks=(*blocks, *claude_screen.blocks(entry, "", "")),
                reads=values.characters(content) + values.pictures(blocks),
                facts=_facts(repeats=claude_notes.said(entry)),
            )
        calls = [self._answered(values.text(part.get("tool_use_id"))) for _, part in results]
        io = 0
        for (index, part), (name, tool) in zip(results, calls, strict=True):
            io += claude_parts.result((*_PARTS, index, "content"), part.get("content"), tool, name, blocks)
        one = len(calls) == 1
        blocks += claude_screen.blocks(entry, *(reversed(calls[0]) if one else ("", "")))
        failed = any(part.get("is_error") is True for _, part in results)
        facts = _facts(failed=failed, several=() if one else tuple(name for name, _ in calls))
        return _line(
            raw,
            entry,
            _role_of(results),
            blocks=tuple(blocks),
            answers=calls[0][0] if one else "",
            io=io,
            reads=values.characters(content) + io + values.pictures(blocks) + values.RESULT * len(results),
            facts=facts,
        )

    def _answered(self, name: str) -> tuple[str, str]:
        """Return the id of a call and its tool; both are those of the call itself, held once."""
        made = self._asked.pop(name, None)
        return (name, "") if made is None else (made.id, made.tool)


def is_prompt(entry: Entry) -> bool:
    """Say whether a user line without results is a turn of the user."""
    return not any(entry.get(key) for key in ("isMeta", "isCompactSummary", "isSidechain"))


def _role(entry: Entry) -> Role:
    return Role.USER if is_prompt(entry) else Role.OTHER


def _role_of(results: Sequence[tuple[int, Mapping[str, Any]]]) -> Role:
    """A read that only says that its file is as it was supersedes no earlier read: to the plan it is no result."""
    unchanged = any(values.text(part.get("content")).startswith(_UNCHANGED) for _, part in results)
    return Role.OTHER if unchanged else Role.RESULT


def _boundary(raw: bytes, entry: Entry) -> Line:
    """A compaction has no parent, so that the agent's walk ends there; ours goes on, through what is dead."""
    kept = values.fields(values.fields(entry.get("compactMetadata")).get("preservedSegment"))
    facts = Facts(keeps=values.text(kept.get("headUuid")))
    line = _line(raw, entry, Role.CHECKPOINT, facts=facts)
    return line._replace(parent=values.text(entry.get("logicalParentUuid")))


def _note(raw: bytes, entry: Entry) -> Line:
    """Read a line beside the conversation, or one that the agent itself put into it."""
    shown = tuple(claude_notes.blocks(entry))
    blocks = (*shown, *claude_screen.blocks(entry, "", ""))
    reads = sum(block.size for block in shown) if entry.get("type") == "attachment" else 0
    return _line(raw, entry, Role.OTHER, blocks=blocks, reads=reads, facts=_facts(repeats=claude_notes.said(entry)))


def _facts(**known: Any) -> Facts:
    """Return what only some lines have; most have nothing of it, and share that."""
    facts = Facts(**known)
    return PLAIN if facts == PLAIN else facts


def _line(raw: bytes, entry: Entry, role: Role, **known: Any) -> Line:
    name, parent = values.text(entry.get("uuid")), values.text(entry.get("parentUuid"))
    return Line(role, len(raw), xxh3_64_intdigest(raw), name, parent, **known)
