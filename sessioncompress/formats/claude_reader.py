"""Claude Code's lines to what the plan must know: calls, results, thinking, images, copies for the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from typing import Any

from xxhash import xxh3_64_intdigest

from sessioncompress import marker
from sessioncompress.formats import claude_screen, values
from sessioncompress.formats.base import Entry
from sessioncompress.model import PLAIN, Block, Call, Facts, Kind, Line, Path, Purpose, Role
from sessioncompress.references import digest_of

THOUGHTS = ("thinking", "redacted_thinking")
PICTURES = ("image", "document")
FILES_SHOWN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("edited_text_file", ("attachment", "snippet")),
    ("file", ("attachment", "content", "file", "content")),
)
"""Attachments that show the model a file, and where in them its text stands."""

_PURPOSES = {
    "read": Purpose.READ,
    "write": Purpose.WRITE,
    "bash": Purpose.COMMAND,
    "powershell": Purpose.COMMAND,
    "bashoutput": Purpose.COMMAND,
    "taskoutput": Purpose.COMMAND,
}
READ_BACK = frozenset({"exitplanmode", "todowrite"})
"""Tools whose arguments the agent reads again at a resume: the plan becomes a file, the list stands on the screen."""

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
            shown = _shown(entry, raw)
            blocks = (*shown, *claude_screen.blocks(entry, "", ""))
            return _line(raw, entry, Role.OTHER, blocks=blocks, reads=sum(block.size for block in shown))
        return line if entry.get("isSidechain") else line._replace(time=_time(entry))

    def _assistant(self, raw: bytes, entry: Entry, message: Entry) -> Line:
        response = intern(values.text(message.get("id")))
        blocks: list[Block] = []
        calls: list[Call] = []
        thoughts: list[Block] = []
        says = characters = io = thinks = 0
        for index, part in enumerate(values.items(message.get("content"))):
            kind = values.fields(part).get("type")
            if kind in THOUGHTS:
                thinks += 1
                characters += len(values.text(part.get("thinking")))
                if size := len(values.literal(part)):
                    thoughts.append(Block(Kind.THINKING, (*_PARTS, index), size, size))
                continue
            says += 1
            characters += len(values.text(values.fields(part).get("text")))
            if kind == "tool_use":
                calls.append(self._made(part))
                io += _arguments((*_PARTS, index, "input"), part.get("input"), calls[-1], raw, blocks)
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
            reads=characters + io,
            facts=Facts(thinks=True) if thinks else PLAIN,
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
        blocks = [block for index, part in parts for block in _picture((*_PARTS, index), part, "", "")]
        if marker.PREFIX_BYTES in raw:
            blocks += [block for index, part in parts for block in _marked_picture((*_PARTS, index, "text"), part)]
        if not results:
            return _line(
                raw,
                entry,
                _role(entry),
                blocks=(*blocks, *claude_screen.blocks(entry, "", "")),
                reads=values.characters(content),
            )
        calls = [self._answered(values.text(part.get("tool_use_id"))) for _, part in results]
        io = 0
        for (index, part), (name, tool) in zip(results, calls, strict=True):
            io += _result((*_PARTS, index, "content"), part.get("content"), tool, name, raw, blocks)
        one = len(calls) == 1
        blocks += claude_screen.blocks(entry, *(reversed(calls[0]) if one else ("", "")))
        failed = any(part.get("is_error") is True for _, part in results)
        facts = Facts(failed=failed, several=() if one else tuple(name for name, _ in calls))
        return _line(
            raw,
            entry,
            _role_of(results),
            blocks=tuple(blocks),
            answers=calls[0][0] if one else "",
            io=io,
            reads=values.characters(content) + io,
            facts=PLAIN if facts == PLAIN else facts,
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


def _line(raw: bytes, entry: Entry, role: Role, **known: Any) -> Line:
    name, parent = values.text(entry.get("uuid")), values.text(entry.get("parentUuid"))
    return Line(role, len(raw), xxh3_64_intdigest(raw), name, parent, **known)


def _time(entry: Entry) -> int:
    try:
        written = datetime.fromisoformat(values.text(entry.get("timestamp")))
        return max(int(written.timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        return 0


def _arguments(path: Path, arguments: Any, made: Call, raw: bytes, blocks: list[Block]) -> int:
    """Add the blocks of one call; return how many characters its arguments are."""
    written = values.literal(arguments)
    if isinstance(arguments, dict) and len(written) >= values.SMALLEST_BLOCK:
        bulk = 0 if made.tool.lower() in READ_BACK else sum(values.long_leaves(arguments))
        blocks.append(Block(Kind.ARGUMENT, path, len(written), bulk, made.tool, made.name))
    if written and marker.PREFIX_BYTES in raw:
        blocks += values.marked_leaves(path, arguments, made.tool, made.name)
    return len(written)


def _result(path: Path, content: Any, tool: str, call: str, raw: bytes, blocks: list[Block]) -> int:
    """Add the blocks of one result; return how many characters it is."""
    if isinstance(content, str):
        blocks += _text(path, content, tool, call, raw)
        return len(content)
    for index, part in enumerate(values.items(content)):
        text = values.text(values.fields(part).get("text"))
        if text and part.get("type") == "text":
            blocks += _text((*path, index, "text"), text, tool, call, raw)
        blocks += _picture((*path, index), part, tool, call)
    return values.characters(content)


def _text(path: Path, text: str, tool: str, call: str, raw: bytes) -> list[Block]:
    marked = marker.PREFIX_BYTES in raw and marker.occurs_in(text)
    if len(text) < values.SMALLEST_BLOCK and not marked:
        return []
    written = values.literal(text)
    return [Block(Kind.RESULT, path, len(written), len(written), tool, call, digest_of(written), marked)]


def _picture(path: Path, part: Any, tool: str, call: str) -> list[Block]:
    part = values.fields(part)
    data = values.fields(part.get("source")).get("data")
    return values.whole(Kind.IMAGE, path, part, tool, call) if part.get("type") in PICTURES and data else []


def _marked_picture(path: Path, part: Mapping[str, Any]) -> list[Block]:
    """Find what may stand in an image's place in a prompt: a text that is a marker and nothing else."""
    text = values.text(part.get("text"))
    return [values.marked(Kind.IMAGE, path, text, "", "")] if marker.is_one(text) else []


def _shown(entry: Entry, raw: bytes) -> list[Block]:
    """Return the blocks of an attachment that shows the model a file."""
    attachment = values.fields(entry.get("attachment"))
    found: list[Block] = []
    for kind, path in FILES_SHOWN:
        if entry.get("type") == "attachment" and attachment.get("type") == kind:
            value: Any = entry
            for step in path:
                value = values.fields(value).get(step)
            found += _text(path, values.text(value), kind, "", raw)
    return found
