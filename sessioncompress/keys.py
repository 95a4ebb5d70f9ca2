"""The keys of compression.json: which field of the policy each sets, and how its value is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sessioncompress.checks import Checks
from sessioncompress.find import SECTION
from sessioncompress.policy import CHECKS
from sessioncompress.sections import BUDGET_CHECKS, PRUNE_CHECKS

KEYS: Mapping[str, str] = {
    "enabled": "enabled",
    "sizeThresholdKB": "size_threshold_kb",
    "everyTurns": "every_turns",
    "turnThresholdBeforeCompress": "turn_threshold_before_compress",
    "protectMode": "protect_mode",
    "protectTokens": "protect_tokens",
    "protectTools": "protect_tools",
    "toolCallMaxBytes": "tool_call_max_bytes",
    "toolResultMaxBytes": "tool_result_max_bytes",
    "minSavedKB": "min_saved_kb",
    "stripThinking": "strip_thinking",
    "eliminateRedundancy": "eliminate_redundancy",
    "keepBackup": "keep_backup",
    "backupDir": "backup_dir",
    "commitOriginals": "commit_originals",
    "quietSeconds": "quiet_seconds",
    "idleSeconds": "idle_seconds",
    "logFile": "log_file",
    "prune": "prune",
    "budget": "budget",
}
"""Every key of the section, and the field of the policy that it sets."""

PRUNE_KEYS: Mapping[str, str] = {
    "enabled": "enabled",
    "pruneMinimum": "prune_minimum",
    "pruneProtect": "prune_protect",
    "protectTools": "protect_tools",
    "preserveRecentMessages": "preserve_recent_messages",
    "placeholder": "placeholder",
}

BUDGET_KEYS: Mapping[str, str] = {
    "rule": "rule",
    "reservedOutputTokens": "reserved_output_tokens",
    "reservePercent": "reserve_percent",
    "reserveTokens": "reserve_tokens",
    "thresholdPercent": "threshold_percent",
    "thresholdTokens": "threshold_tokens",
    "targetTokens": "target_tokens",
    "actTokens": "act_tokens",
    "actMessages": "act_messages",
    "actSeconds": "act_seconds",
    "safetyPercent": "safety_percent",
    "models": "models",
}


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one section: the field that each sets, and how its value is checked; `name` is the section's."""

    name: str
    fields: Mapping[str, str]
    checks: Checks
    inner: Mapping[str, Keys]


SECTIONS: Mapping[str, Keys] = {
    "prune": Keys(f"{SECTION}.prune", PRUNE_KEYS, PRUNE_CHECKS, {}),
    "budget": Keys(f"{SECTION}.budget", BUDGET_KEYS, BUDGET_CHECKS, {}),
}
"""The sections inside the section, by their keys."""

ALL = Keys(SECTION, KEYS, CHECKS, SECTIONS)

OF_PRESETS: Mapping[str, str] = {
    "previewMinBytes": "preview_min_bytes",
    "previewMaxBytes": "preview_max_bytes",
    "atRest": "at_rest",
}
"""What presets alone set, as the journal names it."""
