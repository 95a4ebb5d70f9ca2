"""What one run did to one session, in numbers; the statistics that the library returns and the reports show."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct, to_builtins

from sessioncompress.core.text import json_safe


class Status(StrEnum):
    """How a run over one file ended."""

    COMPRESSED = "compressed"
    WOULD_COMPRESS = "would-compress"
    RESTORED = "restored"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    REFUSED = "refused"
    FAILED = "failed"


class BudgetStats(Struct, frozen=True, rename="camel"):
    """How a session stands against its budget, and what its rule decides. All sizes are tokens.

    `tokens` is what the rule went by: what the agent recorded of the newest request and its answer, with an estimate of
    what came behind it; or the estimate of all where it recorded nothing, or before the last run or compaction
    (`recorded_is_stale`). `limits_from` says who knows the window:
    the session, the policy, our table, or the fallback for models that nobody knows. `usable` is what of it the rule
    leaves. `messages_since` and `seconds_since` count from the last run, None where there was none.
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
        """Return the tokens by the context window."""
        return self.tokens / self.context_window if self.context_window else 0.0


class CompressionStats(Struct, frozen=True, rename="camel"):
    """What a run did, or with `dry_run` would do. Sizes in bytes of the file; tokens are estimates.

    `ratio` is the compressed size by the original size. `backup_size` is all that lies beside the session,
    `originals_size` the originals of it, `backup_added` what this run added to it. `tokens_uncached` are those of
    `tokens_after` behind the first message that changed: the next request sends them without the provider's prompt
    cache. `removable_bytes` are those of all blocks over their kind's threshold outside the protected part,
    `removed_bytes` how many of them are gone, `protected_bytes` those inside it.
    """

    path: str
    format: str = ""
    status: Status = Status.UNCHANGED
    reason: str = ""
    original_size: int = 0
    compressed_size: int = 0
    backup_size: int = 0
    originals_size: int = 0
    backup_added: int = 0
    tool_calls_compressed: int = 0
    tool_results_compressed: int = 0
    thinking_blocks_removed: int = 0
    images_replaced: int = 0
    mirrors_replaced: int = 0
    redundancies_eliminated: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    tokens_uncached: int = 0
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
    turns: int = 0
    exit_code: int = 0
    budget: BudgetStats | None = None

    @property
    def is_smaller(self) -> bool:
        """Say whether the run made the session smaller, or with `dry_run` would."""
        return self.status in (Status.COMPRESSED, Status.WOULD_COMPRESS)

    @property
    def ratio(self) -> float:
        """Return the compressed size by the original size, 1.0 for an empty file."""
        return self.compressed_size / self.original_size if self.original_size else 1.0


def to_json(stats: Struct) -> dict[str, Any]:
    """Return a record of statistics as `--json` has it: all fields, by their names in camel case."""
    found: dict[str, Any] = json_safe(to_builtins(stats))
    return found
