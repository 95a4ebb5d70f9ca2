"""Claude Code: how to recognize a session, its live path, what may change in it, and the usage that it records."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Answer, JsonPath, Role, Shape, Usage, beside
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import base, values
from sessioncompress.formats.base import Entry, Head, Name, Reader, moment
from sessioncompress.formats.claude import screen
from sessioncompress.formats.claude.reader import PICTURES, THOUGHTS, ClaudeReader

_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_NO_MODEL = "<synthetic>"
"""Stands for the model in an answer that the agent made itself."""


def _usage(recorded: Mapping[str, Any]) -> Usage | None:
    """Read what was counted: where the vendor went round several times, all rounds together, and then each of them."""
    rounds = values.items(recorded.get("iterations"))
    sent, output, read, wrote = map((values.fields(rounds[-1]) if rounds else recorded).get, _USAGE)
    thought = values.fields(recorded.get("output_tokens_details")).get("thinking_tokens")
    return beside(sent, output, read, wrote, thought)


def _up(lines: Lines, leaf: int, numbers: Mapping[str, int]) -> list[int]:
    """Walk from the leaf to the root; where a parent is missing, the walk goes on at the message before it in time."""
    times: list[tuple[int, int]] | None = None
    path: list[int] = []
    seen = bytearray(len(lines))
    step: int | None = leaf
    while step is not None and not seen[step]:
        seen[step] = True
        path.append(step)
        parent = lines.parents[step]
        following = numbers.get(parent)
        if parent and following is None and lines.roles[step] is not Role.CHECKPOINT:
            if times is None:
                times = sorted((time, number) for number, time in enumerate(lines.times) if time)
            at = bisect_left(times, (lines.times[step], 0))
            following = times[at - 1][1] if at else None
        step = following
    path.reverse()
    return path


def _joined(lines: Lines, path: Sequence[int], numbers: Mapping[str, int]) -> list[int]:
    """Put in what else belongs to the responses on the path: calls made at once hang beside each other."""
    last = {lines.responses[number]: number for number in path if lines.responses[number]}
    beside = _beside(lines, frozenset(path), frozenset(last), numbers)
    whole: list[int] = []
    for number in path:
        whole.append(number)
        if last.get(lines.responses[number]) == number:
            whole += sorted(beside.get(lines.responses[number], ()), key=lambda each: (lines.times[each], each))
    return whole


def _beside(
    lines: Lines, path: frozenset[int], responses: frozenset[str], numbers: Mapping[str, int]
) -> Mapping[str, Sequence[int]]:
    """Find the lines off the path that belong to a response on it: its other parts, and their results."""
    found: dict[str, list[int]] = {}
    for number, role in enumerate(lines.roles):
        if number in path or not (lines.responses[number] or role is Role.RESULT):
            continue
        parent = numbers.get(lines.parents[number]) if role is Role.RESULT else None
        response = lines.responses[number if parent is None else parent]
        if response in responses:
            found.setdefault(response, []).append(number)
    return found


def _below(lines: Lines, leaf: int) -> list[int]:
    """Find what hangs on the leaf and is no message of the conversation: attachments, notes of the agent."""
    names = {lines.ids[leaf]}
    found = []
    for number in range(leaf + 1, len(lines)):
        if lines.ids[number] and lines.parents[number] in names:
            names.add(lines.ids[number])
            found.append(number)
    return found


def _dead(lines: Lines, path: Sequence[int]) -> Iterable[int]:
    """Find the lines of the path that no model sees again, by the last compaction that the path knows of.

    What a compaction kept hangs behind the lines before it, as it always did: the path may lead through it and past
    the compaction.
    """
    positions = {number: position for position, number in enumerate(path)}
    places = {lines.ids[number]: position for number, position in positions.items()}
    for number in range(len(lines) - 1, -1, -1):
        if lines.roles[number] is Role.CHECKPOINT:
            until = positions.get(number)
            keeps = lines.facts[number].keeps
            kept = places.get(str(keeps)) if keeps else None
            if kept is not None and (until is None or kept < until):
                until = kept
            if until is not None:
                return path[:until]
    return ()


_TOOLS = (
    "Agent AskUserQuestion Bash BashOutput CronCreate CronDelete CronList Edit EnterPlanMode EnterWorktree "
    "ExitPlanMode ExitWorktree Glob Grep KillBash KillShell ListMcpResourcesTool LS LSP Monitor MultiEdit "
    "NotebookEdit NotebookRead PowerShell Read ReadMcpResourceTool SendMessage SendUserFile Skill SlashCommand "
    "StructuredOutput Task TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoRead TodoWrite "
    "ToolSearch WebFetch WebSearch Workflow Write "
)
_KEPT_TOOLS = frozenset({"askuserquestion", "exitplanmode", "todowrite"})
"""What the user answered; the plan, which a resume writes to its file, and the list, which it shows."""

_NOTES = (
    "summary custom-title ai-title last-prompt tag agent-name agent-color agent-setting pr-link mode progress "
    "file-history-snapshot file-history-delta attribution-snapshot permission-mode worktree-state queue-operation "
    "content-replacement"
)
"""Lines beside the conversation, which often come first."""

_NAMES = ("sessionId", "leafUuid", "messageId")


class ClaudeCode(base.Format):
    """Sessions of Claude Code, and of its subagents."""

    name = "claude-code"
    tools = frozenset(_TOOLS.lower().split())
    kept_tools = _KEPT_TOOLS
    listings = screen.LISTINGS
    # No path holds "saved to" itself: so no part of a text is looked at for more than one of them.
    links: re.Pattern[str] | None = re.compile(
        r"saved to(?:(?!saved to)[^\n]){1,4096}?tool-results[^\s\"<>\[\]]{1,300}"
    )
    answer_marks = (b'"assistant"',)

    def recognizes(self, head: Head) -> bool:
        """Tell whether lines hang on each other as Claude Code writes them; other lines may be anybody's."""
        entries = head.entries
        return any(_is_own(each) and "parentUuid" in each for each in entries) and not any(map(_is_others, entries))

    def named(self, head: Head) -> Name:
        folder = next((cwd for entry in head.entries if (cwd := values.text(entry.get("cwd")))), "")
        for entry in filter(_is_own, head.entries):
            own = values.text(entry.get("agentId")) if entry.get("isSidechain") else ""
            if name := own or values.text(entry.get("sessionId")):
                parent = values.text(values.fields(entry.get("forkedFrom")).get("sessionId"))
                return Name(name, (parent,) if parent else (), folder)
        return Name()

    def reader(self) -> Reader:
        return ClaudeReader()

    def shape(self, lines: Lines) -> Shape:
        """Find the live path, with what stood on it before a compaction, which is dead."""
        numbers = {name: number for number, name in enumerate(lines.ids) if name}
        # The leaf is the newest message; in a file that holds none but a subagent's, the last line.
        newest = max(((time, number) for number, time in enumerate(lines.times) if time), default=None)
        leaf = max(numbers.values(), default=None) if newest is None else newest[1]
        if leaf is None:
            return Shape(array("I"), frozenset())
        path = [*_joined(lines, _up(lines, leaf, numbers), numbers), *_below(lines, leaf)]
        return Shape(array("I", path), frozenset(_dead(lines, path)))

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        old: Any = entry
        for step in path:
            old = old[step]
        match path:
            case ("message", "content", int(index), *rest):
                return _may_change_part(entry["message"]["content"][index], tuple(rest), old, value)
        return screen.note_may_change(entry, path, old, value) or screen.screen_may_change(entry, path, old, value)

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        return screen.stand_in(path, value)

    def image(self, part: Any) -> tuple[str, str]:
        source = values.fields(values.fields(part).get("source"))
        return values.text(source.get("media_type")), values.text(source.get("data"))

    def answer(self, entry: Entry) -> Answer | None:
        """Read what a line of an answer says of its request; the last line of a response has the whole usage."""
        if entry.get("type") != "assistant":
            return None
        message = values.fields(entry.get("message"))
        at = moment(entry.get("timestamp"))
        if entry.get("isApiErrorMessage") is True:
            said = "".join(values.part_text(part) for part in values.items(message.get("content")))
            return Answer(error=said or "the request failed", at=at)
        model = values.text(message.get("model"))
        if model == _NO_MODEL:
            return None
        return Answer(model=model, usage=_usage(values.fields(message.get("usage"))), at=at)


def _is_own(entry: Entry) -> bool:
    kind = entry.get("type")
    if not isinstance(kind, str):
        return False
    if "parentUuid" in entry:
        return isinstance(entry.get("sessionId"), str)
    return kind in _NOTES.split() and any(isinstance(entry.get(key), str) for key in _NAMES)


def _is_others(entry: Entry) -> bool:
    """Others hang their lines together alike, but write a message's `parts`, or begin with a header."""
    message = entry.get("message")
    foreign = isinstance(message, dict) and "parts" in message
    return foreign or entry.get("type") in ("session", "session_meta")


def _may_change_part(part: Any, rest: JsonPath, old: Any, new: Any) -> bool:
    kind = values.fields(part).get("type")
    text = isinstance(old, str) and isinstance(new, str)
    match rest:
        case ():
            return kind in THOUGHTS if new is REMOVED else kind in PICTURES
        case ("input", *_, step):
            kept = str(values.fields(part).get("name")).lower() in _KEPT_TOOLS
            return kind == "tool_use" and text and not kept and step not in values.FILE_KEYS
        case ("content",) | ("content", int(), "text"):
            return kind == "tool_result" and text
        case ("content", int()):
            return kind == "tool_result" and values.fields(old).get("type") in PICTURES and new is not REMOVED
    return False
