"""Gemini CLI, its sessions of one JSON document: calls and their results stand together in the model's messages."""

from __future__ import annotations

import re
from sys import intern
from typing import Any

from xxhash import xxh3_64_intdigest

from sessioncompress.formats import values
from sessioncompress.formats.base import Entry, Head, Name, Reader
from sessioncompress.lines import Lines
from sessioncompress.model import PLAIN, Block, Call, Facts, Kind, Line, Path, Purpose, Role, Shape
from sessioncompress.splice import REMOVED

_PURPOSES = {
    "read_file": Purpose.READ,
    "write_file": Purpose.WRITE,
    "run_shell_command": Purpose.COMMAND,
}
_TOOLS = frozenset(
    {
        *_PURPOSES,
        "replace",
        "list_directory",
        "read_many_files",
        "glob",
        "grep_search",
        "search_file_content",
        "google_web_search",
        "web_fetch",
        "write_todos",
        "save_memory",
        "codebase_investigator",
        "ask_user",
        "activate_skill",
    }
)
_KEYS = ("sessionId", "projectHash", "startTime")
_NOT_SAID = ("/", "?", "<session_context>", "<hook_context>")
"""How a message of the user begins that is none: a command, or what the agent puts there itself."""

_FILE_KEYS = ("file_path", "absolute_path", "path", "dir_path")
_SKILL_FILE = "SKILL.md"
_THINKS = Facts(thinks=True)
_THOUGHTS: Path = ("thoughts",)
_PROMPT: Path = ("content",)


class GeminiReader:
    """Reads the messages of one session."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        """Return what the plan must know of this message."""
        kind = entry.get("type")
        if kind == "gemini":
            return _answer(raw, entry)
        said = _said(entry.get("content")) if kind == "user" else ""
        is_turn = bool(said) and not said.startswith(_NOT_SAID)
        return _line(raw, entry, Role.USER if is_turn else Role.OTHER, reads=len(said))


class Gemini:
    """Sessions of Gemini CLI in one JSON document; the records of its newer versions are another format."""

    name = "gemini"
    tools = _TOOLS
    kept_tools: frozenset[str] = frozenset()
    links: re.Pattern[str] | None = None
    preamble: re.Pattern[str] | None = None

    def recognises(self, head: Head) -> bool:
        """Say whether the document names a session and a project, and its messages are of this agent's types."""
        outer = values.fields(head.document)
        if not all(isinstance(outer.get(key), str) for key in _KEYS):
            return False
        return all({"id", "timestamp", "type", "content"} <= entry.keys() for entry in head.entries)

    def named(self, head: Head) -> Name:
        """Return the session's id."""
        return Name(values.text(values.fields(head.document).get("sessionId")))

    def reader(self) -> Reader:
        """Return a reader for one session."""
        return GeminiReader()

    def shape(self, lines: Lines) -> Shape:
        """All messages follow each other; nothing of them is dead."""
        return Shape(range(len(lines)), frozenset())

    def may_change(self, entry: Entry, path: Path, value: Any) -> bool:
        """Say whether the value at a path of a message may become that one (or be REMOVED)."""
        match path:
            case ("thoughts",):
                return value is REMOVED and entry.get("type") == "gemini"
            case ("toolCalls", int(), "resultDisplay"):
                return value is REMOVED
            case ("toolCalls", int(), "args", *_, step):
                return isinstance(value, str) and step not in _FILE_KEYS
            case ("toolCalls", int(), "result", int(), "functionResponse", "response", "output" | "error"):
                return isinstance(value, str)
        return False

    def stand_in(self, path: Path, value: Any) -> Any:
        """Return what takes a mirror's place: nothing, as of a call that shows nothing."""
        del path, value
        return REMOVED

    def text_part(self, text: str) -> Any:
        """Return a text part."""
        return {"text": text}

    def part_text(self, part: Any) -> str:
        """Return the text of a text part."""
        return values.text(values.fields(part).get("text"))

    def image(self, part: Any) -> tuple[str, str]:
        """Return an image part's media type and its base64 data."""
        data = values.fields(values.fields(part).get("inlineData"))
        return values.text(data.get("mimeType")), values.text(data.get("data"))


def _answer(raw: bytes, entry: Entry) -> Line:
    blocks: list[Block] = []
    calls: list[Call] = []
    io = 0
    for index, made in enumerate(values.items(entry.get("toolCalls"))):
        if isinstance(made, dict):
            calls.append(_call(made))
            path, tool, call = ("toolCalls", index), calls[-1].tool, calls[-1].name
            io += values.arguments((*path, "args"), made.get("args"), calls[-1], raw, blocks)
            io += len(values.literal(made.get("result")))
            blocks += _results((*path, "result"), made, calls[-1])
            blocks += values.whole(Kind.MIRROR, (*path, "resultDisplay"), made.get("resultDisplay"), tool, call)
    thoughts = entry.get("thoughts")
    size = len(values.literal(thoughts)) if isinstance(thoughts, list) and thoughts else 0
    if size and (calls or _said(entry.get("content")).strip()):
        blocks.append(Block(Kind.THINKING, _THOUGHTS, size, size))
    facts = _THINKS if size else PLAIN
    reads = io + size + len(_said(entry.get("content")))
    return _line(raw, entry, Role.ASSISTANT, tuple(blocks), tuple(calls), io, reads, facts)


def _call(made: Entry) -> Call:
    tool = intern(values.text(made.get("name")))
    name = values.text(made.get("id"))
    arguments = values.fields(made.get("args"))
    file = next((values.text(arguments[key]) for key in _FILE_KEYS if key in arguments), "")
    return Call(name, name, tool, _PURPOSES.get(tool, Purpose.OTHER), intern(file))


def _results(path: Path, made: Entry, call: Call) -> list[Block]:
    """Return the blocks of the texts that the tool gave back; of a skill that was read none."""
    blocks: list[Block] = []
    if call.file.endswith(_SKILL_FILE) and call.purpose is Purpose.READ:
        return blocks
    for index, part in enumerate(values.items(made.get("result"))):
        response = values.fields(values.fields(values.fields(part).get("functionResponse")).get("response"))
        for key in ("output", "error"):
            place = (*path, index, "functionResponse", "response", key)
            blocks += values.long_text(Kind.RESULT, place, values.text(response.get(key)), call.tool, call.name)
    return blocks


def _line(
    raw: bytes,
    entry: Entry,
    role: Role,
    blocks: tuple[Block, ...] = (),
    calls: tuple[Call, ...] = (),
    io: int = 0,
    reads: int = 0,
    facts: Facts = PLAIN,
) -> Line:
    name = values.text(entry.get("id"))
    return Line(role, len(raw), xxh3_64_intdigest(raw), name, "", blocks, calls, "", io, reads, facts)


def _said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(values.text(values.fields(part).get("text")) for part in values.items(content))
