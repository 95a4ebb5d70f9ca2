"""Claude Code: a tree by `parentUuid`, an answer's parts in lines of their own, and what its screen shows beside."""

from __future__ import annotations

import re
from typing import Any

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Answer, Block, Path, Shape
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import claude_notes, claude_path, claude_screen, claude_usage, requests, values
from sessioncompress.formats.base import Entry, Head, Name, Reader
from sessioncompress.formats.claude_parts import PICTURES, THOUGHTS
from sessioncompress.formats.claude_reader import ClaudeReader

_TOOLS = (
    "Agent AskUserQuestion Bash BashOutput CronCreate CronDelete CronList Edit EnterPlanMode EnterWorktree "
    "ExitPlanMode ExitWorktree Glob Grep KillBash KillShell ListMcpResourcesTool LS LSP Monitor MultiEdit "
    "NotebookEdit NotebookRead PowerShell Read ReadMcpResourceTool SendMessage SendUserFile Skill SlashCommand "
    "StructuredOutput Task TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoRead TodoWrite "
    "ToolSearch WebFetch WebSearch Workflow Write "
)
_KEPT_TOOLS = frozenset({"askuserquestion", "exitplanmode", "todowrite"})
"""What the user answered; the plan, which a resume writes to its file, and the list, which it shows."""

_NOTES = frozenset(
    {
        "summary",
        "custom-title",
        "ai-title",
        "last-prompt",
        "tag",
        "agent-name",
        "agent-color",
        "agent-setting",
        "pr-link",
        "file-history-snapshot",
        "file-history-delta",
        "attribution-snapshot",
        "mode",
        "permission-mode",
        "worktree-state",
        "queue-operation",
        "content-replacement",
        "progress",
    }
)
"""Lines beside the conversation, which often come first."""

_NAMES = ("sessionId", "leafUuid", "messageId")


class ClaudeCode(requests.InEntries):
    """Sessions of Claude Code, and of its subagents."""

    name = "claude-code"
    tools = frozenset(_TOOLS.lower().split())
    kept_tools = _KEPT_TOOLS
    listings = claude_notes.LISTINGS
    # No path holds "saved to" itself: so no part of a text is looked at for more than one of them.
    links: re.Pattern[str] | None = re.compile(
        r"saved to(?:(?!saved to)[^\n]){1,4096}?tool-results[^\s\"<>\[\]]{1,300}"
    )
    preamble: re.Pattern[str] | None = None
    frame: re.Pattern[str] | None = None
    answer_marks = (b'"assistant"',)

    def recognises(self, head: Head) -> bool:
        """Say whether lines hang on each other as Claude Code writes them; what stands beside them may be anybody's."""
        entries = head.entries
        return any(_is_own(each) and "parentUuid" in each for each in entries) and not any(map(_is_others, entries))

    def named(self, head: Head) -> Name:
        """Return the session's id, a subagent's own, whose fork it is, and the first folder that it names."""
        folder = next((cwd for entry in head.entries if (cwd := values.text(entry.get("cwd")))), "")
        for entry in filter(_is_own, head.entries):
            own = values.text(entry.get("agentId")) if entry.get("isSidechain") else ""
            if name := own or values.text(entry.get("sessionId")):
                parent = values.text(values.fields(entry.get("forkedFrom")).get("sessionId"))
                return Name(name, (parent,) if parent else (), folder)
        return Name()

    def reader(self) -> Reader:
        """Return a reader for one session."""
        return ClaudeReader()

    def shape(self, lines: Lines) -> Shape:
        """Return the live path and the dead history."""
        return claude_path.shape(lines)

    def may_change(self, entry: Entry, path: Path, value: Any) -> bool:
        """Say whether the value at a path of a line may become that one (or be REMOVED)."""
        old: Any = entry
        for step in path:
            old = old[step]
        match path:
            case ("message", "content", int(index), *rest):
                return _may_change_part(entry["message"]["content"][index], tuple(rest), old, value)
        notes, screen = claude_notes.may_change, claude_screen.may_change
        return notes(entry, path, old, value) or screen(entry, path, old, value)

    def stand_in(self, path: Path, value: Any) -> Any:
        """Return what takes the place of a copy for the screen."""
        return claude_screen.stand_in(path, value)

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> None:
        """Return nothing: the agent has no words of its own for a result that it cleared."""
        del entry, block, text, now

    def text_part(self, text: str) -> Any:
        """Return a text part."""
        return {"type": "text", "text": text}

    def image(self, part: Any) -> tuple[str, str]:
        """Return an image part's media type and its base64 data."""
        source = values.fields(values.fields(part).get("source"))
        return values.text(source.get("media_type")), values.text(source.get("data"))

    def answer(self, entry: Entry) -> Answer | None:
        """Return what a line of an answer says of its request; the last line of a response has the whole usage."""
        return claude_usage.answer(entry)


def _is_own(entry: Entry) -> bool:
    kind = entry.get("type")
    if not isinstance(kind, str):
        return False
    if "parentUuid" in entry:
        return isinstance(entry.get("sessionId"), str)
    return kind in _NOTES and any(isinstance(entry.get(key), str) for key in _NAMES)


def _is_others(entry: Entry) -> bool:
    """Others hang their lines together alike, but write a message's `parts`, or begin with a header."""
    message = entry.get("message")
    foreign = isinstance(message, dict) and "parts" in message
    return foreign or entry.get("type") in ("session", "session_meta")


def _may_change_part(part: Any, rest: Path, old: Any, new: Any) -> bool:
    """Say whether this value inside a content part may become that one."""
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
