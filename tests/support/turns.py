"""Turns as every builder of sessions writes them in its agent's words."""

from __future__ import annotations

from typing import Protocol, TypeVar


class Builder(Protocol):
    """A session of any agent to which the same work can be added."""

    def asks(self, text: str) -> object:
        """Add a prompt."""

    def runs(self, command: str, output: str) -> object:
        """Let the model run a command; agents that keep what it thought keep that, too."""

    def writes(self, name: str, content: str) -> object:
        """Let the model write a file in the folder that it works in."""

    def says(self, text: str) -> object:
        """Let the model give its answer, which ends the turn."""

    def bytes(self) -> bytes:
        """Return the file."""


B = TypeVar("B", bound=Builder)

THOUGHT = "Let me look. " * 5
