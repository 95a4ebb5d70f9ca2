"""Hooks that agents call, and the agents for which they can be installed."""

from __future__ import annotations

AGENTS = {
    "claude-code": "settings.ClaudeHook",
    "codex": "settings.CodexHook",
    "gemini": "settings.GeminiHook",
    "opencode": "extension.OpenCodeHook",
    "pi": "extension.PiHook",
    "qwen": "settings.QwenHook",
}
"""Maps agents, named as in formats/table.py, to the classes of their hooks."""
