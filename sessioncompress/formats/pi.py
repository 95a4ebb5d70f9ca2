"""pi: one entry a line, a tree by `parentId` (version 1: a list); calls and results are messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from sys import intern
from typing import Any

from msgspec import Struct, field

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
    Tie,
    Usage,
    beside,
    make_block,
)
from sessioncompress.core.references import digest_of
from sessioncompress.core.splice import REMOVED, within
from sessioncompress.formats import base, tree, values
from sessioncompress.formats.base import Entry, Head, Name, Reader, line_of

_LONGEST_COMPARED = 32 * 1024
_MOST_COMPARED = 16
"""So many results, the newest ones, are looked for in the text that follows them; each through all of it."""

_BLOB = "blob:sha256:"
_BLOB_BYTES = _BLOB.encode()
_PARENTS = ("parentSession", "branchedFrom")
"""What the agents write in a fork's header of the session that it was forked from."""
_THOUGHTS = ("thinking", "redactedThinking")
_FIRST_TREE = 2
"""The first version of the header whose entries name their parent."""

_CONTENT: JsonPath = ("message", "content")
_DETAILS: JsonPath = ("message", "details")
_ANSWERED: JsonPath = ("message", "toolCallId")
_MIRRORS: tuple[JsonPath, ...] = (_DETAILS, ("message", "providerPayload"))

_STOPS = ("error", "aborted")
"""Why a message ends that holds no whole answer: the next request goes without it."""

_THINKS = Facts(thinks=True)
_FAILED = Facts(failed=True)


def header_of(head: Head) -> Entry | None:
    """Find the header of a pi-like session: the first entry, or the second behind a title slot."""
    for entry in head.entries[:2]:
        if entry.get("type") == "session":
            good = all(isinstance(entry.get(key), str) for key in ("id", "timestamp", "cwd"))
            # DeepSeek-harness files start alike, but date their header `createdAt` and number their lines `seq`.
            foreign = any("createdAt" in each or "seq" in each for each in head.entries)
            return entry if good and not foreign else None
        if entry.get("type") != "title":
            return None
    return None


class FamilyReader(Struct):
    """Reads the entries of one session; `purposes` says what the agent's tools are for."""

    purposes: Mapping[str, Purpose]
    _unanswered: deque[tuple[str, bytes]] = field(default_factory=lambda: deque(maxlen=_MOST_COMPARED))
    _asked: dict[str, Call] = {}
    """The calls that wait for their results, so that a result's names are those of its call, held once."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        message = entry.get("message")
        if not isinstance(message, dict) or entry.get("type") != "message":
            line = self._other(raw, entry)
        elif (role := message.get("role")) == "assistant":
            line = self._assistant(raw, entry, message)
        elif role == "toolResult":
            line = self._result(raw, entry, message)
        else:
            line = self._message(raw, entry, message)
        return _with_blobs(line, entry) if _BLOB_BYTES in raw else line

    def _other(self, raw: bytes, entry: Entry) -> Line:
        kind = entry.get("type")
        role = Role.OTHER
        keeps: str | int = ""
        if kind == "session":
            # Version 1, which its header does not name, is a list: the agent gives each entry a new id and its parent.
            version = entry.get("version")
            is_list = version is None or (isinstance(version, (int, float)) and version < _FIRST_TREE)
            return line_of(raw, Role.HEADER, facts=Facts(listed=True) if is_list else PLAIN)
        if kind == "compaction":
            role = Role.CHECKPOINT
            index = entry.get("firstKeptEntryIndex")
            keeps = index if isinstance(index, int) else values.text(entry.get("firstKeptEntryId"))
        elif kind == "reset_boundary":
            role = Role.CHECKPOINT
        facts = Facts(keeps=keeps) if role is Role.CHECKPOINT else PLAIN
        reads = len(values.text(entry.get("summary"))) + values.characters(entry.get("content"))
        return _line(raw, entry, role, self.entry_blocks(entry), reads=reads, facts=facts)

    def entry_blocks(self, entry: Entry) -> list[Block]:
        """Make the blocks of an entry that is no message; most agents have none."""
        del entry
        return []

    def _message(self, raw: bytes, entry: Entry, message: Entry) -> Line:
        content = message.get("content")
        blocks = [block for index, part in enumerate(values.items(content)) for block in _image(index, part, "", "")]
        if marker.PREFIX_BYTES in raw:
            blocks += values.marked_images(("message", "content"), values.items(content))
        reads = (
            values.characters(content)
            + values.pictures(blocks)
            + len(values.text(message.get("output")))
            + len(values.text(message.get("command")))
        )
        role = Role.USER if message.get("role") == "user" else Role.OTHER
        return _line(raw, entry, role, blocks, reads=reads)

    def _result(self, raw: bytes, entry: Entry, message: Entry) -> Line:
        tool = intern(values.text(message.get("toolName")))
        answers = values.text(message.get("toolCallId"))
        made = self._asked.pop(answers, None)
        answers, call = (answers, _call_of(answers)) if made is None else (made.id, made.name)
        blocks: list[Block] = []
        characters = 0
        for index, part in enumerate(values.items(message.get("content"))):
            text = values.text(part.get("text")) if isinstance(part, dict) and part.get("type") == "text" else ""
            if text:
                characters += len(text)
                marked = marker.occurs_in(text)
                if len(text) < values.SMALLEST_BLOCK and not marked:
                    continue
                written = values.literal(text)
                digest, size = digest_of(written), len(written)
                if len(text) <= _LONGEST_COMPARED:
                    self._unanswered.append((text, digest))
                path = _part_path(index, "text")
                blocks.append(make_block((Kind.RESULT, path, size, size, tool, call, digest, marked, False)))
            else:
                blocks += _image(index, part, tool, call)
        details = message.get("details")
        if isinstance(details, (dict, list)) and details:
            blocks += values.whole(Kind.MIRROR, _DETAILS, details, tool, call)
        ties = _id_tie(_ANSWERED, answers)
        failed = message.get("isError") is True
        facts = Facts(tuple(ties), failed) if ties else _FAILED if failed else PLAIN
        reads = characters + values.pictures(blocks) + values.RESULT
        return _line(raw, entry, Role.RESULT, blocks, answers=answers, io=characters, reads=reads, facts=facts)

    def _assistant(self, raw: bytes, entry: Entry, message: Entry) -> Line:
        parts = values.items(message.get("content"))
        responses = "responses" in values.text(message.get("api"))
        blocks: list[Block] = []
        ties: list[Tie] = []
        calls: list[Call] = []
        texts: list[str] = []
        characters = io = 0
        thoughts = written = 0
        for index, part in enumerate(parts):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "toolCall":
                made, size = self._call(index, part, blocks)
                calls.append(made)
                io += size
                if responses:
                    ties += _id_tie((*_part_path(index), "id"), part.get("id"))
            elif kind == "text":
                text = values.text(part.get("text"))
                texts.append(text)
                characters += len(text)
                if responses:
                    ties += _signature_tie(_part_path(index), part.get("textSignature"))
            elif kind in _THOUGHTS:
                thoughts += 1
                characters += values.thought(part.get("thinking"), part.get("thinkingSignature") or part.get("data"))
                size = len(values.literal(part))
                written += size > 0
                blocks.append(Block(Kind.THINKING, _part_path(index), size, size))
        if thoughts and (thoughts != written or not (calls or any(text.strip() for text in texts))):
            # All thinking of a message goes or none: one block could not be written, or nothing else would stay.
            blocks = [block for block in blocks if block.kind is not Kind.THINKING]
        payload = message.get("providerPayload")
        # A Responses history repeats what the message says in its content; any other payload we do not know.
        sealed = payload is not None and values.fields(payload).get("type") != "openaiResponsesHistory"
        if payload is not None and not sealed:
            blocks += values.whole(Kind.MIRROR, ("message", "providerPayload"), payload, "", "")
            ties.append(Tie(("message", "providerPayload"), None, 0))
        facts = _THINKS if thoughts else PLAIN
        repeats = self._repeated(texts)
        if ties or repeats or payload is not None:
            facts = Facts(tuple(ties), thinks=thoughts > 0, sealed=sealed, bound=payload is not None, repeats=repeats)
        reads = 0 if message.get("stopReason") in _STOPS else characters + io + values.CALL * len(calls)
        return _line(raw, entry, Role.ASSISTANT, blocks, calls=calls, io=io, reads=reads, facts=facts)

    def _call(self, index: int, part: Entry, blocks: list[Block]) -> tuple[Call, int]:
        """Read a call and add its blocks; also count the characters of its arguments."""
        tool = intern(values.text(part.get("name")))
        arguments = part.get("arguments")
        purpose = self.purposes.get(tool.lower(), Purpose.OTHER)
        call_id = values.text(part.get("id"))
        call = _call_of(call_id)
        made = Call(call_id, call, tool, purpose, *values.about(values.fields(arguments)))
        self._asked[call_id] = made
        written = values.literal(arguments)
        path = _part_path(index, "arguments")
        if len(written) >= values.SMALLEST_BLOCK and isinstance(arguments, dict):
            # A thought signature vouches for the call as it was made: its arguments stay.
            bulk = 0 if part.get("thoughtSignature") else sum(values.long_leaves(arguments))
            blocks.append(make_block((Kind.ARGUMENT, path, len(written), bulk, tool, call, b"", False, False)))
        if marker.PREFIX_BYTES in written:
            blocks += values.marked_leaves(path, arguments, tool, call)
        if "partialJson" in part:
            blocks += values.whole(Kind.MIRROR, _part_path(index, "partialJson"), part["partialJson"], tool, call)
        return made, len(written)

    def _repeated(self, texts: Sequence[str]) -> tuple[bytes, ...]:
        """Find the results that stand again, whole, in the texts that follow them; as digests."""
        if not self._unanswered:
            return ()
        waiting = tuple(self._unanswered)
        self._unanswered.clear()
        longest = max(map(len, texts), default=0)
        found = []
        for result, digest in waiting if longest else ():
            said = result.strip()
            if 0 < len(said) <= longest and any(said in text for text in texts):
                found.append(digest)
        return tuple(found)


class FamilyFormat(base.Format):
    """What the formats of the family share; each adds its name, its marks and its tools."""

    purposes: Mapping[str, Purpose]
    """What the agent's tools are for, by their names in lower case."""

    answer_marks = (b'"assistant"',)

    def recognizes(self, head: Head) -> bool:
        return header_of(head) is not None and any(map(self.is_own, head.entries))

    def is_own(self, entry: Entry) -> bool:
        """Tell whether only this agent of the family writes such an entry."""
        del entry
        return True

    def named(self, head: Head) -> Name:
        header = header_of(head) or {}
        parents = (values.text(header.get(key)) for key in _PARENTS)
        return Name(values.text(header.get("id")), tuple(filter(None, parents)), values.text(header.get("cwd")))

    def reader(self) -> Reader:
        return FamilyReader(self.purposes)

    def shape(self, lines: Lines) -> Shape:
        return tree.shape(lines)

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        if path in _MIRRORS:
            return value is REMOVED
        message = values.fields(entry.get("message"))
        if path == ("message", "toolCallId"):
            return bool(value) and value == _call_of(values.text(message.get("toolCallId")))
        if path[:2] == _CONTENT and len(path) > len(_CONTENT) and isinstance(path[2], int):
            part = message["content"][path[2]]
            return _may_change_part(part, path[3:], value, message.get("role") == "toolResult")
        return False

    def image(self, part: Any) -> tuple[str, str]:
        return values.text(values.fields(part).get("mimeType")), values.text(values.fields(part).get("data"))

    def answer(self, entry: Entry) -> Answer | None:
        """Read what an assistant message says of its request; usage that stands elsewhere is of no such request."""
        message = values.fields(entry.get("message"))
        if entry.get("type") != "message" or message.get("role") != "assistant":
            return None
        stop, error = values.text(message.get("stopReason")), ""
        if stop in _STOPS:
            error = values.text(message.get("errorMessage")) or stop
        return Answer(
            model=values.text(message.get("model")),
            usage=None if error else _usage(values.fields(message.get("usage"))),
            error=error,
            at=base.moment(message.get("timestamp")) or base.moment(entry.get("timestamp")),
        )


def _line(raw: bytes, entry: Entry, role: Role, blocks: Iterable[Block], **fields: Any) -> Line:
    name, parent = values.text(entry.get("id")), values.text(entry.get("parentId"))
    return line_of(raw, role, blocks, id=name, parent=parent, **fields)


def _call_of(call_id: str) -> str:
    """The part of a call's id that stays: behind a bar stands an item id that may have to go."""
    return call_id.partition("|")[0]


@cache
def _part_path(index: int, *inner: str) -> JsonPath:
    return ("message", "content", index, *inner)


def _with_blobs(line: Line, entry: Entry) -> Line:
    """Keep what names a blob: the agent deletes those that no session names, and it does not know our originals."""
    blocks = tuple(
        block._replace(bulk=0) if block.kind is not Kind.THINKING and _names_blob(entry, block.path) else block
        for block in line.blocks
    )
    sealed = line.facts.sealed or any(_names_blob(entry, tie.path) for tie in line.facts.ties)
    return line._replace(blocks=blocks, facts=line.facts._replace(sealed=sealed))


def _names_blob(value: Any, path: JsonPath) -> bool:
    for step in path:
        value = value[step]
    written = values.literal(value)
    return not written or _BLOB_BYTES in written


def _image(index: int, part: Any, tool: str, call: str) -> list[Block]:
    data = values.text(values.fields(part).get("data"))
    if values.fields(part).get("type") != "image" or not data or data.startswith(_BLOB):
        return []
    return values.whole(Kind.IMAGE, ("message", "content", index), part, tool, call)


def _id_tie(path: JsonPath, name: Any) -> list[Tie]:
    """OpenAI Responses: `call_x|fc_y` names an item that only stands with its reasoning; the call's own id stays."""
    call, bar, item = values.text(name).partition("|")
    return [Tie(path, call, len(item) + 1)] if call and bar else []


def _signature_tie(path: JsonPath, signature: Any) -> list[Tie]:
    """OpenAI Responses: a text's signature holds its item id, in newer versions also its phase."""
    kept = _phase_alone(signature)
    if not isinstance(signature, str) or kept == signature:
        return []
    stays = len(values.literal(kept)) if kept else -len(',"textSignature":')
    return [Tie((*path, "textSignature"), kept, len(values.literal(signature)) - stays)]


def _phase_alone(signature: Any) -> str | None:
    """Write the signature without its item id, as the agent does; None where it names no phase.

    OpenAI asks for the phase of each text in every later request. For an empty id the agent makes one of its own.
    """
    said = values.fields(within(values.text(signature)))
    phase = values.text(said.get("phase"))
    if said.get("v") != 1 or not isinstance(said.get("id"), str) or not phase:
        return None
    return values.literal({"v": 1, "id": "", "phase": phase}).decode()


def _may_change_part(part: Any, rest: JsonPath, value: Any, in_result: bool) -> bool:
    kind = values.fields(part).get("type")
    match rest:
        case ():
            return kind in _THOUGHTS if value is REMOVED else kind == "image"
        case ("text",):
            return kind == "text" and in_result and isinstance(value, str)
        case ("textSignature" | "partialJson" as key,):
            kept = _phase_alone(part.get(key)) if key == "textSignature" else None
            return value is REMOVED if kept is None else bool(value == kept)
        case ("id",):
            return kind == "toolCall" and bool(value) and value == _call_of(values.text(part.get("id")))
        case ("arguments", *_, step):
            return kind == "toolCall" and isinstance(value, str) and step not in values.FILE_KEYS
    return False


def _usage(recorded: Mapping[str, Any]) -> Usage | None:
    reasoning = recorded.get("reasoning", recorded.get("reasoningTokens"))
    given = (recorded.get("input"), recorded.get("output"), recorded.get("cacheRead"), recorded.get("cacheWrite"))
    return beside(*given, reasoning)


_PURPOSES = {"read": Purpose.READ, "write": Purpose.WRITE, "bash": Purpose.COMMAND}


class Pi(FamilyFormat):
    """Sessions of pi, versions 1 to 3 and the entries of pi 1.x; also what GitClaw keeps of its pi."""

    name = "pi"
    purposes = _PURPOSES
    tools = frozenset({*_PURPOSES, "edit", "grep", "find", "ls"})
