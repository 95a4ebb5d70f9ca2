"""The policy: every choice of a user with its type and default, and the presets."""

# Without `from __future__ import annotations`: the types are read when the first value is checked.

import os
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from reprlib import repr as shortened
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, ValidationError, convert, field, to_builtins
from msgspec.structs import force_setattr, replace

from sessioncompress.core.text import json_safe
from sessioncompress.errors import NONE_CHANGED, UsageError

MOST = 1 << 53
"""Larger numbers are not exact in every JSON reader, and the journal holds these."""
MOST_ENTRIES = 200
"""Maximum entries of a list, because every run's record in the journal holds all of it."""
LONGEST_NAME = 200

Flag = Annotated[bool, Meta(description="true or false")]
Count = Annotated[int, Meta(ge=0, le=MOST, description=f"a whole number from 0 to {MOST:,}")]
Positive = Annotated[int, Meta(ge=1, le=MOST, description=f"a whole number from 1 to {MOST:,}")]
SummaryTokens = Annotated[int, Meta(ge=1_000, le=100_000, description="a whole number from 1,000 to 100,000")]
Percent = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
SafetyPercent = Annotated[int, Meta(ge=30, le=95, description="a whole number from 30 to 95")]
ActTokens = Annotated[int, Meta(ge=10_000, le=200_000, description="a whole number from 10,000 to 200,000")]
ActMessages = Annotated[int, Meta(ge=5, le=100, description="a whole number from 5 to 100")]
ActSeconds = Annotated[int, Meta(ge=60, le=1_800, description="a whole number of seconds from 60 to 1,800")]
Seconds = Annotated[
    Annotated[int, Meta(ge=0, le=MOST)] | Annotated[float, Meta(ge=0, le=MOST)],
    Meta(description=f"a number of seconds from 0 to {MOST:,}"),
]
Share = Annotated[
    Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)], Meta(description="a share from 0 to 1")
]
_Path = Annotated[str, Meta(min_length=1, pattern=r"\A[^\0]*\Z")]
Folder = Annotated[_Path | None, Meta(description="a folder's path or null")]
File = Annotated[_Path | None, Meta(description="a file's path or null")]
_Text = Annotated[str, Meta(min_length=1, max_length=4_096, pattern=r"\A[^\0]*\Z")]
Text = Annotated[_Text | None, Meta(description="a text or null")]
CommandLine = Annotated[_Text | None, Meta(description="a command line of at most 4,096 characters or null")]
Multiplier = Annotated[float, Meta(ge=1.2, le=3, description="a number from 1.2 to 3")]
AskSeconds = Annotated[int, Meta(ge=10, le=300, description="a whole number of seconds from 10 to 300")]
Tools = Annotated[
    tuple[Annotated[str, Meta(max_length=LONGEST_NAME)], ...],
    Meta(
        max_length=MOST_ENTRIES,
        description=f"a list of tool names, at most {MOST_ENTRIES} of at most {LONGEST_NAME} characters",
    ),
]

Files = Annotated[
    tuple[Annotated[str, Meta(max_length=LONGEST_NAME, pattern=r"\A[^/\\*]*\Z")], ...],
    Meta(
        max_length=MOST_ENTRIES,
        description=f"a list of file names without folders or *, at most {MOST_ENTRIES} of at most {LONGEST_NAME} "
        "characters",
    ),
]
Variable = Annotated[
    str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,99}\Z", description="the name of an environment variable")
]
Names = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)], ...],
    Meta(max_length=10, description=f"a list of at most 10 names of at most {LONGEST_NAME} characters"),
]
Patterns = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=1_000)], ...],
    Meta(max_length=MOST_ENTRIES, description=f"a list of at most {MOST_ENTRIES} regular expressions"),
]
Few = Annotated[int, Meta(ge=0, le=10, description="a whole number from 0 to 10")]
ModelSeconds = Annotated[int, Meta(ge=1, le=3_600, description="a whole number from 1 to 3,600")]
InputTokens = Annotated[int, Meta(ge=4_000, le=4_000_000, description="a whole number from 4,000 to 4,000,000")]


def must_be(kind: Any) -> str:
    """Describe the values of a field's type."""
    for each in getattr(kind, "__metadata__", ()):
        if isinstance(each, Meta) and each.description:
            return each.description
    kinds = getattr(kind, "__args__", (kind,))
    if len(kinds) > 1:
        return f"{must_be(kinds[0])}, or null"
    (plain,) = kinds
    if issubclass(plain, StrEnum):
        return " or ".join(f'"{word}"' for word in plain)
    return f"a {plain.__name__}"


class Section(Struct, frozen=True, gc=False, rename="camel", repr_omit_defaults=True):
    """An object of `compression.json`. Values are converted to the type of their field, or UsageError is raised."""

    def __post_init__(self) -> None:
        """Check and convert values that differ from the default."""
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            value, kind = getattr(self, name), type(self).__annotations__[name]
            if value is default:
                continue
            try:
                plain = to_builtins(value, builtin_types=(bytes,), enc_hook=os.fspath)
                force_setattr(self, name, convert(plain, kind))
            except (ValidationError, TypeError):
                what = f"the policy's {name} is {shortened(value)}, but must be {must_be(kind)}"
                raise UsageError(what, state=NONE_CHANGED, remedy="Correct the policy.") from None


def wrong(what: str, file: Path, line: int | None = None) -> UsageError:
    """Return the error for a policy file, or a line of it."""
    return UsageError(what, where=file, line=line, state=NONE_CHANGED, remedy="Correct the file.")


SMALLEST_LIMIT = 256
"""Bytes. A marker takes up to 200; with lower thresholds our own markers would be offered again."""


class Rule(StrEnum):
    """Decides whether a session is due. Each rule is named after its design."""

    SIZE = "size"
    GENCODE = "gencode"
    OMP = "omp"
    EUNICE = "eunice"
    DELIBERATE = "deliberate"


class CutRule(StrEnum):
    """Decides how much of the recent conversation a checkpoint keeps unchanged."""

    TOKENS = "tokens"
    MESSAGES = "messages"
    SHARE = "share"
    SINCE_PROMPT = "sincePrompt"
    TURNS = "turns"


class Placeholder(StrEnum):
    """The replacement for a pruned result: our marker, or the text that the agent itself writes, if it has one."""

    MARKER = "marker"
    NATIVE = "native"


class OnlyUser(NamedTuple):
    """Marks a key that a file found near a session may not set, because anyone may have created that folder.

    `option` sets the same, or for a text in `words` that option does. An error uses `harm` as the reason, and `to` as
    the commands that have the option.
    """

    option: str
    harm: str
    to: str = " to 'compress'"
    words: Mapping[str, str] = {}


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


class Prune(Section, frozen=True, gc=False):
    """Settings of pruning, which takes whole tool results, oldest first. Numbers are tokens, except messages.

    A run with `enabled` writes nothing if it would save the model fewer than `prune_minimum` in total; with `only` it
    changes nothing else. The newest `prune_protect` tokens of tool output stay, and so do all of the newest
    `preserve_recent_messages`. Raises UsageError.
    """

    enabled: Flag = False
    only: Flag = False
    prune_minimum: Count = 20_000
    prune_protect: Count = 40_000
    protect_tools: Tools = ("skill", "read")
    preserve_recent_messages: Count = 10
    placeholder: Placeholder = Placeholder.MARKER


class Budget(Section, frozen=True, gc=False):
    """Settings of the rules that decide if a session is due; pipeline/budget.py documents the numbers of each rule.

    Numbers are tokens, except percents of the context window, messages and seconds. `models` are searched before those
    shipped. Raises UsageError.
    """

    rule: Rule = Rule.SIZE
    reserved_output_tokens: Count = 32_000
    reserve_percent: Percent = 15
    reserve_tokens: Count = 16_384
    threshold_percent: Percent | None = None
    threshold_tokens: Positive | None = None
    target_tokens: Count = 8_000
    act_tokens: ActTokens = 40_000
    act_messages: ActMessages = 25
    act_seconds: ActSeconds = 300
    safety_percent: SafetyPercent = 50
    frequency_multiplier: Multiplier = 1.5
    models: Models = ()


class Compact(Section, frozen=True, gc=False):
    """The amount of recent conversation that a checkpoint keeps, by one of the rules, and its summary's size.

    Nothing is written if the removed part has fewer than `min_dead_tokens`, or the model would be saved fewer than
    `min_saved_tokens`. `ask` decides if `--ask` asks; it waits `ask_seconds` for an answer. Raises UsageError.
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


class Protocol(StrEnum):
    """The request format of a summarizing endpoint: OpenAI's chat, or oh-my-pi's `{systemPrompt, prompt}`."""

    OPENAI = "openai"
    OMP = "omp"


class OnFailure(StrEnum):
    """Decides what happens if no model summarized a session: it gets the extract, or stays unchanged."""

    EXTRACTIVE = "extractive"
    LEAVE = "leave"


class Summarizer(Section, frozen=True, gc=False):
    """The author of a summary's prose, instead of the extract: a `command`, or the `models` of an `endpoint`.

    Without either, nothing leaves the machine. `models` are asked in order, each after the previous one failed. At most
    `input_tokens` are sent, with matches of the patterns redacted. Raises UsageError.
    """

    command: Text = None
    endpoint: Text = None
    protocol: Protocol = Protocol.OPENAI
    models: Names = ()
    api_key_env: Variable = "OPENAI_API_KEY"
    prompt: File = None
    input_tokens: InputTokens = 120_000
    timeout_seconds: ModelSeconds = 120
    retries: Few = 2
    on_failure: OnFailure = OnFailure.EXTRACTIVE
    redact_patterns: Patterns = ()


class Policy(Section, frozen=True, gc=False):
    """All choices about what to replace.

    Sizes are in bytes (KB of 1,024), tokens have 4 characters, times are in seconds.

    Fields are the keys of `compression.json` in snake case. Only presets set `at_rest`: no one works in the session, so
    screen data is removed from protected lines too, and lists of skills and tools from the other lines. If
    `preview_share` or `preview_max_bytes` is 0, a bare reference replaces a text, without a preview. Raises UsageError
    if a field can't have its value.
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
    backup_dir: Annotated[Folder, OnlyUser("--backup-dir", "puts originals elsewhere")] = None
    commit_originals: Annotated[
        bool | Literal["history"],
        Meta(description='true, false or "history"'),
        OnlyUser(
            "--commit-originals",
            "lets git see the originals",
            " to 'compress' or 'pre-commit'",
            {"history": "--originals-in history"},
        ),
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
        """True if part of a replaced text stays readable."""
        return self.preview_share > 0 and self.preview_max_bytes > 0

    @property
    def call_limit(self) -> int:
        """Maximum bytes of a call's arguments that stay unchanged."""
        return max(self.tool_call_max_bytes, SMALLEST_LIMIT)

    @property
    def leaf_limit(self) -> int:
        """Maximum bytes of a string in arguments that stays unchanged, and of a replacement."""
        return min(self.call_limit, 400)

    @property
    def result_limit(self) -> int:
        """Maximum bytes of a result's text that stays unchanged, and of a replacement."""
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


@lru_cache(maxsize=1)
def differences(policy: Policy) -> Mapping[str, Any]:
    """Return the differences from the default, for the journal's run record. Equal policies give equal differences.

    The log's path and the quiet time are omitted, because they change nothing in a session. So are the summarizer and
    other commands: an address or a command may contain a secret.
    """
    differing = _differing(json_safe(to_builtins(policy)), json_safe(to_builtins(BALANCED)))
    others = ("logFile", "quietSeconds", "beforeCommand", "afterCommand", "summarizer")
    return {key: value for key, value in differing.items() if key not in others}


def _differing(given: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _differing(value, default[key]) if isinstance(value, dict) else value
        for key, value in given.items()
        if value != default[key]
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

    A folder on the command line is relative to the working folder, a folder in a policy to the session's.
    """
    changes = {_OPTIONS[name]: options[name] for name in _OPTIONS if options.get(name) is not None}
    for name in {"backup_dir", "log_file"} & changes.keys():
        changes[name] = os.path.abspath(changes[name])  # noqa: PTH100 - must not resolve links
    if options.get("prune") or options.get("prune_only"):
        only = policy.prune.only or options.get("prune_only", False)
        changes["prune"] = replace(policy.prune, enabled=True, only=only)
    of_budget, of_compact = ("rule", "target_tokens"), ("keep", "keep_tokens", "keep_messages", "summary_tokens")
    if budget := {name: options[name] for name in of_budget if options.get(name) is not None}:
        changes["budget"] = replace(policy.budget, **budget)
    if compact := {name: options[name] for name in of_compact if options.get(name) is not None}:
        for rule in (CutRule.TOKENS, CutRule.MESSAGES):
            if f"keep_{rule}" in compact:
                compact.setdefault("keep", rule)
        changes["compact"] = replace(policy.compact, **compact)
    changes["summarizer"] = _summarizer(policy.summarizer, options)
    if options.get("no_backup"):
        changes["keep_backup"] = False
    if (given := options.get("commit_originals")) is not None:
        changes["commit_originals"] = {"hidden": False, "committed": True}.get(given, given)
    return replace(policy, **changes)


_OF_SUMMARIZER = {
    "summarizer": "command",
    "endpoint": "endpoint",
    "protocol": "protocol",
    "model": "models",
    "api_key_env": "api_key_env",
    "prompt": "prompt",
    "on_failure": "on_failure",
}


def _summarizer(own: Summarizer, options: Mapping[str, Any]) -> Summarizer:
    """Apply the summarizer options: a command replaces an endpoint, and vice versa."""
    given = {field: options[name] for name, field in _OF_SUMMARIZER.items() if options.get(name)}
    if not given:
        return own
    if "prompt" in given:
        given["prompt"] = os.path.abspath(given["prompt"])  # noqa: PTH100 - must not resolve links
    if "command" in given or "endpoint" in given:
        own = replace(own, command=None, endpoint=None, protocol=Protocol.OPENAI, models=())
    return replace(own, **given)
