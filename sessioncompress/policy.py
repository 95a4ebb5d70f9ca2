"""The policy: every choice a user has, with the shipped defaults and presets."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

SMALLEST_LIMIT = 256
"""Bytes. A marker takes up to 200, so that lower thresholds would offer our own markers again."""

LARGEST_LEAF = 400
"""Bytes. A string of this size or less inside a call's arguments stays."""


class ProtectMode(StrEnum):
    """How the recent context is measured."""

    TURNS_OR_TOKENS = "turns-or-tokens"
    TURNS = "turns"
    TURNS_AND_TOKENS = "turns-and-tokens"


@dataclass(frozen=True, slots=True)
class Policy:
    """What to replace and what to leave; sizes in bytes (KB of 1,024), tokens of 4 characters, times in seconds.

    The names are those of `compression.json` in snake case; `preview_*` are set by the presets alone.
    """

    enabled: bool = True
    size_threshold_kb: int = 100
    every_turns: int | None = None
    turn_threshold_before_compress: int = 4
    protect_mode: ProtectMode = ProtectMode.TURNS_OR_TOKENS
    protect_tokens: int = 20_000
    protect_tools: tuple[str, ...] = ("skill",)
    tool_call_max_bytes: int = 500
    tool_result_max_bytes: int = 1_000
    min_saved_kb: int = 16
    strip_thinking: bool = True
    eliminate_redundancy: bool = True
    keep_backup: bool = True
    backup_dir: str | None = None
    commit_originals: bool = False
    quiet_seconds: float = 0
    preview_min_bytes: int = 160
    preview_max_bytes: int = 640

    @property
    def call_limit(self) -> int:
        """Bytes of a call's arguments that stay as they are."""
        return max(self.tool_call_max_bytes, SMALLEST_LIMIT)

    @property
    def leaf_limit(self) -> int:
        """Bytes of one string inside arguments that stay as they are, and the most a replacement may take."""
        return min(self.call_limit, LARGEST_LEAF)

    @property
    def result_limit(self) -> int:
        """Bytes of a result that stay as they are, and the most a replacement may take."""
        return max(self.tool_result_max_bytes, SMALLEST_LIMIT)


BALANCED = Policy()

PRESETS: dict[str, Policy] = {
    "balanced": BALANCED,
    "low-cost": replace(
        BALANCED,
        turn_threshold_before_compress=2,
        protect_mode=ProtectMode.TURNS_AND_TOKENS,
        protect_tokens=8_000,
        tool_call_max_bytes=300,
        tool_result_max_bytes=600,
        preview_min_bytes=120,
        preview_max_bytes=320,
    ),
    "high-quality": replace(
        BALANCED,
        protect_mode=ProtectMode.TURNS,
        tool_result_max_bytes=2_000,
        strip_thinking=False,
        preview_min_bytes=320,
        preview_max_bytes=1_280,
    ),
}

_OPTIONS = {
    "keep_turns": "turn_threshold_before_compress",
    "protect_mode": "protect_mode",
    "protect_tokens": "protect_tokens",
    "min_size": "size_threshold_kb",
    "backup_dir": "backup_dir",
    "quiet_seconds": "quiet_seconds",
}


def with_options(policy: Policy, options: dict[str, Any]) -> Policy:
    """Return the policy with what the command line says; options that were not given (None) change nothing.

    A folder on the command line counts from the working folder, one in a policy from the session's.
    """
    changes = {_OPTIONS[name]: options[name] for name in _OPTIONS if options.get(name) is not None}
    if "backup_dir" in changes:
        changes["backup_dir"] = os.path.abspath(changes["backup_dir"])  # noqa: PTH100 - must not resolve links
    if "protect_mode" in changes:
        changes["protect_mode"] = ProtectMode(changes["protect_mode"])
    if options.get("no_backup"):
        changes["keep_backup"] = False
    return replace(policy, **changes)
