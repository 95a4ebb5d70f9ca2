"""Codex CLI: rollouts of items, which the model reads, and of events, which hold copies for the screen."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from sys import intern
from typing import Any

from sessioncompress.core import marker, model
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Say, Summary, Utterance, Written
from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.core.lines import Lines, without_taken_back
from sessioncompress.core.model import PLAIN, SKILL_FILE, Answer, Block, Facts, JsonPath, Kind, Line, Purpose, Role, Tie
from sessioncompress.core.pointers import Pointers
from sessioncompress.core.references import digest_of
from sessioncompress.core.splice import REMOVED, within
from sessioncompress.formats import base, values
from sessioncompress.formats.base import CannotCheckpoint, Entry, Head, Name, line_of

_PAYLOAD = "payload"
_HISTORY: JsonPath = (_PAYLOAD, "replacement_history")
_GUARDED: JsonPath = (_PAYLOAD, "guardian_history")
"""A copy of the items that a compaction replaced."""

_CALLS: Mapping[str, JsonPath] = {
    "function_call": ("arguments",),
    "custom_tool_call": ("input",),
    "local_shell_call": ("action", "command"),
}
"""The item types that are calls, and the path of their arguments.

They are valid without their item's id, as in all rollouts before 2026.
"""

_RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
_TEXT_PARTS = frozenset({"input_text", "output_text"})

_PASSED_OVER = "other"
"""The type of an item that loses its seal. Codex skips items of a type that it doesn't know."""

_NOT_WORDS = (
    *("# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "<skill>"),
    *("<permissions instructions>", "<skills_instructions>", "<plugins_instructions>", "<apps_instructions>"),
    *("<recommended_plugins>", "<turn_aborted>", "<collaboration_mode>", "<subagent_notification>", "<hook_prompt"),
    *("<codex_internal_context", "<user_shell_command>", "<model_switch>", "<personality_spec>", "<user_action>"),
)
"""Begins texts that Codex itself writes in the user's name."""

_COMMANDS = "exec_command exec shell shell_command container.exec local_shell write_stdin unified_exec"

_PREAMBLE = re.compile(
    r"(?:(?:(?:Chunk ID|Wall time|Process|Exit code|Original token count|Total output lines)\b[^\n]{0,80}\n){1,8}"
    r"Output:\n)?"
    r"(?:Warning: truncated output[^\n]{0,80}\n)?(?:Total output lines: \d+\n)?\n?"
)
"""The lines above the output of a command or a program; possibly none."""

_PART = re.compile(r"[^|;&\n]+")
_PRINTS = re.compile(r"\b(?:cat|sed|head|tail|nl|bat|less|awk)\b")
_WORD = re.compile(r"[^\s'\"`\\]+")
_NAMES_SKILL = re.compile(rf"\b{re.escape(SKILL_FILE)}\b")

PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking process. You also "
    "have access to the state of the tools that were used by that language model. Use this to build on the work that "
    "has already been done and avoid duplicating work. Here is the summary produced by the other language model, use "
    "the information in this summary to assist with your own analysis:\n"
)
"""The text that Codex itself puts before a summary."""

_BY_CODEX = "Resume it with Codex, and compact it there with /compact."

_STATUS = re.compile(
    r"(?:(?:Chunk ID|Wall time)\b[^\n]{0,80}\n){0,4}(?:Process exited with code|Exit code:) (-?\d{1,9})\n"
)
_FAILED = ("apply_patch verification failed", "Script failed", "exec_command failed", "write_stdin failed")
"""Begins the outputs of calls that Codex could not carry out."""

_REASONING = "reasoning"
_EVENT, _COUNT = "event_msg", "token_count"

_SEALED = Facts(sealed=True)
_THINKS = Facts(thinks=True)
_GOES = Facts(ties=(Tie((_PAYLOAD, "type"), _PASSED_OVER, 0),), thinks=True)
"""Sealed reasoning: removing the seal also changes its type."""

_GOES_WITHOUT_ORDINAL = Facts(ties=(Tie(("type",), _EVENT, 0), Tie((_PAYLOAD, "type"), _COUNT, 0)), thinks=True)
"""For rollouts that Codex may still migrate: that fails on an unknown item type, but accepts any event."""

_PASSING = re.compile(r"^(?:Chunk ID|Wall time|Original token count)\b.*\n", re.MULTILINE)
"""Lines that differ between equal outputs: they only report timing."""


class RolloutReader(base.Reader):
    """Reads the lines of one rollout."""

    purposes: Mapping[str, Purpose] = {
        **dict.fromkeys(_COMMANDS.split(), Purpose.COMMAND),
        "wait_agent": Purpose.AGENT,
    }
    linking = ("type", "timestamp")

    def __init__(self) -> None:
        super().__init__()
        self._said: set[int] = set()
        """Hashes of long texts in messages: a checkpoint's copies of these also exist in full outside it."""
        self._header: Mapping[str, Any] = {}
        """The first header. Codex takes from it the beginning of each request."""
        self._responses = 0
        self._response = ""
        """The number of responses and the current one's name; each ends at the next input or tool output."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        payload = values.fields(entry.get(_PAYLOAD))
        match entry.get("type"):
            case "session_meta":
                blocks: list[Block] = []
                for path in _FIRST_COUNTS if self._header else ():
                    value = values.at(payload, path)
                    if isinstance(value, (str, list)) and value == values.at(self._header, path):
                        blocks += values.whole(Kind.MIRROR, (_PAYLOAD, *path), value, "", "", unseen=True)
                self._header = self._header or payload
                return line_of(raw, Role.HEADER, blocks)
            case "response_item" if payload:
                return self._item(raw, payload, "ordinal" in entry)
            case "event_msg" if payload.get("type") == _COUNT and "summary" in payload:
                # This was reasoning before a run changed it.
                return self._item(raw, payload, ordered=False)
            case "event_msg":
                return _event(raw, payload)
            case "token_usage_record":
                return _state(raw, payload, "token_usage_record")
            case "world_state":
                # All stay: a later one may hold only differences.
                return line_of(raw, Role.OTHER)
            case "compacted":
                history = payload.get("replacement_history")
                # Codex skips a line that it can't parse.
                is_whole = isinstance(history, list) and all(isinstance(item, dict) for item in history)
                if is_whole and isinstance(payload.get("message"), str):
                    return self._checkpoint(raw, payload, values.items(history))
        return line_of(raw, Role.OTHER)

    def said(self, entry: Entry) -> Iterator[Utterance]:
        payload = values.fields(entry.get(_PAYLOAD))
        kind = values.text(payload.get("type"))
        match entry.get("type"):
            case "compacted":
                yield from self._said_before(payload)
            case "response_item" if kind == "message":
                yield from _said_in(payload)
            case "response_item" if kind in _CALLS:
                tool, call = _called(payload)
                written = _arguments_of(payload, _CALLS[kind])
                given = values.given(written) if kind == "function_call" and isinstance(written, str) else written
                if not isinstance(given, dict) and given is not None:
                    given = {_CALLS[kind][-1] if isinstance(given, list) else "input": given}
                yield self.said_call(call, tool, given)
            case "response_item" if kind in _RESULTS:
                yield _said_result(payload)

    def _said_before(self, payload: Mapping[str, Any]) -> Iterator[Utterance]:
        """Yield a summary, and the prompts that Codex's compaction keeps before it; a sealed summary gives only those.

        In our checkpoints, the kept items follow the summary.
        """
        written = values.text(payload.get("message")).removeprefix(PREFIX)
        if written.strip():
            yield Utterance(Say.SUMMARY, written)
        is_behind = False
        for item in map(values.fields, values.items(payload.get("replacement_history"))):
            is_message = item.get("type") == "message"
            if is_behind:
                yield from self.said({"type": "response_item", _PAYLOAD: item})
            elif is_message and any(text.startswith(PREFIX) for text in _texts_of(item)):
                is_behind = True
            elif is_message:
                yield from (each._replace(say=Say.CARRIED) for each in _said_in(item) if each.say is Say.PROMPT)

    def _item(self, raw: bytes, item: Mapping[str, Any], ordered: bool) -> Line:
        kind = values.text(item.get("type"))
        is_answer = _is_answer(item)
        if kind in ("message", "agent_message"):
            self._said.update(hash(text) for text in _texts_of(item) if len(text) >= values.SMALLEST_BLOCK)
            if not is_answer:
                self._response = ""
                return _message(raw, item)
        if kind.endswith("_output"):
            self._response = ""
            return self._result(raw, item) if kind in _RESULTS else line_of(raw, Role.OTHER)
        if not self._response:
            self._responses += 1
            self._response = f"response {self._responses}"
        if kind in (_REASONING, _PASSED_OVER, _COUNT):
            return _reasoning(raw, item, kind, self._response, ordered)
        facts = PLAIN
        # The id identifies the item to the API, which then demands the reasoning before it.
        if isinstance(name := item.get("id"), str):
            tie = Tie((_PAYLOAD, "id"), None, len(name) + len('"id":"",'))
            facts = Facts(ties=(tie,)) if kind in _CALLS or is_answer else _SEALED
        if kind == "image_generation_call":
            # Its id is needed. Without the picture it equals what Codex sends to a model without vision.
            blocks = values.whole(Kind.IMAGE, (_PAYLOAD, "result"), values.text(item.get("result")), "", "")
            facts, name = _THINKS if facts.sealed else facts, self._response
            return line_of(raw, Role.OTHER, blocks, reads=values.pictures(blocks), facts=facts, response=name)
        if kind in _CALLS:
            return self._call(raw, item, _CALLS[kind], facts)
        if is_answer:
            reads = sum(map(len, _texts_of(item)))
            return line_of(raw, Role.ASSISTANT, reads=reads, facts=facts, response=self._response)
        return line_of(raw, Role.OTHER, facts=facts, response=self._response)

    def _call(self, raw: bytes, item: Mapping[str, Any], place: JsonPath, facts: Facts) -> Line:
        tool, call = _called(item)
        written = _arguments_of(item, place)
        # A command that prints a skill counts as a read of it.
        skill = _skill_read(written) if isinstance(written, str) and SKILL_FILE in written else ""
        purpose = Purpose.READ if skill else self.purposes.get(tool.lower(), Purpose.OTHER)
        made = self.asked[call] = model.Call(call, call, intern(tool), purpose, skill)
        # A function's arguments are a string of JSON; anything that is not JSON counts as one long text.
        arguments = values.given(written) if isinstance(written, str) else written
        size = len(values.literal(written))
        blocks = []
        path = (_PAYLOAD, *place)
        if size >= values.SMALLEST_BLOCK:
            blocks.append(Block(Kind.ARGUMENT, path, size, values.bulk_of(arguments), made.tool, call))
        if size and values.may_copy(raw):
            blocks += values.marked_leaves(Kind.ARGUMENT, path, arguments, made.tool, call)
        reads, name = size + values.CALL, self._response
        return line_of(raw, Role.ASSISTANT, blocks, calls=(made,), io=size, reads=reads, facts=facts, response=name)

    def _result(self, raw: bytes, item: Mapping[str, Any]) -> Line:
        made = self.answered(item.get("call_id"))
        output = item.get("output")
        texts: list[tuple[JsonPath, str]] = []
        if isinstance(output, str):
            inner = wrapped(output)
            texts.append(((), output) if inner is None else (("output",), inner))
        for index, part in enumerate(values.items(output)):
            if values.type_of(part) in _TEXT_PARTS and isinstance(part.get("text"), str):
                texts.append(((index, "text"), part["text"]))
        blocks: list[Block] = []
        for path, text in texts:
            blocks += _result_text((_PAYLOAD, "output", *path), text, made.tool, made.id)
        blocks += _images_in((_PAYLOAD, "output"), output, made.tool, made.id)
        io = sum(len(text) for _, text in texts) + values.pictures(blocks)
        reads = io + values.RESULT
        return line_of(raw, Role.RESULT, blocks, answers=made.id, io=io, reads=reads)

    def _checkpoint(self, raw: bytes, payload: Mapping[str, Any], history: Sequence[Any]) -> Line:
        """Read a compaction's replacement history.

        It is the context, and nothing in it changes until a later one replaces it. Even then a rollback may return to
        it, so remove only texts that exist in full before it. In our own checkpoints these include the kept results.
        """
        guarded, reads = values.at(payload, _GUARDED[1:]), 0
        blocks = values.whole(Kind.MIRROR, _GUARDED, values.items(guarded), "", "", unseen=True)
        for index, item in enumerate(history):
            path: JsonPath = (*_HISTORY, index, "content")
            parts = values.items(item.get("content"))
            blocks += _images_in(path, parts)
            for step, part in enumerate(parts):
                text = values.part_text(part)
                if values.type_of(part) in _TEXT_PARTS and (hash(text) in self._said or marker.is_one(text)):
                    blocks += _result_text((*path, step, "text"), text, "", "")
            copy = self._item(b"", item, ordered=True)
            reads += copy.reads
            if copy.role is Role.RESULT:
                blocks += [each._replace(path=(*_HISTORY, index, *each.path[1:])) for each in copy.blocks]
        self._response = ""
        return line_of(raw, Role.CHECKPOINT, blocks, reads=reads)


def _called(item: Mapping[str, Any]) -> tuple[str, str]:
    tool = values.text(item.get("name")) or values.text(item.get("type")).removesuffix("_call")
    return tool, values.text(item.get("call_id")) or values.text(item.get("id"))


def _arguments_of(item: Mapping[str, Any], path: JsonPath) -> Any:
    """Return a call's arguments: a text, or a command's words; None if they are anything else."""
    value: Any = item
    for step in path:
        value = values.fields(value).get(str(step))
    return value if isinstance(value, list if path == _CALLS["local_shell_call"] else str) else None


def _skill_read(command: str) -> str:
    for part in _PART.findall(command):
        prints = _PRINTS.search(part)
        for word in _WORD.findall(part, prints.end()) if prints else ():
            if named := list(_NAMES_SKILL.finditer(word)):
                return str(word[: named[-1].end()])
    return ""


def _texts_of(item: Mapping[str, Any]) -> list[str]:
    return [values.part_text(part) for part in values.items(item.get("content"))]


def _words_of(item: Mapping[str, Any]) -> list[str]:
    """Return the texts of a user message that the user wrote."""
    return [text for text in _texts_of(item) if text.strip() and not text.lstrip().startswith(_NOT_WORDS)]


def wrapped(output: str) -> str | None:
    """Return the text of an output that older versions wrote as a JSON string with metadata; None if it is not one."""
    found = values.fields(within(output)) if output.lstrip()[:1] == "{" and '"metadata"' in output else {}
    text = found.get("output")
    return text if isinstance(text, str) and isinstance(found.get("metadata"), dict) else None


def _said_in(item: Mapping[str, Any]) -> Iterator[Utterance]:
    if item.get("role") == "assistant":
        yield from (Utterance(Say.ANSWER, text) for text in _texts_of(item) if text.strip())
    elif item.get("role") == "user" and (words := _words_of(item)):
        yield Utterance(Say.PROMPT, "\n".join(words))


def _said_result(item: Mapping[str, Any]) -> Utterance:
    output, status = item.get("output"), None
    if not isinstance(output, str):
        text = "\n".join(values.part_text(part) for part in values.items(output) if values.part_text(part))
    elif (inner := wrapped(output)) is not None:
        text = inner
        status = values.fields(values.fields(within(output)).get("metadata")).get("exit_code")
    else:
        text = output
    failed = None
    if isinstance(status, int):
        failed = status != 0
    elif (reported := _STATUS.match(text)) is not None:
        failed = int(reported[1]) != 0
    elif text.startswith(_FAILED):
        failed = True
    return Utterance(Say.RESULT, text, call=values.text(item.get("call_id")), failed=failed)


def _reasoning(raw: bytes, item: Mapping[str, Any], kind: str, response: str, ordered: bool) -> Line:
    seal = item.get("encrypted_content")
    blocks, facts = [], PLAIN
    if kind == _REASONING:
        # Without a long seal it stays, along with everything tied to it.
        blocks = values.whole(Kind.THINKING, (_PAYLOAD, "encrypted_content"), values.text(seal), "", "")
        facts = _THINKS
        if isinstance(seal, str) and "summary" in item:
            facts = _GOES if ordered else _GOES_WITHOUT_ORDINAL
    return line_of(raw, Role.ASSISTANT, blocks, reads=values.thought("", seal), facts=facts, response=response)


def _message(raw: bytes, item: Mapping[str, Any]) -> Line:
    reads, role = sum(map(len, _texts_of(item))), item.get("role")
    if role == "assistant":
        return line_of(raw, Role.ASSISTANT, reads=reads)
    parts = values.items(item.get("content"))
    blocks = _images_in((_PAYLOAD, "content"), parts)
    blocks += values.marked_images((_PAYLOAD, "content"), parts)
    asks = role == "user" and (_words_of(item) or blocks)
    facts = Facts(prompt=True) if asks else PLAIN
    return line_of(raw, Role.OTHER, blocks, reads=reads + values.pictures(blocks), facts=facts)


def _state(raw: bytes, state: Mapping[str, Any], tool: str) -> Line:
    """Read a state that no screen shows; for each `tool` the newest one stays."""
    return line_of(raw, Role.OTHER, values.whole(Kind.MIRROR, (_PAYLOAD,), state, tool, "", unseen=True))


def _event(raw: bytes, event: Mapping[str, Any]) -> Line:
    kind, back = values.text(event.get("type")), event.get("num_turns")
    if kind == "thread_rolled_back" and isinstance(back, int):
        return line_of(raw, Role.OTHER, facts=Facts(back=max(back, 0)))
    if kind in ("task_started", "turn_started"):
        return line_of(raw, Role.OTHER, facts=Facts(task=True))
    if kind in _STATES:
        # No rollback returns to a count without numbers.
        return _state(raw, event, kind if kind != _COUNT or values.fields(event.get("info")) else "")
    blocks: list[Block] = []
    tool = kind.removesuffix("_end") if kind.endswith("_end") else ""
    call = values.text(event.get("call_id")) or values.text(values.fields(event.get("item")).get("id"))
    unseen = kind == "task_complete"
    for path, value in _mirrors(event):
        blocks += values.whole(Kind.MIRROR, (_PAYLOAD, *path), value, tool, "" if unseen else call, unseen=unseen)
    is_prompt = kind == "user_message" or values.type_of(event.get("item")) == "UserMessage"
    return line_of(raw, Role.USER if is_prompt else Role.OTHER, blocks)


def _is_item(lines: Lines, number: int) -> bool:
    """True if a line is an item that the model reads; it doesn't read events."""
    if lines.roles[number] is Role.OTHER:
        return lines[number].reads > 0
    return lines.roles[number] in (Role.ASSISTANT, Role.RESULT)


def _is_answer(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "message" and item.get("role") == "assistant"


def _result_text(path: JsonPath, text: str, tool: str, call: str) -> list[Block]:
    """Make the block of a text that the model reads, if it is long enough or contains the form of a marker."""
    found = values.long_text(Kind.RESULT, path, text, tool, call)
    above = _PREAMBLE.match(text)
    if not found or found[0].marked or above is None:
        return found
    # Outputs are compared without their timing.
    compared = digest_of(values.literal(_PASSING.sub("", above.group()) + text[above.end() :]))
    return [found[0]._replace(digest=compared)]


def _images_in(path: JsonPath, parts: Any, tool: str = "", call: str = "") -> list[Block]:
    """Make the blocks of images in content parts; one that is only linked stays."""
    found: list[Block] = []
    for index, part in enumerate(values.items(parts)):
        if values.type_of(part) == "input_image" and values.text(part.get("image_url")).startswith("data:"):
            found += values.whole(Kind.IMAGE, (*path, index), part, tool, call)
    return found


_STATES = frozenset({_COUNT, "thread_settings_applied", "token_usage_record"})
"""Types of which Codex reads only the newest one."""

_OF_COMMAND: tuple[JsonPath, ...] = (("aggregated_output",), ("command",), ("parsed_cmd",))
_COPIES: Mapping[str, tuple[JsonPath, ...]] = {
    "exec_command_end": (("stdout",), ("stderr",), ("formatted_output",), *_OF_COMMAND),
    "patch_apply_end": (("stdout",), ("stderr",)),
    "mcp_tool_call_end": (
        ("invocation", "arguments"),
        ("result", "Ok", "content"),
        ("result", "Ok", "structuredContent"),
    ),
    "image_generation_end": (("result",),),
    "user_message": (("images",),),
    "task_complete": (("last_agent_message",),),
    # Items of paginated rollouts. Codex shows them from its index, and can still rebuild all messages.
    "CommandExecution": _OF_COMMAND,
    "FileChange": (("stdout",), ("stderr",)),
    "ImageGeneration": (("result",),),
    "McpToolCall": (("arguments",), ("result", "content"), ("result", "structuredContent")),
    "Reasoning": (("summary_text",), ("raw_content",)),
}
"""The screen copies in events. Codex itself writes empty outputs for most commands."""

_CHANGE = frozenset({"content", "unified_diff", "old_content", "new_content"})

_FIRST_COUNTS: tuple[JsonPath, ...] = (("base_instructions", "text"), ("dynamic_tools",))
"""Fields that later headers repeat, and that Codex reads only from the first header."""


def _mirrors(event: Mapping[str, Any], at: JsonPath | None = None) -> Iterator[tuple[JsonPath, Any]]:
    """Yield the screen copies in an event. With `at`, of the changed files only those that this path names."""
    kind, before = values.type_of(event), tuple[str, ...]()
    if kind == "item_completed":
        before, event = ("item",), values.fields(event.get("item"))
        kind = values.type_of(event)
    for path in _COPIES.get(kind, ()):
        if isinstance(value := values.at(event, path), (str, list, dict)):
            yield (*before, *path), value
    changes = values.fields(event.get("changes")) if kind in ("patch_apply_end", "FileChange") else {}
    for file in changes if at is None else changes.keys() & frozenset(map(str, at)):
        for key, value in values.fields(changes[file]).items():
            if key in _CHANGE and isinstance(value, str):
                yield (*before, "changes", file, key), value


class Codex(base.Format):
    """Rollouts of Codex CLI, in the format that begins with `session_meta`."""

    name = "codex"
    reader = RolloutReader
    other_tools = "apply_patch update_plan view_image patch_apply mcp_tool_call image_generation"
    preamble = _PREAMBLE
    ended = re.compile(
        r"^(?:Process exited with code|Exit code:|Process running with session ID) -?\d{1,9}$"
        r"|\"exit_code\":\s{0,4}-?\d{1,9}",
        re.MULTILINE,
    )
    of_tasks = frozenset({_COUNT})
    # An event without content.
    bare: Mapping[JsonPath, Any] = {
        ("type",): _EVENT,
        (_PAYLOAD,): {"type": _COUNT, "info": None, "rate_limits": None},
    }
    answer_marks = (b'"token_count"', b'"turn_context"', b'"task_started"', b'"error"')

    def recognizes(self, head: Head) -> bool:
        header = head.entries[0] if head.entries else {}
        meta = values.fields(header.get(_PAYLOAD))
        named = (header.get("timestamp"), meta.get("id"), meta.get("cwd"))
        return header.get("type") == "session_meta" and all(isinstance(each, str) for each in named)

    def named(self, head: Head) -> Name:
        header = head.entries[0] if head.entries else {}
        meta = values.fields(header.get(_PAYLOAD)) if header.get("type") == "session_meta" else {}
        return base.name_of(*map(meta.get, ("id", "cwd", "forked_from_id")))

    def is_subagent(self, session: Written) -> bool:
        return "subagent" in values.fields(values.fields(session.entry(0).get(_PAYLOAD)).get("source"))

    def shape(self, lines: Lines) -> model.Shape:
        """Return the lines in order, without turns that were rolled back; everything before a checkpoint is dead.

        Versions of Codex differ on whether each user message of a task is a turn of its own. So whole tasks are removed
        from the path: an extra removed line merely counts as old, but a rolled-back checkpoint that stayed could make
        live lines dead.
        """
        path = without_taken_back(lines, base.entries(lines))
        return model.Shape(array("I", path), frozenset(base.dead(lines, path)))

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        """Write a compaction before the kept lines, and at the end the event from which Codex takes the context's size.

        Without that size, Codex would compact the session again at once.
        """
        following = session.entry(cut.kept[0])
        last = session.entry(cut.kept[-1])
        text = PREFIX + summary.text
        history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
        compaction = {"message": text, "replacement_history": history}
        counted = session.newest(b'"token_count"', _counts)
        events: list[Mapping[str, Any]] = []
        if counted is not None:
            events.append(_recounted(values.fields(counted.get("payload")), summary.tokens_after))
        if "ordinal" in following or "ordinal" in last:
            return _numbered(session, cut, compaction, events)
        events.append({"type": "context_compacted"})
        behind = [Addition(len(session.lines), _line(last, "event_msg", event)) for event in events]
        return Checkpoint((Addition(cut.kept[0], _line(following, "compacted", compaction)), *behind))

    def dropping(self, session: Written, cut: Cut, made: Checkpoint) -> Checkpoint:
        """Remove the items of the old part. Events stay: Codex lists and shows a session by them."""
        if made.repeated:
            what = "Codex numbered its lines, and branches of it go back to them by their numbers"
            raise CannotCheckpoint(
                what, "Run without --drop-dead (drop_dead); the lines stay, and compress makes them small."
            )
        lines = session.lines
        old = (number for number in self.shape(lines).live if number < cut.kept[0])
        return made._replace(removed=frozenset(number for number in old if _is_item(lines, number)))

    def pointers(self, session: str) -> Pointers:
        # Imported here because it needs SQLite, which a Python may lack.
        from sessioncompress.formats import codex_places

        return codex_places.pointers(session)

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        payload = values.fields(entry.get(_PAYLOAD))
        if path in self.bare and not _STATES.isdisjoint((values.type_of(entry), values.type_of(payload))):
            return bool(value == self.bare[path])
        match entry.get("type"), *path:
            case "response_item", "payload", *_:
                return _may_change_item(payload, path[1:], value, "ordinal" in entry)
            case "response_item", "type":
                return payload.get("type") == _REASONING and "ordinal" not in entry and bool(value == _EVENT)
            case "event_msg", "payload", *_:
                copy = dict(_mirrors(payload, path)).get(path[1:])
                return copy is not None and type(value) is type(copy) and not value
            case "compacted", "payload", "replacement_history", int(index), "output", *_:
                return _may_change_item(payload["replacement_history"][index], path[3:], value, ordered=True)
            case (("session_meta" | "compacted"), "payload", *inner) if tuple(inner) in (*_FIRST_COUNTS, _GUARDED[1:]):
                return value in ("", [])
            case "compacted", "payload", "replacement_history", int(index), "content", *part:
                return _may_change_part(payload["replacement_history"][index]["content"], part, value)
        return False

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        """Return an empty value of the same type, because Codex requires the field."""
        return self.bare.get(path, type(value)())

    def text_part(self, text: str, part: Mapping[str, Any]) -> Any:
        return {"type": "input_text", "text": text}

    def answer(self, entry: Entry) -> Answer | None:
        payload = values.fields(entry.get(_PAYLOAD))
        match entry.get("type"), payload.get("type"):
            case "turn_context", _:
                found = Answer(model=values.text(payload.get("model")))
            case "event_msg", "task_started":
                found = Answer(window=model.tokens(payload.get("model_context_window")) or 0)
            case "event_msg", "error":
                found = Answer(error=values.text(payload.get("message")) or "error")
            case "event_msg", "token_count" if payload.get("info"):
                # The count follows the results of its response's calls, and may be repeated. After a compaction it is
                # an estimate, with only a total: that is not usage.
                info = values.fields(payload.get("info"))
                last = values.fields(info.get("last_token_usage"))
                sent, made = last.get("input_tokens"), last.get("output_tokens")
                cached, wrote = last.get("cached_input_tokens"), last.get("cache_write_input_tokens")
                usage = model.within(sent, made, cached, wrote, last.get("reasoning_output_tokens"))
                found = Answer(usage=usage, window=model.tokens(info.get("model_context_window")) or 0)
            case _:
                return None
        return found._replace(at=base.moment(entry.get("timestamp")))


def _numbered(session: Written, cut: Cut, compaction: dict[str, Any], events: list[Mapping[str, Any]]) -> Checkpoint:
    """Write a compaction at the end that repeats the kept items, because numbered lines allow no insertion."""
    meta = values.fields(session.entry(0).get("payload"))
    if meta.get("history_base"):
        what = "Codex began it as a branch of another rollout, and what was said before that stands only there"
        raise CannotCheckpoint(what, _BY_CODEX)
    kept = [session.entry(number) for number in cut.kept]
    payloads = [values.fields(each.get("payload")) for each in kept if each.get("type") == "response_item"]
    # Codex doesn't skip items in a history: it sends unknown types too.
    compaction["replacement_history"] += [item for item in payloads if item.get("type", _PASSED_OVER) != _PASSED_OVER]
    last = session.newest(b'"ordinal"', lambda entry: bool(model.tokens(entry.get("ordinal")))) or {}
    turn = session.newest(b'"turn_context"', lambda entry: entry.get("type") == "turn_context") or {}
    number, at = model.tokens(last.get("ordinal")) or 0, base.moment(last.get("timestamp"))
    names = {"thread_id": meta.get("id"), "turn_id": values.fields(turn.get("payload")).get("turn_id")}
    item = {"type": "ContextCompaction", "id": base.uuid_of("compaction", compaction["message"])}
    events.append({"type": "item_completed", **names, "item": item, "started_at_ms": at, "completed_at_ms": at})
    lines = [_line(last, "compacted", compaction, ordinal=number + 1)]
    lines += [_line(last, "event_msg", event, ordinal=place) for place, event in enumerate(events, number + 2)]
    if not number or not all(kept) or len(lines[0]) > LINE_CAP:
        raise CannotCheckpoint("what would be kept cannot be repeated behind its last line", _BY_CODEX)
    return Checkpoint(tuple(Addition(len(session.lines), line) for line in lines), repeated=frozenset(cut.kept))


def _counts(entry: Mapping[str, Any]) -> bool:
    payload = values.fields(entry.get("payload"))
    return payload.get("type") == "token_count" and bool(values.fields(payload.get("info")).get("last_token_usage"))


def _recounted(event: Mapping[str, Any], estimate: int) -> Mapping[str, Any]:
    """Return a token count like the one Codex writes after a compaction: an estimate, with only a total."""
    info = values.fields(event.get("info"))
    last = dict.fromkeys(values.fields(info.get("last_token_usage")), 0) | {"total_tokens": estimate}
    return {**event, "info": {**info, "last_token_usage": last}}


def _line(beside: Mapping[str, Any], kind: str, payload: Mapping[str, Any], **number: int) -> bytes:
    """Write a line with the timestamp of a neighboring one."""
    entry = {"timestamp": values.text(beside.get("timestamp")), **number, "type": kind, "payload": payload}
    return base.json_of(entry)


def _may_change_item(item: Mapping[str, Any], path: JsonPath, value: Any, ordered: bool) -> bool:
    kind = values.text(item.get("type"))
    place = _CALLS.get(kind)
    if place is not None and path[: len(place)] == place:
        may = path[-1] not in values.PLACE_KEYS
        if path == place:
            # A string that holds JSON changes only inside. Only this one is parsed, because a history may hold many.
            now = _arguments_of(item, place)
            may = isinstance(now, str) and values.given(now) is now
        return isinstance(value, str) and may
    match path:
        # To remove reasoning, it loses its seal and its type, and the items of its response lose their ids.
        case ("type",):
            return kind == _REASONING and bool(value == (_PASSED_OVER if ordered else _COUNT))
        case ("encrypted_content",) | ("id",):
            goes = kind == _REASONING if path == ("encrypted_content",) else kind in _CALLS or _is_answer(item)
            return goes and value is REMOVED
        case ("result",):
            return kind == "image_generation_call" and bool(value == "")
        case ("output",) | ("output", "output") if kind in _RESULTS:
            is_wrapped = wrapped(values.text(item.get("output"))) is not None
            return isinstance(value, str) and isinstance(item.get("output"), str) and is_wrapped is (len(path) > 1)
        case ("output", *part) if kind in _RESULTS:
            return _may_change_part(item.get("output"), part, value)
        case ("content", int(index)) if kind == "message":
            return _may_change_part(item.get("content"), [index], value)
    return False


def _may_change_part(parts: Any, path: list[Any], value: Any) -> bool:
    match path:
        case [int(index), "text"]:
            return isinstance(value, str) and values.type_of(values.items(parts)[index]) in _TEXT_PARTS
        case [int(index)]:
            return isinstance(value, dict) and values.type_of(values.items(parts)[index]) == "input_image"
    return False
