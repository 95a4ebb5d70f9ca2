"""Claude Code: how to recognize a session, read its lines, find its live path, and what may change in it."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from sys import intern
from typing import Any

from sessioncompress.core import model
from sessioncompress.core.checkpoint import Checkpoint, Cut, Said, Summary, Written
from sessioncompress.core.lines import Lines
from sessioncompress.core.model import PLAIN, Answer, Block, Facts, JsonPath, Kind, Line, Purpose, Role, Shape
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import base, claude_checkpoint, values
from sessioncompress.formats import claude_screen as screen
from sessioncompress.formats.base import Entry, Head, Name, line_of, moment

_THOUGHTS = ("thinking", "redacted_thinking")

_UNCHANGED = ("File unchanged since last read", "Wasted call \u2014 file unchanged since your last Read")
"""So begins what a read of a file returns that an earlier result still shows."""


class ClaudeReader(base.Reader):
    """Reads the lines of one session: messages, and notes beside them."""

    purposes: Mapping[str, Purpose] = {
        "read": Purpose.READ,
        "write": Purpose.WRITE,
        **dict.fromkeys(("bash", "powershell", "bashoutput", "taskoutput"), Purpose.COMMAND),
        **dict.fromkeys(("task", "agent"), Purpose.AGENT),
    }
    reads_as = "numbered"
    linking = ("type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "timestamp", "message.role")

    def line(self, raw: bytes, entry: Entry) -> Line:
        kind = entry.get("type")
        message = entry.get("message")
        names = values.text(entry.get("uuid")), values.text(entry.get("parentUuid"))
        if kind == "assistant" and isinstance(message, dict):
            return self._assistant(raw, names, entry, message)
        if kind == "user" and isinstance(message, dict):
            return self._user(raw, names, entry, message)
        if kind == "system" and entry.get("subtype") == "compact_boundary":
            kept = values.fields(entry.get("compactMetadata"))
            head = values.fields(kept.get("preservedSegment")).get("headUuid")
            # Where both stand they name the same.
            first = next(iter(values.items(values.fields(kept.get("preservedMessages")).get("uuids"))), head)
            facts = Facts(keeps=values.text(first))
            # A compaction has no parent, so that the agent's walk ends there; ours goes on, through what is dead.
            return line_of(raw, Role.CHECKPOINT, (), names[0], values.text(entry.get("logicalParentUuid")), facts=facts)
        # A line beside the conversation, or one that the agent itself put into it.
        shown = screen.note_blocks(entry)
        reads = 0
        if kind == "attachment":
            sent = [block for block in shown if block.path[0] == "rendered"] or shown
            reads = values.pictures(sent) + sum(block.size for block in sent if block.kind is not Kind.IMAGE)
        if kind == "file-history-snapshot":
            # It belongs to the prompt before which its files were so.
            names = ("", values.text(entry.get("messageId")))
        facts = screen.facts_of(entry)
        if call := values.text(entry.get("parentToolUseID")):
            facts = facts._replace(reports=call)
        of = call or values.text(values.fields(entry.get("attachment")).get("toolUseID"))
        blocks = shown + screen.screen_blocks(entry, "", of)
        return line_of(raw, Role.OTHER, blocks, *names, reads=reads, facts=facts)

    def may_prompt(self, raw: bytes) -> bool:
        # Most lines of the user's bring nothing but results.
        may = b'"user"' in raw and (b'"tool_result"' not in raw or b'"text"' in raw)
        return may or b'"queued_command"' in raw

    def said(self, entry: Entry) -> Iterable[Said]:
        return claude_checkpoint.said(entry, self.said_call)

    def _assistant(self, raw: bytes, names: tuple[str, str], entry: Entry, message: Entry) -> Line:
        response = intern(values.text(message.get("id")))
        blocks: list[Block] = []
        calls: list[model.Call] = []
        thoughts: list[Block] = []
        says = characters = io = thinks = 0
        for index, part in enumerate(values.items(message.get("content"))):
            if not isinstance(part, dict):
                says += 1
                continue
            kind = part.get("type")
            if kind in _THOUGHTS:
                thinks += 1
                characters += values.thought(part.get("thinking"), part.get("signature") or part.get("data"))
                if size := len(values.literal(part)):
                    thoughts.append(Block(Kind.THINKING, values.part_path(index), size, size))
                continue
            # White space says nothing: alone it is a message that the agent leaves out.
            text = values.text(part.get("text"))
            says += kind != "text" or text.strip() != ""
            characters += len(text) if text.strip() else 0
            if kind == "tool_use":
                made = self.call(part.get("id"), part.get("name"), part.get("input"))
                calls.append(made)
                io += values.arguments(values.part_path(index, "input"), part.get("input"), made, blocks)
        if len(thoughts) == thinks and (says or response):
            # All thinking of a line goes or none; where nothing else would stay, other lines must hold the rest.
            blocks = thoughts + blocks
        blocks += screen.screen_blocks(entry, "", "")
        reads = characters + io + values.CALL * len(calls)
        facts, time = Facts(thinks=True) if thinks else PLAIN, _time(entry)
        return line_of(
            raw,
            Role.ASSISTANT,
            blocks,
            *names,
            calls=calls,
            io=io,
            reads=reads,
            facts=facts,
            response=response,
            time=time,
        )

    def _user(self, raw: bytes, names: tuple[str, str], entry: Entry, message: Entry) -> Line:
        content = message.get("content")
        blocks: list[Block] = []
        results: list[tuple[int, Mapping[str, Any]]] = []
        for index, part in values.parts(content):
            kind = part.get("type")
            if kind == "tool_result":
                results.append((index, part))
            elif kind in screen.PICTURES:
                blocks += screen.picture(values.part_path(index), part, "", "")
        blocks += values.marked_images(("message", "content"), content)
        tool, answers, io = "", "", 0
        if not results:
            role = Role.USER if claude_checkpoint.begins_turn(entry, content) else Role.OTHER
            facts = screen.facts_of(entry)
        else:
            role, failed = Role.RESULT, False
            calls: list[model.Call] = []
            for index, part in results:
                written = part.get("content")
                if isinstance(written, str) and written.startswith(_UNCHANGED):
                    # A read that only says that its file is as it was supersedes no earlier read.
                    role = Role.OTHER
                failed |= part.get("is_error") is True
                calls.append(made := self.answered(part.get("tool_use_id")))
                io += _result(values.part_path(index, "content"), written, made, blocks)
            if len(calls) == 1:
                answers, tool, facts = calls[0].id, calls[0].tool, Facts(failed=True) if failed else PLAIN
            else:
                facts = Facts(failed=failed, several=tuple(made.id for made in calls))
        pictures = values.pictures(blocks)
        io += pictures if results else 0
        reads = values.characters(content) + (io or pictures) + values.RESULT * len(results)
        blocks += screen.screen_blocks(entry, tool, answers)
        return line_of(raw, role, blocks, *names, answers=answers, io=io, reads=reads, facts=facts, time=_time(entry))


def _result(path: JsonPath, content: Any, made: model.Call, blocks: list[Block]) -> int:
    if isinstance(content, str):
        # So begins the result of a call that the user refused, perhaps saying why.
        if not content.startswith("The user doesn't want to "):
            blocks += values.long_text(Kind.RESULT, path, content, made.tool, made.id)
        return len(content)
    for index, part in enumerate(values.items(content)):
        text = values.part_text(part)
        if text and part.get("type") == "text":
            blocks += values.long_text(Kind.RESULT, (*path, index, "text"), text, made.tool, made.id)
        blocks += screen.picture((*path, index), part, made.tool, made.id)
    return values.characters(content)


def _time(entry: Entry) -> int:
    """When a message was written; that of a subagent tells nothing of how the session hangs together."""
    return 0 if entry.get("isSidechain") else moment(values.text(entry.get("timestamp")))


def _up(lines: Lines, leaf: int, numbers: Mapping[str, int]) -> list[int]:
    """Walk from the leaf to the root; over a missing parent to the newest message before it in time and in the file."""
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
            at = bisect_left(times, (lines.times[step], step))
            # One of the 64 before it in time that also stands before it in the file.
            near = (times[each][1] for each in range(at - 1, max(at - 64, 0) - 1, -1))
            following = next((number for number in near if number < step), None)
        step = following
    path.reverse()
    return path


def _joined(lines: Lines, path: Sequence[int], numbers: Mapping[str, int]) -> list[int]:
    """Put in what else belongs to the responses on the path: calls made at once hang beside each other."""
    last = {lines.responses[number]: number for number in path if lines.responses[number]}
    on_path = frozenset(path)
    # The lines off the path that belong to a response on it: its other parts, and their results.
    beside: dict[str, list[int]] = {}
    for number, role in enumerate(lines.roles):
        if numbers.get(lines.ids[number], number) in on_path or not (lines.responses[number] or role is Role.RESULT):
            continue
        parent = numbers.get(lines.parents[number]) if role is Role.RESULT else None
        response = lines.responses[number if parent is None else parent]
        if response in last:
            beside.setdefault(response, []).append(number)
    whole: list[int] = []
    for number in path:
        whole.append(number)
        if last.get(lines.responses[number]) == number:
            whole += sorted(beside.get(lines.responses[number], ()), key=lambda each: (lines.times[each], each))
    return whole


def _as_read(lines: Lines, path: Sequence[int], numbers: Mapping[str, int]) -> list[int]:
    """Put checkpoints past which the path leads, each with its summary, before the first message that they keep.

    What a compaction keeps hangs behind the lines before it, as it always did: the agent hangs it on the summary only
    when it loads the session.
    """
    on_path = frozenset(path)
    groups: dict[int, list[int]] = {}
    heads: dict[int, list[int]] = {}
    for number, role in enumerate(lines.roles):
        head = numbers.get(str(lines.facts[number].keeps), -1) if role is Role.CHECKPOINT else -1
        if head in on_path and number not in on_path:
            groups[number] = [number]
            heads.setdefault(head, []).append(number)
    for number, parent in enumerate(lines.parents if groups else ()):
        group = groups.get(numbers.get(parent, -1), ())
        if len(group) == 1 and number not in on_path:
            groups[group[0]].append(number)
    whole: list[int] = []
    for number in path:
        behind: list[int] = []
        for boundary in reversed(heads.get(number, ())):
            # Lines that the agent does not load may stand between a boundary and the first message that it keeps. An
            # older boundary stands before a newer one: what was passed over for that need not be looked at again.
            while whole and whole[-1] > boundary and lines.roles[whole[-1]] is Role.OTHER:
                behind.append(whole.pop())
            behind += reversed(groups[boundary])
        whole += reversed(behind)
        whole.append(number)
    return whole


def _dead(lines: Lines, path: Sequence[int]) -> Sequence[int]:
    """Find the lines of the path that no model sees again: those before what the last compaction kept."""
    last = max((number for number in path if lines.roles[number] is Role.CHECKPOINT), default=None)
    if last is None:
        return ()
    keeps = lines.facts[last].keeps
    return path[
        : next(at for at, number in enumerate(path) if number == last or (keeps and lines.ids[number] == keeps))
    ]


_TOOLS = (
    "Agent AskUserQuestion Bash BashOutput CronCreate CronDelete CronList Edit EnterPlanMode EnterWorktree "
    "ExitPlanMode ExitWorktree Glob Grep KillBash KillShell ListMcpResourcesTool LS LSP Monitor MultiEdit "
    "NotebookEdit NotebookRead PowerShell Read ReadMcpResourceTool SendMessage SendUserFile Skill SlashCommand "
    "StructuredOutput Task TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoRead TodoWrite "
    "ToolSearch WebFetch WebSearch Workflow Write "
)

_NOTES = (
    "summary custom-title ai-title last-prompt tag agent-name agent-color agent-setting pr-link mode progress "
    "file-history-snapshot file-history-delta attribution-snapshot permission-mode worktree-state queue-operation "
    "content-replacement"
)
"""Lines beside the conversation, which often come first."""


class ClaudeCode(base.Format):
    """Sessions of Claude Code, and of its subagents."""

    name = "claude-code"
    reader = ClaudeReader
    tools = frozenset(_TOOLS.lower().split())
    # What the user answered; the plan, which a resume writes to its file, and the list, which it shows.
    kept_tools = frozenset({"askuserquestion", "exitplanmode", "todowrite"})
    listings = screen.LISTINGS
    ended = re.compile(r"\AExit code \d{1,3}$", re.MULTILINE)
    # No path holds "saved to" itself: so no part of a text is looked at for more than one of them.
    links: re.Pattern[str] | None = re.compile(
        r"saved to(?:(?!saved to)[^\n]){1,4096}?tool-results[^\s\"<>\[\]]{1,300}"
    )
    answer_marks = (b'"assistant"',)
    titles = (("customTitle",), ("aiTitle",))

    def recognizes(self, head: Head) -> bool:
        """Tell whether lines hang on each other as Claude Code writes them; other lines may be anybody's."""
        for entry in head.entries:
            # Others hang their lines together alike, but write a message's `parts`, or begin with a header.
            message = entry.get("message")
            if (isinstance(message, dict) and "parts" in message) or entry.get("type") in ("session", "session_meta"):
                return False
        return any("parentUuid" in entry and _is_own(entry) for entry in head.entries)

    def named(self, head: Head) -> Name:
        folder = next((cwd for entry in head.entries if (cwd := values.text(entry.get("cwd")))), "")
        for entry in filter(_is_own, head.entries):
            own = values.text(entry.get("agentId")) if entry.get("isSidechain") else ""
            if name := own or values.text(entry.get("sessionId")):
                parent = values.text(values.fields(entry.get("forkedFrom")).get("sessionId"))
                return Name(name, (parent,) if parent else (), folder)
        return Name()

    def shape(self, lines: Lines) -> Shape:
        numbers: dict[str, int] = {}
        for number, name in enumerate(lines.ids):
            # A resume may append the whole history again: the first copy of a line is meant.
            if name:
                numbers.setdefault(name, number)
        # The leaf is the newest message; in a file that holds none but a subagent's, the last line.
        newest = max(((time, number) for number, time in enumerate(lines.times) if time), default=None)
        leaf = max(numbers.values(), default=None) if newest is None else newest[1]
        if leaf is None:
            return Shape(array("I"), frozenset())
        path = _as_read(lines, _joined(lines, _up(lines, leaf, numbers), numbers), numbers)
        # A note without an id belongs to the message that it names.
        notes = {
            lines.parents[number]: number for number, name in enumerate(lines.ids) if lines.parents[number] and not name
        }
        path = [each for number in path for each in (number, notes.get(lines.ids[number])) if each is not None]
        # What hangs on the leaf and is no message of the conversation: attachments, notes of the agent.
        names = {lines.ids[leaf]}
        for number in range(leaf + 1, len(lines)):
            if lines.ids[number] and lines.parents[number] in names:
                names.add(lines.ids[number])
                path.append(number)
        return Shape(array("I", path), frozenset(_dead(lines, path)))

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        return claude_checkpoint.checkpoint(session, cut, summary)

    def dropping(self, session: Written, cut: Cut, made: Checkpoint) -> Checkpoint:
        """Take out what stands before the boundary: the agent does so as well when it loads the session.

        The first entry and the first request stay: they show whose session it is, and the agent lists it by the latter.
        """
        lines, boundary = session.lines, min(each.before for each in made.added)
        path = self.shape(lines).live
        requests = (number for number in path if lines.roles[number] is Role.USER)
        stay = {*cut.kept, min(path), min(requests, default=-1)}
        return made._replace(removed=frozenset(number for number in path if number < boundary) - stay)

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        old = values.at(entry, path)
        match path:
            case ("message", "content", int(index), *inner):
                part = values.fields(entry["message"]["content"][index])
            case _:
                return screen.may_change(entry, path, old, value)
        kind = part.get("type")
        texts = isinstance(old, str) and isinstance(value, str)
        match inner:
            case []:
                return kind in _THOUGHTS if value is REMOVED else kind in screen.PICTURES
            case ["input", *_, step]:
                kept = str(part.get("name")).lower() in self.kept_tools
                return kind == "tool_use" and texts and not kept and step not in values.FILE_KEYS
            case ["content"] | ["content", int(), "text"]:
                return kind == "tool_result" and texts
            case ["content", int()]:
                return kind == "tool_result" and values.type_of(old) in screen.PICTURES and value is not REMOVED
        return False

    def stand_in(self, path: JsonPath, value: Any) -> Any:
        return screen.stand_in(path, value)

    def answer(self, entry: Entry) -> Answer | None:
        """Read what a line of an answer says of its request; the last line of a response has the whole usage."""
        if entry.get("type") != "assistant":
            return None
        message = values.fields(entry.get("message"))
        at = moment(entry.get("timestamp"))
        if entry.get("isApiErrorMessage") is True:
            said = "".join(values.part_text(part) for part in values.items(message.get("content")))
            return Answer(error=said or "the request failed", at=at)
        made_by = values.text(message.get("model"))
        if made_by == "<synthetic>":
            # The agent made this answer itself.
            return None
        recorded = values.fields(message.get("usage"))
        # Where the vendor went round several times, all rounds together are counted, and then each of them.
        rounds = values.items(recorded.get("iterations"))
        counted = values.fields(rounds[-1]) if rounds else recorded
        usage = model.beside(
            counted.get("input_tokens"),
            counted.get("output_tokens"),
            counted.get("cache_read_input_tokens"),
            counted.get("cache_creation_input_tokens"),
            values.fields(recorded.get("output_tokens_details")).get("thinking_tokens"),
        )
        return Answer(model=made_by, usage=usage, at=at)


def _is_own(entry: Entry) -> bool:
    kind = entry.get("type")
    if not isinstance(kind, str):
        return False
    if "parentUuid" in entry:
        return isinstance(entry.get("sessionId"), str)
    return kind in _NOTES.split() and any(
        isinstance(entry.get(key), str) for key in ("sessionId", "leafUuid", "messageId")
    )
