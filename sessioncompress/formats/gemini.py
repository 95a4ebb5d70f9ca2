"""Gemini CLI: a list of records, of which the last of an id counts; its older sessions are one JSON document."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from sys import intern
from typing import Any

from msgspec import Struct

from sessioncompress.core import marker
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import (
    PLAIN,
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
    tokens,
    within,
)
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import base, tree, values
from sessioncompress.formats.base import Entry, Head, Name, Reader, line_of

PURPOSES = {
    "read_file": Purpose.READ,
    "write_file": Purpose.WRITE,
    "run_shell_command": Purpose.COMMAND,
}
FILE_KEYS = ("file_path", "absolute_path", "path", "dir_path")
CONTENT: JsonPath = ("content",)
Parts = list[tuple[int, Mapping[str, Any]]]
"""Parts of a message with their places."""

_THOUGHTS: JsonPath = ("thoughts",)

HEADER_KEYS = ("sessionId", "projectHash")
BACK = "$rewindTo"

_NOT_SAID = ("/", "?", "<session_context>", "<hook_context>")
"""How a message of the user begins that is none: a command, or what the agent puts there itself."""

_COPIED = "_response"
"""Ends the id of a message into which a resume copies the results of the message whose id stands before it."""


def said(content: Any) -> str:
    """Read the text of a message's content."""
    if isinstance(content, str):
        return content
    texts = (part if isinstance(part, str) else values.fields(part).get("text") for part in values.items(content))
    return "".join(map(values.text, texts))


def parts_of(entry: Entry) -> Parts:
    """List the parts of a message with their places; one that is no object is an empty one."""
    return [(index, values.fields(part)) for index, part in enumerate(values.items(entry.get("content")))]


def call_of(made: Mapping[str, Any]) -> Call:
    """Read a call, as it stands with its result or among the parts."""
    tool = intern(values.text(made.get("name")))
    name = values.text(made.get("id"))
    arguments = values.fields(made.get("args"))
    file = next((values.text(arguments[key]) for key in FILE_KEYS if key in arguments), "")
    return Call(name, name, tool, PURPOSES.get(tool, Purpose.OTHER), intern(file))


def sent(result: Any) -> int:
    """Count the characters that a model reads of what a call gave back: without the frame that names the call."""
    if isinstance(result, str):
        return len(result)
    parts = [values.fields(part) for part in values.items(result)]
    pictures = sum(min(len(data), values.PICTURE) for data in map(_data, parts))
    answers = [values.fields(values.fields(part.get("functionResponse")).get("response")) for part in parts]
    texts = (each for answer in answers for each in answer.values())
    return pictures + sum(len(each) if isinstance(each, str) else len(values.literal(each)) for each in texts)


def response(path: JsonPath, part: Mapping[str, Any], call: Call) -> list[Block]:
    """Make the blocks of the texts that a tool gave back; of a skill that was read none."""
    blocks: list[Block] = []
    if call.reads_skill:
        return blocks
    response = values.fields(values.fields(part.get("functionResponse")).get("response"))
    for key in ("output", "error"):
        place: JsonPath = (*path, "functionResponse", "response", key)
        blocks += values.long_text(Kind.RESULT, place, values.text(response.get(key)), call.tool, call.name)
    return blocks


def picture(path: JsonPath, part: Mapping[str, Any], tool: str, call: str) -> list[Block]:
    """Make the block of a part that holds an image or the like, none of any other part; what is signed stays."""
    data = _data(part)
    return values.whole(Kind.IMAGE, path, part, tool, call) if data and "thoughtSignature" not in part else []


def _data(part: Mapping[str, Any]) -> str:
    return values.text(values.fields(part.get("inlineData")).get("data"))


def thoughts_of(entry: Entry, parts: Parts, calls: Mapping[str, Call]) -> list[Block]:
    """Make the blocks of a message's thoughts, beside its parts and among them; it must say or call something too.

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


_THINKS = Facts(thinks=True)


class GeminiReader(Struct):
    """Reads the messages of one session, and the records between them."""

    _made: dict[str, Call] = {}
    """The calls by their ids: a message that the model gets as their result names no file."""

    _given: set[str] = set()
    """The calls whose results stand with them: what repeats those is not counted once more."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        if isinstance(entry.get(BACK), str):
            return line_of(raw, Role.OTHER, parent=entry[BACK])
        if "id" not in entry and "type" not in entry:
            if isinstance(values.fields(entry.get("$set")).get("messages"), list):
                # It takes the place of all messages before it.
                return line_of(raw, Role.CHECKPOINT)
            return line_of(raw, Role.HEADER if all(key in entry for key in HEADER_KEYS) else Role.OTHER)
        name = values.text(entry.get("id"))
        kind = entry.get("type")
        if kind == "gemini":
            return self._answer(raw, entry, name)
        if kind == "user":
            return self._user(raw, entry, name)
        pictures = [block for index, part in parts_of(entry) for block in picture((*CONTENT, index), part, "", "")]
        return line_of(raw, Role.OTHER, pictures, id=name)

    def _user(self, raw: bytes, entry: Entry, name: str) -> Line:
        content = entry.get("content")
        parts = parts_of(entry)
        results = [(index, part) for index, part in parts if "functionResponse" in part]
        if results:
            return self._results(raw, name, results, parts)
        text = said(content)
        blocks = [block for index, part in parts for block in picture((*CONTENT, index), part, "", "")]
        if marker.PREFIX_BYTES in raw:
            blocks += values.marked_images(CONTENT, values.items(content))
        is_turn = bool(text.strip()) and not text.strip().startswith(_NOT_SAID)
        is_turn |= not text.strip() and any(part and "text" not in part for _, part in parts)
        return line_of(raw, Role.USER if is_turn else Role.OTHER, blocks, id=name, reads=len(text))

    def _results(self, raw: bytes, message: str, results: Parts, parts: Parts) -> Line:
        """Read what the model gets as the results of its calls."""
        names = tuple(values.text(values.fields(part["functionResponse"]).get("id")) for _, part in results)
        calls = [self._made.get(name) or Call(name, name, "", Purpose.OTHER) for name in names]
        blocks: list[Block] = []
        for (index, part), call in zip(results, calls, strict=True):
            blocks += response((*CONTENT, index), part, call)
        one = calls[0] if len(calls) == 1 else Call("", "", "", Purpose.OTHER)
        for index, part in parts:
            blocks += picture((*CONTENT, index), part, one.tool, one.name)
        size = sum(len(values.literal(part)) for _, part in results)
        io = 0 if self._given.issuperset(names) else size
        several = () if one.name else names
        copy_of = message.removesuffix(_COPIED) if message.endswith(_COPIED) else ""
        facts = Facts(several=several, copy_of=copy_of) if several or copy_of else PLAIN
        reads = sent([part for _, part in parts]) if io else 0
        return line_of(raw, Role.RESULT, blocks, id=message, answers=one.name, io=io, reads=reads, facts=facts)

    def _answer(self, raw: bytes, entry: Entry, name: str) -> Line:
        parts = parts_of(entry)
        asks = [(index, part) for index, part in parts if "functionCall" in part]
        made = [
            (index, each) for index, each in enumerate(values.items(entry.get("toolCalls"))) if isinstance(each, dict)
        ]
        # Older versions tell by the arguments which call a part without an id is.
        bound = any(not values.text(values.fields(part["functionCall"]).get("id")) for _, part in asks)
        blocks: list[Block] = []
        called = [(index, each, call_of(each)) for index, each in made]
        calls = {call.name: call for _, _, call in called}
        # Each of several calls may hold the results of all: known before any of them is read.
        self._made.update(calls)
        io = sum(self._called(index, each, call, blocks, whole=bound) for index, each, call in called)
        for index, part in asks:
            call = call_of(values.fields(part["functionCall"]))
            call = calls.setdefault(call.name, call)
            # A signature covers the call that it stands at.
            if not bound and "thoughtSignature" not in part:
                path: JsonPath = (*CONTENT, index, "functionCall", "args")
                values.arguments(path, values.fields(part["functionCall"]).get("args"), call, blocks)
        self._made.update(calls)
        thinks = bool(entry.get("thoughts")) or any(part.get("thought") for _, part in parts)
        # What of the thoughts stands beside the parts is not sent again.
        frames = sum(len(values.literal(each.get("result"))) - sent(each.get("result")) for _, each in made)
        reads = io - frames + len(said(entry.get("content")))
        facts = _THINKS if thinks else PLAIN
        blocks += thoughts_of(entry, parts, calls)
        return line_of(raw, Role.ASSISTANT, blocks, id=name, calls=calls.values(), io=io, reads=reads, facts=facts)

    def _called(self, index: int, made: Entry, call: Call, blocks: list[Block], *, whole: bool) -> int:
        """Add the blocks of a call with its result; count the characters of both."""
        path: JsonPath = ("toolCalls", index)
        given: list[Block] = []
        size = values.arguments((*path, "args"), made.get("args"), call, given)
        blocks += () if whole else given
        result = made.get("result")
        if result:
            self._given.add(call.name)
        if isinstance(result, str):
            blocks += values.long_text(Kind.RESULT, (*path, "result"), result, call.tool, call.name)
        for step, part in enumerate(values.items(result)):
            place: JsonPath = (*path, "result", step)
            # After a resume each of several calls holds the results of all.
            answers = values.text(values.fields(values.fields(part).get("functionResponse")).get("id"))
            blocks += response(place, values.fields(part), self._made.get(answers, call) if answers else call)
            blocks += picture(place, values.fields(part), call.tool, call.name)
        blocks += values.whole(Kind.MIRROR, (*path, "resultDisplay"), made.get("resultDisplay"), call.tool, call.name)
        return size + len(values.literal(result))


_TOOLS = (
    "replace list_directory read_many_files glob grep_search search_file_content google_web_search web_fetch "
    "write_todos save_memory codebase_investigator ask_user activate_skill"
)
_OUTER_KEYS = (*HEADER_KEYS, "startTime")
_MESSAGE_KEYS = frozenset({"id", "timestamp", "type", "content"})


class Gemini(base.Format):
    """Sessions of Gemini CLI."""

    name = "gemini"
    tools = frozenset({*PURPOSES, *_TOOLS.split()})
    answer_marks = (b'"gemini"', b'"error"')

    def recognizes(self, head: Head) -> bool:
        """Tell whether it names a session and a project first, and goes on with messages of this agent."""
        if head.document is not None:
            return _is_header(values.fields(head.document)) and all(map(_has_message_keys, head.entries))
        if not head.entries or not _is_header(head.entries[0]) or "messages" in head.entries[0]:
            return False
        return all(map(_is_record, head.entries))

    def named(self, head: Head) -> Name:
        first = head.entries[0] if head.document is None and head.entries else head.document
        header = values.fields(first)
        if not all(isinstance(header.get(key), str) for key in HEADER_KEYS):
            return Name()
        return Name(values.text(header["sessionId"]), project=values.text(header.get("projectHash")))

    def reader(self) -> Reader:
        return GeminiReader()

    def shape(self, lines: Lines) -> Shape:
        """Find the messages that a resume reads. All others are dead: nobody can go back to them.

        In a document every message counts; only records have a header among them.
        """
        if Role.HEADER not in lines.roles:
            return Shape(range(len(lines)), frozenset())
        live: dict[str, int] = {}
        read: set[int] = set()
        for number in tree.entries(lines):
            checkpoint = lines.roles[number] is Role.CHECKPOINT
            if checkpoint or lines.facts[number].first:
                live.clear()
            if lines.parents[number]:
                _go_back(live, lines.parents[number])
            elif checkpoint or lines.ids[number]:
                # A message that is written again keeps its place.
                live[lines.ids[number]] = number
                read.add(number)
        path = array("I", live.values())
        return Shape(path, frozenset(read.difference(path)))

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        match path:
            case ("thoughts",):
                return value is REMOVED and entry.get("type") == "gemini"
            case ("toolCalls", int(index), *inner):
                return _may_change_call(values.fields(entry["toolCalls"][index]), tuple(inner), value)
            case ("content", int(index), *inner):
                return _may_change_part(values.fields(entry["content"][index]), tuple(inner), value)
        return False

    def text_part(self, text: str) -> Any:
        return {"text": text}

    def image(self, part: Any) -> tuple[str, str]:
        data = values.fields(values.fields(part).get("inlineData"))
        return values.text(data.get("mimeType")), values.text(data.get("data"))

    def answer(self, entry: Entry) -> Answer | None:
        """Read what a message of the model says of its request, or one of the agent of what failed."""
        at = base.moment(entry.get("timestamp"))
        if entry.get("type") == "error":
            return Answer(error=said(entry.get("content")) or "error", at=at)
        if entry.get("type") != "gemini":
            return None
        return Answer(model=values.text(entry.get("model")), usage=_usage(values.fields(entry.get("tokens"))), at=at)


def _is_header(entry: Mapping[str, Any]) -> bool:
    return "type" not in entry and all(isinstance(entry.get(key), str) for key in _OUTER_KEYS)


def _has_message_keys(entry: Entry) -> bool:
    return entry.keys() >= _MESSAGE_KEYS


def _is_record(entry: Entry) -> bool:
    """Tell whether it is a line of this agent: an update, a way back or the like, a message, or the header again."""
    if any(key.startswith("$") for key in entry):
        return len(entry) == 1
    return _is_header(entry) or (_has_message_keys(entry) and isinstance(entry["type"], str))


def _go_back(live: dict[str, int], name: str) -> None:
    """Take a message and all behind it off the path; where it is not there, everything, as the agent does."""
    if name not in live:
        live.clear()
    while live and live.popitem()[0] != name:
        pass


def _may_change_call(call: Mapping[str, Any], path: JsonPath, value: Any) -> bool:
    match path:
        case ("resultDisplay",):
            return value is REMOVED
        case ("args", *_, step):
            return isinstance(value, str) and step not in FILE_KEYS
        case ("result",):
            return isinstance(value, str) and isinstance(call["result"], str)
        case ("result", int(step), *inner):
            return _may_change_part(values.fields(call["result"][step]), tuple(inner), value)
    return False


def _may_change_part(part: Mapping[str, Any], path: JsonPath, value: Any) -> bool:
    """Tell whether a part may go, or become a text, or a text in it another one."""
    match path:
        case ():
            gone = value is REMOVED and part.get("thought") is True and "thoughtSignature" not in part
            return gone or (isinstance(value, dict) and "inlineData" in part and "thoughtSignature" not in part)
        case ("functionResponse", "response", "output" | "error"):
            return isinstance(value, str)
        case ("functionCall", "args", *_, step):
            return isinstance(value, str) and step not in FILE_KEYS and "thoughtSignature" not in part
    return False


def _usage(recorded: Mapping[str, Any]) -> Usage | None:
    """Read what was counted: thoughts stand beside the output, and what tools of the vendor put in beside the input."""
    usage = within(
        recorded.get("input"), recorded.get("output"), recorded.get("cached"), None, recorded.get("thoughts")
    )
    put_in = tokens(recorded.get("tool"))
    if usage is None or put_in is None:
        return None
    return usage._replace(input=usage.input + put_in, output=usage.output + usage.reasoning)
