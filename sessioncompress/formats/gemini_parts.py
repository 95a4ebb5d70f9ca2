"""The parts of Gemini CLI's messages: calls, what came back, pictures and thoughts, and the blocks in them."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

from sessioncompress.core.model import Block, Call, Kind, Path, Purpose
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry

PURPOSES = {
    "read_file": Purpose.READ,
    "write_file": Purpose.WRITE,
    "run_shell_command": Purpose.COMMAND,
}
FILE_KEYS = ("file_path", "absolute_path", "path", "dir_path")
CONTENT: Path = ("content",)
Parts = list[tuple[int, Mapping[str, Any]]]
"""Parts of a message with their places."""

_SKILL_FILE = "SKILL.md"
_THOUGHTS: Path = ("thoughts",)


def said(content: Any) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    texts = (part if isinstance(part, str) else values.fields(part).get("text") for part in values.items(content))
    return "".join(map(values.text, texts))


def parts_of(entry: Entry) -> Parts:
    """Return the parts of a message with their places; one that is no object is an empty one."""
    return [(index, values.fields(part)) for index, part in enumerate(values.items(entry.get("content")))]


def call_of(made: Mapping[str, Any]) -> Call:
    """Return a call, as it stands with its result or among the parts."""
    tool = intern(values.text(made.get("name")))
    name = values.text(made.get("id"))
    arguments = values.fields(made.get("args"))
    file = next((values.text(arguments[key]) for key in FILE_KEYS if key in arguments), "")
    return Call(name, name, tool, PURPOSES.get(tool, Purpose.OTHER), intern(file))


def sent(result: Any) -> int:
    """Return how many characters a model reads of what a call gave back: without the frame that names the call."""
    if isinstance(result, str):
        return len(result)
    parts = [values.fields(part) for part in values.items(result)]
    pictures = sum(min(len(data), values.PICTURE) for data in map(_data, parts))
    answers = [values.fields(values.fields(part.get("functionResponse")).get("response")) for part in parts]
    return pictures + sum(map(_said_in, answers))


def _said_in(answer: Mapping[str, Any]) -> int:
    return sum(len(each) if isinstance(each, str) else len(values.literal(each)) for each in answer.values())


def response(path: Path, part: Mapping[str, Any], call: Call) -> list[Block]:
    """Return the blocks of the texts that a tool gave back; of a skill that was read none."""
    blocks: list[Block] = []
    if call.file.endswith(_SKILL_FILE) and call.purpose is Purpose.READ:
        return blocks
    response = values.fields(values.fields(part.get("functionResponse")).get("response"))
    for key in ("output", "error"):
        place: Path = (*path, "functionResponse", "response", key)
        blocks += values.long_text(Kind.RESULT, place, values.text(response.get(key)), call.tool, call.name)
    return blocks


def picture(path: Path, part: Mapping[str, Any], tool: str, call: str) -> list[Block]:
    """Return the block of a part that holds an image or the like, none for any other part; what is signed stays."""
    data = _data(part)
    return values.whole(Kind.IMAGE, path, part, tool, call) if data and "thoughtSignature" not in part else []


def _data(part: Mapping[str, Any]) -> str:
    return values.text(values.fields(part.get("inlineData")).get("data"))


def thoughts_of(entry: Entry, parts: Parts, calls: Mapping[str, Call]) -> list[Block]:
    """Return the blocks of a message's thoughts, beside its parts and among them; it must say or call something too.

    A thought with a signature stays. By a call or a thought among the parts the agent tells that those are all there
    is: where the thoughts are what it tells it by, and calls stand beside the parts, they stay.
    """
    blocks: list[Block] = []
    thoughts = entry.get("thoughts")
    size = len(values.literal(thoughts)) if isinstance(thoughts, list) and thoughts else 0
    if size and (calls or said(entry.get("content")).strip()):
        blocks.append(Block(Kind.THINKING, _THOUGHTS, size, size))
    rest = [part for _, part in parts if not part.get("thought")]
    sends = any("functionCall" in part for part in rest)
    if sends or (not calls and any(part for part in rest)):
        for index, part in parts:
            if part.get("thought") is True and part.keys() == {"text", "thought"}:
                size = len(values.literal(part))
                blocks.append(Block(Kind.THINKING, (*CONTENT, index), size, size))
    return blocks
