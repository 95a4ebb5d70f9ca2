"""OpenCode, as `opencode export` writes it: one document of messages with parts; a call and its result are one part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_letters, digits
from typing import Any

from xxhash import xxh3_128_intdigest

from sessioncompress.core import marker, model
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Say, Summary, Utterance, Written
from sessioncompress.core.model import Answer, Block, Call, Facts, JsonPath, Kind, Line, Purpose, Role, Tie
from sessioncompress.core.references import attached
from sessioncompress.core.splice import REMOVED, Added
from sessioncompress.formats import base, values
from sessioncompress.formats.base import CannotCheckpoint, Cleared, Entry, Head, Name, line_of

_TIED = frozenset({"openai", "copilot"})
_ITEM = frozenset({"itemId", "reasoningEncryptedContent", "reasoningOpaque", "phase"})
"""Providers whose data on a text or a call names the reasoning before it, and keys that do so for others.

Azure's data, for one, has such keys. All keys are optional.
"""

_NOT_SENT = frozenset({"text/plain", "application/x-directory"})
"""Files whose data the agent does not send: it sends their text in another part."""

_TOLD = ("Called the ", "Reading MCP resource: ")
"""Beginnings of the texts that the agent adds to a prompt before the tool result for a file that the user named."""

_DIFFS: JsonPath = ("info", "summary", "diffs")

_ID = re.compile(r"msg_([0-9a-f]{12})[0-9A-Za-z]*+")
"""These ids increase with time, and the agent sorts by them."""

_AGAIN = "Export the session again with 'opencode export SESSION > FILE', and run again."

_LATER = "Run again when the agent has compacted the session, or when it has grown."

_Part = tuple[int, Mapping[str, Any]]


class OpenCodeReader(base.Reader):
    """Reads the messages of one session."""

    purposes: Mapping[str, Purpose] = {**base.Reader.purposes, "task": Purpose.AGENT}
    linking = ("info.id", "info.parentID")

    def __init__(self) -> None:
        super().__init__()
        self._tails: dict[str, str] = {}
        """The first message that a compaction keeps, by the message that asked for it."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        info = values.fields(entry.get("info"))
        name = values.text(info.get("id"))
        if "projectID" in info:
            return line_of(raw, Role.HEADER)
        parts = values.parts(entry.get("parts"))
        if info.get("role") == "assistant":
            return self._answer(raw, info, name, parts)
        compactions = [part for _, part in parts if part.get("type") == "compaction"]
        if compactions:
            self._tails[name] = values.text(compactions[0].get("tail_start_id")) or name
        # The agent itself wrote synthetic parts.
        asks = not parts or any(not part.get("synthetic") for _, part in parts)
        role = Role.USER if info.get("role") == "user" and asks and not compactions else Role.OTHER
        diffs = values.fields(info.get("summary")).get("diffs")
        # Only the screen shows them.
        blocks = values.whole(Kind.MIRROR, _DIFFS, diffs, "", "") if isinstance(diffs, list) else []
        io = _put_in(parts, blocks)
        blocks += values.marked_images(("parts",), entry.get("parts"))
        reads = values.characters(values.items(entry.get("parts"))) + values.pictures(blocks)
        return line_of(raw, role, blocks, name, io=io, reads=reads)

    def _answer(self, raw: bytes, info: Mapping[str, Any], name: str, parts: Sequence[_Part]) -> Line:
        blocks: list[Block] = []
        calls: list[Call] = []
        thoughts: list[Block] = []
        reads = io = 0
        for index, part in parts:
            match part.get("type"):
                case "tool":
                    state = values.fields(part.get("state"))
                    calls.append(self.call(part.get("callID"), part.get("tool"), state.get("input")))
                    blocks += _tool(("parts", index, "state"), state, calls[-1])
                    output = "" if _is_pruned(state) else values.text(state.get("output"))
                    io += len(values.literal(state.get("input"))) + len(output)
                    pictures = [] if _is_pruned(state) else values.large((), state.get("attachments"))
                    io += sum(values.picture(each) for _, each in pictures)
                case "step-start" | "step-finish":
                    # Not sent, but a revert looks up its snapshots there.
                    continue
                case "text":
                    reads += len(values.text(part.get("text")))
                case "reasoning":
                    reads += len(values.text(part.get("text")))
                    thoughts += values.thinking(("parts", index), part)
        ties: list[Tie] = []
        if _may_go(parts):
            blocks += thoughts
            for index, part in parts:
                if path := _tied(part):
                    size = len(values.literal(values.at(part, path)))
                    ties.append(Tie(("parts", index, *path), None, size))
        made = info.get("summary") is True and bool(info.get("finish")) and not info.get("error")
        keeps = self._tails.get(values.text(info.get("parentID")), "") if made else ""
        facts = Facts(ties=tuple(ties), thinks=bool(thoughts), keeps=keeps)
        role = Role.CHECKPOINT if keeps else Role.ASSISTANT
        reads += io + (values.CALL + values.RESULT) * len(calls)
        return line_of(raw, role, blocks, name, calls=calls, io=io, reads=reads, facts=facts)

    def said(self, entry: Entry) -> Iterator[Utterance]:
        info = values.fields(entry.get("info"))
        error = values.fields(info.get("error"))
        # An answer with any other error is not sent again.
        if info.get("role") not in ("user", "assistant") or (error and error.get("name") != "MessageAbortedError"):
            return
        for _, part in values.parts(entry.get("parts")):
            text = values.part_text(part) if part.get("type") == "text" else ""
            if info["role"] == "user":
                # The agent itself wrote synthetic parts, and no model reads ignored ones.
                if text and not (part.get("synthetic") or part.get("ignored")):
                    yield Utterance(Say.PROMPT, text)
            elif text:
                yield Utterance(Say.SUMMARY if info.get("summary") is True else Say.ANSWER, text)
            elif part.get("type") == "tool":
                yield from self._said_tool(part, values.fields(part.get("state")))

    def _said_tool(self, part: Mapping[str, Any], state: Mapping[str, Any]) -> Iterator[Utterance]:
        name = values.text(part.get("callID"))
        yield self.said_call(name, part.get("tool"), state.get("input"))
        if state.get("status") == "error":
            yield Utterance(Say.RESULT, values.text(state.get("error")), call=name, failed=True)
        elif state.get("status") == "completed":
            code = values.fields(state.get("metadata")).get("exit")
            failed = isinstance(code, int) and code != 0
            yield Utterance(Say.RESULT, values.text(state.get("output")), call=name, failed=failed)


def _put_in(parts: Sequence[_Part], blocks: list[Block]) -> int:
    """Add blocks for what the agent put into a prompt: files and tool results. Return the characters of the latter."""
    io, tool = 0, None
    for index, part in parts:
        text, path = values.part_text(part), ("parts", index)
        if part.get("type") == "file" and attached(part).data:
            if values.text(part.get("mime")) in _NOT_SENT:
                blocks += values.whole(Kind.MIRROR, (*path, "url"), values.text(part.get("url")), "", "")
            else:
                blocks += values.whole(Kind.IMAGE, path, part, "", "")
        elif part.get("type") == "text" and not part.get("synthetic"):
            tool = None
        elif text.startswith(_TOLD):
            tool = text.split(" ", 3)[2].lower()
        elif tool is not None and not text.startswith("<system-reminder>"):
            blocks += values.long_text(Kind.RESULT, (*path, "text"), text, tool, "")
            io += len(text)
    return io


def _tool(path: JsonPath, state: Mapping[str, Any], call: Call) -> list[Block]:
    """Return the blocks of one call: arguments, result, screen copies.

    The result stays if the call read a skill.
    """
    blocks: list[Block] = []
    values.arguments((*path, "input"), state.get("input"), call, blocks)
    output = values.text(state.get("output"))
    if _is_pruned(state) and not marker.occurs_in(output):
        # The model gets neither of them.
        for key in sorted({"output", "attachments"} & state.keys()):
            blocks += values.whole(Kind.MIRROR, (*path, key), state[key], call.tool, call.name)
    elif not call.reads_skill:
        pictures = values.large((), state.get("attachments")) if output else ()
        blocks += values.long_text(Kind.RESULT, (*path, "output"), output, call.tool, call.name, pictures)
    shown = state.get("metadata")
    # After an interrupted call, the model gets the metadata's text.
    if isinstance(shown, dict) and state.get("status") == "completed":
        blocks += values.whole(Kind.MIRROR, (*path, "metadata"), shown, call.tool, call.name)
    return blocks


class OpenCode(base.Format):
    """Sessions of OpenCode, exported."""

    name = "opencode"
    reader = OpenCodeReader
    other_tools = (
        "edit multiedit apply_patch patch grep glob list webfetch websearch codesearch task todowrite todoread "
        "question lsp invalid"
    )
    renews_ids = True
    answer_marks = (b'"assistant"',)
    titles = (("info", "title"),)

    def recognizes(self, head: Head) -> bool:
        if not all(isinstance(_header(head).get(key), str) for key in ("id", "projectID", "directory")):
            return False
        messages = head.entries if head.document is not None else head.entries[1:]
        return all(isinstance(each.get("info"), dict) and isinstance(each.get("parts"), list) for each in messages)

    def outputs(self, entry: Entry) -> Iterator[tuple[str, str, str]]:
        for _, part in values.parts(entry.get("parts")):
            state = values.fields(part.get("state"))
            file = values.fields(state.get("metadata")).get("outputPath")
            yield values.text(part.get("id")), values.text(state.get("output")), values.text(file)

    def named(self, head: Head) -> Name:
        return base.name_of(*map(_header(head).get, ("id", "directory", "parentID")))

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        match path:
            case ("info", "summary", "diffs"):
                return bool(value == [])
            case ("parts", int(index), *inner):
                part = values.fields(entry["parts"][index])
            case _:
                return False
        kind, state = part.get("type"), values.fields(part.get("state"))
        match inner:
            case []:
                return isinstance(value, dict) if kind == "file" else kind == "reasoning" and value is REMOVED
            case ["url"]:
                return values.text(part.get("mime")) in _NOT_SENT and isinstance(value, str)
            case ["text"]:
                return kind == "text" and part.get("synthetic") is True and isinstance(value, str)
            case ["metadata", *_]:
                return value is REMOVED and tuple(inner) == _tied(part)
            case ["state", *place] if kind == "tool":
                return _may_change_state(state, place, value)
        return False

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        """Return an empty value of the type that the agent's schema requires; for a data URL, its head without data."""
        return value.partition(",")[0] + "," if path[-1] == "url" else type(value)()

    def images_of(self, path: JsonPath) -> JsonPath:
        return (*path[:-1], "attachments") if path[-2:] == ("state", "output") else ()

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        """Return the time that marks the result as cleared. The agent adds its own words when it sends the request."""
        part, state = block.path[:-1], entry["parts"][block.path[1]]["state"]
        return Cleared(None, {(*part, "time", "compacted"): now}) if _may_be_pruned(state) else None

    def is_subagent(self, session: Written) -> bool:
        around = session.entry(0) if session.outer is None else session.outer
        return bool(values.text(values.fields(values.fields(around).get("info")).get("parentID")))

    def text_part(self, text: str, part: Mapping[str, Any]) -> Any:
        """Return a part like the agent's own: its schema requires the ids, and no screen shows it as a prompt."""
        ids = {key: each for key, each in part.items() if key.endswith(("id", "ID"))}
        return ids | {"type": "text", "text": text, "synthetic": True}

    def answer(self, entry: Entry) -> Answer | None:
        """Return what a message of the model reports about its request, or about the last one if there were several."""
        info = values.fields(entry.get("info"))
        if info.get("role") != "assistant":
            return None
        failed = values.fields(info.get("error"))
        error = values.text(values.fields(failed.get("data")).get("message")) or values.text(failed.get("name"))
        counted = values.fields(info.get("tokens"))
        cache = values.fields(counted.get("cache"))
        sent, made, thought = map(counted.get, ("input", "output", "reasoning"))
        usage = model.beside(sent, made, cache.get("read"), cache.get("write"), thought)
        if usage is not None:
            # The reasoning tokens are not part of the output tokens.
            usage = usage._replace(output=usage.output + usage.reasoning)
        at = base.moment(values.fields(info.get("time")).get("created"))
        return Answer(model=values.text(info.get("modelID")), usage=None if error else usage, error=error, at=at)

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        """Add both messages at the end.

        The agent also reads an earlier compaction among the kept messages, so remove that one from the document.
        """
        lines = session.lines
        asked = _info(session, Role.USER)
        answered = _info(session, Role.ASSISTANT)
        gone = _compactions(session, cut)
        first = next(number for number in cut.kept if number not in gone)
        if not lines.ids[first] or list(lines.ids).count(lines.ids[first]) > 1:
            raise CannotCheckpoint("the first message that would stay has no id of its own in the export", _AGAIN)
        whose = values.text(asked.get("sessionID")) or values.text(answered.get("sessionID"))
        last = values.fields(values.fields(session.entry(len(lines) - 1).get("info")).get("time"))
        at, time = _newest_id(lines.ids), max(map(base.moment, (last.get("created"), last.get("completed"))))
        seed = "\n".join((lines.ids[first], summary.text))
        user, assistant = (_new_id("msg", at + after, seed) for after in (1, 2))
        asks = {"role": "user", "model": asked.get("model"), "agent": asked.get("agent"), "time": {"created": time + 1}}
        answers = {
            "role": "assistant",
            "parentID": user,
            "mode": "compaction",
            "agent": "compaction",
            "summary": True,
            "path": answered.get("path"),
            "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "modelID": answered.get("modelID"),
            "providerID": answered.get("providerID"),
            "time": {"created": time + 2, "completed": time + 2},
            "finish": "stop",
        }
        compaction = {"type": "compaction", "auto": False, "overflow": False, "tail_start_id": lines.ids[first]}
        added = []
        is_rows = session.outer is None
        for after, name, info, part in (
            (1, user, asks, compaction),
            (2, assistant, answers, {"type": "text", "text": summary.text}),
        ):
            ids = {"id": _new_id("prt", at + after, seed), "sessionID": whose, "messageID": name}
            message = {"info": {"id": name, "sessionID": whose, **info}, "parts": [ids | part]}
            added.append(Addition(len(lines), base.json_of(message, b"\n" if is_rows else b"")))
        if is_rows and gone:
            raise CannotCheckpoint("a compaction stands among the messages that would stay", _LATER)
        return Checkpoint(tuple(added), removed=gone)

    def dropping(self, session: Written, cut: Cut, made: Checkpoint) -> Checkpoint:
        """Remove the messages before the kept ones, except the parents of kept answers."""
        if session.outer is None:
            return super().dropping(session, cut, made)
        lines, first = session.lines, min(cut.kept)
        answers = (number for number in range(first, len(lines)) if lines.roles[number] is not Role.USER)
        parents = {_parent(session, number) for number in answers}
        return made._replace(removed=made.removed.union(n for n in range(first) if lines.ids[n] not in parents))


def _header(head: Head) -> Mapping[str, Any]:
    """Return the session's description: next to the messages of an export, or in the first line of rows."""
    entry = head.document if head.document is not None else next(iter(head.entries), None)
    return values.fields(values.fields(entry).get("info"))


def _may_change_state(state: Mapping[str, Any], path: list[Any], value: Any) -> bool:
    match path:
        case ["metadata"]:
            return bool(value == {})
        case ["output"]:
            return isinstance(value, str)
        case ["attachments"]:
            return _is_pruned(state) and bool(value == [])
        case ["attachments", int()]:
            return value is REMOVED
        case ["time", "compacted"]:
            return isinstance(value, Added) and _may_be_pruned(state)
        case ["input", *_, step]:
            return isinstance(value, str) and step not in values.PLACE_KEYS
    return False


def _is_pruned(state: Mapping[str, Any]) -> bool:
    """Return True if the agent no longer sends the result of a call: then only the screen shows it."""
    return state.get("status") == "completed" and bool(values.fields(state.get("time")).get("compacted"))


def _may_be_pruned(state: Mapping[str, Any]) -> bool:
    """Return True if the agent could stop sending the result of a call, and has not yet."""
    time = state.get("time")
    return state.get("status") == "completed" and isinstance(time, dict) and "compacted" not in time


def _tied(part: Mapping[str, Any]) -> JsonPath | None:
    """Return the path at which a text or a call names its reasoning, or None.

    If there is also a phase, that is only the item's id: OpenAI requires the phase of each text in every later request.
    """
    metadata = values.fields(part.get("metadata"))
    tied = [key for key, value in metadata.items() if key in _TIED or _ITEM & values.fields(value).keys()]
    if part.get("type") not in ("text", "tool") or not tied:
        return None
    item = values.fields(metadata[tied[0]])
    if len(metadata) > 1 or not item.get("phase"):
        return ("metadata",)
    return ("metadata", tied[0], "itemId") if "itemId" in item else None


def _may_go(parts: Sequence[_Part]) -> bool:
    """Return True if the thinking can be removed: other content remains, and nothing unknown refers to it."""
    others = [part for _, part in parts if part.get("type") in ("text", "tool")]
    for part in others:
        for key, value in values.fields(part.get("metadata")).items():
            is_known = key in _TIED or set() < values.fields(value).keys() <= _ITEM
            if key == "google" or "thoughtSignature" in values.fields(value) or (_tied(part) and not is_known):
                return False
    return any(part.get("type") == "tool" or values.part_text(part).strip() for part in others)


def _info(session: Written, role: Role) -> Mapping[str, Any]:
    """Return the info of the newest message of a role."""
    roles = session.lines.roles
    for number in range(len(roles) - 1, -1, -1):
        if roles[number] is role:
            return values.fields(session.entry(number).get("info"))
    raise CannotCheckpoint("the export has no user message, or none from the model", _AGAIN)


def _compactions(session: Written, cut: Cut) -> frozenset[int]:
    """Return the messages of earlier compactions after the first kept one.

    Raises CannotCheckpoint if an answer other than the summary refers to one: the session could then not be imported.
    """
    roles, ids = session.lines.roles, session.lines.ids
    behind = range(min(cut.kept), len(roles))
    summaries = [number for number in behind if roles[number] is Role.CHECKPOINT]
    if not summaries:
        return frozenset()
    asked = {_parent(session, number) for number in summaries}
    for number in behind:
        if roles[number] is Role.ASSISTANT and _parent(session, number) in asked:
            raise CannotCheckpoint(
                "an answer is linked to the compaction before it",
                "Send it one more request with OpenCode, and run again.",
            )
    return frozenset((*summaries, *(number for number in behind if ids[number] in asked)))


def _parent(session: Written, number: int) -> str:
    return values.text(values.fields(session.entry(number).get("info")).get("parentID"))


def _newest_id(ids: Sequence[str]) -> int:
    """Return the time in the newest id. Raises CannotCheckpoint if no id can follow it."""
    newest = _ID.fullmatch(max(ids, default=""))
    if newest is None or int(newest[1], 16) >= (1 << 48) - 2:
        raise CannotCheckpoint("the ids of its messages do not increase with time, as OpenCode's do", _AGAIN)
    return int(newest[1], 16)


def _new_id(kind: str, at: int, seed: str) -> str:
    number = xxh3_128_intdigest(f"{kind}\n{at}\n{seed}".encode(errors="backslashreplace"))
    alphabet, letters = digits + ascii_letters, []
    # This many characters after the time make an id unique.
    for _ in range(14):
        number, letter = divmod(number, len(alphabet))
        letters.append(alphabet[letter])
    return f"{kind}_{at:012x}{''.join(letters)}"
