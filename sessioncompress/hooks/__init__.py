"""Hooks that agents call, and the agents for which they can be installed."""

from __future__ import annotations

AGENTS = {
    "claude-code": "settings.Claude",
    "codex": "settings.Codex",
    "gemini": "settings.Gemini",
    "opencode": "extension.OpenCode",
    "pi": "extension.Pi",
    "qwen": "settings.Qwen",
}
"""Maps agents, named as in formats/table.py, to the classes of their hooks."""
