"""The messages of a chat in OpenAI's form: calls whose arguments are JSON in a string, and their results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from sys import intern
from typing import Any

from msgspec import Struct

from sessioncompress.core import marker
from sessioncompress.core.model import PLAIN, Answer, Block, Call, Facts, JsonPath, Kind, Line, Purpose, Role, Usage
from sessioncompress.core.model import within as usage_within
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import base, values
from sessioncompress.formats.base import Cleared, Entry, Head, Name, Reader, line_of

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

_CONTENT: JsonPath = ("content",)


class ChatReader(Struct):
    """Reads the messages of one chat."""

    _made: dict[str, Call] = {}
    """The calls that wait for their results, which do not name their tool."""

    def line(self, raw: bytes, entry: Entry) -> Line:
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
                return line_of(raw, Role.USER, blocks, reads=size + values.pictures(blocks))
        return line_of(raw, Role.OTHER, reads=size)

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
            sizes = ((key, len(values.literal(text))) for key, text in thoughts if text)
            blocks += [Block(Kind.THINKING, (key,), size, size) for key, size in sizes]
        reads = size + io + values.CALL * len(calls) + sum(len(text) for _, text in thoughts)
        facts = Facts(thinks=True) if any(text for _, text in thoughts) else PLAIN
        return line_of(raw, Role.ASSISTANT, blocks, calls=calls, io=io, reads=reads, facts=facts)

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
        return line_of(raw, Role.RESULT, blocks, answers=name, io=size, reads=reads)


def may_go(entry: Mapping[str, Any]) -> bool:
    """Tell whether a message's reasoning may go: not from one with calls, which some providers then refuse.

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


def _arguments(path: JsonPath, written: str, given: Any, call: Call) -> list[Block]:
    parsed = values.literal(given)
    size = len(values.literal(written)) if parsed else 0
    blocks = []
    if size >= values.SMALLEST_BLOCK:
        blocks.append(Block(Kind.ARGUMENT, path, size, sum(values.long_leaves(given)), call.tool, call.name))
    if marker.PREFIX_BYTES in parsed:
        blocks += values.marked_leaves(path, given, call.tool, call.name)
    return blocks


def _pictures(content: Any, tool: str, call: str) -> list[Block]:
    """Make the blocks of the images that stand there themselves; of one elsewhere its address stays."""
    return [
        block
        for index, part in enumerate(values.items(content))
        if values.fields(part).get("type") == IMAGE
        and values.text(values.fields(values.fields(part).get(IMAGE)).get("url")).startswith("data:")
        for block in values.whole(Kind.IMAGE, (*_CONTENT, index), part, tool, call)
    ]


_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_SPEAKING = frozenset({"assistant", "tool"})
_KEYS = frozenset(
    {
        *("role", "content", "name", "refusal", "annotations", "audio", "tool_calls", "function_call", "tool_call_id"),
        *("reasoning", "reasoning_content", "reasoning_details"),
        *("id", "timestamp", "created_at", "model", "usage", "finish_reason"),
    }
)
"""What a message may hold: OpenAI's keys, those of providers that think aloud, and what programs note beside them."""

_PARTS = frozenset({TEXT, IMAGE, "input_audio", "file", "refusal"})
_FILE_KEYS = frozenset({*values.FILE_KEYS, "cwd", "workdir"})
CLEARED = re.compile(r"\[Tool: [^\n]+ returned \d+ chars(?:, exit code -?\d+)?\]")
"""What lists of chats say of a result that is gone."""
_EXIT = re.compile(r"\bexit[ _]?(?:ed with )?(?:code|status)\W{0,4}?(-?\d{1,5})\b", re.IGNORECASE)
_EXIT_WITHIN = 200
"""Characters at either end of a result in which a command's exit code may stand."""


class Chat(base.Format):
    """Chats in OpenAI's form."""

    name = "openai-chat"
    answer_marks = (b'"assistant"',)

    def recognizes(self, head: Head) -> bool:
        """Tell whether all is messages of this form and nothing else, and a model or a tool speaks in them.

        A file of whole conversations, one a line, is none: so data for training are kept, which no agent goes on with.
        """
        if not all(map(_is_message, head.entries)):
            return False
        return any(entry["role"] in _SPEAKING for entry in head.entries)

    def named(self, head: Head) -> Name:
        """Give an empty name: an id of such a file may be anybody's."""
        del head
        return Name()

    def reader(self) -> Reader:
        """Return a reader for one chat."""
        return ChatReader()

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        match path:
            case (str(key),) if key in REASONING:
                return value is REMOVED and may_go(entry)
            case ("content",):
                return entry["role"] == "tool" and isinstance(value, str) and isinstance(entry["content"], str)
            case ("content", int(index), "text"):
                return entry["role"] == "tool" and isinstance(value, str) and _type(entry["content"][index]) == TEXT
            case ("content", int(index)):
                return isinstance(value, dict) and _type(entry["content"][index]) == IMAGE
            case ("tool_calls", int(index), "function", "arguments", *inner):
                return isinstance(value, str) and _may_change(entry["tool_calls"][index][FUNCTION], tuple(inner))
        return False

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        """Give what lists of chats say of a result that is gone; None where no call names its tool."""
        del entry, now
        if not block.tool:
            return None
        code = _exit_code(text)
        ended = f", exit code {code}" if code else ""
        return Cleared(f"[Tool: {marker.name(block.tool)} returned {len(text)} chars{ended}]", {})

    def answer(self, entry: Entry) -> Answer | None:
        """Read what a message of the model says of its request, where its program notes that."""
        if entry.get("role") != "assistant":
            return None
        at = base.moment(values.text(entry.get("timestamp")) or values.text(entry.get("created_at")))
        return Answer(model=values.text(entry.get("model")), usage=_usage(values.fields(entry.get("usage"))), at=at)


def _exit_code(text: str) -> str:
    """Read the exit code that a text says at its end, or else above all; nothing where it says none."""
    found = _EXIT.findall(text[-_EXIT_WITHIN:])[-1:] or _EXIT.findall(text[:_EXIT_WITHIN])[:1]
    return found[0] if found else ""


def _is_message(entry: Entry) -> bool:
    if not isinstance(entry.get("role"), str) or entry["role"] not in _ROLES or not entry.keys() <= _KEYS:
        return False
    content = entry.get("content")
    if isinstance(content, list):
        return all(_type(part) in _PARTS for part in content) and _calls_fit(entry)
    return (content is None or isinstance(content, str)) and _calls_fit(entry)


def _calls_fit(entry: Entry) -> bool:
    """Tell whether the message has calls and answers as its role may, in this form."""
    calls = entry.get("tool_calls")
    if entry["role"] == "tool":
        return isinstance(entry.get("tool_call_id"), str) and not calls
    if entry["role"] != "assistant":
        return not calls and isinstance(entry.get("content"), (str, list))
    functions = [values.fields(values.fields(call).get(FUNCTION)) for call in values.items(calls)]
    strings = all(isinstance(each.get("arguments"), str) for each in functions)
    return calls is None or (isinstance(calls, list) and strings)


def _may_change(function: Mapping[str, Any], path: JsonPath) -> bool:
    """Tell whether a text of a call's arguments may change: they stay a string of JSON where they are one."""
    if not path:
        return values.given(function["arguments"]) is function["arguments"]
    return path[-1] not in _FILE_KEYS


def _type(part: Any) -> str:
    return values.text(values.fields(part).get("type"))


def _usage(recorded: Mapping[str, Any]) -> Usage | None:
    sent, made = (values.fields(recorded.get(f"{each}_tokens_details")) for each in ("prompt", "completion"))
    given = (recorded.get("prompt_tokens"), recorded.get("completion_tokens"), sent.get("cached_tokens"))
    return usage_within(*given, None, made.get("reasoning_tokens"))
