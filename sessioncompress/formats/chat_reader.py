"""The messages of a chat in OpenAI's form: calls whose arguments are JSON in a string, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

from msgspec import Struct
from xxhash import xxh3_64_intdigest

from sessioncompress.core import marker
from sessioncompress.core.model import PLAIN, Block, Call, Facts, Kind, Line, Path, Purpose, Role
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry

FUNCTION = "function"
TEXT = "text"
IMAGE = "image_url"
REASONING = ("reasoning", "reasoning_content")

_PURPOSES = {
    **dict.fromkeys(("read", "read_file", "view"), Purpose.READ),
    **dict.fromkeys(("write", "write_file", "create_file"), Purpose.WRITE),
    **dict.fromkeys(("bash", "shell", "terminal", "run_command", "execute_command"), Purpose.COMMAND),
}
"""Names that many programs give their tools; of any other tool nothing is supposed."""

_CONTENT: Path = ("content",)
_SKILL_FILE = "SKILL.md"


class ChatReader(Struct):
    """Reads the messages of one chat."""

    _made: dict[str, Call] = {}
    """The calls that wait for their results, which do not name their tool."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        """Return what the plan must know of this message."""
        size = values.characters(entry.get("content"))
        match entry.get("role"):
            case "assistant":
                return self._answer(raw, entry, size)
            case "tool":
                return self._result(raw, entry, size)
            case "user":
                blocks = _pictures(entry.get("content"), "", "")
                if marker.PREFIX_BYTES in raw:
                    blocks += values.marked_images(_CONTENT, values.items(entry.get("content")))
                return _line(raw, Role.USER, blocks, reads=size + values.pictures(blocks))
        return _line(raw, Role.OTHER, [], reads=size)

    def _answer(self, raw: bytes, entry: Entry, size: int) -> Line:
        blocks: list[Block] = []
        calls: list[Call] = []
        io = 0
        for index, part in enumerate(values.items(entry.get("tool_calls"))):
            function = values.fields(values.fields(part).get(FUNCTION))
            written = values.text(function.get("arguments"))
            # What is no JSON is one long text.
            given = values.given(written)
            call = _call(values.text(values.fields(part).get("id")), values.text(function.get("name")), given)
            calls.append(call)
            self._made[call.name] = call
            io += len(written)
            blocks += _arguments(("tool_calls", index, FUNCTION, "arguments"), written, given, call)
        thoughts = [(key, values.text(entry.get(key))) for key in REASONING]
        if may_go(entry):
            blocks += [block for key, text in thoughts for block in _thought(key, text)]
        reads = size + io + values.CALL * len(calls) + sum(len(text) for _, text in thoughts)
        facts = Facts(thinks=True) if any(text for _, text in thoughts) else PLAIN
        line = _line(raw, Role.ASSISTANT, blocks, io=io, reads=reads)
        return line._replace(calls=tuple(calls), facts=facts)

    def _result(self, raw: bytes, entry: Entry, size: int) -> Line:
        name = values.text(entry.get("tool_call_id"))
        made = self._made.pop(name, None)
        tool = made.tool if made else intern(values.text(entry.get("name")))
        name = made.id if made else name
        content = entry.get("content")
        blocks = values.long_text(Kind.RESULT, _CONTENT, values.text(content), tool, name)
        for index, part in enumerate(values.items(content)):
            if values.fields(part).get("type") == TEXT:
                text = values.text(part.get("text"))
                blocks += values.long_text(Kind.RESULT, (*_CONTENT, index, "text"), text, tool, name)
        blocks += _pictures(content, tool, name)
        reads = size + values.pictures(blocks) + values.RESULT
        return _line(raw, Role.RESULT, blocks, io=size, reads=reads)._replace(answers=name)


def may_go(entry: Mapping[str, Any]) -> bool:
    """Say whether a message's reasoning may go: not from one with calls, which some providers then refuse.

    Nor where it is signed or sealed: what holds that is another value.
    """
    return bool(entry.get("content")) and not entry.get("tool_calls") and not entry.get("reasoning_details")


def _call(name: str, tool: str, given: Any) -> Call:
    purpose = _PURPOSES.get(tool.lower(), Purpose.OTHER)
    file, part = values.about(given) if isinstance(given, dict) else ("", "")
    if purpose is Purpose.READ:
        # Whether its lines come with their numbers is not known: what it returns may not be the file itself.
        part = f"as read,{part}" if file else ""
    return Call(name, name, intern(tool), purpose, file, part)


def _arguments(path: Path, written: str, given: Any, call: Call) -> list[Block]:
    parsed = values.literal(given)
    size = len(values.literal(written)) if parsed else 0
    blocks = []
    if size >= values.SMALLEST_BLOCK:
        blocks.append(Block(Kind.ARGUMENT, path, size, sum(values.long_leaves(given)), call.tool, call.name))
    if marker.PREFIX_BYTES in parsed:
        blocks += values.marked_leaves(path, given, call.tool, call.name)
    return blocks


def _thought(key: str, text: str) -> list[Block]:
    size = len(values.literal(text))
    return [Block(Kind.THINKING, (key,), size, size)] if text else []


def _pictures(content: Any, tool: str, call: str) -> list[Block]:
    """Return the blocks of the images that stand there themselves; of one elsewhere its address stays."""
    return [
        block
        for index, part in enumerate(values.items(content))
        if values.fields(part).get("type") == IMAGE
        and values.text(values.fields(values.fields(part).get(IMAGE)).get("url")).startswith("data:")
        for block in values.whole(Kind.IMAGE, (*_CONTENT, index), part, tool, call)
    ]


def _line(raw: bytes, role: Role, blocks: list[Block], *, io: int = 0, reads: int = 0) -> Line:
    return Line(role, len(raw), xxh3_64_intdigest(raw), blocks=tuple(blocks), io=io, reads=reads)
