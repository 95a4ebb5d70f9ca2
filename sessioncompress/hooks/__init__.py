"""Hooks that agents call: one file per agent, and the table of them."""

from __future__ import annotations

AGENTS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode", "pi": "pi"}
"""The agents whose hooks can be installed, as formats/table.py names them, and their modules, which have `HOOKS`."""
