"""The hooks of pi: an extension, one file that calls both."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from sessioncompress.core import VERSION
from sessioncompress.core.marker import PREFIX
from sessioncompress.errors import Refused
from sessioncompress.hooks.base import AgentHooks, Piece, command, ended
from sessioncompress.store.layout import at_home

_SOURCE = Path(__file__).with_name("pi.ts")
_OURS = "// The hooks of sessioncompress "
_COMMAND = re.compile(r"^const COMMAND = (\[.*\]);$", re.MULTILINE)


class _Pi:
    title = "pi"

    def file(self) -> Path:
        # pi loads it in every project.
        agent = at_home(os.environ.get("PI_CODING_AGENT_DIR") or "~/.pi/agent")
        return agent / "extensions" / "sessioncompress.ts"

    def programs(self, text: str) -> list[str]:
        found = _COMMAND.search(text) if text.startswith(_OURS) else None
        try:
            return [str(json.loads(found[1])[0])] if found else []
        except (ValueError, IndexError):
            return []

    def added(self, text: str | None, *, compact: bool) -> list[Piece]:
        if text is not None:
            raise self._refused("a file lies here that is none of ours")
        return [Piece(0, _extension(compact=compact))]

    def is_current(self, text: str, *, compact: bool) -> bool:
        return text == _extension(compact=compact)

    def taken_out(self, text: str) -> None:
        if not any(self.is_current(text, compact=compact) for compact in (False, True)):
            raise self._refused("our extension was changed, or comes from another installation")

    def switched_off(self, text: str) -> str:
        # Nothing disables an extension: pi loads all in the folder.
        del text
        return ""

    def _refused(self, what: str) -> Refused:
        state, remedy = "It is not changed.", "Delete it, if nobody needs it."
        return Refused(what, where=self.file(), state=state, remedy=remedy)


def _extension(*, compact: bool) -> str:
    values = {
        "VERSION": VERSION,
        "COMMAND": json.dumps(list(command())),
        "ENDED": json.dumps(list(ended(compact=compact))),
        "PREFIX": json.dumps(PREFIX),
    }
    return re.sub(r"__([A-Z]+)__", lambda found: values[found[1]], _SOURCE.read_text(encoding="utf-8"))


HOOKS: AgentHooks = _Pi()
