"""The hooks of Claude Code, in its settings."""

from __future__ import annotations

import os
from pathlib import Path

from sessioncompress.hooks.base import AgentHooks
from sessioncompress.hooks.settings import Settings
from sessioncompress.store.machine import at_home


class _Claude(Settings):
    title = "Claude Code"
    guarded = "PreToolUse"
    writing = "^(Bash|Edit|MultiEdit|NotebookEdit|PowerShell|Write|mcp__.*)$"
    # Without a limit all hooks at a session's end share 1.5 s.
    seconds = (10, 10)
    elsewhere = "CLAUDE_CONFIG_DIR"

    def file(self) -> Path:
        # The user's: a project's settings are shared with others, who may not have this program.
        return at_home(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude") / "settings.json"

    def switched_off(self, text: str) -> str:
        return "disableAllHooks in it is true" if self.document(text).get("disableAllHooks") is True else ""


HOOKS: AgentHooks = _Claude()
