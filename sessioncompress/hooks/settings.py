"""Hooks in JSON settings files that also hold other settings: Claude Code's form, also used by Codex and Gemini CLI."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from sessioncompress.hooks.base import GUARD, AgentHooks, Ending, Piece, command_in, shell_line

_MEMBER = "hooks"

_INDENT = re.compile(r"[ \t]*")
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()

Group = Mapping[str, Any]
"""`{"matcher", "hooks": [{"type", "command", "timeout"}]}`: each event has a list of these."""


def insertions(text: str | None, groups: Mapping[str, Group]) -> list[Piece]:
    """List the insertions that add a group to each event. If the text has `hooks`, they must be well-formed.

    Append a group after the user's, because Codex remembers by position which hooks it may run. Insert a new event
    first, so that no line of the user's needs another comma.
    """
    whole = {_MEMBER: {event: [group] for event, group in groups.items()}}
    if text is None:
        return [Piece(0, json.dumps(whole, indent=2) + "\n")]
    root = _after_space(text, 0)
    hooks = _places(text, root).get(_MEMBER)
    if hooks is None:
        return [_inside(text, root, whole)]
    places = _places(text, hooks)
    lists = {event: places.get(event) for event in groups}
    pieces = [_inside(text, at, {"": groups[event]}) for event, at in lists.items() if at is not None]
    if missing := {event: [groups[event]] for event, at in lists.items() if at is None}:
        pieces.append(_inside(text, hooks, missing))
    return pieces


def _inside(text: str, start: int, values: Mapping[str, Any]) -> Piece:
    """Insert values at the start of an object, or at the end of a list if their key is empty; match the indentation."""
    inside = start + 1
    gap = text[inside : _after_space(text, inside)]
    ends = [end for _, _, end in _values(text, start)]
    empty = not ends
    behind = text[start] == "[" and not empty
    keys = {key: f"{json.dumps(key)}: " if key else "" for key in values}
    if not empty and "\n" not in gap:
        body = ", ".join(keys[key] + json.dumps(value) for key, value in values.items())
        if behind:
            return Piece(ends[-1], f", {body}")
        return Piece(inside, f"{gap}{body}," if gap else f"{body}, ")
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = _INDENT.match(text, text.rfind("\n", 0, start) + 1, start)
    around = indent.group() if indent else ""
    # Use the indentation of the first member if it is on its own line.
    root = _after_space(text, 0) + 1
    begin = text[root : _after_space(text, root)]
    unit = begin.rpartition("\n")[2] if "\n" in begin and text[root + len(begin)] != "}" else "  "
    line = newline + (around + unit if empty else gap.rpartition("\n")[2])
    indented = {key: json.dumps(value, indent=unit).replace("\n", line) for key, value in values.items()}
    body = ",".join(line + keys[key] + value for key, value in indented.items())
    if behind:
        return Piece(ends[-1], f",{body}")
    return Piece(inside, f"{body}{newline}{around}" if empty else f"{body},")


def _places(text: str, start: int) -> dict[str, int]:
    """Map the keys of the object at this index to where their values begin. The last duplicate counts."""
    return {key: begin for key, begin, _ in _values(text, start)}


def _values(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yield each value's key (empty in a list), start and end in the object or list at this index.

    The text must be valid JSON.
    """
    position = _after_space(text, start + 1)
    while text[position] not in "]}":
        key = ""
        if text[start] == "{":
            key, position = scanstring(text, position + 1, True)  # noqa: FBT003
            position = _after_space(text, _after_space(text, position) + 1)
        end = _DECODER.raw_decode(text, position)[1]
        yield key, position, end
        position = _after_space(text, end)
        if text[position] == ",":
            position = _after_space(text, position + 1)


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def without(text: str) -> str:
    """Remove our hooks, and containers that become empty. Raises CannotSplice."""
    from sessioncompress.core.splice import REMOVED, splice

    document = json.loads(text)
    paths: list[tuple[str | int, ...]] = []
    stays = False
    for event, groups in _events(document):
        gone: list[tuple[str | int, ...]] = []
        whole = bool(groups)
        for number, group in enumerate(groups):
            hooks = _hooks(group)
            ours = [place for place, hook in enumerate(hooks) if _command(hook) is not None]
            if ours and len(ours) == len(hooks):
                gone.append((number,))
            else:
                whole = False
                gone += [(number, _MEMBER, place) for place in ours]
        stays = stays or not whole
        paths += [(_MEMBER, event)] if whole else [(_MEMBER, event, *path) for path in gone]
    if paths and not stays:
        paths = [(_MEMBER,)]
    return splice(text.encode(), document, dict.fromkeys(paths, REMOVED))[0].decode() if paths else text


def _events(document: Any) -> list[tuple[str, list[Any]]]:
    hooks = document.get(_MEMBER) if isinstance(document, dict) else None
    events = hooks.items() if isinstance(hooks, dict) else ()
    return [(event, groups) for event, groups in events if isinstance(groups, list)]


def _hooks(group: Any) -> list[Any]:
    hooks = group.get(_MEMBER) if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def _command(hook: Any) -> tuple[str, ...] | None:
    """Parse the command of our hook; None if it isn't ours."""
    line = hook.get("command") if isinstance(hook, dict) else None
    return command_in(line) if isinstance(line, str) else None


class Settings(AgentHooks):
    """Hooks of an agent with settings like Claude Code's: two events, each with groups of hooks."""

    guarded = "PreToolUse"
    """The event before a tool runs."""
    writing: str
    """Pattern of tools that may write files, including shells and MCP tools."""
    seconds: tuple[int, int]
    """Time limits of guard and end in the agent's unit. They exceed our own limits, which should apply first."""

    def commands(self, text: str) -> list[tuple[str, ...]]:
        return [command for _, _, _, command in self.ours(text)]

    def ours(self, text: str) -> list[tuple[str, int, int, tuple[str, ...]]]:
        """List our hooks: event, group index, hook index, and command."""
        return [
            (event, number, place, command)
            for event, groups in _events(self.document(text))
            for number, group in enumerate(groups)
            for place, hook in enumerate(_hooks(group))
            if (command := _command(hook)) is not None
        ]

    def is_current(self, text: str, ending: Ending) -> bool:
        there, ours = dict(_events(self.document(text))), self._groups(ending)
        known = all(group in there.get(event, []) for event, group in ours.items())
        return known and len(self.commands(text)) == len(ours)

    def added(self, text: str | None, ending: Ending) -> list[Piece]:
        groups = self._groups(ending)
        if text is not None:
            text = self.plain(text)
            hooks = self.document(text).get(_MEMBER, {})
            if not isinstance(hooks, dict) or not all(isinstance(hooks.get(event, []), list) for event in groups):
                raise self.refused('its "hooks" is not an object with a list for each event', self._remedy())
        return insertions(text, groups)

    def taken_out(self, text: str) -> str:
        from sessioncompress.core.splice import CannotSplice

        try:
            return without(text)
        except CannotSplice as error:
            raise self.refused(f"our hooks cannot be removed from it ({error})", "Remove them by hand.") from error

    def switched_off(self, text: str) -> str:
        return "disableAllHooks in it is true" if self.document(text).get("disableAllHooks") is True else ""

    def plain(self, text: str) -> str:
        """Convert what the agent accepts as JSON to JSON, keeping the position of every value."""
        return text

    def document(self, text: str) -> dict[str, Any]:
        """Parse the settings. Raises Refused."""
        try:
            document = json.loads(self.plain(text))
        except (ValueError, RecursionError) as error:
            raise self.refused(f"it is not JSON ({error})", self._remedy()) from error
        if not isinstance(document, dict):
            raise self.refused("it is not a JSON object", self._remedy())
        return document

    def _groups(self, ending: Ending) -> dict[str, Group]:
        guard, end = (
            [{"type": "command", "command": shell_line(*words), "timeout": seconds}]
            for words, seconds in zip((GUARD, ending.words()), self.seconds, strict=True)
        )
        return {self.guarded: {"matcher": self.writing, "hooks": guard}, "SessionEnd": {"hooks": end}}

    def _remedy(self) -> str:
        return f"Correct it, or name another folder with {self.elsewhere}."


class ClaudeHook(Settings):
    """Claude Code."""

    title = "Claude Code"
    writing = "^(Bash|Edit|MultiEdit|NotebookEdit|PowerShell|Write|mcp__.*)$"
    # Without a limit, all session-end hooks share 1.5 s.
    seconds = (10, 10)
    elsewhere, usual = "CLAUDE_CONFIG_DIR", "~/.claude"
    below = "settings.json"


class CodexHook(Settings):
    """Codex CLI. Its `config.toml` records which hooks it trusts; we only read it."""

    title = "Codex CLI"
    advice = "It calls them once you trust them: type /hooks in Codex."
    writing = "^(Bash|apply_patch|mcp__.*)$"
    # It allows session-end hooks at most three seconds.
    seconds = (10, 3)
    elsewhere, usual = "CODEX_HOME", "~/.codex"
    below = "hooks.json"

    def switched_off(self, text: str) -> str:
        import tomllib

        config: dict[str, Any] = {}
        with suppress(OSError, ValueError, RecursionError):
            config = tomllib.loads(self.file().with_name("config.toml").read_text(encoding="utf-8"))
        features = config.get("features")
        if isinstance(features, dict) and False in (features.get("hooks"), features.get("codex_hooks")):
            return "features.hooks in config.toml is false"
        hooks = config.get("hooks")
        state = hooks.get("state") if isinstance(hooks, dict) else None
        # Event names as Codex writes them in its list of trusted hooks.
        names = {"PreToolUse": "pre_tool_use", "SessionEnd": "session_end"}
        places = [f"{names[event]}:{group}:{number}" for event, group, number, _ in self.ours(text)]
        # Codex may have resolved the file's path.
        files, state = (self.file(), self.file().resolve()), state if isinstance(state, dict) else {}
        found = ([state.get(f"{file}:{place}") for file in files] for place in places)
        noted: list[dict[str, Any]] = [next((one for one in each if isinstance(one, dict)), {}) for each in found]
        if not all("trusted_hash" in each for each in noted):
            return "Codex does not trust them yet: type /hooks in Codex"
        return "disabled under /hooks in Codex" if any(each.get("enabled") is False for each in noted) else ""


_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\r\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?', re.DOTALL)
"""A comment, or a string, inside which no comment starts."""
_NO_LINE_END = re.compile(r"[^\r\n]")


class GeminiHook(Settings):
    """Gemini CLI, whose settings may have comments."""

    title = "Gemini CLI"
    advice = "It calls hooks only in folders that you trust."
    guarded = "BeforeTool"
    writing = "^(write_file|replace|run_shell_command|mcp_.*)$"
    # Milliseconds.
    seconds = (10_000, 10_000)
    elsewhere, usual = "GEMINI_CLI_HOME", "~"
    below = ".gemini/settings.json"

    def plain(self, text: str) -> str:
        return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _NO_LINE_END.sub(" ", found[0]), text)

    def taken_out(self, text: str) -> str:
        if self.plain(text) != text:
            raise self.refused("it was changed since, and has comments", "Remove our hooks by hand.")
        return super().taken_out(text)

    def switched_off(self, text: str) -> str:
        said = self.document(text).get("hooksConfig")
        said = said if isinstance(said, dict) else {}
        if said.get("enabled") is False:
            return "hooksConfig.enabled in it is false"
        disabled = said.get("disabled")
        named = isinstance(disabled, list) and any(isinstance(each, str) and command_in(each) for each in disabled)
        return "hooksConfig.disabled in it lists them" if named else ""


class QwenHook(GeminiHook):
    """Qwen Code: Gemini CLI's settings with Claude Code's events."""

    title = "Qwen Code"
    guarded = Settings.guarded
    writing = "^(edit|notebook_edit|run_shell_command|write_file|mcp__.*)$"
    seconds = (10, 10)
    elsewhere, usual = "QWEN_HOME", "~/.qwen"
    below = "settings.json"
    switched_off = Settings.switched_off
