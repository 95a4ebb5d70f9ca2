"""Hooks that agents call, and the table of the agents whose hooks can be installed."""

from __future__ import annotations

AGENTS = {
    "claude-code": "settings.Claude",
    "codex": "settings.Codex",
    "gemini": "settings.Gemini",
    "opencode": "extension.OpenCode",
    "pi": "extension.Pi",
    "qwen": "settings.Qwen",
}
"""The agents as formats/table.py names them, and the classes of their hooks."""
