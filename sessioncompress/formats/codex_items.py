"""The items of Codex's rollouts: what calls and outputs hold, and where it stands in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sessioncompress.core.model import SKILL_FILE, JsonPath, Purpose
from sessioncompress.core.splice import within
from sessioncompress.formats import values

CALLS: Mapping[str, JsonPath] = {
    "function_call": ("arguments",),
    "custom_tool_call": ("input",),
    "local_shell_call": ("action", "command"),
}
"""The items that are calls, and where in them the arguments stand."""

RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
TEXT_PARTS = frozenset({"input_text", "output_text"})

PASSED_OVER = "other"
"""What becomes of an item's type when it loses its seal: items of a type that it does not know Codex leaves out."""

_NOT_WORDS = (
    *("# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "<skill>"),
    *("<permissions instructions>", "<skills_instructions>", "<plugins_instructions>", "<apps_instructions>"),
    *("<recommended_plugins>", "<turn_aborted>", "<collaboration_mode>", "<subagent_notification>", "<hook_prompt"),
    *("<codex_internal_context", "<user_shell_command>", "<model_switch>", "<personality_spec>", "<user_action>"),
)
"""The beginnings of texts that Codex itself says in the user's name."""

_COMMANDS = "exec_command exec shell shell_command container.exec local_shell write_stdin unified_exec"
PURPOSES = {**dict.fromkeys(_COMMANDS.split(), Purpose.COMMAND), "wait_agent": Purpose.AGENT}

PREAMBLE = re.compile(
    r"(?:(?:(?:Chunk ID|Wall time|Process|Exit code|Original token count|Total output lines)\b[^\n]{0,80}\n){1,8}"
    r"Output:\n)?"
    r"(?:Warning: truncated output[^\n]{0,80}\n)?(?:Total output lines: \d+\n)?\n?"
)
"""What stands above the output of a command, or of a program; it may be nothing."""

ENDED = re.compile(
    r"^(?:Process exited with code|Exit code:|Process running with session ID) -?\d{1,9}$"
    r"|\"exit_code\":\s{0,4}-?\d{1,9}",
    re.MULTILINE,
)
"""What says there, or in JSON, how the command ended."""

_PART = re.compile(r"[^|;&\n]+")
_PRINTS = re.compile(r"\b(?:cat|sed|head|tail|nl|bat|less|awk)\b")
_WORD = re.compile(r"[^\s'\"`\\]+")
_NAMES_SKILL = re.compile(rf"\b{re.escape(SKILL_FILE)}\b")


def called(item: Mapping[str, Any]) -> tuple[str, str]:
    """Read the tool of a call, and the name of the call."""
    tool = values.text(item.get("name")) or values.text(item.get("type")).removesuffix("_call")
    return tool, values.text(item.get("call_id")) or values.text(item.get("id"))


def arguments_of(item: Mapping[str, Any], path: JsonPath) -> Any:
    """Find what stands at a call's path to its arguments: a text, or the words of a command; None for all else."""
    value: Any = item
    for step in path:
        value = values.fields(value).get(str(step))
    return value if isinstance(value, list if path == CALLS["local_shell_call"] else str) else None


def skill_read(command: str) -> str:
    """Find the path of the skill that a command prints; an empty text where it prints none."""
    for part in _PART.findall(command):
        prints = _PRINTS.search(part)
        for word in _WORD.findall(part, prints.end()) if prints else ():
            if named := list(_NAMES_SKILL.finditer(word)):
                return str(word[: named[-1].end()])
    return ""


def texts_of(item: Mapping[str, Any]) -> list[str]:
    """List the texts of a message."""
    return [values.part_text(part) for part in values.items(item.get("content"))]


def words_of(item: Mapping[str, Any]) -> list[str]:
    """List the texts of a user's message that the user wrote."""
    return [text for text in texts_of(item) if text.strip() and not text.lstrip().startswith(_NOT_WORDS)]


def wrapped(output: str) -> str | None:
    """Read the text of an output that older versions wrote, as a string, in an object with its metadata."""
    found = values.fields(within(output)) if output.lstrip()[:1] == "{" and '"metadata"' in output else {}
    text = found.get("output")
    return text if isinstance(text, str) and isinstance(found.get("metadata"), dict) else None
