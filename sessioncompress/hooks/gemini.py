"""The hooks of Gemini CLI, in its settings."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sessioncompress.hooks.base import AgentHooks, command_in
from sessioncompress.hooks.settings import Settings
from sessioncompress.store.machine import at_home

_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\r\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?', re.DOTALL)
"""A comment, or a string, in which none begins."""
_NO_LINE_END = re.compile(r"[^\r\n]")


class _Gemini(Settings):
    title = "Gemini CLI"
    advice = "It calls hooks only in folders that you trust."
    guarded = "BeforeTool"
    writing = "^(write_file|replace|run_shell_command|mcp_.*)$"
    # Milliseconds.
    seconds = (10_000, 10_000)
    elsewhere = "GEMINI_CLI_HOME"

    def file(self) -> Path:
        return at_home(os.environ.get("GEMINI_CLI_HOME") or "~") / ".gemini" / "settings.json"

    def plain(self, text: str) -> str:
        return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _NO_LINE_END.sub(" ", found[0]), text)

    def taken_out(self, text: str) -> str:
        if self.plain(text) != text:
            raise self.refused("it was changed since, and has comments", "Remove our hooks by hand.")
        return super().taken_out(text)

    def switched_off(self, text: str) -> str:
        said = self.document(text).get("hooksConfig")
        said = said if isinstance(said, dict) else {}
        if said.get("enabled") is False:
            return "hooksConfig.enabled in it is false"
        disabled = said.get("disabled")
        named = isinstance(disabled, list) and any(isinstance(each, str) and command_in(each) for each in disabled)
        return "hooksConfig.disabled in it lists them" if named else ""


HOOKS: AgentHooks = _Gemini()
