"""The statistics of a session that commands report; computing them imports far more."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field, to_builtins

from sessioncompress.core.text import json_safe
from sessioncompress.policy.model import Rule


class Status(StrEnum):
    """The outcome of a run over one file."""

    COMPRESSED = "compressed"
    WOULD_COMPRESS = "would-compress"
    COMPACTED = "compacted"
    WOULD_COMPACT = "would-compact"
    SUMMARIZED = "summarized"
    WOULD_SUMMARIZE = "would-summarize"
    RESTORED = "restored"
    WOULD_RESTORE = "would-restore"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    REFUSED = "refused"
    FAILED = "failed"


class Action(StrEnum):
    """The decision of a budget's rule."""

    NONE = "none"
    COMPRESS = "compress"
    PRUNE = "prune"
    COMPACT = "compact"


class BudgetStats(Struct, frozen=True, rename="camel"):
    """A session's budget and what its rule decided. All sizes are tokens.

    `tokens` is what the rule used: the agent's recorded usage of the newest request and answer, plus an estimate of
    what came after. If nothing was recorded, or only before the last run or compaction (`recorded_is_stale`), it is an
    estimate of the whole. `limits_from` is the source of the window: session, policy, table, or fallback. `usable` is
    the part that the rule allows. `messages_since` and `seconds_since` count from the last run, and are None before the
    first.
    """

    path: str
    format: str
    rule: str
    decision: str
    reason: str
    tokens: int = 0
    tokens_estimated: int = 0
    tokens_recorded: int | None = None
    recorded_is_stale: bool = False
    model: str = ""
    context_window: int = 0
    output_limit: int = 0
    limits_from: str = ""
    usable: int = 0
    messages: int = 0
    messages_since: int | None = None
    seconds_since: float | None = None

    @property
    def utilisation(self) -> float:
        """Tokens divided by the context window."""
        return self.tokens / self.context_window if self.context_window else 0.0

    @property
    def is_valve(self) -> bool:
        """True if the session is over the safety limit, so that the user can't postpone it."""
        return self.rule == Rule.DELIBERATE and self.tokens >= self.usable


class Summarized(Struct, frozen=True, rename="camel"):
    """Base of the statistics of commands that write a summary: the session's size and tokens before and after.

    `tokens_summary` is the summary's part of `tokens_after`. `tokens_sent` is what a model gets, or would get, to
    summarize. `by` is the author: "extractive", "command", "endpoint" with its `model`, or "beforeCommand".
    `model_failure` tells why the models that were asked first, or all of them, failed. `cost` is what the endpoint
    reports. `run` is the id of a run that wrote. `summary` is the text. `made_elsewhere` is set if the store has runs
    of another user, since the summary is built from its originals. `warning` reports what went wrong after the run.
    """

    path: str
    format: str = ""
    status: Status = Status.UNCHANGED
    reason: str = ""
    size_before: int = 0
    size_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    tokens_summary: int = 0
    tokens_sent: int = 0
    by: str = ""
    model: str = ""
    model_failure: str = ""
    cost: float | UnsetType = UNSET
    run: str = ""
    exit_code: int = 0
    summary: str = ""
    made_elsewhere: bool = False
    warning: str = ""


class CompressionStats(Struct, frozen=True, rename="camel"):
    """The result of a run, or with `dry_run` the expected one. Sizes are bytes of the file; tokens are estimates.

    The token estimates are for the session's model. `store_size` is the size of the store, and `originals_size` of the
    originals in it. `store_added` is what this run added, plus bytes in the store that no earlier run accounts for.
    `tool_results_cleared` are the compressed results that were pruned. `others_replaced` counts blocks of kinds without
    a field of their own. `tokens_uncached` is the part of `tokens_after` from the first changed message on, which the
    next request sends without the provider's prompt cache. `tokens_recorded` is the agent's recorded usage of the
    newest request and answer, or None if it recorded none since the last run or compaction. `removable_bytes` counts
    unprotected blocks over their kind's threshold, `removed_bytes` the part that is gone, and `protected_bytes`
    protected blocks. `run` is the id to restore a run that wrote. `gap_at` is the line, counted from 1, whose parent is
    missing, or 0.
    """

    path: str
    format: str = ""
    status: Status = Status.UNCHANGED
    reason: str = ""
    original_size: int = 0
    compressed_size: int = 0
    store_size: int = 0
    originals_size: int = 0
    store_added: int = 0
    tool_calls_compressed: int = 0
    tool_results_compressed: int = 0
    tool_results_cleared: int = 0
    thinking_blocks_removed: int = 0
    images_replaced: int = 0
    mirrors_replaced: int = 0
    others_replaced: Mapping[str, int] = field(default_factory=dict)
    redundancies_eliminated: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    tokens_uncached: int = 0
    tokens_recorded: int | None = None
    removable_bytes: int = 0
    removed_bytes: int = 0
    protected_bytes: int = 0
    lines: int = 0
    lines_changed: int = 0
    messages_changed: int = 0
    lines_not_understood: int = 0
    imitated_markers: int = 0
    imitated_in_calls: int = 0
    markers_without_journal: int = 0
    blobs_out_of_reach: int = 0
    blobs_in_commits: int = 0
    turns: int = 0
    gap_at: int = 0
    run: str = ""
    exit_code: int = 0
    budget: BudgetStats | None = None

    @property
    def is_smaller(self) -> bool:
        """True if the run made the session smaller, or with `dry_run` would."""
        return self.status in (Status.COMPRESSED, Status.WOULD_COMPRESS)

    @property
    def ratio(self) -> float:
        """The share of the original size that was saved, or 0."""
        return 1 - self.compressed_size / self.original_size if self.original_size else 0.0


def to_json(stats: Struct) -> dict[str, Any]:
    """Convert statistics to the object that `--json` prints."""
    found: dict[str, Any] = json_safe(to_builtins(stats))
    return found
