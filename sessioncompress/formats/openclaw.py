"""OpenClaw (up to about 2026.3): pi version 3 with entries and tool names of its own."""

from __future__ import annotations

from sessioncompress.core.model import Purpose
from sessioncompress.formats import pi
from sessioncompress.formats.base import Entry

_PURPOSES = {"read": Purpose.READ, "write": Purpose.WRITE, "exec": Purpose.COMMAND, "process": Purpose.COMMAND}
_TOOLS = "edit grep find ls web_search web_fetch session_status browser"


class OpenClaw(pi.FamilyFormat):
    """Sessions of OpenClaw."""

    name = "openclaw"
    purposes = _PURPOSES
    tools = frozenset({*_PURPOSES, *_TOOLS.split()})

    def is_own(self, entry: Entry) -> bool:
        kind = entry.get("customType")
        return isinstance(kind, str) and (kind.startswith("openclaw") or kind == "model-snapshot")
