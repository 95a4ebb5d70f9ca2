"""The policy: every choice of a user with its type and default, and the presets."""

# Without `from __future__ import annotations`: the types are read when the first value is checked.

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from sessioncompress.errors import UsageError
from sessioncompress.policy import summarizer
from sessioncompress.policy.section import (
    LONGEST_NAME,
    MOST,
    MOST_ENTRIES,
    UNCHANGED,
    AskSeconds,
    CommandLine,
    Count,
    File,
    Files,
    Flag,
    Folder,
    Multiplier,
    Percent,
    Positive,
    Seconds,
    Section,
    Share,
    SummaryTokens,
    Tools,
)
from sessioncompress.policy.summarizer import Summarizer

SMALLEST_LIMIT = 256
"""Bytes. A marker takes up to 200, so that lower thresholds would offer our own markers again."""

LARGEST_LEAF = 400
"""Bytes. A string of this size or less inside a call's arguments stays."""


class Rule(StrEnum):
    """Decides whether a session is due. Each rule is named after the design that it comes from."""

    SIZE = "size"
    GENCODE = "gencode"
    OMP = "omp"
    EUNICE = "eunice"
    DELIBERATE = "deliberate"


class CutRule(StrEnum):
    """Decides how much of the recent conversation a checkpoint keeps as it is."""

    TOKENS = "tokens"
    MESSAGES = "messages"
    SHARE = "share"
    SINCE_PROMPT = "sincePrompt"
    TURNS = "turns"


class Placeholder(StrEnum):
    """What replaces a pruned result: our marker, or the text that the agent itself writes, if it has one."""

    MARKER = "marker"
    NATIVE = "native"


class OnlyUser(NamedTuple):
    """Marks a key that a file found near a session may not set, since anyone may have made that folder.

    `option` sets the same, `harm` and `to` are what an error says about the key and about the commands that have the
    option; `by_all` commands act on the key, not only those that compress.
    """

    option: str
    harm: str
    to: str = " to 'compress'"
    by_all: bool = False


class Limits(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The context window and the longest output of models, in tokens; `pattern` is a glob for their names."""

    pattern: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    window: Positive = field(name="contextWindow")
    output: Positive = field(name="outputLimit")


Models = Annotated[
    tuple[Limits, ...],
    Meta(
        max_length=MOST_ENTRIES,
        description=f'a list of {{"pattern": text, "contextWindow": tokens, "outputLimit": tokens}}, at most '
        f"{MOST_ENTRIES}, and tokens from 1 to {MOST:,}",
    ),
]


def wrong(what: str, file: Path, line: int | None = None) -> UsageError:
    """Make the error for a policy file, or a line of it."""
    return UsageError(what, where=file, line=line, state=UNCHANGED, remedy="Correct the file.")


class Prune(Section, frozen=True, gc=False):
    """What pruning takes: whole tool results, oldest first. All numbers but the messages are tokens.

    A run with `enabled` that would not save the model `prune_minimum` in all writes nothing. The newest
    `prune_protect` of tool output stay, and all of the newest `preserve_recent_messages`. Raises UsageError.
    """

    enabled: Flag = False
    prune_minimum: Count = 20_000
    prune_protect: Count = 40_000
    protect_tools: Tools = ("skill", "read")
    preserve_recent_messages: Count = 10
    placeholder: Placeholder = Placeholder.MARKER


class Budget(Section, frozen=True, gc=False):
    """When a session is due, by one of the rules; pipeline/budget.py says which numbers each uses.

    All are tokens but percents of the context window, messages and seconds. `models` come before those shipped.
    Raises UsageError.
    """

    rule: Rule = Rule.SIZE
    reserved_output_tokens: Count = 32_000
    reserve_percent: Percent = 15
    reserve_tokens: Count = 16_384
    threshold_percent: Percent | None = None
    threshold_tokens: Positive | None = None
    target_tokens: Count = 8_000
    act_tokens: Count = 40_000
    act_messages: Count = 25
    act_seconds: Seconds = 300
    safety_percent: Percent = 50
    frequency_multiplier: Multiplier = 1.5
    models: Models = ()


class Compact(Section, frozen=True, gc=False):
    """What a checkpoint keeps of the recent conversation, by one of the rules, and how long its summary may be.

    Nothing is written where what would go has fewer than `min_dead_tokens`, or the model would be saved fewer than
    `min_saved_tokens`. `ask`: whether `--ask` asks, and it waits `ask_seconds` for an answer. Raises UsageError.
    """

    keep: CutRule = CutRule.TOKENS
    keep_tokens: Positive = 20_000
    keep_messages: Positive = 10
    keep_share: Share = 0.3
    keep_turns: Positive = 4
    summary_tokens: SummaryTokens = 3_000
    min_dead_tokens: Count = 10_000
    min_saved_tokens: Count = 8_000
    ask: Flag = True
    ask_seconds: AskSeconds = 30


class Policy(Section, frozen=True, gc=False):
    """What to replace and what to leave; sizes in bytes (KB of 1,024), tokens of 4 characters, times in seconds.

    The names are those of `compression.json` in snake case; `at_rest` is set by the presets alone: nobody works in the
    session, so that what only its agent's screen shows goes from protected lines too, and what told the model of skills
    from the others. Where `preview_share` or `preview_max_bytes` is 0 nothing is previewed: a reference alone takes a
    text's place. Raises UsageError where a value is none that its field may have.
    """

    enabled: Flag = True
    size_threshold_kb: Count = field(default=100, name="sizeThresholdKB")
    every_turns: Positive | None = None
    turn_threshold_before_compress: Count = 4
    protect_tokens: Count | None = 20_000
    protect_tools: Tools = ("skill",)
    protect_files: Files = (
        "AGENTS.md",
        "CLAUDE.md",
        "GEMINI.md",
        ".cursorrules",
        "copilot-instructions.md",
        "CONTRIBUTING.md",
    )
    tool_call_max_bytes: Count = 500
    tool_result_max_bytes: Count = 1_000
    preview_share: Share = 0.08
    preview_max_bytes: Count = 2_000
    min_saved_kb: Count = field(default=16, name="minSavedKB")
    strip_thinking: Flag = True
    eliminate_redundancy: Flag = True
    keep_backup: Annotated[Flag, OnlyUser("--no-backup", "would delete originals")] = True
    backup_dir: Annotated[
        Folder, OnlyUser("--backup-dir", "puts originals elsewhere", " where a command has it", by_all=True)
    ] = None
    commit_originals: Annotated[
        Flag, OnlyUser("--commit-originals", "lets git see the originals", " to 'compress' or 'pre-commit'")
    ] = False
    quiet_seconds: Seconds = 0
    idle_seconds: Seconds = 0
    log_file: Annotated[File, OnlyUser("--log", "names a file to write to")] = None
    before_command: Annotated[CommandLine, OnlyUser("--before-command", "names a program to run", " to 'compact'")] = (
        None
    )
    after_command: Annotated[CommandLine, OnlyUser("--after-command", "names a program to run", " to 'compact'")] = None
    prune: Prune = Prune()
    budget: Budget = Budget()
    compact: Compact = Compact()
    summarizer: Annotated[
        Summarizer,
        OnlyUser("--summarizer or --endpoint", "says where sessions are sent", " to 'compact'"),
    ] = Summarizer()
    at_rest: Flag = False

    @property
    def has_previews(self) -> bool:
        """Whether anything of a replaced text stays readable."""
        return self.preview_share > 0 and self.preview_max_bytes > 0

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
        preview_share=0.05,
        preview_max_bytes=890,
        compact=Compact(keep_tokens=10_000, summary_tokens=2_000),
    ),
    "high-quality": replace(
        BALANCED,
        protect_tokens=None,
        tool_result_max_bytes=2_000,
        strip_thinking=False,
        prune=Prune(prune_minimum=30_000, prune_protect=60_000),
        preview_share=0.10,
        preview_max_bytes=4_000,
        compact=Compact(keep_tokens=40_000, summary_tokens=5_000),
    ),
    "archive": replace(
        BALANCED,
        turn_threshold_before_compress=1,
        protect_tokens=4_000,
        protect_tools=(),
        protect_files=(),
        tool_call_max_bytes=SMALLEST_LIMIT,
        tool_result_max_bytes=SMALLEST_LIMIT,
        preview_share=0,
        preview_max_bytes=0,
        compact=Compact(keep_tokens=8_000),
        at_rest=True,
    ),
}


_OPTIONS = {
    "keep_turns": "turn_threshold_before_compress",
    "protect_tokens": "protect_tokens",
    "min_size": "size_threshold_kb",
    "backup_dir": "backup_dir",
    "log": "log_file",
    "idle_seconds": "idle_seconds",
    "before_command": "before_command",
    "after_command": "after_command",
}


def with_options(policy: Policy, options: Mapping[str, Any]) -> Policy:
    """Apply the options of the command line; None means that an option was not given.

    A folder on the command line counts from the working folder, one in a policy from the session's.
    """
    changes = {_OPTIONS[name]: options[name] for name in _OPTIONS if options.get(name) is not None}
    for name in {"backup_dir", "log_file"} & changes.keys():
        changes[name] = os.path.abspath(changes[name])  # noqa: PTH100 - must not resolve links
    if options.get("prune"):
        changes["prune"] = replace(policy.prune, enabled=True)
    if options.get("rule") is not None:
        changes["budget"] = replace(policy.budget, rule=options["rule"])
    of_compact = ("keep", "keep_tokens", "summary_tokens")
    if compact := {name: options[name] for name in of_compact if options.get(name) is not None}:
        changes["compact"] = replace(policy.compact, **compact)
    changes["summarizer"] = summarizer.with_options(policy.summarizer, options)
    if options.get("no_backup"):
        changes["keep_backup"] = False
    if options.get("commit_originals"):
        changes["commit_originals"] = True
    return replace(policy, **changes)
