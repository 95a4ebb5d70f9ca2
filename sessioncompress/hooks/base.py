"""What is to be known of an agent so that hooks of ours can be put into its settings, and taken out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol


class Piece(NamedTuple):
    """A text that goes into a file, and before which character."""

    at: int
    text: str


class AgentHooks(Protocol):
    """One agent. A text is what its file holds, None where there is none; nothing here reads or writes a file."""

    title: str
    """The agent's name, as messages say it."""

    def file(self) -> Path:
        """Return where the hooks go. Raises FileFailed where no home is known."""

    def programs(self, text: str) -> list[str]:
        """Return the programs that hooks of ours in the text start: none where there are no such hooks."""

    def is_current(self, text: str) -> bool:
        """Say whether hooks of ours are in the text just as `added` puts them in."""

    def added(self, text: str | None) -> list[Piece]:
        """Return what is to be put into a text without hooks of ours. Raises Refused."""

    def taken_out(self, text: str) -> str | None:
        """Return the text without hooks of ours, of which nobody knows any more how they came in. Raises Refused."""

    def switched_off(self, text: str) -> str:
        """Say what in the text keeps the agent from calling any hook; empty where nothing does."""
