"""The hooks of Claude Code: in its settings, which also hold much else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sessioncompress.errors import Refused
from sessioncompress.hooks import settings
from sessioncompress.hooks.base import AgentHooks, Piece
from sessioncompress.hooks.command import program_of, shell_line
from sessioncompress.store.layout import at_home

_WRITING = "^(Bash|Edit|MultiEdit|NotebookEdit|PowerShell|Write|mcp__.*)$"
"""The tools that write files, or may: a shell, and those of other programs."""

_SECONDS = 10
"""More than our own limits, so that these are what ends a hook; without it all hooks at an end share 1.5 s."""

_REMEDY = "Correct it, or name another folder with CLAUDE_CONFIG_DIR."


class Claude:
    """See AgentHooks."""

    title = "Claude Code"

    def file(self) -> Path:
        """Return the user's settings: those of a project are for others too, who have no such program."""
        return at_home(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude") / "settings.json"

    def programs(self, text: str) -> list[str]:
        """Return the programs that our hooks start."""
        found = map(program_of, settings.commands(self._document(text)))
        return [program for program in found if program is not None]

    def is_current(self, text: str) -> bool:
        """Say whether each event has its hook, and there are no others of ours."""
        return settings.holds(self._document(text), _groups()) and len(self.programs(text)) == len(_groups())

    def added(self, text: str | None) -> list[Piece]:
        """Return the hooks, and around them what is not there yet."""
        if text is not None:
            self._refuse_unknown(self._document(text))
        return settings.insertions(text, _groups())

    def taken_out(self, text: str) -> str:
        """Return the settings without our hooks."""
        from sessioncompress.core.splice import CannotSplice

        try:
            return settings.without(text, lambda line: program_of(line) is not None)
        except CannotSplice as error:
            raise self._refused(f"our hooks cannot be taken out of it ({error})", "Take them out by hand.") from error

    def switched_off(self, text: str) -> str:
        """Say whether the settings switch all hooks off."""
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
        hooks = document.get(settings.HOOKS, {})
        lists = [hooks.get(event, []) for event in _groups()] if isinstance(hooks, dict) else [None]
        if not all(isinstance(each, list) for each in lists):
            raise self._refused('its "hooks" are no object with a list for each event', _REMEDY)

    def _refused(self, what: str, remedy: str) -> Refused:
        return Refused(what, where=self.file(), state="It is not changed.", remedy=remedy)


def _groups() -> dict[str, settings.Group]:
    return {
        "PreToolUse": {"matcher": _WRITING, "hooks": [_hook("guard")]},
        "SessionEnd": {"hooks": [_hook("ended")]},
    }


def _hook(event: str) -> dict[str, Any]:
    return {"type": "command", "command": shell_line(event), "timeout": _SECONDS}


HOOKS: AgentHooks = Claude()
