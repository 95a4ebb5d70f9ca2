"""The messages of a chat in OpenAI's form: calls whose arguments are JSON in a string, and their results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any

from sessioncompress.core import marker, model
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Said, Say, Summary, Written
from sessioncompress.core.model import PLAIN, Answer, Block, Call, Facts, JsonPath, Kind, Line, Purpose, Role
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import base, gencode, values
from sessioncompress.formats.base import Cleared, Entry, Head, Name, line_of

_ATTACHED = frozenset({"image_url", "file", "input_audio"})
SUMMARY = "[Continuing from compressed context.]\n\n"
"""How the message of the user begins in which we put a summary: the form has none for it."""

_REASONING = ("reasoning", "reasoning_content")


class ChatReader(base.Reader):
    """Reads the messages of one chat."""

    # Names that many programs give their tools.
    purposes: Mapping[str, Purpose] = {
        **dict.fromkeys(("read", "read_file", "view"), Purpose.READ),
        **dict.fromkeys(("write", "write_file", "create_file"), Purpose.WRITE),
        **dict.fromkeys(("bash", "shell", "terminal", "run_command", "execute_command"), Purpose.COMMAND),
        **dict.fromkeys(("task", "agent", "subagent"), Purpose.AGENT),
    }
    # Whether what is read comes with line numbers is not known.
    reads_as = "as read"

    def __init__(self) -> None:
        super().__init__()
        self._began = False
        """Whether something was said: a summary stands before that."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        content = entry.get("content")
        size = values.characters(content)
        began, self._began = self._began, self._began or entry.get("role") in ("user", "assistant", "tool")
        match entry.get("role"):
            case "assistant":
                return self._answer(raw, entry, size)
            case "tool":
                made = self.answered(entry.get("tool_call_id"))
                tool = made.tool or intern(values.text(entry.get("name")))
                blocks = values.long_text(Kind.RESULT, ("content",), values.text(content), tool, made.id)
                for index, part in values.parts(content):
                    if part.get("type") == "text":
                        text = values.text(part.get("text"))
                        blocks += values.long_text(Kind.RESULT, ("content", index, "text"), text, tool, made.id)
                blocks += _pictures(content, tool, made.id)
                io = size + values.pictures(blocks)
                # The form has no flag for it.
                facts = Facts(failed=True) if values.words(content).startswith(("Error", "error:")) else PLAIN
                return line_of(raw, Role.RESULT, blocks, answers=made.id, io=io, reads=io + values.RESULT, facts=facts)
            case "user":
                if not began and values.words(content).startswith(SUMMARY):
                    # What it sums up is no longer there.
                    return line_of(raw, Role.CHECKPOINT, reads=size, facts=Facts(keeps=0))
                blocks = _pictures(content, "", "")
                blocks += values.marked_images(("content",), content)
                return line_of(raw, Role.USER, blocks, reads=size + values.pictures(blocks))
        return line_of(raw, Role.OTHER, reads=size)

    def said(self, entry: Entry) -> Iterator[Said]:
        text = values.words(entry.get("content"))
        match entry.get("role"):
            case "user" if text.startswith(SUMMARY):
                yield Said(Say.SUMMARY, text.removeprefix(SUMMARY))
            case "user" if text:
                yield Said(Say.PROMPT, text)
            case "assistant":
                if text:
                    yield Said(Say.ANSWER, text)
                for part in map(values.fields, values.items(entry.get("tool_calls"))):
                    function = values.fields(part.get("function"))
                    given = values.given(values.text(function.get("arguments")))
                    yield self.said_call(part.get("id"), function.get("name"), given)
            case "tool":
                code = _exit_code(text)
                failed = int(code) != 0 if code else None
                yield Said(Say.RESULT, text, call=values.text(entry.get("tool_call_id")), failed=failed)

    def _answer(self, raw: bytes, entry: Entry, size: int) -> Line:
        blocks: list[Block] = []
        calls: list[Call] = []
        io = 0
        for index, part in enumerate(map(values.fields, values.items(entry.get("tool_calls")))):
            function = values.fields(part.get("function"))
            written = values.text(function.get("arguments"))
            # What is no JSON is one long text.
            given = values.given(written)
            made = self.call(part.get("id"), function.get("name"), given)
            calls.append(made)
            io += len(written)
            path: JsonPath = ("tool_calls", index, "function", "arguments")
            parsed = values.literal(given)
            whole = len(values.literal(written)) if parsed else 0
            if whole >= values.SMALLEST_BLOCK:
                blocks.append(Block(Kind.ARGUMENT, path, whole, values.bulk_of(given), made.tool, made.name))
            if values.may_copy(parsed):
                blocks += values.marked_leaves(Kind.ARGUMENT, path, given, made.tool, made.name)
        thoughts = {key: text for key in _REASONING if (text := values.text(entry.get(key)))}
        for key, text in thoughts.items() if _may_go(entry) else ():
            blocks += values.thinking((key,), text)
        reads = size + io + values.CALL * len(calls) + sum(map(len, thoughts.values()))
        facts = Facts(thinks=True) if thoughts else PLAIN
        return line_of(raw, Role.ASSISTANT, blocks, calls=calls, io=io, reads=reads, facts=facts)


def _may_go(entry: Mapping[str, Any]) -> bool:
    """Tell whether a message's reasoning may go: not from one with calls, which some providers then refuse.

    Nor where it is signed or sealed: what holds that is another value.
    """
    return bool(entry.get("content")) and not entry.get("tool_calls") and not entry.get("reasoning_details")


def _pictures(content: Any, tool: str, call: str) -> list[Block]:
    """Make the blocks of images, files and sounds that stand there themselves; of one elsewhere its address stays."""
    found = [each for each in values.large(("content",), content) if values.type_of(each[1]) in _ATTACHED]
    return [block for path, part in found for block in values.whole(Kind.IMAGE, path, part, tool, call)]


_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_KEYS = frozenset(
    {
        *("role", "content", "name", "refusal", "annotations", "audio", "tool_calls", "function_call", "tool_call_id"),
        *("reasoning", "reasoning_content", "reasoning_details"),
        *("id", "timestamp", "created_at", "model", "usage", "finish_reason"),
    }
)
"""What a message may hold: OpenAI's keys, those of providers that think aloud, and what programs note beside them."""

_PARTS = _ATTACHED | {"text", "refusal"}
_EXIT = re.compile(r"\bexit[ _]?(?:ed with )?(?:code|status)\W{0,4}?(-?\d{1,5})\b", re.IGNORECASE)


class Chat(base.Format):
    """Chats in OpenAI's form."""

    name = "openai-chat"
    reader = ChatReader
    answer_marks = (b'"assistant"',)

    def recognizes(self, head: Head) -> bool:
        """Tell whether all is messages of this form and nothing else, and a model or a tool speaks in them.

        A file of whole conversations, one a line, is none: so data for training are kept, which no agent goes on with.
        """
        if gencode.is_document(head.document):
            # Its messages without calls look the same.
            return False
        return all(map(_is_message, head.entries)) and any(
            entry["role"] in ("assistant", "tool") for entry in head.entries
        )

    def named(self, head: Head) -> Name:
        """Give an empty name: an id of such a file may be anybody's."""
        return Name()

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        match path:
            case (str(key),) if key in _REASONING:
                return value is REMOVED and _may_go(entry)
            case ("content",):
                return entry["role"] == "tool" and isinstance(value, str) and isinstance(entry["content"], str)
            case ("content", int(index), "text"):
                is_text = values.type_of(entry["content"][index]) == "text"
                return entry["role"] == "tool" and isinstance(value, str) and is_text
            case ("content", int(index)):
                return isinstance(value, dict) and values.type_of(entry["content"][index]) in _ATTACHED
            case ("tool_calls", int(index), "function", "arguments", *_, step):
                return isinstance(value, str) and step not in values.PLACE_KEYS
            case ("tool_calls", int(index), "function", "arguments"):
                # They stay a string of JSON where they are one.
                now = entry["tool_calls"][index]["function"]["arguments"]
                return isinstance(value, str) and values.given(now) is now
        return False

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        if not block.tool:
            return None
        code = _exit_code(text)
        ended = f", exit code {code}" if code else ""
        return Cleared(f"[Tool: {marker.name(block.tool)} returned {len(text)} chars{ended}]", {})

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        """Put a message of the user in the place of those that it sums up: no agent reads a summary back."""
        stays, gone = gencode.parted(session, cut)
        message = {"role": "user", "content": SUMMARY + summary.text}
        line = base.json_of(message, b"\n" if session.outer is None else b"")
        return Checkpoint((Addition(min(cut.kept), line),), gone, stays=stays)

    def written_at(self, entry: Mapping[str, Any]) -> int:
        """Give 0: a message's time may be anything that its program noted."""
        return 0

    def answer(self, entry: Entry) -> Answer | None:
        """Read what a message of the model says of its request, where its program notes that."""
        if entry.get("role") != "assistant":
            return None
        counted = values.fields(entry.get("usage"))
        sent, made = (values.fields(counted.get(f"{each}_tokens_details")) for each in ("prompt", "completion"))
        totals = counted.get("prompt_tokens"), counted.get("completion_tokens")
        usage = model.within(*totals, sent.get("cached_tokens"), None, made.get("reasoning_tokens"))
        at = base.moment(values.text(entry.get("timestamp")) or values.text(entry.get("created_at")))
        return Answer(model=values.text(entry.get("model")), usage=usage, at=at)


def _exit_code(text: str) -> str:
    """Find a command's exit code in its result: it stands at the end, or else above all; empty where it does not."""
    found = _EXIT.findall(text[-200:])[-1:] or _EXIT.findall(text[:200])[:1]
    return str(found[0]) if found else ""


def _is_message(entry: Entry) -> bool:
    """Tell whether the message has content, calls and answers as its role may, in this form."""
    role, content, calls = entry.get("role"), entry.get("content"), entry.get("tool_calls")
    if not isinstance(role, str) or role not in _ROLES or not entry.keys() <= _KEYS:
        return False
    if isinstance(content, list):
        if not all(values.type_of(part) in _PARTS for part in content):
            return False
    elif not (content is None or isinstance(content, str)):
        return False
    if role == "tool":
        return isinstance(entry.get("tool_call_id"), str) and not calls
    if role != "assistant":
        return not calls and content is not None
    functions = [values.fields(values.fields(call).get("function")) for call in values.items(calls)]
    strings = all(isinstance(each.get("arguments"), str) for each in functions)
    return calls is None or (isinstance(calls, list) and strings)
