"""The keys of compression.json: which field each sets, how its value is checked, and who may set it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from sessioncompress.policy.checks import Checks
from sessioncompress.policy.model import CHECKS
from sessioncompress.policy.sections import BUDGET_CHECKS, PRUNE_CHECKS

SECTION = "session"


class Near(Enum):
    """What a key may say in a file found near a session, which is data from whoever made that folder."""

    FREE = auto()
    """Anything: it chooses how much is compressed, and writes, shows, runs and throws away nothing."""
    NEVER = auto()
    """Nothing but the default, which then changes nothing."""


class Key(NamedTuple):
    """The field of the policy that a key sets, and what it may say near a session.

    Where that is not anything: the option that says the same, what the key would do, and which commands have that
    option, as an error words it; and whether all commands act on it, not only those that compress.
    """

    field: str
    near: Near
    option: str = ""
    harm: str = ""
    to: str = ""
    by_all: bool = False


_TO_COMPRESS = " to 'compress'"

KEYS: Mapping[str, Key] = {
    "enabled": Key("enabled", Near.FREE),
    "sizeThresholdKB": Key("size_threshold_kb", Near.FREE),
    "everyTurns": Key("every_turns", Near.FREE),
    "turnThresholdBeforeCompress": Key("turn_threshold_before_compress", Near.FREE),
    "protectTokens": Key("protect_tokens", Near.FREE),
    "protectTools": Key("protect_tools", Near.FREE),
    "toolCallMaxBytes": Key("tool_call_max_bytes", Near.FREE),
    "toolResultMaxBytes": Key("tool_result_max_bytes", Near.FREE),
    "minSavedKB": Key("min_saved_kb", Near.FREE),
    "stripThinking": Key("strip_thinking", Near.FREE),
    "eliminateRedundancy": Key("eliminate_redundancy", Near.FREE),
    "keepBackup": Key("keep_backup", Near.NEVER, "--no-backup", "throws originals away", _TO_COMPRESS),
    "backupDir": Key(
        "backup_dir", Near.NEVER, "--backup-dir", "puts originals elsewhere", " where a command has it", by_all=True
    ),
    "commitOriginals": Key(
        "commit_originals",
        Near.NEVER,
        "--commit-originals",
        "lets git see the originals",
        " to 'compress' or 'pre-commit'",
    ),
    "quietSeconds": Key("quiet_seconds", Near.FREE),
    "idleSeconds": Key("idle_seconds", Near.FREE),
    "logFile": Key("log_file", Near.NEVER, "--log", "names a file that is written to", _TO_COMPRESS),
    "prune": Key("prune", Near.FREE),
    "budget": Key("budget", Near.FREE),
}
"""Every key of the section."""

GONE: Mapping[str, str] = {
    "session.protectMode": 'it is gone: "turns" is now "protectTokens": null; instead of the other two leave it out',
}
"""Keys of earlier versions, by their dotted names, and what to write instead."""

PRUNE_KEYS: Mapping[str, Key] = {
    "enabled": Key("enabled", Near.FREE),
    "pruneMinimum": Key("prune_minimum", Near.FREE),
    "pruneProtect": Key("prune_protect", Near.FREE),
    "protectTools": Key("protect_tools", Near.FREE),
    "preserveRecentMessages": Key("preserve_recent_messages", Near.FREE),
    "placeholder": Key("placeholder", Near.FREE),
}

BUDGET_KEYS: Mapping[str, Key] = {
    "rule": Key("rule", Near.FREE),
    "reservedOutputTokens": Key("reserved_output_tokens", Near.FREE),
    "reservePercent": Key("reserve_percent", Near.FREE),
    "reserveTokens": Key("reserve_tokens", Near.FREE),
    "thresholdPercent": Key("threshold_percent", Near.FREE),
    "thresholdTokens": Key("threshold_tokens", Near.FREE),
    "targetTokens": Key("target_tokens", Near.FREE),
    "actTokens": Key("act_tokens", Near.FREE),
    "actMessages": Key("act_messages", Near.FREE),
    "actSeconds": Key("act_seconds", Near.FREE),
    "safetyPercent": Key("safety_percent", Near.FREE),
    "models": Key("models", Near.FREE),
}


class Keys(NamedTuple):
    """The keys of one section: the field that each sets, and how its value is checked; `name` is the section's."""

    name: str
    fields: Mapping[str, Key]
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
