"""Hooks for agents that load TypeScript: one file that we write, which calls the hooks."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sessioncompress.core import VERSION
from sessioncompress.core.marker import PREFIX
from sessioncompress.hooks.base import AgentHooks, Ending, Piece, command, ending_in

_REMEDY = "Delete it if nobody needs it."
_OURS = "// The hooks of sessioncompress "
_COMMAND = re.compile(r"^const COMMAND = (\[.*\]);$", re.MULTILINE)
_ENDED = re.compile(r"^const ENDED = (\[.*\]);$", re.MULTILINE)


class Extension(AgentHooks):
    """Hooks of an agent whose file consists of `extension.ts` followed by the agent's own part."""

    own: str
    """Name of the agent, and of its part of the file."""

    def commands(self, text: str) -> list[tuple[str, ...]]:
        # One command starts all hooks; add the arguments for a session's end.
        start = _list_in(text, _COMMAND) if text.startswith(_OURS) else ()
        return [(*start, *_list_in(text, _ENDED))] if start else []

    def added(self, text: str | None, ending: Ending) -> list[Piece]:
        if text is not None:
            raise self.refused("there is a file here that is not ours", _REMEDY)
        return [Piece(0, self._text(ending))]

    def is_current(self, text: str, ending: Ending) -> bool:
        return text == self._text(ending)

    def taken_out(self, text: str) -> None:
        if not self.is_current(text, ending_in(self.commands(text))):
            raise self.refused("our extension was edited, or comes from another installation", _REMEDY)

    def _text(self, ending: Ending) -> str:
        values = {
            "AGENT": self.own,
            "VERSION": VERSION,
            "COMMAND": json.dumps(list(command())),
            "ENDED": json.dumps(list(ending.words())),
            "PREFIX": json.dumps(PREFIX),
        }
        source = "".join(
            Path(__file__).with_name(f"{name}.ts").read_text(encoding="utf-8") for name in ("extension", self.own)
        )
        return re.sub(r"__([A-Z]+)__", lambda found: values[found[1]], source)


def _list_in(text: str, form: re.Pattern[str]) -> tuple[str, ...]:
    """Parse the list of strings in a line of our file; empty if there is none."""
    found = form.search(text)
    try:
        listed = json.loads(found[1]) if found else []
    except (ValueError, RecursionError):
        return ()
    return tuple(map(str, listed)) if isinstance(listed, list) else ()


class PiHook(Extension):
    """pi, which loads the file in every project."""

    title = "pi"
    own = "pi"
    elsewhere, usual = "PI_CODING_AGENT_DIR", "~/.pi/agent"
    below = "extensions/sessioncompress.ts"


class OpenCodeHook(Extension):
    """OpenCode. It keeps its sessions in a database, so only the guard runs and nothing is compressed."""

    title = "OpenCode"
    compresses = False
    own = "opencode"
    elsewhere, usual = "XDG_CONFIG_HOME", "~/.config"
    below = "opencode/plugins/sessioncompress.ts"
