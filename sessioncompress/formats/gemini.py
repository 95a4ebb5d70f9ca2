"""Gemini CLI: a list of records, where the last one of an id counts; older sessions are one JSON document."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sessioncompress.core import model
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Say, Summary, Utterance, Written
from sessioncompress.core.jsonl import UPDATE
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import PLAIN, Answer, Block, Call, Facts, JsonPath, Kind, Line, Purpose, Role, Shape
from sessioncompress.core.splice import REMOVED
from sessioncompress.core.text import utf8
from sessioncompress.formats import base, values
from sessioncompress.formats.base import Entry, Head, Name, line_of

_HEADER_KEYS = ("sessionId", "projectHash")
_MESSAGE_KEYS = frozenset({"id", "timestamp", "type", "content"})
_BACK = "$rewindTo"

_NOT_SAID = ("/", "?", "<session_context>", "<hook_context>", "System: Potential loop detected")

_SNAPSHOT, _SNAPSHOT_END = "<state_snapshot>", "</state_snapshot>"
"""The agent's own tags around a summary, which the model reads as a user message."""

THANKS = "Got it. Thanks for the additional context!"
"""The reply to a summary that the agent itself writes in the model's name."""

ENDED = re.compile(
    r"^Exit Code: -?\d{1,5}$(?=\n(?:Signal|Background PIDs|Process Group PGID): |\s{0,8}\Z)", re.MULTILINE
)
"""The line with the exit status in a command's result, within the last 200 characters."""

_SUMMARY = "summary"
_UPDATE_END = b"]}}\n"
"""Ends a line that sets all messages of the session, as the agent writes it."""

_COPIED = "_response"
"""Suffix of a message id: a resume copies results into this message from the one whose id precedes the suffix."""

_SEVERAL = Call("", "", "", Purpose.OTHER)

_Parts = list[tuple[int, Mapping[str, Any]]]


class GeminiReader(base.Reader):
    """Reads the messages of one session, and the records between them.

    Calls keep waiting after their results: a message that gives a result to the model names no file, and may be
    repeated.
    """

    purposes: Mapping[str, Purpose] = {
        "read_file": Purpose.READ,
        "write_file": Purpose.WRITE,
        "run_shell_command": Purpose.COMMAND,
    }
    part_keys = ()
    linking: Sequence[str] = ("type", "id", "timestamp", _BACK)

    def __init__(self) -> None:
        super().__init__()
        self._given: set[str] = set()
        """Calls that hold their own results; later copies of these results are not counted again."""
        self._ended, self._answers = True, False
        """True if the previous line ended with LF, and if an answer followed the last line that sets messages.

        A summary precedes all answers; after one, a text that looks like a summary may be the user's.
        """

    def line(self, raw: bytes, entry: Entry) -> Line:
        ended, self._ended = self._ended, raw.endswith(b"\n")
        self._answers &= self._ended or not ended
        if isinstance(entry.get(_BACK), str):
            return line_of(raw, Role.OTHER, parent=entry[_BACK])
        kind = entry.get("type")
        if "id" not in entry and "type" not in entry:
            if isinstance(values.fields(entry.get("$set")).get("messages"), list):
                # It replaces all messages before it.
                return line_of(raw, Role.CHECKPOINT)
            return line_of(raw, Role.HEADER if all(key in entry for key in _HEADER_KEYS) else Role.OTHER)
        name = values.text(entry.get("id"))
        parts = values.parts(entry.get("content"))
        if kind == "gemini":
            self._answers = True
            return self._answer(raw, name, entry, parts)
        results = [(index, part) for index, part in parts if "functionResponse" in part] if kind == "user" else []
        if results:
            return self._results(raw, name, results, entry.get("content"))
        blocks = [block for index, part in parts for block in picture(("content", index), part)]
        if kind != "user":
            return line_of(raw, Role.OTHER, blocks, name)
        blocks += values.marked_images(("content",), entry.get("content"))
        text = text_of(entry.get("content"))
        if _snapshot_in(text) and (not self._answers or name == base.uuid_of(_SUMMARY, text)):
            return line_of(raw, Role.CHECKPOINT, blocks, name, reads=len(text))
        is_turn = _asks(text) if text.strip() else any(part and "text" not in part for _, part in parts)
        return line_of(raw, Role.USER if is_turn else Role.OTHER, blocks, name, reads=len(text))

    def said(self, entry: Entry) -> Iterator[Utterance]:
        """Yield the utterances in a message; results may occur both with their calls and in their own message."""
        content = entry.get("content")
        if entry.get("type") == "gemini":
            yield from self._said(entry, values.items(content) if isinstance(content, list) else [content])
        elif entry.get("type") == "user":
            for _, part in values.parts(content):
                yield from _given_back(part)
            text = text_of(content)
            if snapshot := _snapshot_in(text):
                yield Utterance(Say.SUMMARY, snapshot)
            elif _asks(text):
                yield Utterance(Say.PROMPT, text)

    def _said(self, entry: Mapping[str, Any], parts: Sequence[Any]) -> Iterator[Utterance]:
        calls = [made for _, made in values.parts(entry.get("toolCalls"))]
        names = [made.get("id") for made in calls]
        for part in parts:
            text = part if isinstance(part, str) else values.part_text(part)
            thought = bool(values.fields(part).get("thought"))
            if text and not thought and text != THANKS:
                yield Utterance(Say.ANSWER, text)
            asks = values.fields(values.fields(part).get("functionCall"))
            if asks and asks.get("id") not in names:
                yield self.said_call(asks.get("id"), asks.get("name"), asks.get("args"))
        for made in calls:
            yield self.said_call(made.get("id"), made.get("name"), made.get("args"))
            name, result = values.text(made.get("id")), made.get("result")
            if isinstance(result, str):
                yield Utterance(Say.RESULT, result, call=name, failed=_failed(made.get("status"), result))
            found = [each for _, part in values.parts(result) for each in _given_back(part)]
            # After a resume, each of several calls holds the results of all.
            for each in found if len(found) == 1 else [one for one in found if one.call == name]:
                yield each._replace(call=name, failed=_failed(made.get("status"), each.text))

    def _results(self, raw: bytes, message: str, results: _Parts, content: Any) -> Line:
        parts = values.parts(content)
        names = tuple(values.text(values.fields(part["functionResponse"]).get("id")) for _, part in results)
        calls = [self.asked.get(name) or Call(name, name, "", Purpose.OTHER) for name in names]
        blocks: list[Block] = []
        for (index, part), call in zip(results, calls, strict=True):
            blocks += _response(("content", index), part, call)
        one = calls[0] if len(calls) == 1 else _SEVERAL
        for index, part in parts:
            blocks += picture(("content", index), part, one)
        blocks += values.marked_images(("content",), content, one.tool, one.name)
        io = 0 if self._given.issuperset(names) else _sent([part for _, part in results])
        several = () if one.name else names
        copy_of = message.removesuffix(_COPIED) if message.endswith(_COPIED) else ""
        failed = any("error" in values.fields(values.at(part, ("functionResponse", "response"))) for _, part in results)
        facts = Facts(several=several, copy_of=copy_of, failed=failed) if several or copy_of or failed else PLAIN
        reads = _sent([part for _, part in parts]) if io else 0
        return line_of(raw, Role.RESULT, blocks, message, answers=one.name, io=io, reads=reads, facts=facts)

    def _answer(self, raw: bytes, name: str, entry: Entry, parts: _Parts) -> Line:
        asks = [(index, part, values.fields(part["functionCall"])) for index, part in parts if "functionCall" in part]
        # Older versions match a part without an id to its call by the arguments.
        bound = any(not values.text(ask.get("id")) for _, _, ask in asks)
        # Each of several calls may hold the results of all, so all calls must be known before one is read.
        called = [
            (index, made, self.call(made.get("id"), made.get("name"), made.get("args")))
            for index, made in values.parts(entry.get("toolCalls"))
        ]
        calls = {call.name: call for _, _, call in called}
        blocks: list[Block] = []
        io = sum(self._called(index, made, call, blocks, whole=bound) for index, made, call in called)
        for index, part, ask in asks:
            call_id = values.text(ask.get("id"))
            call = calls.get(call_id) or self.call(call_id, ask.get("name"), ask.get("args"))
            calls[call_id] = call
            # A signature covers the call that carries it.
            if not bound and "thoughtSignature" not in part:
                values.arguments(("content", index, "functionCall", "args"), ask.get("args"), call, blocks)
        thinks = bool(entry.get("thoughts")) or any(part.get("thought") for _, part in parts)
        # Thoughts outside the parts are not sent again.
        reads = io + len(text_of(entry.get("content")))
        facts = Facts(thinks=True) if thinks else PLAIN
        blocks += _thoughts_of(entry, parts, calls)
        return line_of(raw, Role.ASSISTANT, blocks, name, calls=calls.values(), io=io, reads=reads, facts=facts)

    def _called(self, index: int, made: Mapping[str, Any], call: Call, blocks: list[Block], *, whole: bool) -> int:
        """Add the blocks of a call and its result; return the characters of both."""
        path: JsonPath = ("toolCalls", index)
        size = values.arguments((*path, "args"), made.get("args"), call, [] if whole else blocks)
        result = made.get("result")
        if result:
            self._given.add(call.name)
        if isinstance(result, str):
            blocks += values.long_text(Kind.RESULT, (*path, "result"), result, call.tool, call.name)
        for step, part in values.parts(result):
            place: JsonPath = (*path, "result", step)
            # After a resume, each of several calls holds the results of all.
            answers = values.text(values.fields(part.get("functionResponse")).get("id"))
            blocks += _response(place, part, self.asked.get(answers, call) if answers else call)
            blocks += picture(place, part, call)
        blocks += values.marked_images((*path, "result"), result, call.tool, call.name)
        blocks += values.whole(Kind.MIRROR, (*path, "resultDisplay"), made.get("resultDisplay"), call.tool, call.name)
        return size + _sent(result)


def _sent(result: Any) -> int:
    """Count the characters that a model reads of a call's result, without the frame that names the call."""
    if isinstance(result, str):
        return len(result)
    count = 0
    for _, part in values.parts(result):
        given = values.fields(part.get("functionResponse"))
        held = [part, *(each for _, each in values.parts(given.get("parts")))]
        count += sum(values.picture(each) for each in held if _data(each))
        answer = values.fields(given.get("response"))
        count += sum(len(each) if isinstance(each, str) else len(values.literal(each)) for each in answer.values())
    return count


def _response(path: JsonPath, part: Mapping[str, Any], call: Call) -> list[Block]:
    """Make the blocks of a tool's result texts; return [] for a skill that was read."""
    blocks: list[Block] = []
    given = values.fields(part.get("functionResponse"))
    response = values.fields(given.get("response"))
    for key in () if call.reads_skill else ("output", "error"):
        place: JsonPath = (*path, "functionResponse", "response", key)
        if said := values.text(response.get(key)):
            beside = values.large((), given.get("parts")) if key == "output" else ()
            blocks += values.long_text(Kind.RESULT, place, said, call.tool, call.name, beside)
    return blocks


def picture(path: JsonPath, part: Mapping[str, Any], call: Call = _SEVERAL) -> list[Block]:
    """Make the block of a part that holds an image or similar data. A signed part stays: it gets none."""
    kept = not _data(part) or "thoughtSignature" in part
    return [] if kept else values.whole(Kind.IMAGE, path, part, call.tool, call.name)


def _data(part: Mapping[str, Any]) -> str:
    return values.text(values.fields(part.get("inlineData")).get("data"))


def _thoughts_of(entry: Entry, parts: _Parts, calls: Mapping[str, Call]) -> list[Block]:
    """Make the blocks of a message's thoughts, outside and among its parts, if it also has text or calls.

    A signed thought stays. If a call or a thought is among the parts, the agent takes the parts to be complete. So if
    only thoughts show this, and there are calls outside the parts, the thoughts stay.
    """
    blocks: list[Block] = []
    thoughts = entry.get("thoughts")
    if isinstance(thoughts, list) and thoughts and (calls or text_of(entry.get("content")).strip()):
        blocks += values.thinking(("thoughts",), thoughts)
    rest = [part for _, part in parts if not part.get("thought")]
    if any("functionCall" in part for part in rest) or (not calls and any(rest)):
        for index, part in parts:
            if part.get("thought") is True and part.keys() == {"text", "thought"}:
                blocks += values.thinking(("content", index), part)
    return blocks


def _given_back(part: Mapping[str, Any]) -> Iterator[Utterance]:
    answer = values.fields(part.get("functionResponse"))
    if answer:
        response = values.fields(answer.get("response"))
        text = next((each for key in ("output", "error") if (each := values.text(response.get(key)))), "")
        failed = True if "error" in response else _failed(None, text)
        yield Utterance(Say.RESULT, text, call=values.text(answer.get("id")), failed=failed)


def _failed(status: Any, text: str) -> bool | None:
    """True if a call failed, by its recorded status and the exit status in its result; None if neither tells."""
    if status in ("error", "cancelled"):
        return True
    codes = ENDED.findall(text[-200:])
    return not codes[-1].endswith(" 0") if codes else False if status == "success" else None


def _asks(text: str) -> bool:
    """True if these are the user's words: not a command, and not an insertion of the agent."""
    said = text.strip()
    return said not in ("", "Please continue.", "System: Please continue.") and not said.startswith(_NOT_SAID)


def _snapshot_in(text: str) -> str:
    """Return the summary in a message without its tags, or "" if it is not a summary."""
    start, end = text.find(_SNAPSHOT), text.rfind(_SNAPSHOT_END)
    # A model may think aloud first.
    if start < 0 or end < start or not text.lstrip().startswith((_SNAPSHOT, "<scratchpad>")):
        return ""
    return text[start + len(_SNAPSHOT) : end].strip()


def text_of(content: Any) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    texts = (part if isinstance(part, str) else values.fields(part).get("text") for part in values.items(content))
    return "".join(map(values.text, texts))


def _resumed(lines: Lines, numbers: Iterable[int]) -> tuple[dict[str, int], dict[str, int], set[int]]:
    """Replay these lines the way a resume does.

    Return the last line of each message that it reads, ordered by their first lines; those first lines; and the set of
    all lines that hold messages.
    """
    live: dict[str, int] = {}
    begun: dict[str, int] = {}
    held: set[int] = set()
    for number in numbers:
        name = lines.ids[number]
        # A line that sets all messages, and was not cut into them.
        whole = lines.roles[number] is Role.CHECKPOINT and not name
        if whole or lines.facts[number].first:
            live.clear()
        if back := lines.parents[number]:
            # Remove the message and everything after it. If it is missing, remove everything, as the agent does.
            if back not in live:
                live.clear()
            while live and live.popitem()[0] != back:
                pass
        elif whole or name:
            held.add(number)
            if name not in live:
                begun[name] = number
            live[name] = number
    return live, begun, held


class Gemini(base.Format):
    """Sessions of Gemini CLI."""

    name = "gemini"
    reader = GeminiReader
    other_tools = (
        "replace list_directory read_many_files glob grep_search search_file_content google_web_search web_fetch "
        "write_todos save_memory codebase_investigator ask_user activate_skill"
    )
    answer_marks = (b'"gemini"', b'"error"')
    titles: Sequence[JsonPath] = (("summary",), ("$set", "summary"))
    thanks = THANKS
    ended = ENDED
    splits_turns = False

    def recognizes(self, head: Head) -> bool:
        if head.document is not None:
            return _is_header(values.fields(head.document)) and all(map(_MESSAGE_KEYS.issubset, head.entries))
        if not head.entries or not _is_header(head.entries[0]) or "messages" in head.entries[0]:
            return False
        return base.almost_all(head.entries, _is_record)

    def named(self, head: Head) -> Name:
        first = head.entries[0] if head.document is None and head.entries else head.document
        header = values.fields(first)
        if not all(isinstance(header.get(key), str) for key in _HEADER_KEYS):
            return Name()
        return Name(header["sessionId"], project=header["projectHash"])

    def shape(self, lines: Lines) -> Shape:
        """Return the messages that a resume reads. All others are dead: no rewind can reach them.

        In a document every message counts; only sessions of records have a header line.
        """
        if Role.HEADER not in lines.roles:
            return Shape(range(len(lines)), frozenset())
        live, _, held = _resumed(lines, base.entries(lines))
        return Shape(array("I", live.values()), frozenset(held.difference(live.values())))

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        """Write the line that sets the messages to the summary, before the first line of the kept part.

        If the kept part does not begin with a line of its own (all messages were set at once), or later lines belong to
        earlier messages, this line is added at the end and repeats the kept messages. In a document the summary
        replaces the messages.
        """
        lines, kept, messages = session.lines, list(cut.kept), _messages(session, cut, summary)
        if Role.HEADER not in lines.roles:
            return Checkpoint(tuple(Addition(kept[0], each) for each in messages), removed=frozenset(range(kept[0])))
        numbers = base.entries(lines)
        begin = _resumed(lines, numbers)[1][lines.ids[kept[0]]]
        after, _, _ = _resumed(lines, (number for number in numbers if number >= begin))
        if list(after.values()) == kept and session.raw(begin).endswith(b"\n"):
            return Checkpoint((Addition(begin, UPDATE + b",".join(messages) + _UPDATE_END),))
        messages += [session.raw(number).strip() for number in kept]
        addition = Addition(len(lines), UPDATE + b",".join(messages) + _UPDATE_END)
        return Checkpoint((addition,), repeated=frozenset(kept))

    def dropping(self, session: Written, cut: Cut, made: Checkpoint) -> Checkpoint:
        """Remove every message before the line that sets them all."""
        lines, (addition,) = session.lines, made.added
        gone = (number for number in range(addition.before) if lines.ids[number])
        return made._replace(removed=frozenset(gone) - {lines.roles.index(Role.HEADER)})

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        match path:
            case ("thoughts",):
                return value is REMOVED and entry.get("type") == "gemini"
            case ("toolCalls", int(), "resultDisplay"):
                return value is REMOVED
            case ("toolCalls", int(), "args", *_, step):
                return isinstance(value, str) and step not in values.PLACE_KEYS
            case ("toolCalls", int(index), "result"):
                return isinstance(value, str) and isinstance(entry["toolCalls"][index]["result"], str)
            case ("toolCalls", int(index), "result", int(step), *inner):
                return _may_change_part(entry["toolCalls"][index]["result"][step], inner, value)
            case ("content", int(index), *inner):
                return _may_change_part(entry["content"][index], inner, value)
        return False

    def images_of(self, path: JsonPath) -> JsonPath:
        return (*path[:-2], "parts") if path[-2:] == ("response", "output") else ()

    def text_part(self, text: str, part: Mapping[str, Any]) -> Any:
        return {"text": text}

    def answer(self, entry: Entry) -> Answer | None:
        """Read what an assistant message records about its request, or what an error message records."""
        at = base.moment(entry.get("timestamp"))
        if entry.get("type") == "error":
            return Answer(error=text_of(entry.get("content")) or "error", at=at)
        if entry.get("type") != "gemini":
            return None
        counted = values.fields(entry.get("tokens"))
        sent, made, cached, thoughts = map(counted.get, ("input", "output", "cached", "thoughts"))
        usage, put_in = model.within(sent, made, cached, None, thoughts), model.tokens(counted.get("tool"))
        if usage is not None:
            # `output` excludes thoughts, and `input` excludes what the vendor's tools inserted.
            output = usage.output + usage.reasoning
            usage = None if put_in is None else usage._replace(input=usage.input + put_in, output=output)
        return Answer(model=values.text(entry.get("model")), usage=usage, at=at)


def _is_header(entry: Mapping[str, Any]) -> bool:
    return "type" not in entry and all(isinstance(entry.get(key), str) for key in (*_HEADER_KEYS, "startTime"))


def _is_record(entry: Mapping[str, Any]) -> bool:
    """True for an update, a rewind or similar, for a message, and for the header, which the agent may repeat."""
    if any(key.startswith("$") for key in entry):
        return len(entry) == 1
    return (entry.keys() >= _MESSAGE_KEYS and isinstance(entry["type"], str)) or _is_header(entry)


def _may_change_part(part: Any, path: list[Any], value: Any) -> bool:
    signed = "thoughtSignature" in values.fields(part)
    match path:
        case []:
            gone = value is REMOVED and values.fields(part).get("thought") is True
            return not signed and (gone or (isinstance(value, dict) and "inlineData" in values.fields(part)))
        case ["functionResponse", "response", "output" | "error"]:
            return isinstance(value, str)
        case ["functionResponse", "parts", int()]:
            return value is REMOVED
        case ["functionCall", "args", *_, step]:
            return isinstance(value, str) and step not in values.PLACE_KEYS and not signed
    return False


def _messages(session: Written, cut: Cut, summary: Summary) -> list[bytes]:
    # Fetching a line may be slow, so only the last few are asked for their time.
    time = base.newest_time(session, islice(reversed(cut.old), 8))
    text = f"{_SNAPSHOT}\n{utf8(summary.text)}\n{_SNAPSHOT_END}"
    name = base.uuid_of(_SUMMARY, text)
    asked = {"id": name, "timestamp": time, "type": "user", "content": [{"text": text}]}
    thanks = {"id": base.uuid_of("answer", name), "timestamp": time, "type": "gemini", "content": [{"text": THANKS}]}
    return [base.json_of(asked, b""), base.json_of(thanks, b"")]
