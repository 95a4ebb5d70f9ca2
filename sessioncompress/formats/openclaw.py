"""OpenClaw (up to about 2026.3): pi version 3 with entries and tool names of its own."""

from __future__ import annotations

from sessioncompress.core.model import Purpose
from sessioncompress.formats import pi
from sessioncompress.formats.base import Entry, Head, Reader

_PURPOSES = {"read": Purpose.READ, "write": Purpose.WRITE, "exec": Purpose.COMMAND, "process": Purpose.COMMAND}

_TOOLS = frozenset({*_PURPOSES, "edit", "grep", "find", "ls", "web_search", "web_fetch", "session_status", "browser"})


class OpenClaw(pi.FamilyFormat):
    """Sessions of OpenClaw."""

    name = "openclaw"
    tools = _TOOLS

    def recognises(self, head: Head) -> bool:
        return pi.header_of(head) is not None and any(_is_own(entry) for entry in head.entries)

    def reader(self) -> Reader:
        return pi.FamilyReader(_PURPOSES)


def _is_own(entry: Entry) -> bool:
    kind = entry.get("customType")
    return isinstance(kind, str) and (kind.startswith("openclaw") or kind == "model-snapshot")
