"""The messages of Gemini CLI: calls with their results, thoughts, and since its `.jsonl` the parts that it sends too.

A call's result may stand twice: with the call, and in a message of type `user` that the model gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from xxhash import xxh3_64_intdigest

from sessioncompress import marker
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry
from sessioncompress.model import PLAIN, Block, Call, Facts, Kind, Line, Path, Purpose, Role

PURPOSES = {
    "read_file": Purpose.READ,
    "write_file": Purpose.WRITE,
    "run_shell_command": Purpose.COMMAND,
}
FILE_KEYS = ("file_path", "absolute_path", "path", "dir_path")
HEADER_KEYS = ("sessionId", "projectHash")
BACK = "$rewindTo"
UPDATE = "$set"
CONTENT: Path = ("content",)

_NOT_SAID = ("/", "?", "<session_context>", "<hook_context>")
"""How a message of the user begins that is none: a command, or what the agent puts there itself."""

_SKILL_FILE = "SKILL.md"
_THINKS = Facts(thinks=True)
_THOUGHTS: Path = ("thoughts",)


@dataclass(slots=True)
class GeminiReader:
    """Reads the messages of one session, and the records between them."""

    _made: dict[str, Call] = field(default_factory=dict)
    """The calls by their ids: a message that the model gets as their result names no file."""

    _given: set[str] = field(default_factory=set)
    """The calls whose results stand with them: what repeats those is not counted once more."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        """Return what the plan must know of this message or record."""
        if isinstance(entry.get(BACK), str):
            return _line(raw, Role.OTHER)._replace(parent=entry[BACK])
        if "id" not in entry and "type" not in entry:
            return _record(raw, entry)
        name = values.text(entry.get("id"))
        kind = entry.get("type")
        if kind == "gemini":
            return self._answer(raw, entry)._replace(id=name)
        if kind == "user":
            return self._user(raw, entry)._replace(id=name)
        return _line(raw, Role.OTHER, reads=len(said(entry.get("content"))))._replace(id=name)

    def _user(self, raw: bytes, entry: Entry) -> Line:
        content = entry.get("content")
        parts = [(index, values.fields(part)) for index, part in enumerate(values.items(content))]
        results = [(index, part) for index, part in parts if "functionResponse" in part]
        if results:
            return self._results(raw, results, parts)
        text = said(content)
        blocks = [block for index, part in parts for block in _picture((*CONTENT, index), part, "", "")]
        if marker.PREFIX_BYTES in raw:
            blocks += values.marked_images(CONTENT, values.items(content))
        is_turn = bool(text.strip()) and not text.strip().startswith(_NOT_SAID)
        is_turn |= not text.strip() and any("text" not in part for _, part in parts)
        return _line(raw, Role.USER if is_turn else Role.OTHER, tuple(blocks), reads=len(text))

    def _results(
        self, raw: bytes, results: list[tuple[int, Mapping[str, Any]]], parts: list[tuple[int, Mapping[str, Any]]]
    ) -> Line:
        """Read what the model gets as the results of its calls."""
        names = tuple(values.text(values.fields(part["functionResponse"]).get("id")) for _, part in results)
        calls = [self._made.get(name) or Call(name, name, "", Purpose.OTHER) for name in names]
        blocks: list[Block] = []
        for (index, part), call in zip(results, calls, strict=True):
            blocks += _response((*CONTENT, index), part, call)
        one = calls[0] if len(calls) == 1 else Call("", "", "", Purpose.OTHER)
        for index, part in parts:
            blocks += _picture((*CONTENT, index), part, one.tool, one.name)
        size = sum(len(values.literal(part)) for _, part in results)
        io = 0 if self._given.issuperset(names) else size
        facts = PLAIN if one.name else Facts(several=names)
        return _line(raw, Role.RESULT, tuple(blocks), io=io, reads=io, facts=facts)._replace(answers=one.name)

    def _answer(self, raw: bytes, entry: Entry) -> Line:
        parts = [(index, values.fields(part)) for index, part in enumerate(values.items(entry.get("content")))]
        sent = [(index, part) for index, part in parts if "functionCall" in part]
        made = [
            (index, each) for index, each in enumerate(values.items(entry.get("toolCalls"))) if isinstance(each, dict)
        ]
        # Older versions tell by the arguments which call a part without an id is.
        bound = any(not values.text(values.fields(part["functionCall"]).get("id")) for _, part in sent)
        blocks: list[Block] = []
        calls: dict[str, Call] = {}
        io = 0
        for index, each in made:
            call = _call(each)
            calls[call.name] = call
            io += self._called(raw, index, each, call, blocks, whole=bound)
        for index, part in sent:
            call = _call(values.fields(part["functionCall"]))
            call = calls.setdefault(call.name, call)
            # A signature covers the call that it stands at.
            if not bound and "thoughtSignature" not in part:
                path: Path = (*CONTENT, index, "functionCall", "args")
                values.arguments(path, values.fields(part["functionCall"]).get("args"), call, raw, blocks)
        self._made.update(calls)
        thoughts = _thoughts(entry, parts, calls)
        thinks = bool(entry.get("thoughts")) or any(part.get("thought") for _, part in parts)
        reads = io + sum(block.size for block in thoughts) + len(said(entry.get("content")))
        facts = _THINKS if thinks else PLAIN
        line = _line(raw, Role.ASSISTANT, (*blocks, *thoughts), io=io, reads=reads, facts=facts)
        return line._replace(calls=tuple(calls.values()))

    def _called(self, raw: bytes, index: int, made: Entry, call: Call, blocks: list[Block], *, whole: bool) -> int:
        """Add the blocks of a call with its result; return how many characters both are."""
        path: Path = ("toolCalls", index)
        given: list[Block] = []
        size = values.arguments((*path, "args"), made.get("args"), call, raw, given)
        blocks += () if whole else given
        result = made.get("result")
        if result:
            self._given.add(call.name)
        if isinstance(result, str):
            blocks += values.long_text(Kind.RESULT, (*path, "result"), result, call.tool, call.name)
        for step, part in enumerate(values.items(result)):
            place: Path = (*path, "result", step)
            blocks += _response(place, values.fields(part), call)
            blocks += _picture(place, values.fields(part), call.tool, call.name)
        blocks += values.whole(Kind.MIRROR, (*path, "resultDisplay"), made.get("resultDisplay"), call.tool, call.name)
        return size + len(values.literal(result))


def said(content: Any) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    return "".join(values.text(values.fields(part).get("text")) for part in values.items(content))


def _record(raw: bytes, entry: Entry) -> Line:
    """Read what is no message: the header, or an update; one that sets all messages takes the place of those before."""
    if isinstance(values.fields(entry.get(UPDATE)).get("messages"), list):
        return _line(raw, Role.CHECKPOINT)
    return _line(raw, Role.HEADER if all(key in entry for key in HEADER_KEYS) else Role.OTHER)


def _call(made: Mapping[str, Any]) -> Call:
    tool = intern(values.text(made.get("name")))
    name = values.text(made.get("id"))
    arguments = values.fields(made.get("args"))
    file = next((values.text(arguments[key]) for key in FILE_KEYS if key in arguments), "")
    return Call(name, name, tool, PURPOSES.get(tool, Purpose.OTHER), intern(file))


def _response(path: Path, part: Mapping[str, Any], call: Call) -> list[Block]:
    """Return the blocks of the texts that a tool gave back; of a skill that was read none."""
    blocks: list[Block] = []
    if call.file.endswith(_SKILL_FILE) and call.purpose is Purpose.READ:
        return blocks
    response = values.fields(values.fields(part.get("functionResponse")).get("response"))
    for key in ("output", "error"):
        place: Path = (*path, "functionResponse", "response", key)
        blocks += values.long_text(Kind.RESULT, place, values.text(response.get(key)), call.tool, call.name)
    return blocks


def _picture(path: Path, part: Mapping[str, Any], tool: str, call: str) -> list[Block]:
    """Return the block of a part that holds an image or the like, none for any other part; what is signed stays."""
    data = values.text(values.fields(part.get("inlineData")).get("data"))
    return values.whole(Kind.IMAGE, path, part, tool, call) if data and "thoughtSignature" not in part else []


def _thoughts(entry: Entry, parts: list[tuple[int, Mapping[str, Any]]], calls: Mapping[str, Call]) -> list[Block]:
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


def _line(
    raw: bytes, role: Role, blocks: tuple[Block, ...] = (), *, io: int = 0, reads: int = 0, facts: Facts = PLAIN
) -> Line:
    return Line(role, len(raw), xxh3_64_intdigest(raw), blocks=blocks, io=io, reads=reads, facts=facts)
