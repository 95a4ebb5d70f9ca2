"""The policy: every choice a user has, with the shipped defaults and presets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from reprlib import repr as shortened
from typing import Any

from sessioncompress.errors import UsageError
from sessioncompress.policy import checks
from sessioncompress.policy.sections import Budget, Prune

SMALLEST_LIMIT = 256
"""Bytes. A marker takes up to 200, so that lower thresholds would offer our own markers again."""

LARGEST_LEAF = 400
"""Bytes. A string of this size or less inside a call's arguments stays."""


CHECKS: checks.Checks = {
    "enabled": checks.flag,
    "size_threshold_kb": checks.count,
    "every_turns": checks.positive_or_null,
    "turn_threshold_before_compress": checks.count,
    "protect_tokens": checks.count_or_null,
    "protect_tools": checks.names,
    "tool_call_max_bytes": checks.count,
    "tool_result_max_bytes": checks.count,
    "min_saved_kb": checks.count,
    "strip_thinking": checks.flag,
    "eliminate_redundancy": checks.flag,
    "keep_backup": checks.flag,
    "backup_dir": checks.folder,
    "commit_originals": checks.flag,
    "quiet_seconds": checks.seconds,
    "idle_seconds": checks.seconds,
    "log_file": checks.file,
    "prune": checks.instance_of(Prune),
    "budget": checks.instance_of(Budget),
    "preview_min_bytes": checks.count,
    "preview_max_bytes": checks.count,
    "at_rest": checks.flag,
}
"""Every field of a policy, and what makes of a given value the one that it holds."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What to replace and what to leave; sizes in bytes (KB of 1,024), tokens of 4 characters, times in seconds.

    The names are those of `compression.json` in snake case; `preview_*` and `at_rest` are set by the presets alone.
    Where `preview_max_bytes` is 0 nothing is previewed: a reference alone takes a text's place. `at_rest`: nobody works
    in the session, so that what only its agent's screen shows goes from protected lines too, and what told the model of
    skills from the others. Raises UsageError where a value is none that its field may have.
    """

    enabled: bool = True
    size_threshold_kb: int = 100
    every_turns: int | None = None
    turn_threshold_before_compress: int = 4
    protect_tokens: int | None = 20_000
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
    idle_seconds: float = 0
    log_file: str | None = None
    prune: Prune = Prune()  # noqa: RUF009 - it is frozen
    budget: Budget = Budget()  # noqa: RUF009 - it is frozen
    preview_min_bytes: int = 160
    preview_max_bytes: int = 640
    at_rest: bool = False

    def __post_init__(self) -> None:
        """Hold each value in the type of its field."""
        checks.hold(self, CHECKS)

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
        protect_tokens=8_000,
        tool_call_max_bytes=300,
        tool_result_max_bytes=600,
        prune=Prune(prune_minimum=10_000, prune_protect=20_000),
        preview_min_bytes=120,
        preview_max_bytes=320,
    ),
    "high-quality": replace(
        BALANCED,
        protect_tokens=None,
        tool_result_max_bytes=2_000,
        strip_thinking=False,
        prune=Prune(prune_minimum=30_000, prune_protect=60_000),
        preview_min_bytes=320,
        preview_max_bytes=1_280,
    ),
    "archive": replace(
        BALANCED,
        turn_threshold_before_compress=1,
        protect_tokens=4_000,
        protect_tools=(),
        tool_call_max_bytes=SMALLEST_LIMIT,
        tool_result_max_bytes=SMALLEST_LIMIT,
        preview_min_bytes=0,
        preview_max_bytes=0,
        at_rest=True,
    ),
}


def preset_of(name: str | None) -> Policy:
    """Return the preset of a name, or for none the default. Raises UsageError."""
    if name is not None and name not in PRESETS:
        remedy = f"Presets are {', '.join(PRESETS)}."
        raise UsageError(f"there is no preset {shortened(name)}", state="No session is changed.", remedy=remedy)
    return PRESETS[name or "balanced"]


_OPTIONS = {
    "keep_turns": "turn_threshold_before_compress",
    "protect_tokens": "protect_tokens",
    "min_size": "size_threshold_kb",
    "backup_dir": "backup_dir",
    "quiet_seconds": "quiet_seconds",
    "idle_seconds": "idle_seconds",
}


def with_options(policy: Policy, options: Mapping[str, Any]) -> Policy:
    """Return the policy with what the command line says; options that were not given (None) change nothing.

    A folder on the command line counts from the working folder, one in a policy from the session's.
    """
    changes = {_OPTIONS[name]: options[name] for name in _OPTIONS if options.get(name) is not None}
    if "backup_dir" in changes:
        changes["backup_dir"] = os.path.abspath(changes["backup_dir"])  # noqa: PTH100 - must not resolve links
    if options.get("log") is not None:
        changes["log_file"] = os.path.abspath(options["log"])  # noqa: PTH100 - must not resolve links
    if options.get("prune"):
        changes["prune"] = replace(policy.prune, enabled=True)
    if options.get("rule") is not None:
        changes["budget"] = replace(policy.budget, rule=options["rule"])
    if options.get("no_backup"):
        changes["keep_backup"] = False
    if options.get("commit_originals"):
        changes["commit_originals"] = True
    return replace(policy, **changes)
