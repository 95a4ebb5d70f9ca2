"""Hooks that agents call themselves: one file an agent, and the table of them."""

from __future__ import annotations

AGENTS = ("claude", "pi")
"""The agents whose hooks can be installed, by the names of their modules here: each has `HOOKS`, see `base`."""
