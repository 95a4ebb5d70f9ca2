"""The hooks of Claude Code, in its settings, which also hold much else."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

from sessioncompress.errors import Refused
from sessioncompress.hooks.base import AgentHooks, Piece, program_of, shell_line
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
    if text is None:
        return [Piece(0, json.dumps({_MEMBER: {event: [group] for event, group in groups.items()}}, indent=2) + "\n")]
    root = _after_space(text, 0)
    hooks = _value_at(text, root, _MEMBER)
    if hooks is None:
        return [_first(text, root, [(_MEMBER, {event: [group] for event, group in groups.items()})])]
    lists = {event: _value_at(text, hooks, event) for event in groups}
    pieces = [_first(text, at, [("", groups[event])]) for event, at in lists.items() if at is not None]
    if missing := [(event, [groups[event]]) for event, at in lists.items() if at is None]:
        pieces.append(_first(text, hooks, missing))
    return pieces


def _first(text: str, start: int, values: Iterable[tuple[str, Any]]) -> Piece:
    inside = start + 1
    gap = text[inside : _after_space(text, inside)]
    empty = text[inside + len(gap)] in "]}"
    if not empty and "\n" not in gap:
        body = ", ".join(_key(key) + json.dumps(value) for key, value in values)
        return Piece(inside, f"{gap}{body}," if gap else f"{body}, ")
    newline = "\r\n" if "\r\n" in text else "\n"
    around = _indent_of_line(text, start)
    line = newline + (around + _unit(text) if empty else gap.rpartition("\n")[2])
    body = ",".join(line + _key(key) + _indented(value, _unit(text), line) for key, value in values)
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


def _key(key: str) -> str:
    return f"{json.dumps(key)}: " if key else ""


def _indented(value: Any, unit: str, line: str) -> str:
    return json.dumps(value, indent=unit).replace("\n", line)


def _unit(text: str) -> str:
    """Return by how much the text indents: as its first member is, where that has a line of its own."""
    root = _after_space(text, 0)
    gap = text[root + 1 : _after_space(text, root + 1)]
    return gap.rpartition("\n")[2] if "\n" in gap and text[root + 1 + len(gap)] != "}" else _UNIT


def _indent_of_line(text: str, position: int) -> str:
    match = _INDENT.match(text, text.rfind("\n", 0, position) + 1, position)
    return match.group() if match else ""


def commands(document: Any) -> Iterable[str]:
    """Yield the shell lines of all well-formed hooks."""
    for _, groups in _events(document):
        for group in groups:
            yield from (command for hook in _hooks(group) if (command := _line(hook)))


def holds(document: Any, groups: Mapping[str, Group]) -> bool:
    """Tell whether the settings have each group at its event."""
    there = dict(_events(document))
    return all(group in there.get(event, []) for event, group in groups.items())


def without(text: str, is_ours: Callable[[str], bool]) -> str:
    """Remove the hooks whose shell line is ours, and what is empty without them. Raises CannotSplice."""
    # Imported here with all that it needs: most that is done with settings does without.
    from sessioncompress.core.splice import REMOVED, splice

    document = json.loads(text)
    paths: list[tuple[str | int, ...]] = []
    stays = False
    for event, groups in _events(document):
        gone = [path for number, group in enumerate(groups) for path in _gone(number, group, is_ours)]
        whole = len(gone) == len(groups) and all(len(path) == 1 for path in gone) and bool(gone)
        stays = stays or not whole
        paths += [(_MEMBER, event)] if whole else [(_MEMBER, event, *path) for path in gone]
    if paths and not stays:
        paths = [(_MEMBER,)]
    return splice(text.encode(), document, dict.fromkeys(paths, REMOVED))[0].decode() if paths else text


def _gone(number: int, group: Any, is_ours: Callable[[str], bool]) -> list[tuple[str | int, ...]]:
    """Return the paths, in an event's list, of what goes of a group: all of it, or some of its hooks."""
    hooks = _hooks(group)
    ours = [place for place, hook in enumerate(hooks) if is_ours(_line(hook))]
    return [(number,)] if ours and len(ours) == len(hooks) else [(number, _MEMBER, place) for place in ours]


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


class Claude:
    """See AgentHooks."""

    title = "Claude Code"

    def file(self) -> Path:
        """Return the user's settings: a project's are shared with others, who may not have this program."""
        return at_home(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude") / "settings.json"

    def programs(self, text: str) -> list[str]:
        """See AgentHooks."""
        found = map(program_of, commands(self._document(text)))
        return [program for program in found if program is not None]

    def is_current(self, text: str) -> bool:
        """Tell whether each event has its hook, and there are no others of ours."""
        return holds(self._document(text), _groups()) and len(self.programs(text)) == len(_groups())

    def added(self, text: str | None) -> list[Piece]:
        """Return the hooks, and the objects around them that are missing."""
        if text is not None:
            self._refuse_unknown(self._document(text))
        return insertions(text, _groups())

    def taken_out(self, text: str) -> str:
        """See AgentHooks."""
        from sessioncompress.core.splice import CannotSplice

        try:
            return without(text, lambda line: program_of(line) is not None)
        except CannotSplice as error:
            raise self._refused(f"our hooks cannot be taken out of it ({error})", "Take them out by hand.") from error

    def switched_off(self, text: str) -> str:
        """See AgentHooks."""
        return "disableAllHooks in it is true" if self._document(text).get("disableAllHooks") is True else ""

    def _document(self, text: str) -> dict[str, Any]:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._refused(f"it is no JSON ({error})", _REMEDY) from error
        if not isinstance(document, dict):
            raise self._refused("it holds no JSON object", _REMEDY)
        return document

    def _refuse_unknown(self, document: dict[str, Any]) -> None:
        hooks = document.get(_MEMBER, {})
        lists = [hooks.get(event, []) for event in _groups()] if isinstance(hooks, dict) else [None]
        if not all(isinstance(each, list) for each in lists):
            raise self._refused('its "hooks" are no object with a list for each event', _REMEDY)

    def _refused(self, what: str, remedy: str) -> Refused:
        return Refused(what, where=self.file(), state="It is not changed.", remedy=remedy)


def _groups() -> dict[str, Group]:
    return {
        "PreToolUse": {"matcher": _WRITING, "hooks": [_hook("guard")]},
        "SessionEnd": {"hooks": [_hook("ended")]},
    }


def _hook(event: str) -> dict[str, Any]:
    return {"type": "command", "command": shell_line(event), "timeout": _SECONDS}


HOOKS: AgentHooks = Claude()
