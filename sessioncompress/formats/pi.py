"""pi: one entry a line, a tree by `parentId` (version 1: a list); calls and results are messages."""

from __future__ import annotations

from sessioncompress.core.model import Purpose
from sessioncompress.formats import family
from sessioncompress.formats.base import Head, Reader

_PURPOSES = {"read": Purpose.READ, "write": Purpose.WRITE, "bash": Purpose.COMMAND}

_TOOLS = frozenset({*_PURPOSES, "edit", "grep", "find", "ls"})


class Pi(family.FamilyFormat):
    """Sessions of pi, versions 1 to 3 and the entries of pi 1.x; also what GitClaw keeps of its pi."""

    name = "pi"
    tools = _TOOLS

    def recognises(self, head: Head) -> bool:
        """Say whether the file starts with pi's header."""
        return family.header_of(head) is not None

    def reader(self) -> Reader:
        """Return a reader for one session."""
        return family.FamilyReader(_PURPOSES)
