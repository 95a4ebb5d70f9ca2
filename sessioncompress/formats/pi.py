"""pi and its forks: one entry a line, a tree by `parentId` (version 1: a list); calls and results are messages.

A summary is one entry. A compaction is at the end and names the first kept entry, a branch summary is linked to the
entry to which the conversation returned, and a handoff begins a session.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from sys import intern
from typing import Any
from uuid import UUID

import orjson
from xxhash import xxh3_64_hexdigest, xxh3_128_hexdigest

from sessioncompress.core import model
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, NewSession, Say, Summary, Utterance, Written
from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import PLAIN, Answer, Block, Facts, JsonPath, Kind, Line, Purpose, Role, Shape, Tie
from sessioncompress.core.splice import REMOVED, Added, within
from sessioncompress.core.text import estimate
from sessioncompress.formats import base, values
from sessioncompress.formats.base import CannotCheckpoint, Cleared, Entry, Head, Name, line_of

_BLOB = "blob:sha256:"
_BLOB_BYTES = _BLOB.encode()
_INSTRUCTS = re.compile(r"(?i)advi|context|goal|handoff|inject|instruct|notice|plan|prompt|remind|rule|skill|^irc:")
"""Words in the names of extension messages that instruct the model."""
_OUTPUT: JsonPath = ("message", "output")
_STATE: JsonPath = ("data",)
_THOUGHTS = ("thinking", "redactedThinking")
_PARTIAL = ("partialJson", "partialArgs")
"""Keys of raw streamed arguments, which some providers leave in a call."""

_SUMMARIES = ("compaction", "branch_summary", "compactionSummary", "branchSummary")
"""The entries, and in some versions the messages, that are summaries."""

_ID_DIGITS = 8

_HANDOFF = "<handoff-context>\n{}\n</handoff-context>\n\nThe above is a handoff document from a previous session."
"""oh-my-pi's frame of a handoff document; it shows the text between the tags."""


class PiReader(base.Reader):
    """Reads the entries of one session; the forks differ in their tools."""

    linking = ("type", "id", "parentId", "firstKeptEntryId", "message.role", "message.toolCallId")
    not_asked: re.Pattern[str] | None = None
    """Matches the beginning of a text that the agent itself writes in the user's name."""

    def __init__(self) -> None:
        super().__init__()
        self._unanswered: deque[tuple[str, bytes]] = deque(maxlen=16)
        """The newest results of moderate length, with their digests; the next text may repeat them.

        Each is searched for in the whole text, so there are only a few.
        """

    def line(self, raw: bytes, entry: Entry) -> Line:
        names = values.text(entry.get("id")), values.text(entry.get("parentId"))
        message = entry.get("message")
        if not isinstance(message, dict) or entry.get("type") != "message":
            line = self._other(raw, names, entry)
        elif (role := message.get("role")) == "assistant":
            line = self._assistant(raw, names, message)
        elif role == "toolResult":
            line = self._result(raw, names, message)
        else:
            parts = values.items(message.get("content"))
            blocks = [block for index, part in enumerate(parts) for block in _image(index, part, "", "")]
            blocks += values.marked_images(("message", "content"), parts)
            line = self._note(raw, names, entry, message, blocks)
        if _BLOB_BYTES not in raw:
            return line
        # The agent deletes blobs that no session names, and doesn't know our originals, so values with a blob stay.
        kept = tuple(
            block._replace(bulk=0) if block.kind is not Kind.THINKING and _names_blob(entry, block.path) else block
            for block in line.blocks
        )
        sealed = line.facts.sealed or any(_names_blob(entry, tie.path) for tie in line.facts.ties)
        return line._replace(blocks=kept, facts=line.facts._replace(sealed=sealed))

    def _asks(self, message: Entry) -> bool:
        """True if a person asked: not the agent that started this session, a continued summary, or a timer."""
        if message.get("role") != "user" or message.get("attribution") == "agent" or message.get("synthetic") is True:
            return False
        return self.not_asked is None or self.not_asked.match(values.words(message.get("content"))) is None

    def _other(self, raw: bytes, names: tuple[str, str], entry: Entry) -> Line:
        kind = entry.get("type")
        role, facts = Role.OTHER, PLAIN
        if kind == "custom_message":
            return self._note(raw, names, entry, entry, [])
        if kind == "session":
            # In version 1, which its header doesn't name, a session is a list: on load, the agent adds ids and parents.
            version = entry.get("version")
            is_list = version is None or (isinstance(version, (int, float)) and version < 2)  # noqa: PLR2004
            return line_of(raw, Role.HEADER, facts=Facts(listed=True) if is_list else PLAIN)
        if kind == "compaction":
            index = entry.get("firstKeptEntryIndex")
            keeps = index if isinstance(index, int) else values.text(entry.get("firstKeptEntryId"))
            role, facts = Role.CHECKPOINT, Facts(keeps=keeps)
        elif kind == "reset_boundary":
            role = Role.CHECKPOINT
        elif kind == "context_edit":
            facts = Facts(edits=values.text(entry.get("targetId")))
        instead = values.fields(entry.get("replacement")).get("content")
        reads = len(values.text(entry.get("summary"))) + values.characters(instead)
        return line_of(raw, role, self.entry_blocks(entry), *names, reads=reads, facts=facts)

    def entry_blocks(self, entry: Entry) -> list[Block]:
        """Return what may be removed from an entry that no model reads: all but the newest state of an extension.

        Instructions to an extension may be queried again, so all of those stay.
        """
        tool, state = values.text(entry.get("customType")), entry.get("data")
        if entry.get("type") != "custom" or not tool or _INSTRUCTS.search(tool):
            return []
        # A smaller state may be one item of several.
        saved = len(values.literal(state)) - len(values.literal(_emptied(state)))
        return values.whole(Kind.MIRROR, _STATE, state, tool, "") if saved >= 4 * values.SMALLEST_BLOCK else []

    def _note(self, raw: bytes, names: tuple[str, str], entry: Entry, message: Entry, blocks: list[Block]) -> Line:
        """Read a prompt or a note: the user's own commands and file mentions, and an extension's messages."""
        pictures, written = values.pictures(blocks), len(values.text(message.get("command") or message.get("code")))
        found, unread = _outputs(entry), message.get("excludeFromContext") is True
        for path, (text, made) in found.items():
            blocks += values.long_text(Kind.MIRROR if unread else Kind.RESULT, path, text, made.tool, made.name)
        if tool := values.text(message.get("customType")):
            place: JsonPath = ("details",) if message is entry else ("message", "details")
            blocks += values.whole(Kind.MIRROR, place, message.get("details"), tool, names[0])
        io, calls = sum(len(text) for text, _ in found.values()), [made for _, made in found.values()]
        reads = 0 if unread else max(values.characters(message.get("content")), io) + pictures + written
        failed = message.get("exitCode") not in (None, 0) or message.get("cancelled") is True
        facts = Facts(failed=True) if failed else PLAIN
        role = Role.USER if self._asks(message) else Role.OTHER
        return line_of(raw, role, blocks, *names, calls=calls, io=io, reads=reads, facts=facts)

    def said(self, entry: Entry) -> Iterator[Utterance]:
        kind, message = entry.get("type"), values.fields(entry.get("message"))
        role = message.get("role")
        if kind in _SUMMARIES or (kind == "message" and role in _SUMMARIES):
            if text := _without_files(values.text(entry.get("summary")) or values.text(message.get("summary"))):
                yield Utterance(Say.SUMMARY, text)
        elif kind == "context_edit" and (text := values.text(values.fields(entry.get("replacement")).get("content"))):
            # A plain string replaces a prompt; replacements of answers and results are parts.
            yield Utterance(Say.PROMPT, text)
        elif kind == "custom_message" and entry.get("customType") == "handoff":
            if text := values.words(entry.get("content")):
                yield Utterance(Say.SUMMARY, text)
        elif kind != "message":
            return
        elif role == "user":
            if text := values.words(message.get("content")):
                yield Utterance(Say.PROMPT, text)
        elif role == "assistant":
            yield from self._answered(message)
        elif role == "toolResult":
            name, text = values.text(message.get("toolCallId")), values.words(message.get("content"))
            yield Utterance(Say.RESULT, text, call=name, failed=_has_failed(message))
        elif role in ("bashExecution", "pythonExecution") and message.get("excludeFromContext") is not True:
            name, code = values.text(entry.get("id")), message.get("exitCode")
            failed = True if message.get("cancelled") is True else code != 0 if isinstance(code, int) else None
            given = {"command": values.text(message.get("command") or message.get("code"))}
            yield Utterance(Say.CALL, tool="bash", call=name, purpose=Purpose.COMMAND, given=given)
            yield Utterance(Say.RESULT, values.text(message.get("output")), call=name, failed=failed)

    def _answered(self, message: Mapping[str, Any]) -> Iterator[Utterance]:
        for _, part in values.parts(message.get("content")) if message.get("stopReason") not in values.STOPS else ():
            if part.get("type") == "toolCall":
                yield self.said_call(part.get("id"), part.get("name"), part.get("arguments"))
            elif part.get("type") == "text" and (text := values.part_text(part)):
                yield Utterance(Say.ANSWER, text)

    def _result(self, raw: bytes, names: tuple[str, str], message: Entry) -> Line:
        tool = intern(values.text(message.get("toolName")))
        made = self.answered(message.get("toolCallId"))
        call = made.name.partition("|")[0]
        blocks: list[Block] = []
        characters = 0
        for index, part in enumerate(values.items(message.get("content"))):
            text = values.text(part.get("text")) if isinstance(part, dict) and part.get("type") == "text" else ""
            if text:
                characters += len(text)
                found = values.long_text(Kind.RESULT, values.part_path(index, "text"), text, tool, call)
                if found and len(text) <= 32 * 1024:
                    self._unanswered.append((text, found[0].digest))
                blocks += found
            else:
                blocks += _image(index, part, tool, call)
        details = message.get("details")
        if isinstance(details, (dict, list)) and details:
            blocks += values.whole(Kind.MIRROR, ("message", "details"), details, tool, call)
        ties = _id_tie(("message", "toolCallId"), made.id)
        failed = message.get("isError") is True
        facts = Facts(tuple(ties), failed) if ties or failed else PLAIN
        io = characters + values.pictures(blocks)
        reads = io + values.RESULT
        return line_of(raw, Role.RESULT, blocks, *names, answers=made.id, io=io, reads=reads, facts=facts)

    def _assistant(self, raw: bytes, names: tuple[str, str], message: Entry) -> Line:
        responses = "responses" in values.text(message.get("api"))
        blocks: list[Block] = []
        ties: list[Tie] = []
        calls: list[model.Call] = []
        texts: list[str] = []
        thoughts: list[Block] = []
        characters = io = 0
        for index, part in enumerate(values.items(message.get("content"))):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "toolCall":
                name, arguments = values.text(part.get("id")), part.get("arguments")
                # An item id follows the bar; it may have to go.
                made = self.call(name, part.get("name"), arguments, name.partition("|")[0])
                calls.append(made)
                # A thought signature covers the original call, so its arguments stay.
                signed = bool(part.get("thoughtSignature"))
                io += values.arguments(values.part_path(index, "arguments"), arguments, made, blocks, signed=signed)
                for key in filter(part.__contains__, _PARTIAL):
                    # No tool name: this is not a state of the tool.
                    blocks += values.whole(Kind.MIRROR, values.part_path(index, key), part[key], "", made.name)
                if responses:
                    ties += _id_tie(values.part_path(index, "id"), name)
            elif kind == "text":
                text = values.text(part.get("text"))
                texts.append(text)
                characters += len(text)
                if responses:
                    ties += _signature_tie(values.part_path(index, "textSignature"), part.get("textSignature"))
            elif kind in _THOUGHTS:
                characters += values.thought(part.get("thinking"), part.get("thinkingSignature") or part.get("data"))
                thoughts += values.thinking(values.part_path(index), part)
        if calls or any(text.strip() for text in texts):
            # All thinking of a message is removed, or none if nothing else would stay.
            blocks = thoughts + blocks
        payload = message.get("providerPayload")
        # A Responses history repeats the message's content; other payloads are unknown.
        sealed = payload is not None and values.fields(payload).get("type") != "openaiResponsesHistory"
        if payload is not None and not sealed:
            blocks += values.whole(Kind.MIRROR, ("message", "providerPayload"), payload, "", "")
            ties.append(Tie(("message", "providerPayload"), None, 0))
        # Results that are repeated in full in the texts after them.
        longest = max(map(len, texts), default=0)
        repeats = tuple(
            digest
            for result, digest in self._unanswered
            if longest and 0 < len(said := result.strip()) <= longest and any(said in text for text in texts)
        )
        self._unanswered.clear()
        facts = Facts(thinks=True) if thoughts else PLAIN
        if ties or repeats or payload is not None:
            facts = Facts(tuple(ties), thinks=bool(thoughts), sealed=sealed, bound=payload is not None, repeats=repeats)
        reads = 0 if message.get("stopReason") in values.STOPS else characters + io + values.CALL * len(calls)
        return line_of(raw, Role.ASSISTANT, blocks, *names, calls=calls, io=io, reads=reads, facts=facts)


def _has_failed(message: Mapping[str, Any]) -> bool | None:
    """True if a call failed, by its result's flag or by OpenClaw's details; None if neither is recorded."""
    flag, details = message.get("isError"), values.fields(message.get("details"))
    code = details.get("exitCode")
    if details.get("status") in ("error", "failed") or (isinstance(code, int) and code != 0):
        return True
    return flag if isinstance(flag, bool) else None


def _without_files(summary: str) -> str:
    """Remove the file lists that the agent writes at the end of a summary."""
    left = summary.rstrip()
    for tag in ("modified-files", "read-files", "files"):
        start = left.rfind(f"<{tag}>\n") if left.endswith(f"</{tag}>") else -1
        if start >= 0:
            left = left[:start].rstrip()
    return left


def _outputs(entry: Entry) -> dict[JsonPath, tuple[str, model.Call]]:
    """Return outputs that are not results (of user commands, file mentions, extensions), with their calls."""
    is_message, name = entry.get("type") == "message", values.text(entry.get("id"))
    message = values.fields(entry.get("message")) if is_message else entry
    role, tool = message.get("role" if is_message else "type"), values.text(message.get("customType"))
    found: dict[JsonPath, tuple[str, model.Call]] = {}
    if role in ("bashExecution", "pythonExecution"):
        found[_OUTPUT] = values.text(message.get("output")), model.Call(name, name, "bash", Purpose.COMMAND)
    for index, file in values.parts(message.get("files")) if role == "fileMention" else ():
        made = model.Call(f"{name}/{index}", f"{name}/{index}", "read", Purpose.READ, values.text(file.get("path")))
        found["message", "files", index, "content"] = values.text(file.get("content")), made
    is_word = role in ("custom", "hookMessage", "custom_message") and message.get("attribution") != "user"
    if is_word and not _INSTRUCTS.search(tool):
        made, content = model.Call(name, name, tool, Purpose.OTHER), message.get("content")
        place: JsonPath = ("message", "content") if is_message else ("content",)
        found[place] = values.text(content), made
        found |= {(*place, index, "text"): (values.part_text(part), made) for index, part in values.parts(content)}
    return found


def _emptied(state: Any) -> Any:
    """Keep a state's structure and its short values: an extension may read several states in turn."""
    if not isinstance(state, dict):
        return type(state)()
    least = values.SMALLEST_BLOCK
    return {key: each if len(values.literal(each)) < least else type(each)() for key, each in state.items()}


def _names_blob(value: Any, path: JsonPath) -> bool:
    written = values.literal(values.at(value, path))
    return not written or _BLOB_BYTES in written


def _image(index: int, part: Any, tool: str, call: str) -> list[Block]:
    data = values.text(values.fields(part).get("data"))
    if values.fields(part).get("type") != "image" or not data:
        return []
    if data.startswith(_BLOB):
        # It stays, and the model reads it.
        size = len(values.literal(part))
        return [Block(Kind.IMAGE, ("message", "content", index), size, values.PICTURE, tool, call)]
    return values.whole(Kind.IMAGE, ("message", "content", index), part, tool, call)


def _id_tie(path: JsonPath, name: str) -> list[Tie]:
    """OpenAI Responses: `call_x|fc_y` names an item that is valid only with its reasoning; the call's own id stays."""
    call, bar, item = name.partition("|")
    return [Tie(path, call, len(item) + 1)] if call and bar else []


def _signature_tie(path: JsonPath, signature: Any) -> list[Tie]:
    """OpenAI Responses: a text's signature holds its item id and, in newer versions, its phase."""
    kept = _phase_alone(signature)
    if not isinstance(signature, str) or kept == signature:
        return []
    stays = len(values.literal(kept)) if kept else -len(',"textSignature":')
    return [Tie(path, kept, len(values.literal(signature)) - stays)]


def _phase_alone(signature: Any) -> str | None:
    """Return the signature without its item id, as the agent writes it; None if it has no phase.

    OpenAI asks for the phase of each text in every later request. The agent replaces an empty id with one of its own.
    """
    said = values.fields(within(values.text(signature)))
    phase = values.text(said.get("phase"))
    if said.get("v") != 1 or not isinstance(said.get("id"), str) or not phase:
        return None
    return values.literal({"v": 1, "id": "", "phase": phase}).decode()


class FamilyFormat(base.Format):
    """The common part of the family's formats; each adds its name, its signs and its tools."""

    answer_marks = (b'"assistant"',)
    titles = (("title",), ("name",))
    parent_key = "parentId"
    longest_state = 16_384

    def recognizes(self, head: Head) -> bool:
        return _header_of(head) is not None

    def named(self, head: Head) -> Name:
        header = _header_of(head) or {}
        return base.name_of(*map(header.get, ("id", "cwd", "parentSession", "branchedFrom")))

    def shape(self, lines: Lines) -> Shape:
        """Walk the tree. If the header indicates a list, or no entry has an id, entries follow each other."""
        return super().shape(lines) if _is_list(lines) else base.tree_shape(lines)

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        _refuse_list(session.lines)
        live, ids, first = self.shape(session.lines).live, session.lines.ids, cut.old[0]
        leaf = ids[live[-1]]
        kept = next(ids[number] for number in cut.kept if ids[number])
        files = _files([session.entry(first)] if session.lines.roles[first] is Role.CHECKPOINT else [], summary)
        entry = {
            "type": "compaction",
            "id": _new_id(ids, leaf, kept, summary.text),
            "parentId": leaf,
            # This makes the last entry's recorded usage older than the compaction.
            "timestamp": base.newest_time(session, reversed(live)),
            "summary": summary.text + _lists(files),
            "firstKeptEntryId": kept,
            "tokensBefore": summary.tokens_before,
            **self.noted_beside(session, cut, summary),
            "details": files,
            **_system_message(session, live),
        }
        return Checkpoint((Addition(len(session.lines), base.json_of(entry)),))

    def noted_beside(self, session: Written, cut: Cut, summary: Summary) -> Mapping[str, Any]:
        """Return the extra fields of a fork's compaction."""
        return {}

    def leaves(self, lines: Lines) -> Sequence[int]:
        _refuse_list(lines)
        numbers = {name: number for number, name in enumerate(lines.ids) if name}
        parents = frozenset(lines.parents)
        return sorted(number for name, number in numbers.items() if name not in parents)

    def branch_summary(self, session: Written, left: Sequence[int], target: int, summary: Summary) -> Checkpoint:
        """Write the entry; include the files of earlier summaries on the branch."""
        _refuse_list(session.lines)
        live, ids, roles = self.shape(session.lines).live, session.lines.ids, session.lines.roles
        silent = (number for number in left if roles[number] in (Role.OTHER, Role.CHECKPOINT))
        earlier = (each for each in map(session.entry, silent) if each.get("type") in ("compaction", "branch_summary"))
        files = _files(earlier, summary)
        above = (
            "The user explored a different conversation branch before returning here.\nSummary of that exploration:\n\n"
        )
        entry = {
            "type": "branch_summary",
            "id": _new_id(ids, ids[live[-1]], ids[target], summary.text),
            "parentId": ids[target],
            "timestamp": base.newest_time(session, reversed(live)),
            "fromId": ids[target],
            "summary": above + summary.text + _lists(files),
            "details": files,
        }
        return Checkpoint((Addition(len(session.lines), base.json_of(entry)),))

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        message = values.fields(entry.get("message"))
        match path:
            case ("message", "details" | "providerPayload") | ("details",):
                return value is REMOVED
            case ("message", "toolCallId"):
                return bool(value) and value == values.text(message.get("toolCallId")).partition("|")[0]
            case ("data",):
                return entry.get("type") == "custom" and bool(value == _emptied(entry["data"]))
            case ("message", "content", int(index), *inner):
                part = values.fields(message["content"][index])
            case _:
                return isinstance(value, str) and path in _outputs(entry)
        kind, may = part.get("type"), False
        match inner:
            case []:
                may = kind in _THOUGHTS if value is REMOVED else kind == "image"
            case ["text"]:
                is_output = message.get("role") == "toolResult" or path in _outputs(entry)
                may = kind == "text" and is_output and isinstance(value, str)
            case [key] if key in _PARTIAL:
                may = value is REMOVED
            case ["textSignature" as key]:
                kept = _phase_alone(part.get(key))
                may = value is REMOVED if kept is None else bool(value == kept)
            case ["id"]:
                may = kind == "toolCall" and bool(value) and value == values.text(part.get("id")).partition("|")[0]
            case ["arguments", *_, step]:
                may = kind == "toolCall" and isinstance(value, str) and step not in values.PLACE_KEYS
        return may

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        if path == _OUTPUT:
            return model.Treatment.REFERENCE
        return _emptied(value) if path == _STATE else super().stand_in(path, value)

    def answer(self, entry: Entry) -> Answer | None:
        """Read what an assistant message records about its request; usage elsewhere belongs to other requests."""
        message = values.fields(entry.get("message"))
        if entry.get("type") != "message" or message.get("role") != "assistant":
            return None
        stop, error = values.text(message.get("stopReason")), ""
        if stop in values.STOPS:
            error = values.text(message.get("errorMessage")) or stop
        recorded = values.fields(message.get("usage"))
        sent, made, read, wrote = map(recorded.get, ("input", "output", "cacheRead", "cacheWrite"))
        usage = model.beside(sent, made, read, wrote, recorded.get("reasoning", recorded.get("reasoningTokens")))
        return Answer(
            model=values.text(message.get("model")),
            usage=None if error else usage,
            error=error,
            cut_short=stop == "length",
            at=base.moment(message.get("timestamp")) or base.moment(entry.get("timestamp")),
        )


def _is_list(lines: Lines) -> bool:
    header = next((number for number, role in enumerate(lines.roles) if role is Role.HEADER), None)
    return (header is not None and lines.facts[header].listed) or not any(lines.ids)


def _refuse_list(lines: Lines) -> None:
    if _is_list(lines):
        raise CannotCheckpoint(
            "its entries have no ids, as in the first version of pi's sessions",
            "Resume it once with pi, which adds them, and run again.",
        )


def _header_of(head: Head) -> Entry | None:
    """Return the header of a pi-like session: the first entry, or the second one after a title slot."""
    for entry in head.entries[:2]:
        if entry.get("type") == "session":
            good = all(isinstance(entry.get(key), str) for key in ("id", "timestamp", "cwd"))
            # DeepSeek-harness files begin alike, but have `createdAt` in the header and `seq` in their lines.
            foreign = any("createdAt" in each or "seq" in each for each in head.entries)
            return entry if good and not foreign else None
        if entry.get("type") != "title":
            return None
    return None


def _handoff(session: Written, live: Sequence[int], path: str, text: str, seed: str, **beside: Any) -> NewSession:
    """Write a session of a header and one entry; its name and ids are derived from the source and a seed."""
    headers = (number for number, role in enumerate(session.lines.roles) if role is Role.HEADER)
    source = session.entry(next(headers, 0))
    at = base.moment(base.newest_time(session, reversed(live)))
    written = base.time_of(at)
    digits = xxh3_128_hexdigest(f"{values.text(source.get('id'))}\n{seed}".encode(errors="backslashreplace"))
    name = str(UUID(f"{at:012x}7{digits[:3]}8{digits[3:18]}"))
    # The whole family reads this version.
    header = {"type": "session", "version": 3, "id": name, "timestamp": written}
    header |= {"cwd": values.text(source.get("cwd")), "parentSession": path}
    entry = {
        "type": "custom_message",
        "customType": "handoff",
        "content": _HANDOFF.format(text.rstrip("\n")),
        "display": True,
        **beside,
        "id": digits[-_ID_DIGITS:],
        "parentId": None,
        "timestamp": written,
    }
    file = f"{written.translate(str.maketrans(':.', '--'))}_{name}.jsonl"
    return NewSession(file, base.json_of(header) + base.json_of(entry))


def _new_id(ids: Iterable[str], *seed: str) -> str:
    taken, text = set(ids), "\n".join(seed).encode(errors="backslashreplace")
    made = (xxh3_64_hexdigest(text, number)[:_ID_DIGITS] for number in count())
    return next(each for each in made if each not in taken)


def _files(earlier: Iterable[Mapping[str, Any]], summary: Summary) -> dict[str, list[str]]:
    """Return the file lists as the agent builds them, including files of its own earlier summaries."""
    read, changed = set(summary.read), set(summary.changed)
    for before in earlier:
        # An extension's summary may hold anything.
        if before.get("fromHook") or before.get("fromExtension"):
            continue
        details = values.fields(before.get("details"))
        read.update(map(values.text, values.items(details.get("readFiles"))))
        changed.update(map(values.text, values.items(details.get("modifiedFiles"))))
    return {"readFiles": _names(read - changed), "modifiedFiles": _names(changed)}


def _names(files: Iterable[str]) -> list[str]:
    """Return the names sorted, without those that could end a list or its line."""
    return sorted(file for file in files if file and file.isprintable() and "</" not in file)


def _lists(files: Mapping[str, Sequence[str]]) -> str:
    """Write the file lists at the end of a summary, up to 100 names each; the entry's details have all."""
    tags = {"read-files": "readFiles", "modified-files": "modifiedFiles"}
    listed = ((tag, "\n".join(files[key][:100])) for tag, key in tags.items())
    return "".join(f"\n\n<{tag}>\n{names}\n</{tag}>" for tag, names in listed if names)


def _system_message(session: Written, live: Sequence[int]) -> dict[str, Any]:
    """Merge the system messages, because pi since 0.87 reads none from before a compaction.

    Texts are appended; sections and tools replace earlier ones of the same name.
    """
    texts: list[str] = []
    sections: dict[str, Any] = {}
    tools: dict[str, Any] = {}
    roles = session.lines.roles
    last = next((at for at in range(len(live) - 1, -1, -1) if roles[live[at]] is Role.CHECKPOINT), 0)
    found = list(filter(None, (_system_of(session, number) for number in live[last:])))
    for message in found:
        texts += filter(None, [values.words(message.get("content"))])
        sections |= values.fields(message.get("sections"))
        for tool in map(values.fields, values.items(message.get("toolsRemoved"))):
            tools.pop(values.text(tool.get("name")), None)
        tools |= {values.text(tool.get("name")): tool for _, tool in values.parts(message.get("toolsAdded"))}
    if not found:
        return {}
    left = {name: value for name, value in sections.items() if value is not None}
    merged: dict[str, Any] = {"role": "system", "content": "\n\n".join(texts)}
    merged |= {"sections": left} if left else {}
    merged |= {"toolsAdded": list(tools.values())} if tools else {}
    return {"systemMessage": {**merged, "timestamp": base.moment(base.newest_time(session, reversed(live)))}}


def _system_of(session: Written, number: int) -> Mapping[str, Any]:
    """Return the system message of an entry, or the one that a compaction repeats."""
    if session.lines.roles[number] not in (Role.OTHER, Role.CHECKPOINT):
        return {}
    entry = session.entry(number)
    message = entry.get("systemMessage" if entry.get("type") == "compaction" else "message")
    return values.fields(message) if values.fields(message).get("role") == "system" else {}


class Pi(FamilyFormat):
    """Sessions of pi, versions 1 to 3, and the entries of pi 1.x; also the sessions of GitClaw's pi."""

    name = "pi"
    reader = PiReader
    other_tools = "edit grep find ls"

    def dropping(self, session: Written, cut: Cut, made: Checkpoint) -> Checkpoint:
        """Remove the messages before the kept part, except ancestors of other branches.

        Children of a removed line are linked to its nearest remaining ancestor: entries that name the model, for
        example, stay.
        """
        lines, live = session.lines, self.shape(session.lines).live
        numbers = {name: number for number, name in enumerate(lines.ids) if name}
        on_path, stay = frozenset(live), set[int]()
        for number in numbers.values():
            step = number if number not in on_path else None
            while step is not None and step not in stay:
                stay.add(step)
                step = numbers.get(lines.parents[step])
        gone = frozenset(
            number
            for number in live[: live.index(cut.kept[0])]
            if number not in stay
            and lines.roles[number] is not Role.HEADER
            and (lines.roles[number] is not Role.OTHER or lines[number].reads)
            and lines[number].size < LINE_CAP
        )
        changed: dict[int, bytes] = {}
        for number, parent in enumerate(lines.parents):
            step = numbers.get(parent)
            if number in gone or step not in gone:
                continue
            while step in gone:
                step = numbers.get(lines.parents[step])
            above = None if step is None else lines.ids[step]
            remedy = "Run without --drop-dead (drop_dead): the lines stay."
            changed[number] = base.relinked(session, number, self.parent_key, above, remedy)
        return made._replace(removed=gone, changed=changed)

    def handoff(self, session: Written, path: str, text: str, seed: str) -> NewSession:
        return _handoff(session, self.shape(session.lines).live, path, text, seed)


class OpenClawReader(PiReader):
    """Reads the entries of OpenClaw."""

    purposes: Mapping[str, Purpose] = {
        "read": Purpose.READ,
        "write": Purpose.WRITE,
        "exec": Purpose.COMMAND,
        "process": Purpose.COMMAND,
    }
    # System events may precede a person's words, but a message without text is a person's picture.
    not_asked = re.compile(
        r"\A(?!\Z)(?:System: \[[^\n]*(?:\n+System:[^\n]*)*+\n*)?+"
        r"(?:\Z|\[OpenClaw heartbeat|Read HEARTBEAT\.md if it exists \(workspace context\)|\[cron:)"
    )


class OpenClaw(FamilyFormat):
    """Sessions of OpenClaw up to about 2026.3: pi version 3 with its own entries and tool names."""

    name = "openclaw"
    reader = OpenClawReader
    other_tools = "edit grep find ls web_search web_fetch session_status browser"

    def recognizes(self, head: Head) -> bool:
        kinds = [values.text(entry.get("customType")) for entry in head.entries]
        own = any(kind.startswith("openclaw") or kind == "model-snapshot" for kind in kinds)
        return own and super().recognizes(head)


_ARGUMENTS: JsonPath = ("data", "args")
_PRUNED: JsonPath = ("message", "prunedAt")
_PRESERVED, _ARCHIVE = "preserveData", "snapcompact"
_OWN_ENTRIES = (
    "title title_change session_init model_usage service_tier_change ttsr_injection mode_change credential_pin "
    "reset_boundary"
)


class OhMyPiReader(PiReader):
    """Reads oh-my-pi's entries."""

    purposes: Mapping[str, Purpose] = {**PiReader.purposes, "eval": Purpose.COMMAND, "task": Purpose.AGENT}

    def entry_blocks(self, entry: Entry) -> list[Block]:
        """Return also the copy of arguments for crash reports, and a compaction's data outside its text."""
        if entry.get("type") == "compaction":
            kept = values.fields(entry.get(_PRESERVED)).items()
            found = [((_PRESERVED, a, b), each) for a, held in kept for b, each in values.fields(held).items()]
            return [block for path, each in found for block in values.whole(Kind.MIRROR, path, each, "", "")]
        if not _is_start(entry) or not isinstance(entry["data"].get("args"), dict):
            return super().entry_blocks(entry)
        call = values.text(entry["data"].get("toolCallId"))
        # No tool name: this is not a state of the tool.
        return values.whole(Kind.MIRROR, _ARGUMENTS, entry["data"]["args"], "", call)


class OhMyPi(FamilyFormat):
    """Sessions of oh-my-pi."""

    name = "oh-my-pi"
    reader = OhMyPiReader
    other_tools = "edit grep glob find ls web_search fetch"
    links = re.compile(r"artifact://\d+|blob:sha256:[0-9a-f]{64}")

    def recognizes(self, head: Head) -> bool:
        own = any(
            entry.get("type") in _OWN_ENTRIES.split()
            or (entry.get("type") == "model_change" and "model" in entry)
            or _is_start(entry)
            for entry in head.entries
        )
        return own and super().recognizes(head)

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        """Also allow a start's arguments to be emptied, but never removed."""
        if path == _PRUNED:
            return isinstance(value, Added) and _may_be_pruned(entry)
        if path[:1] == (_PRESERVED,):
            return entry.get("type") == "compaction" and value is REMOVED
        return super().may_change(entry, path, value) or (path == _ARGUMENTS and _is_start(entry) and value == {})

    def noted_beside(self, session: Written, cut: Cut, summary: Summary) -> Mapping[str, Any]:
        """Carry over what the model reads of an earlier compaction outside its text: pictures of the conversation."""
        before = values.fields(session.entry(cut.old[0]).get(_PRESERVED))
        if before.get("openaiRemoteCompaction"):
            what = "its last compaction is one that only the provider can read, and no summary carries that on"
            raise CannotCheckpoint(what, "Compact it with oh-my-pi, or run 'sessioncompress compress' instead.")
        archive = values.fields(before.get(_ARCHIVE))
        if text := values.text(archive.get("text")):
            # The agent's next compaction draws its pictures from this text, with this line end, and ignores summaries.
            archive = {**archive, "text": "\u2588".join((text, *summary.text.splitlines()))}
        kept = ({_ARCHIVE: archive} if archive else {}) | orjson.loads(summary.preserved or "{}")
        noted = {"shortSummary": summary.short, "tokensAfter": summary.tokens_after}
        return noted | {_PRESERVED: kept} if kept else noted

    def handoff(self, session: Written, path: str, text: str, seed: str) -> NewSession:
        live = self.shape(session.lines).live
        return _handoff(session, live, path, text, seed, attribution="agent")

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        return {} if path == _ARGUMENTS else super().stand_in(path, value)

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        """Return the agent's text and the time of clearing; None if the agent has already cleared the result."""
        if not _may_be_pruned(entry):
            return None
        return Cleared(f"[Output truncated - {estimate(len(text))} tokens]", {_PRUNED: now})


def _is_start(entry: Entry) -> bool:
    return entry.get("customType") == "tool_execution_start" and isinstance(entry.get("data"), dict)


def _may_be_pruned(entry: Entry) -> bool:
    message = values.fields(entry.get("message"))
    return message.get("role") == "toolResult" and _PRUNED[-1] not in message
