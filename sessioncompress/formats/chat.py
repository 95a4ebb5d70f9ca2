"""Chats of messages, where a compaction removes what it summarizes: OpenAI's form, and gencode's document.

In OpenAI's form, call arguments are JSON in a string, and each result is a message. gencode 0.4 writes one document,
whose messages hold calls in the assistant's parts and results in the user's parts.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from itertools import takewhile
from sys import intern
from typing import Any

from xxhash import xxh3_64_hexdigest

from sessioncompress.core import marker, model
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Say, Summary, Utterance, Written
from sessioncompress.core.model import PLAIN, Answer, Block, Call, Facts, JsonPath, Kind, Line, Purpose, Role
from sessioncompress.core.splice import REMOVED, Added
from sessioncompress.core.text import estimate, utf8
from sessioncompress.formats import base, values
from sessioncompress.formats.base import Cleared, Entry, Head, Name, line_of


class MessageReader(base.Reader):
    """Reads the messages of one session; only the first message of a conversation may be a summary."""

    summary_in: tuple[str, str]
    """The role of the message that holds a summary, and the beginning of its text."""

    def __init__(self) -> None:
        super().__init__()
        self._began = False
        """True once a message was read: only the first one may be a summary."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        began, (role, opening) = self._began, self.summary_in
        self._began = began or entry.get("role") in ("user", "assistant", "tool")
        content = entry.get("content")
        if not began and entry.get("role") == role and values.words(content).startswith(opening):
            # The messages that it summarizes are gone.
            return line_of(raw, Role.CHECKPOINT, reads=values.characters(content), facts=Facts(keeps=0))
        return self.message(raw, entry, values.characters(content))

    @abstractmethod
    def message(self, raw: bytes, entry: Entry, reads: int) -> Line:
        """Read a message that is not a summary; `reads` is the number of characters in its content."""


def _parted(session: Written, cut: Cut) -> tuple[frozenset[int], frozenset[int]]:
    """Split the old lines: leading system messages stay, the summary replaces all others.

    An earlier summary is replaced only if it is part of the cut's old lines.
    """
    roles, old, before = session.lines.roles, frozenset(cut.old), range(min(cut.kept))
    first = takewhile(
        lambda number: roles[number] is Role.OTHER and session.entry(number).get("role") in ("system", "developer"),
        before,
    )
    stays = frozenset(first)
    gone = (number for number in before if number in old or roles[number] is not Role.CHECKPOINT)
    return stays, frozenset(gone) - stays


_ATTACHED = frozenset({"image_url", "file", "input_audio"})
SUMMARY = "[Continuing from compressed context.]\n\n"
"""Begins the user message in which we write a summary, because the form has no type for one."""

_REASONING = ("reasoning", "reasoning_content")


class ChatReader(MessageReader):
    """Reads the messages of one chat."""

    # Common tool names of many programs.
    purposes: Mapping[str, Purpose] = {
        **dict.fromkeys(("read", "read_file", "view"), Purpose.READ),
        **dict.fromkeys(("write", "write_file", "create_file"), Purpose.WRITE),
        **dict.fromkeys(("bash", "shell", "terminal", "run_command", "execute_command"), Purpose.COMMAND),
        **dict.fromkeys(("task", "agent", "subagent"), Purpose.AGENT),
    }
    # It is unknown whether a read numbers its lines.
    reads_as = "as read"
    summary_in = "user", SUMMARY

    def message(self, raw: bytes, entry: Entry, reads: int) -> Line:
        content = entry.get("content")
        match entry.get("role"):
            case "assistant":
                return self._answer(raw, entry, reads)
            case "tool":
                made = self.answered(entry.get("tool_call_id"))
                tool = made.tool or intern(values.text(entry.get("name")))
                blocks = values.long_text(Kind.RESULT, ("content",), values.text(content), tool, made.id)
                for index, part in values.parts(content):
                    if part.get("type") == "text":
                        text = values.text(part.get("text"))
                        blocks += values.long_text(Kind.RESULT, ("content", index, "text"), text, tool, made.id)
                blocks += _pictures(content, tool, made.id)
                io = reads + values.pictures(blocks)
                # The form has no error flag.
                facts = Facts(failed=True) if values.words(content).startswith(("Error", "error:")) else PLAIN
                return line_of(raw, Role.RESULT, blocks, answers=made.id, io=io, reads=io + values.RESULT, facts=facts)
            case "user":
                blocks = _pictures(content, "", "")
                blocks += values.marked_images(("content",), content)
                return line_of(raw, Role.USER, blocks, reads=reads + values.pictures(blocks))
        return line_of(raw, Role.OTHER, reads=reads)

    def said(self, entry: Entry) -> Iterator[Utterance]:
        text = values.words(entry.get("content"))
        match entry.get("role"):
            case "user" if text.startswith(SUMMARY):
                yield Utterance(Say.SUMMARY, text.removeprefix(SUMMARY))
            case "user" if text:
                yield Utterance(Say.PROMPT, text)
            case "assistant":
                if text:
                    yield Utterance(Say.ANSWER, text)
                for part in map(values.fields, values.items(entry.get("tool_calls"))):
                    function = values.fields(part.get("function"))
                    given = values.given(values.text(function.get("arguments")))
                    yield self.said_call(part.get("id"), function.get("name"), given)
            case "tool":
                code = _exit_code(text)
                failed = int(code) != 0 if code else None
                yield Utterance(Say.RESULT, text, call=values.text(entry.get("tool_call_id")), failed=failed)

    def _answer(self, raw: bytes, entry: Entry, size: int) -> Line:
        blocks: list[Block] = []
        calls: list[Call] = []
        io = 0
        for index, part in enumerate(map(values.fields, values.items(entry.get("tool_calls")))):
            function = values.fields(part.get("function"))
            written = values.text(function.get("arguments"))
            # Arguments that are not JSON count as one long text.
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
    """True if a message's reasoning may be removed: it has text, and no calls, which some providers then refuse.

    Signed or sealed reasoning stays; `reasoning_details` holds it.
    """
    return bool(entry.get("content")) and not entry.get("tool_calls") and not entry.get("reasoning_details")


def _pictures(content: Any, tool: str, call: str) -> list[Block]:
    """Make the blocks of embedded images, files and sounds; one that is only linked stays."""
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
"""Keys that a message may have: OpenAI's, reasoning as some providers expose it, and what programs add."""

_PARTS = _ATTACHED | {"text", "refusal"}
_EXIT = re.compile(r"\bexit[ _]?(?:ed with )?(?:code|status)\W{0,4}?(-?\d{1,5})\b", re.IGNORECASE)


class Chat(base.Format):
    """Chats in OpenAI's form."""

    name = "openai-chat"
    reader = ChatReader
    answer_marks = (b'"assistant"',)

    def recognizes(self, head: Head) -> bool:
        """True if every entry with a role is a message of this form, and a model or a tool has spoken.

        A file with a whole conversation on each line is not a chat: that is training data, which no agent resumes.
        """
        if _is_gencode(head.document):
            # Its messages without calls look the same.
            return False
        messages = [each for each in head.entries if "role" in each]
        # One agent writes a whole document, so no other program adds messages to it.
        is_one = len(messages) == len(head.entries) or head.document is None
        is_one = is_one and base.almost_all(head.entries, lambda each: "role" in each)
        spoke = any(each["role"] in ("assistant", "tool") for each in messages)
        return is_one and all(map(_is_message, messages)) and spoke

    def named(self, head: Head) -> Name:
        """Return an empty name: an id in such a file may mean anything."""
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
                # A string that holds JSON must keep holding JSON.
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
        """Replace the summarized messages with a user message: no agent reads a summary back."""
        stays, gone = _parted(session, cut)
        message = {"role": "user", "content": SUMMARY + summary.text}
        line = base.json_of(message, b"\n" if session.outer is None else b"")
        return Checkpoint((Addition(min(cut.kept), line),), gone, stays=stays)

    def written_at(self, entry: Mapping[str, Any]) -> int:
        """Return 0: the time in a message is whatever its program recorded."""
        return 0

    def answer(self, entry: Entry) -> Answer | None:
        """Read what an assistant message records about its request, if its program does so."""
        if entry.get("role") != "assistant":
            return None
        counted = values.fields(entry.get("usage"))
        sent, made = (values.fields(counted.get(f"{each}_tokens_details")) for each in ("prompt", "completion"))
        totals = counted.get("prompt_tokens"), counted.get("completion_tokens")
        usage = model.within(*totals, sent.get("cached_tokens"), None, made.get("reasoning_tokens"))
        at = base.moment(values.text(entry.get("timestamp")) or values.text(entry.get("created_at")))
        return Answer(model=values.text(entry.get("model")), usage=usage, at=at)


def _exit_code(text: str) -> str:
    """Return a command's exit code from the end or the beginning of its result, or ""."""
    found = _EXIT.findall(text[-200:])[-1:] or _EXIT.findall(text[:200])[:1]
    return str(found[0]) if found else ""


def _is_message(entry: Entry) -> bool:
    """True if the message has the content, calls and answers that its role may have in this form."""
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


_MOST_USES, _LONGEST_USE = 3, 120
"""Limits for each tool in the agent's record of a summary: files or commands, and their characters."""
_EARLIER = "[Earlier conversation - "
"""Begins gencode's system message that holds a summary; the rest of that line counts messages."""


class GenCodeReader(MessageReader):
    """Reads the messages of one session."""

    reads_as = "numbered"
    summary_in = "system", _EARLIER

    def message(self, raw: bytes, entry: Entry, reads: int) -> Line:
        parts = values.parts(entry.get("content"))
        blocks: list[Block] = []
        io = 0
        if entry.get("role") == "assistant":
            calls = []
            for index, part in parts:
                if part.get("type") == "tool_use":
                    calls.append(self.call(part.get("id"), part.get("name"), part.get("input")))
                    # A signature covers the call.
                    kept: list[Block] = [] if "thoughtSignature" in part else blocks
                    io += values.arguments(("content", index, "input"), part.get("input"), calls[-1], kept)
            reads += io + values.CALL * len(calls)
            return line_of(raw, Role.ASSISTANT, blocks, calls=calls, io=io, reads=reads)
        results = [(index, part) for index, part in parts if part.get("type") == "tool_result"]
        if not results:
            return line_of(raw, Role.USER if entry.get("role") == "user" else Role.OTHER, reads=reads)
        names = tuple(values.text(part.get("toolUseId")) for _, part in results)
        for (index, part), name in zip(results, names, strict=True):
            made = self.answered(name)
            text = values.text(part.get("content"))
            io += len(text)
            if not made.reads_skill:
                blocks += values.long_text(Kind.RESULT, ("content", index, "content"), text, made.tool, name)
        one = len(names) == 1
        failed = any(part.get("isError") is True for _, part in results)
        facts = Facts(failed=failed, several=() if one else names)
        reads += io + values.RESULT * len(names)
        return line_of(raw, Role.RESULT, blocks, answers=names[0] if one else "", io=io, reads=reads, facts=facts)

    def said(self, entry: Entry) -> Iterator[Utterance]:
        role, content = entry.get("role"), entry.get("content")
        if role == "system":
            head, _, summary = values.words(content).partition("\n")
            if head.startswith(_EARLIER) and summary.strip():
                yield Utterance(Say.SUMMARY, summary.strip())
            return
        say = {"user": Say.PROMPT, "assistant": Say.ANSWER}.get(values.text(role))
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else values.items(content):
            match values.type_of(part):
                case "text" if say and (text := values.part_text(part)):
                    yield Utterance(say, text)
                case "tool_use":
                    yield self.said_call(part.get("id"), part.get("name"), part.get("input"))
                case "tool_result":
                    name, flag = values.text(part.get("toolUseId")), part.get("isError")
                    failed = flag if isinstance(flag, bool) else None
                    yield Utterance(Say.RESULT, values.text(part.get("content")), call=name, failed=failed)


def _is_gencode(document: Any) -> bool:
    """True if the values outside a document's messages are this agent's."""
    metadata = values.fields(values.fields(document).get("metadata"))
    keys = ("id", "createdAt", "updatedAt", "provider", "model", "cwd")
    return all(isinstance(metadata.get(key), str) for key in keys)


class GenCode(base.Format):
    """Sessions of gencode 0.4, where a compaction removes the summarized messages from the document."""

    name = "gencode"
    reader = GenCodeReader
    other_tools = (
        "askuserquestion edit glob grep webfetch websearch todowrite task taskoutput skill enterplanmode exitplanmode"
    )
    kept_tools = frozenset({"askuserquestion"})
    titles = (("metadata", "title"),)

    def recognizes(self, head: Head) -> bool:
        return _is_gencode(head.document) and all(
            entry.get("role") in ("system", "user", "assistant") and "content" in entry for entry in head.entries
        )

    def named(self, head: Head) -> Name:
        metadata = values.fields(values.fields(head.document).get("metadata"))
        return base.name_of(*map(metadata.get, ("id", "cwd", "parentId")))

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        """Allow changes of results and of arguments.

        The agent marks results that it cleared itself (`pruned`, `prunedAt`), but reads only the text.
        """
        match path:
            case ("content", int(index), "content"):
                return isinstance(value, str) and entry["content"][index].get("type") == "tool_result"
            case ("content", int(index), ("pruned" | "prunedAt") as key):
                part = entry["content"][index]
                return isinstance(value, Added) and part.get("type") == "tool_result" and key not in part
            case ("content", int(index), "input", *_, step):
                part = entry["content"][index]
                return isinstance(value, str) and step not in values.PLACE_KEYS and "thoughtSignature" not in part
        return False

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        part = block.path[:-1]
        if not entry["content"][part[-1]].keys().isdisjoint({"pruned", "prunedAt"}):
            return None
        flags = {(*part, "pruned"): True, (*part, "prunedAt"): base.time_of(now)}
        return Cleared("[Old tool result content cleared]", flags)

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        """Replace the summarized messages with a system message, and add a record of it outside the messages."""
        (stays, gone), text = _parted(session, cut), utf8(summary.text)
        message = {"role": "system", "content": f"{_EARLIER}{len(gone)} messages summarized]\n\n{text}"}
        outer = dict(_around(session, cut, gone, summary._replace(text=text)))
        return Checkpoint((Addition(min(cut.kept), values.literal(message)),), gone, outer, stays=stays)

    def noted(self, document: Any) -> Mapping[int, Answer]:
        """Return the answers in the document's metadata, each by the message that ends it."""
        metadata = values.fields(values.fields(document).get("metadata"))
        # Only this provider counts cached tokens apart from the input.
        read = model.beside if metadata.get("provider") == "anthropic" else model.within
        found: dict[int, Answer] = {}
        for note in map(values.fields, values.items(metadata.get("completions"))):
            number, counted = note.get("afterMessageIndex"), values.fields(note.get("usage"))
            cache = values.fields(counted.get("cache"))
            sent, made, thought = map(counted.get, ("inputTokens", "outputTokens", "reasoningTokens"))
            if isinstance(number, int) and number >= 0:
                usage = read(sent, made, cache.get("readTokens"), cache.get("writeTokens"), thought)
                found[number] = Answer(model=values.text(metadata.get("model")), usage=usage)
        if not found and (name := values.text(metadata.get("model"))):
            # No message has this number.
            found[-1] = Answer(model=name)
        return found


def _around(session: Written, cut: Cut, gone: frozenset[int], summary: Summary) -> Iterator[tuple[JsonPath, Any]]:
    """Yield the changes outside the messages: the summaries, the counts, and the message numbers."""
    outer = values.fields(session.outer)
    metadata = values.fields(outer.get("metadata"))
    count = len(session.lines)
    if isinstance(metadata.get("messageCount"), int):
        yield ("metadata", "messageCount"), count - len(gone) + 1
    if "fullMessageCount" not in outer:
        yield ("fullMessageCount",), Added(count)
    for place, note in enumerate(map(values.fields, values.items(metadata.get("completions")))):
        number = note.get("afterMessageIndex")
        if isinstance(number, int) and number >= min(gone):
            # -1 means that the message is gone.
            moved = -1 if number in gone else number - len(gone) + 1
            yield ("metadata", "completions", place, "afterMessageIndex"), moved
    record = _record(session, cut, gone, summary, values.text(metadata.get("updatedAt")))
    if isinstance(outer.get("summaries"), list):
        yield ("summaries",), [*outer["summaries"], record]
    elif "summaries" not in outer:
        yield ("summaries",), Added([record])


def _record(session: Written, cut: Cut, gone: frozenset[int], summary: Summary, at: str) -> Mapping[str, Any]:
    reader, uses = GenCodeReader(), dict[str, list[str]]()
    for each in (said for number in sorted(gone) for said in reader.said(dict(session.entry(number)))):
        if each.say is Say.CALL:
            about = (values.text(each.given.get(key)) for key in (*values.FILE_KEYS, "command", "pattern"))
            uses.setdefault(each.tool, []).append(utf8(next(filter(None, about), "").partition("\n")[0][:_LONGEST_USE]))
    # An id of gencode's ends with this many characters.
    digits = xxh3_64_hexdigest(f"{min(cut.kept)}\n{summary.text}".encode())[:7]
    return {
        "id": f"sum-{base.moment(at)}-{digits}",
        "type": "compaction",
        "coveringMessages": [min(gone), max(gone)],
        "content": summary.text,
        "keyDecisions": [],
        "filesModified": list(map(utf8, summary.changed)),
        "toolsUsed": [
            {"tool": tool, "count": len(of), "notableUses": list(dict.fromkeys(filter(None, of)))[:_MOST_USES]}
            for tool, of in uses.items()
        ],
        "generatedAt": at,
        "estimatedTokens": estimate(len(summary.text)),
    }
