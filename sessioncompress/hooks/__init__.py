"""Hooks that agents call: one file per agent, and the table of them."""

from __future__ import annotations

AGENTS = ("claude", "codex", "gemini", "opencode", "pi")
"""The modules of the agents whose hooks can be installed. Each has `HOOKS`, see `base`."""
