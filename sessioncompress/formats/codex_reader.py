"""The lines of a Codex rollout: items that a model reads, events for the screen, checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from sys import intern
from typing import Any

from msgspec import Struct, field
from xxhash import xxh3_64_intdigest

from sessioncompress.core import marker
from sessioncompress.core.model import PLAIN, Block, Call, Facts, Kind, Line, Path, Purpose, Role, make_line
from sessioncompress.formats import codex_events, values
from sessioncompress.formats.base import Entry
from sessioncompress.formats.codex_outputs import TEXT_PARTS, images_in, output_texts, result_text
from sessioncompress.formats.codex_reasoning import Responses, is_reasoning

PAYLOAD = "payload"
CALLS: Mapping[str, Path] = {
    "function_call": ("arguments",),
    "custom_tool_call": ("input",),
    "local_shell_call": ("action", "command"),
}
"""The items that are calls, and where in them the arguments stand."""

RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
HISTORY: Path = (PAYLOAD, "replacement_history")

SKILLS = "skills_instructions"
FRAME = re.compile(rf"(<{SKILLS}>).*(</{SKILLS}>)\s*", re.DOTALL)
"""The list of skills that Codex puts into a message of its own. By its tags it finds at a resume that there is one."""

_MESSAGES = frozenset({"message", "agent_message"})
_COMMANDS = frozenset(
    {"exec_command", "exec", "shell", "shell_command", "container.exec", "local_shell", "write_stdin", "unified_exec"}
)
_SKILL_FILE = "SKILL.md"
_PART = re.compile(r"[^|;&\n]+")
_PRINTS = re.compile(r"\b(?:cat|sed|head|tail|nl|bat|less|awk)\b")
_WORD = re.compile(r"[^\s'\"`\\]+")
_NAMES_SKILL = re.compile(rf"\b{re.escape(_SKILL_FILE)}\b")
_PROMPT = Facts(prompt=True)
_TASK = Facts(task=True)


class RolloutReader(Struct):
    """Reads the lines of one rollout."""

    _made: dict[str, Call] = {}
    """The calls that wait for their results, which do not name their tool."""

    _said: set[int] = set()
    """The hashes of the long texts of messages: what a checkpoint repeats of them stands there as well."""

    _responses: Responses = field(default_factory=Responses)

    def line(self, raw: bytes, entry: Entry) -> Line:
        """Return what the plan must know of this line."""
        payload = values.fields(entry.get(PAYLOAD))
        match entry.get("type"):
            case "session_meta":
                return _line(raw, Role.HEADER)
            case "response_item" if payload:
                return self._responses.placed(self._item(raw, payload), payload, PAYLOAD)
            case "event_msg":
                return _event(raw, payload)
            case "compacted" if _is_checkpoint(payload):
                return self._checkpoint(raw, payload["replacement_history"])
        return _line(raw, Role.OTHER)

    def _item(self, raw: bytes, item: Mapping[str, Any]) -> Line:
        kind = values.text(item.get("type"))
        if kind in CALLS:
            return self._call(raw, item, (PAYLOAD, *CALLS[kind]))
        if kind in RESULTS:
            return self._result(raw, item)
        if kind in _MESSAGES:
            self._said.update(hash(text) for text in _texts(item) if len(text) >= values.SMALLEST_BLOCK)
            return _message(raw, item)
        if is_reasoning(item):
            return _line(raw, Role.ASSISTANT, reads=values.thought("", item.get("encrypted_content")))
        return _line(raw, Role.OTHER)

    def _call(self, raw: bytes, item: Mapping[str, Any], path: Path) -> Line:
        call = values.text(item.get("call_id")) or values.text(item.get("id"))
        tool = intern(values.text(item.get("name")) or values.text(item.get("type")).removesuffix("_call"))
        written = arguments_of(item, path[1:])
        made = _made(call, tool, written)
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
        return _line(raw, Role.ASSISTANT, tuple(blocks), calls=(made,), io=size, reads=reads)

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
        return _line(raw, Role.RESULT, tuple(blocks), answers=call, io=characters, reads=reads)

    def _checkpoint(self, raw: bytes, history: list[Any]) -> Line:
        """Read what a compaction left. It is the context, and nothing of it changes, until a later one takes its place.

        Then it may still be gone back to, so only such texts go that stand in full before it.
        """
        blocks: list[Block] = []
        for index, item in enumerate(history):
            path: Path = (*HISTORY, index, "content")
            parts = values.items(values.fields(item).get("content"))
            blocks += images_in(path, parts)
            for step, part in enumerate(parts):
                text = values.text(values.fields(part).get("text"))
                if values.fields(part).get("type") not in TEXT_PARTS:
                    continue
                if hash(text) in self._said or marker.is_one(text):
                    blocks += result_text((*path, step, "text"), text, "", "")
        reads = sum(len(text) for item in history for text in _texts(values.fields(item)))
        return _line(raw, Role.CHECKPOINT, tuple(blocks), reads=reads)


def _is_checkpoint(payload: Mapping[str, Any]) -> bool:
    """Say whether Codex can read this as one: it passes over a line that is not as it expects."""
    history = payload.get("replacement_history")
    is_whole = isinstance(history, list) and all(isinstance(item, dict) for item in history)
    return is_whole and isinstance(payload.get("message"), str)


def arguments_of(item: Mapping[str, Any], path: Path) -> Any:
    """Return what stands at a call's path to its arguments: a text, or the words of a command; None for all else."""
    value: Any = item
    for step in path:
        value = values.fields(value).get(str(step))
    return value if isinstance(value, list if path == CALLS["local_shell_call"] else str) else None


def _made(call: str, tool: str, arguments: Any) -> Call:
    """Return a call; a command that prints a skill is a read of it."""
    skill = _skill_read(arguments) if isinstance(arguments, str) and _SKILL_FILE in arguments else ""
    if skill:
        return Call(call, call, tool, Purpose.READ, skill)
    return Call(call, call, tool, Purpose.COMMAND if tool in _COMMANDS else Purpose.OTHER)


def _skill_read(command: str) -> str:
    """Return the path of the skill that a command prints; an empty text where it prints none."""
    for part in _PART.findall(command):
        prints = _PRINTS.search(part)
        for word in _WORD.findall(part, prints.end()) if prints else ():
            if named := list(_NAMES_SKILL.finditer(word)):
                return str(word[: named[-1].end()])
    return ""


def _texts(item: Mapping[str, Any]) -> list[str]:
    return [values.text(values.fields(part).get("text")) for part in values.items(item.get("content"))]


def _message(raw: bytes, item: Mapping[str, Any]) -> Line:
    content = item.get("content")
    reads = sum(map(len, _texts(item)))
    if item.get("role") == "assistant":
        return _line(raw, Role.ASSISTANT, reads=reads)
    blocks = images_in((PAYLOAD, "content"), content)
    if item.get("role") == "developer":
        blocks += _listed(values.items(content))
    if marker.PREFIX_BYTES in raw:
        blocks += values.marked_images((PAYLOAD, "content"), values.items(content))
    reads += values.pictures(blocks)
    return _line(raw, Role.OTHER, tuple(blocks), reads=reads, facts=_PROMPT if item.get("role") == "user" else PLAIN)


def _listed(parts: Sequence[Any]) -> Iterator[Block]:
    """Yield the lists of skills among the texts that Codex itself puts in."""
    for index, part in enumerate(parts):
        text = values.text(values.fields(part).get("text"))
        if FRAME.fullmatch(text):
            yield from values.long_text(Kind.ATTACHMENT, (PAYLOAD, "content", index, "text"), text, SKILLS, "")


def _event(raw: bytes, event: Mapping[str, Any]) -> Line:
    kind, back = event.get("type"), event.get("num_turns")
    if kind == "thread_rolled_back" and isinstance(back, int):
        return _line(raw, Role.OTHER, facts=Facts(back=max(back, 0)))
    if kind in ("task_started", "turn_started"):
        return _line(raw, Role.OTHER, facts=_TASK)
    role = Role.USER if kind == "user_message" else Role.OTHER
    return _line(raw, role, tuple(codex_events.mirrors(PAYLOAD, event)))


def _line(
    raw: bytes,
    role: Role,
    blocks: tuple[Block, ...] = (),
    *,
    calls: tuple[Call, ...] = (),
    answers: str = "",
    io: int = 0,
    reads: int = 0,
    facts: Facts = PLAIN,
) -> Line:
    return make_line((role, len(raw), xxh3_64_intdigest(raw), "", "", blocks, calls, answers, io, reads, facts, "", 0))
