"""The messages of Gemini CLI: calls with their results, thoughts, and since its `.jsonl` the parts that it sends too.

A call's result may stand twice: with the call, and in a message of type `user` that the model gets.
"""

from __future__ import annotations

from msgspec import Struct
from xxhash import xxh3_64_intdigest

from sessioncompress.core import marker
from sessioncompress.core.model import PLAIN, Block, Call, Facts, Kind, Line, Path, Purpose, Role
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry
from sessioncompress.formats.gemini_parts import (
    CONTENT,
    Parts,
    call_of,
    parts_of,
    picture,
    response,
    said,
    sent,
    thoughts_of,
)

HEADER_KEYS = ("sessionId", "projectHash")
BACK = "$rewindTo"
UPDATE = "$set"

_NOT_SAID = ("/", "?", "<session_context>", "<hook_context>")
"""How a message of the user begins that is none: a command, or what the agent puts there itself."""

_COPIED = "_response"
"""Ends the id of a message into which a resume copies the results of the message whose id stands before it."""

_THINKS = Facts(thinks=True)


class GeminiReader(Struct):
    """Reads the messages of one session, and the records between them."""

    _made: dict[str, Call] = {}
    """The calls by their ids: a message that the model gets as their result names no file."""

    _given: set[str] = set()
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
        pictures = [block for index, part in parts_of(entry) for block in picture((*CONTENT, index), part, "", "")]
        return _line(raw, Role.OTHER, tuple(pictures))._replace(id=name)

    def _user(self, raw: bytes, entry: Entry) -> Line:
        content = entry.get("content")
        parts = parts_of(entry)
        results = [(index, part) for index, part in parts if "functionResponse" in part]
        if results:
            return self._results(raw, values.text(entry.get("id")), results, parts)
        text = said(content)
        blocks = [block for index, part in parts for block in picture((*CONTENT, index), part, "", "")]
        if marker.PREFIX_BYTES in raw:
            blocks += values.marked_images(CONTENT, values.items(content))
        is_turn = bool(text.strip()) and not text.strip().startswith(_NOT_SAID)
        is_turn |= not text.strip() and any(part and "text" not in part for _, part in parts)
        return _line(raw, Role.USER if is_turn else Role.OTHER, tuple(blocks), reads=len(text))

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
        return _line(raw, Role.RESULT, tuple(blocks), io=io, reads=reads, facts=facts)._replace(answers=one.name)

    def _answer(self, raw: bytes, entry: Entry) -> Line:
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
                path: Path = (*CONTENT, index, "functionCall", "args")
                values.arguments(path, values.fields(part["functionCall"]).get("args"), call, blocks)
        self._made.update(calls)
        thoughts = thoughts_of(entry, parts, calls)
        thinks = bool(entry.get("thoughts")) or any(part.get("thought") for _, part in parts)
        # What of the thoughts stands beside the parts is not sent again.
        frames = sum(len(values.literal(each.get("result"))) - sent(each.get("result")) for _, each in made)
        reads = io - frames + len(said(entry.get("content")))
        facts = _THINKS if thinks else PLAIN
        line = _line(raw, Role.ASSISTANT, (*blocks, *thoughts), io=io, reads=reads, facts=facts)
        return line._replace(calls=tuple(calls.values()))

    def _called(self, index: int, made: Entry, call: Call, blocks: list[Block], *, whole: bool) -> int:
        """Add the blocks of a call with its result; return how many characters both are."""
        path: Path = ("toolCalls", index)
        given: list[Block] = []
        size = values.arguments((*path, "args"), made.get("args"), call, given)
        blocks += () if whole else given
        result = made.get("result")
        if result:
            self._given.add(call.name)
        if isinstance(result, str):
            blocks += values.long_text(Kind.RESULT, (*path, "result"), result, call.tool, call.name)
        for step, part in enumerate(values.items(result)):
            place: Path = (*path, "result", step)
            # After a resume each of several calls holds the results of all.
            answers = values.text(values.fields(values.fields(part).get("functionResponse")).get("id"))
            blocks += response(place, values.fields(part), self._made.get(answers, call) if answers else call)
            blocks += picture(place, values.fields(part), call.tool, call.name)
        blocks += values.whole(Kind.MIRROR, (*path, "resultDisplay"), made.get("resultDisplay"), call.tool, call.name)
        return size + len(values.literal(result))


def _record(raw: bytes, entry: Entry) -> Line:
    """Read what is no message: the header, or an update; one that sets all messages takes the place of those before."""
    if isinstance(values.fields(entry.get(UPDATE)).get("messages"), list):
        return _line(raw, Role.CHECKPOINT)
    return _line(raw, Role.HEADER if all(key in entry for key in HEADER_KEYS) else Role.OTHER)


def _line(
    raw: bytes, role: Role, blocks: tuple[Block, ...] = (), *, io: int = 0, reads: int = 0, facts: Facts = PLAIN
) -> Line:
    return Line(role, len(raw), xxh3_64_intdigest(raw), blocks=blocks, io=io, reads=reads, facts=facts)
