"""Read the lines of a Codex rollout: items, which the model gets, and events, which hold copies for the screen.

Codex itself empties the outputs of most commands when it writes such an event; so do we with the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from sys import intern
from typing import Any

from msgspec import Struct

from sessioncompress.core import marker
from sessioncompress.core.model import PLAIN, SKILL_FILE, Block, Call, Facts, JsonPath, Kind, Line, Purpose, Role, Tie
from sessioncompress.core.references import digest_of
from sessioncompress.core.splice import REMOVED, within
from sessioncompress.formats import values
from sessioncompress.formats.base import Entry, line_of

PAYLOAD = "payload"
CALLS: Mapping[str, JsonPath] = {
    "function_call": ("arguments",),
    "custom_tool_call": ("input",),
    "local_shell_call": ("action", "command"),
}
"""The items that are calls, and where in them the arguments stand."""

RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
HISTORY: JsonPath = (PAYLOAD, "replacement_history")

SKILLS = "skills_instructions"
FRAME = re.compile(rf"(<{SKILLS}>).*(</{SKILLS}>)\s*", re.DOTALL)
"""The list of skills that Codex puts into a message of its own. By its tags it finds at a resume that there is one."""

_MESSAGES = frozenset({"message", "agent_message"})
_COMMANDS = frozenset(
    {"exec_command", "exec", "shell", "shell_command", "container.exec", "local_shell", "write_stdin", "unified_exec"}
)
_PART = re.compile(r"[^|;&\n]+")
_PRINTS = re.compile(r"\b(?:cat|sed|head|tail|nl|bat|less|awk)\b")
_WORD = re.compile(r"[^\s'\"`\\]+")
_NAMES_SKILL = re.compile(rf"\b{re.escape(SKILL_FILE)}\b")
_PROMPT = Facts(prompt=True)
_TASK = Facts(task=True)

_TEXTS: Mapping[str, tuple[str, ...]] = {
    "exec_command_end": ("stdout", "stderr", "aggregated_output", "formatted_output"),
    "patch_apply_end": ("stdout", "stderr"),
}
_WHOLE: Mapping[str, tuple[JsonPath, ...]] = {
    "mcp_tool_call_end": (
        ("invocation", "arguments"),
        ("result", "Ok", "content"),
        ("result", "Ok", "structuredContent"),
    ),
    "user_message": (("images",),),
}
_PATCH = "patch_apply_end"
_CHANGE = frozenset({"content", "unified_diff", "old_content", "new_content"})
"""The texts of a change to a file."""


def _mirrors(event: Mapping[str, Any]) -> Iterator[Block]:
    kind = values.text(event.get("type"))
    tool, call = kind.removesuffix("_end") if kind.endswith("_end") else "", values.text(event.get("call_id"))
    changes = _changes(values.fields(event.get("changes")) if kind == _PATCH else {})
    for path, value in chain(_values(kind, event), changes):
        yield from values.whole(Kind.MIRROR, (PAYLOAD, *path), value, tool, call)


def event_may_become(event: Mapping[str, Any], path: JsonPath, value: Any) -> bool:
    """Tell whether an event has a copy for the screen at a path, and the value is an empty one of its type."""
    kind = values.text(event.get("type"))
    match path:
        case ("changes", str(file), _):
            files = values.fields(event.get("changes")) if kind == _PATCH else {}
            copy = dict(_changes({file: files.get(file)})).get(path)
        case _:
            copy = dict(_values(kind, event)).get(path)
    return copy is not None and type(value) is type(copy) and not value


def _values(kind: str, event: Mapping[str, Any]) -> Iterator[tuple[JsonPath, Any]]:
    for key in _TEXTS.get(kind, ()):
        if isinstance(event.get(key), str):
            yield (key,), event[key]
    for path in _WHOLE.get(kind, ()):
        value: Any = event
        for step in path:
            value = values.fields(value).get(str(step))
        if isinstance(value, (list, dict)):
            yield path, value


def _changes(files: Mapping[str, Any]) -> Iterator[tuple[JsonPath, Any]]:
    for file, change in files.items():
        for key, value in values.fields(change).items():
            if key in _CHANGE and isinstance(value, str):
                yield ("changes", file, key), value


PASSED_OVER = "other"
"""What becomes of an item's type when it loses its seal: items of a type that it does not know Codex leaves out."""

_REASONING = "reasoning"
_FREE = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
"""The calls that may stand without their item's id, as in all rollouts of before 2026."""


def is_reasoning(item: Mapping[str, Any]) -> bool:
    """Tell whether an item is reasoning, or was until it lost its seal."""
    return item.get("type") in (_REASONING, PASSED_OVER)


def reasoning_may_become(item: Mapping[str, Any], path: JsonPath, value: Any) -> bool:
    """Tell whether the value at a path of an item may become that one, for reasoning to go."""
    match path:
        case ("type",):
            return item.get("type") == _REASONING and bool(value == PASSED_OVER)
        case ("encrypted_content",):
            return item.get("type") == _REASONING and value is REMOVED
        case ("id",):
            return value is REMOVED and _may_be_nameless(item)
    return False


def _with_reasoning(line: Line, item: Mapping[str, Any], kind: str) -> Line:
    """Add to a response's line what must change together with the reasoning in it."""
    if kind != _REASONING:
        name = item.get("id")
        if not isinstance(name, str) or is_reasoning(item):
            return line
        # The id names the item to the API, which then wants the reasoning before it.
        ties = (Tie((PAYLOAD, "id"), None, len(name) + len('"id":"",')),)
        free = _may_be_nameless(item)
        return line._replace(facts=line.facts._replace(ties=ties) if free else line.facts._replace(sealed=True))
    seal = item.get("encrypted_content")
    if not isinstance(seal, str):
        return line._replace(facts=Facts(thinks=True))
    # Without a seal of some length it stays, and all that hangs on it.
    blocks = values.whole(Kind.THINKING, (PAYLOAD, "encrypted_content"), seal, "", "")
    return line._replace(blocks=tuple(blocks), facts=Facts(ties=(Tie((PAYLOAD, "type"), PASSED_OVER, 0),), thinks=True))


def _may_be_nameless(item: Mapping[str, Any]) -> bool:
    return values.text(item.get("type")) in _FREE or _is_answer(item)


def _is_answer(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "message" and item.get("role") == "assistant"


TEXT_PARTS = frozenset({"input_text", "output_text"})
PREAMBLE = re.compile(
    r"(?:(?:Chunk ID|Wall time|Process|Exit code|Original token count)\b[^\n]{0,80}\n){1,8}Output:\n"
    r"(?:Warning: truncated output[^\n]{0,80}\n)?(?:Total output lines: \d+\n)?\n?"
)
"""What stands above the output of a command."""

_PASSING = re.compile(r"^(?:Chunk ID|Wall time|Original token count)\b.*\n", re.MULTILINE)
"""What says of two equal outputs only when they came."""


def output_texts(output: Any) -> Iterator[tuple[JsonPath, str]]:
    """Find the texts of a call's output, and where they stand in it: it is a text, or a list of parts."""
    if isinstance(output, str):
        inner = wrapped(output)
        yield ((), output) if inner is None else (("output",), inner)
    for index, part in enumerate(values.items(output)):
        if values.text(values.fields(part).get("type")) in TEXT_PARTS and isinstance(part.get("text"), str):
            yield (index, "text"), part["text"]


def wrapped(output: str) -> str | None:
    """Read the text of an output that older versions wrote, as a string, in an object with its metadata."""
    found = values.fields(within(output)) if '"metadata"' in output else {}
    text = found.get("output")
    return text if isinstance(text, str) and isinstance(found.get("metadata"), dict) else None


def result_text(path: JsonPath, text: str, tool: str, call: str) -> list[Block]:
    """Make the block of a text that the model reads, where it is long enough or holds something like a marker."""
    marked = marker.occurs_in(text)
    if len(text) < values.SMALLEST_BLOCK and not marked:
        return []
    compared = written = values.literal(text)
    if not marked and (above := PREAMBLE.match(text)) is not None:
        # Outputs are compared without when, and in how much time, they came. JSON escapes each character by itself.
        rest = written[len(values.literal(above.group())) - 1 :]
        compared = values.literal(_PASSING.sub("", above.group()))[:-1] + rest
    size = len(written)
    return [Block(Kind.RESULT, path, size, size, tool, call, digest_of(compared), marked)]


def images_in(path: JsonPath, parts: Any, tool: str = "", call: str = "") -> list[Block]:
    """Make the blocks of the images among content parts; one that only names an address stays."""
    found: list[Block] = []
    for index, part in enumerate(values.items(parts)):
        if values.fields(part).get("type") == "input_image" and values.text(part.get("image_url")).startswith("data:"):
            found += values.whole(Kind.IMAGE, (*path, index), part, tool, call)
    return found


class RolloutReader(Struct):
    """Reads the lines of one rollout."""

    _made: dict[str, Call] = {}
    """The calls that wait for their results, which do not name their tool."""

    _said: set[int] = set()
    """The hashes of the long texts of messages: what a checkpoint repeats of them stands there as well."""

    _responses: int = 0
    _response: str = ""
    """What goes from one input, or output of a tool, to the next is one response: how many there were, and the last."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        payload = values.fields(entry.get(PAYLOAD))
        match entry.get("type"):
            case "session_meta":
                return line_of(raw, Role.HEADER)
            case "response_item" if payload:
                return self._item(raw, payload)
            case "event_msg":
                return _event(raw, payload)
            case "compacted" if _is_checkpoint(payload):
                return self._checkpoint(raw, payload["replacement_history"])
        return line_of(raw, Role.OTHER)

    def _item(self, raw: bytes, item: Mapping[str, Any]) -> Line:
        kind = values.text(item.get("type"))
        if kind in CALLS:
            line = self._call(raw, item, (PAYLOAD, *CALLS[kind]))
        elif kind in RESULTS:
            line = self._result(raw, item)
        elif kind in _MESSAGES:
            self._said.update(hash(text) for text in _texts(item) if len(text) >= values.SMALLEST_BLOCK)
            line = _message(raw, item)
        elif is_reasoning(item):
            line = line_of(raw, Role.ASSISTANT, reads=values.thought("", item.get("encrypted_content")))
        else:
            line = line_of(raw, Role.OTHER)
        if kind.endswith("_output") or kind == "agent_message" or (kind == "message" and not _is_answer(item)):
            self._response = ""
            return line
        if not self._response:
            self._responses += 1
            self._response = f"response {self._responses}"
        return _with_reasoning(line._replace(response=self._response), item, kind)

    def _call(self, raw: bytes, item: Mapping[str, Any], path: JsonPath) -> Line:
        call = values.text(item.get("call_id")) or values.text(item.get("id"))
        tool = intern(values.text(item.get("name")) or values.text(item.get("type")).removesuffix("_call"))
        written = arguments_of(item, path[1:])
        # A command that prints a skill is a read of it.
        skill = _skill_read(written) if isinstance(written, str) and SKILL_FILE in written else ""
        purpose = Purpose.READ if skill else Purpose.COMMAND if tool in _COMMANDS else Purpose.OTHER
        made = Call(call, call, tool, purpose, skill)
        self._made[call] = made
        # The arguments of a function are a string that holds JSON; what is no JSON is one long text.
        arguments = values.given(written) if isinstance(written, str) else written
        size = len(values.literal(written))
        blocks = []
        if size >= values.SMALLEST_BLOCK:
            blocks.append(Block(Kind.ARGUMENT, path, size, sum(values.long_leaves(arguments)), tool, call))
        if marker.PREFIX_BYTES in raw and size:
            blocks += values.marked_leaves(path, arguments, tool, call)
        reads = size + values.CALL
        return line_of(raw, Role.ASSISTANT, blocks, calls=(made,), io=size, reads=reads)

    def _result(self, raw: bytes, item: Mapping[str, Any]) -> Line:
        call = values.text(item.get("call_id"))
        made = self._made.pop(call, None)
        tool, call = (made.tool, made.id) if made else ("", call)
        blocks: list[Block] = []
        characters = 0
        for path, text in output_texts(item.get("output")):
            characters += len(text)
            blocks += result_text((PAYLOAD, "output", *path), text, tool, call)
        blocks += images_in((PAYLOAD, "output"), item.get("output"), tool, call)
        reads = characters + values.pictures(blocks) + values.RESULT
        return line_of(raw, Role.RESULT, blocks, answers=call, io=characters, reads=reads)

    def _checkpoint(self, raw: bytes, history: list[Any]) -> Line:
        """Read what a compaction left. It is the context, and nothing of it changes, until a later one takes its place.

        Then it may still be gone back to, so only such texts go that stand in full before it.
        """
        blocks: list[Block] = []
        for index, item in enumerate(history):
            path: JsonPath = (*HISTORY, index, "content")
            parts = values.items(values.fields(item).get("content"))
            blocks += images_in(path, parts)
            for step, part in enumerate(parts):
                text = values.part_text(part)
                if values.fields(part).get("type") not in TEXT_PARTS:
                    continue
                if hash(text) in self._said or marker.is_one(text):
                    blocks += result_text((*path, step, "text"), text, "", "")
        reads = sum(len(text) for item in history for text in _texts(values.fields(item)))
        return line_of(raw, Role.CHECKPOINT, blocks, reads=reads)


def _is_checkpoint(payload: Mapping[str, Any]) -> bool:
    # Codex passes over a line that is not as it expects.
    history = payload.get("replacement_history")
    is_whole = isinstance(history, list) and all(isinstance(item, dict) for item in history)
    return is_whole and isinstance(payload.get("message"), str)


def arguments_of(item: Mapping[str, Any], path: JsonPath) -> Any:
    """Find what stands at a call's path to its arguments: a text, or the words of a command; None for all else."""
    value: Any = item
    for step in path:
        value = values.fields(value).get(str(step))
    return value if isinstance(value, list if path == CALLS["local_shell_call"] else str) else None


def _skill_read(command: str) -> str:
    """Find the path of the skill that a command prints; an empty text where it prints none."""
    for part in _PART.findall(command):
        prints = _PRINTS.search(part)
        for word in _WORD.findall(part, prints.end()) if prints else ():
            if named := list(_NAMES_SKILL.finditer(word)):
                return str(word[: named[-1].end()])
    return ""


def _texts(item: Mapping[str, Any]) -> list[str]:
    return [values.part_text(part) for part in values.items(item.get("content"))]


def _message(raw: bytes, item: Mapping[str, Any]) -> Line:
    content = item.get("content")
    reads = sum(map(len, _texts(item)))
    if item.get("role") == "assistant":
        return line_of(raw, Role.ASSISTANT, reads=reads)
    blocks = images_in((PAYLOAD, "content"), content)
    for index, part in enumerate(values.items(content) if item.get("role") == "developer" else ()):
        # The lists of skills among the texts that Codex itself puts in.
        text = values.part_text(part)
        if FRAME.fullmatch(text):
            blocks += values.long_text(Kind.ATTACHMENT, (PAYLOAD, "content", index, "text"), text, SKILLS, "")
    if marker.PREFIX_BYTES in raw:
        blocks += values.marked_images((PAYLOAD, "content"), values.items(content))
    reads += values.pictures(blocks)
    return line_of(raw, Role.OTHER, blocks, reads=reads, facts=_PROMPT if item.get("role") == "user" else PLAIN)


def _event(raw: bytes, event: Mapping[str, Any]) -> Line:
    kind, back = event.get("type"), event.get("num_turns")
    if kind == "thread_rolled_back" and isinstance(back, int):
        return line_of(raw, Role.OTHER, facts=Facts(back=max(back, 0)))
    if kind in ("task_started", "turn_started"):
        return line_of(raw, Role.OTHER, facts=_TASK)
    role = Role.USER if kind == "user_message" else Role.OTHER
    return line_of(raw, role, _mirrors(event))
