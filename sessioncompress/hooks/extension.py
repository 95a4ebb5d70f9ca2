"""Hooks in an agent that loads TypeScript: one file of ours, which calls them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sessioncompress.core import VERSION
from sessioncompress.core.marker import PREFIX
from sessioncompress.errors import Refused
from sessioncompress.hooks.base import Ending, Piece, command, ending_in

_OURS = "// The hooks of sessioncompress "
_COMMAND = re.compile(r"^const COMMAND = (\[.*\]);$", re.MULTILINE)
_ENDED = re.compile(r"^const ENDED = (\[.*\]);$", re.MULTILINE)


class Extension:
    """The hooks of an agent whose file is `extension.ts` and then its own."""

    title: str
    compresses: bool
    advice = ""

    own: str
    """The name of the agent, and of what follows in its file."""

    def file(self) -> Path:
        """Locate the extension. Raises FileFailed if no home is known."""
        raise NotImplementedError

    def commands(self, text: str) -> list[tuple[str, ...]]:
        """List the command that starts our hooks, with the arguments at a session's end."""
        start = _list_in(text, _COMMAND) if text.startswith(_OURS) else ()
        return [(*start, *_list_in(text, _ENDED))] if start else []

    def added(self, text: str | None, ending: Ending) -> list[Piece]:
        """Insert the whole. Raises Refused."""
        if text is not None:
            raise self._refused("there is a file here that is not ours")
        return [Piece(0, self._text(ending))]

    def is_current(self, text: str, ending: Ending) -> bool:
        """Tell whether the text is as `added` inserts it."""
        return text == self._text(ending)

    def taken_out(self, text: str) -> None:
        """Remove the whole. Raises Refused if it was changed."""
        if not self.is_current(text, ending_in(self.commands(text))):
            raise self._refused("our extension was edited, or comes from another installation")

    def switched_off(self, text: str) -> str:
        """Nothing disables it: the agent loads all files in the folder."""
        del text
        return ""

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

    def _refused(self, what: str) -> Refused:
        state, remedy = "It was not changed.", "Delete it if nobody needs it."
        return Refused(what, where=self.file(), state=state, remedy=remedy)


def _list_in(text: str, form: re.Pattern[str]) -> tuple[str, ...]:
    """Read the list of texts that a line of ours holds; empty if none does."""
    found = form.search(text)
    try:
        listed = json.loads(found[1]) if found else []
    except (ValueError, RecursionError):
        return ()
    return tuple(map(str, listed)) if isinstance(listed, list) else ()
