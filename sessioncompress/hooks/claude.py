"""The hooks of Claude Code, in its settings, which also hold much else."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

from sessioncompress.errors import Refused
from sessioncompress.hooks.base import AgentHooks, Piece, ended, program_of, shell_line
from sessioncompress.store.layout import at_home

_MEMBER = "hooks"

_UNIT = "  "
_INDENT = re.compile(r"[ \t]*")
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()

Group = Mapping[str, Any]
"""`{"matcher", "hooks": [{"type", "command", "timeout"}]}`: a list of these stands at each event."""


def insertions(text: str | None, groups: Mapping[str, Group]) -> list[Piece]:
    """Insert a group at each event; the text is an object whose `hooks`, if any, are well-formed.

    Each is inserted first, so that no line of the user's needs another comma.
    """
    whole = {_MEMBER: {event: [group] for event, group in groups.items()}}
    if text is None:
        return [Piece(0, json.dumps(whole, indent=2) + "\n")]
    root = _after_space(text, 0)
    hooks = _value_at(text, root, _MEMBER)
    if hooks is None:
        return [_first(text, root, whole)]
    lists = {event: _value_at(text, hooks, event) for event in groups}
    pieces = [_first(text, at, {"": groups[event]}) for event, at in lists.items() if at is not None]
    if missing := {event: [groups[event]] for event, at in lists.items() if at is None}:
        pieces.append(_first(text, hooks, missing))
    return pieces


def _first(text: str, start: int, values: Mapping[str, Any]) -> Piece:
    """Insert values at the start of an object, or of a list if their key is empty, indented as the text is."""
    inside = start + 1
    gap = text[inside : _after_space(text, inside)]
    empty = text[inside + len(gap)] in "]}"
    keys = {key: f"{json.dumps(key)}: " if key else "" for key in values}
    if not empty and "\n" not in gap:
        body = ", ".join(keys[key] + json.dumps(value) for key, value in values.items())
        return Piece(inside, f"{gap}{body}," if gap else f"{body}, ")
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = _INDENT.match(text, text.rfind("\n", 0, start) + 1, start)
    around = indent.group() if indent else ""
    # The text indents as its first member is, where that has a line of its own.
    root = _after_space(text, 0) + 1
    begin = text[root : _after_space(text, root)]
    unit = begin.rpartition("\n")[2] if "\n" in begin and text[root + len(begin)] != "}" else _UNIT
    line = newline + (around + unit if empty else gap.rpartition("\n")[2])
    indented = {key: json.dumps(value, indent=unit).replace("\n", line) for key, value in values.items()}
    body = ",".join(line + keys[key] + value for key, value in indented.items())
    return Piece(inside, f"{body}{newline}{around}" if empty else f"{body},")


def _value_at(text: str, start: int, wanted: str) -> int | None:
    """Find where the value begins that the object at this character has at a key; the last of several, as all read it.

    The whole is known to be JSON.
    """
    found = None
    position = _after_space(text, start + 1)
    while text[position] == '"':
        key, position = scanstring(text, position + 1, True)  # noqa: FBT003
        position = _after_space(text, _after_space(text, position) + 1)
        if key == wanted:
            found = position
        position = _after_space(text, _DECODER.raw_decode(text, position)[1])
        if text[position] == ",":
            position = _after_space(text, position + 1)
    return found


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def without(text: str, is_ours: Callable[[str], bool]) -> str:
    """Remove the hooks whose shell line is ours, and what is empty without them. Raises CannotSplice."""
    # Imported here with all that it needs: most that is done with settings does without.
    from sessioncompress.core.splice import REMOVED, splice

    document = json.loads(text)
    paths: list[tuple[str | int, ...]] = []
    stays = False
    for event, groups in _events(document):
        gone: list[tuple[str | int, ...]] = []
        whole = bool(groups)
        for number, group in enumerate(groups):
            hooks = _hooks(group)
            ours = [place for place, hook in enumerate(hooks) if is_ours(_line(hook))]
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


def _line(hook: Any) -> str:
    line = hook.get("command") if isinstance(hook, dict) else None
    return line if isinstance(line, str) else ""


_WRITING = "^(Bash|Edit|MultiEdit|NotebookEdit|PowerShell|Write|mcp__.*)$"
"""The tools that may write files, shells and MCP tools among them."""

_SECONDS = 10
"""Longer than our own limits, which are to end a hook. Without it all hooks at a session's end share 1.5 s."""

_REMEDY = "Correct it, or name another folder with CLAUDE_CONFIG_DIR."


class _Claude:
    title = "Claude Code"

    def file(self) -> Path:
        # The user's: a project's settings are shared with others, who may not have this program.
        return at_home(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude") / "settings.json"

    def programs(self, text: str) -> list[str]:
        lines = (
            _line(hook) for _, groups in _events(self._document(text)) for group in groups for hook in _hooks(group)
        )
        return [program for program in map(program_of, lines) if program is not None]

    def is_current(self, text: str, *, compact: bool) -> bool:
        there, ours = dict(_events(self._document(text))), _groups(compact=compact)
        return all(group in there.get(event, []) for event, group in ours.items()) and len(self.programs(text)) == len(
            ours
        )

    def added(self, text: str | None, *, compact: bool) -> list[Piece]:
        groups = _groups(compact=compact)
        if text is not None:
            hooks = self._document(text).get(_MEMBER, {})
            if not isinstance(hooks, dict) or not all(isinstance(hooks.get(event, []), list) for event in groups):
                raise self._refused('its "hooks" are no object with a list for each event', _REMEDY)
        return insertions(text, groups)

    def taken_out(self, text: str) -> str:
        from sessioncompress.core.splice import CannotSplice

        try:
            return without(text, lambda line: program_of(line) is not None)
        except CannotSplice as error:
            raise self._refused(f"our hooks cannot be taken out of it ({error})", "Take them out by hand.") from error

    def switched_off(self, text: str) -> str:
        return "disableAllHooks in it is true" if self._document(text).get("disableAllHooks") is True else ""

    def _document(self, text: str) -> dict[str, Any]:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._refused(f"it is no JSON ({error})", _REMEDY) from error
        if not isinstance(document, dict):
            raise self._refused("it holds no JSON object", _REMEDY)
        return document

    def _refused(self, what: str, remedy: str) -> Refused:
        return Refused(what, where=self.file(), state="It is not changed.", remedy=remedy)


def _groups(*, compact: bool) -> dict[str, Group]:
    guard, end = (
        [{"type": "command", "command": shell_line(*arguments), "timeout": _SECONDS}]
        for arguments in (("guard",), ended(compact=compact))
    )
    return {"PreToolUse": {"matcher": _WRITING, "hooks": guard}, "SessionEnd": {"hooks": end}}


HOOKS: AgentHooks = _Claude()
