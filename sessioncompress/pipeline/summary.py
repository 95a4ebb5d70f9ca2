"""What a session holds, in the numbers and words that a run reports of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field, to_builtins
from msgspec.structs import replace

from sessioncompress.compressors import KINDS, View
from sessioncompress.compressors.base import Ours
from sessioncompress.core.lines import Survey, tokens_of
from sessioncompress.core.model import Answer, Kind, Standing
from sessioncompress.core.text import KB, estimate, json_safe, kb, said_time
from sessioncompress.pipeline.plan import Plan, in_question
from sessioncompress.pipeline.rewrite import Applied
from sessioncompress.policy.model import PRESETS, Rule
from sessioncompress.store.journal import Journal
from sessioncompress.store.records import RunRecord


class Status(StrEnum):
    """How a run over one file ended."""

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


class BudgetStats(Struct, frozen=True, rename="camel"):
    """How a session stands against its budget, and what its rule decides. All sizes are tokens.

    `tokens` is what the rule went by: what the agent recorded of the newest request and its answer, with an estimate of
    what came behind it; or the estimate of all where it recorded nothing, or before the last run or compaction
    (`recorded_is_stale`). `limits_from` names the source of the window: session, policy, table, or fallback. `usable`
    is what the rule leaves of it. `messages_since` and `seconds_since` count from the last run, None without one.
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
        """The tokens by the context window."""
        return self.tokens / self.context_window if self.context_window else 0.0

    @property
    def is_valve(self) -> bool:
        """Whether the session is due in any case, so that nobody may have it done less often."""
        return self.rule == Rule.DELIBERATE and self.tokens >= self.usable


class Summarized(Struct, frozen=True, rename="camel"):
    """What all commands that write a summary say of a session: its size and its tokens before and after.

    `tokens_summary` is the summary's part of the latter, `tokens_sent` are those that a model is given to sum up, or
    would be. `by` is who wrote it: "extractive", "command", "endpoint" with its `model`, or "beforeCommand".
    `model_failure` says why no model that was asked has written it, or none of those before the one that has, and
    `cost` what the endpoint says that its answers cost. `run` is the id of a run that wrote. `summary` is the text.
    `made_elsewhere`: not all runs of the store are this user's, and the summary is made of its originals. `warning`
    says what went wrong after the run.
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
    """What a run did, or with `dry_run` would do. Sizes in bytes of the file; tokens are estimates for its model.

    `store_size` is that of the store, `originals_size` that of the originals in it, `store_added` what this run added
    to it, with the bytes there that no earlier run in place accounts for. `tool_results_cleared` are those of the
    compressed results that were pruned. `others_replaced` counts the blocks of kinds that have no number of their own.
    `tokens_uncached` are those of `tokens_after` behind the first message that changed: the next request sends them
    without the provider's prompt cache. `tokens_recorded` is what the agent recorded of the newest request and its
    answer, None where it recorded nothing since the last run or compaction. `removable_bytes` are those of all blocks
    over their kind's threshold that are not protected, `removed_bytes` how many of them are gone, `protected_bytes`
    those of all that are. `run` is the id of a run that wrote, by which a restore takes it back. `gap_at` is the line,
    counted from 1, whose parent is missing; else 0.
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
    turns: int = 0
    gap_at: int = 0
    run: str = ""
    exit_code: int = 0
    budget: BudgetStats | None = None

    @property
    def is_smaller(self) -> bool:
        """Whether the run made the session smaller, or with `dry_run` would."""
        return self.status in (Status.COMPRESSED, Status.WOULD_COMPRESS)

    @property
    def ratio(self) -> float:
        """The share of the original size that the run saved; 0 if it saved nothing."""
        return 1 - self.compressed_size / self.original_size if self.original_size else 0.0


def to_json(stats: Struct) -> dict[str, Any]:
    """Turn a record of statistics into what `--json` prints."""
    found: dict[str, Any] = json_safe(to_builtins(stats))
    return found


LINES = "lines"
MESSAGES = "messages"
TURNS = "turns"
"""Among a run's statistics: how many of them the session had."""

_FEWER_TOKENS = PRESETS["low-cost"].protect_tokens


def replaced(counts: Mapping[Kind, int]) -> dict[str, Any]:
    """Name the numbers of replaced blocks as a run's statistics do."""
    others = {kind.value: number for kind, number in counts.items() if number and not KINDS[kind].field}
    numbers = {KINDS[kind].field: number for kind, number in counts.items() if KINDS[kind].field}
    return {**numbers, "others_replaced": others}


def noted(run: RunRecord, what: str) -> int:
    """Look up what a run noted of the session; 0 if it noted nothing, or no number."""
    value = run.stats.get(what)
    return value if isinstance(value, int) and value > 0 else 0


def is_since(answer: Answer, run: RunRecord | None) -> bool:
    """Tell whether an answer came after a run; where one of them has no time, it did not."""
    if run is None:
        return True
    at = said_time(run.at)
    return at is not None and answer.at > at * 1000


def recorded_now(newest: Answer, journal: Journal) -> int | None:
    """Look up what the agent recorded of a session as it is now; None where it recorded nothing since the last run."""
    run = journal.runs[-1] if journal.runs else None
    if run is not None and run.restored and not journal.has_checkpoint:
        run = None
    return newest.usage.context if newest.usage and is_since(newest, run) else None


def uncached(view: View, planned: Plan, applied: Applied, each: float) -> int:
    """Estimate what the next request sends that its provider's cache no longer holds, in tokens of so many characters.

    A cache holds the beginning of a request, up to the first message that differs; a mirror is in no request.
    """
    changed = {
        number
        for number in applied.changed
        if any(change.block is None or KINDS[change.block.kind].read for change in planned[number])
    }
    read = [number for number in view.survey.shape.live if number not in view.survey.shape.dead]
    first = next((at for at, number in enumerate(read) if number in changed), len(read))
    return estimate(sum(applied.lines[number].reads for number in read[first:]), each)


def boundary_of(view: View) -> int:
    """Find the first protected line, or the number of lines."""
    standing = view.standing
    return standing.index(Standing.PROTECTED) if Standing.PROTECTED in standing else len(standing)


def imitated(read: Survey, ours: Ours) -> tuple[int, int]:
    """Count the blocks that hold something in the marker's form that is not ours; and those in calls' arguments.

    What an image or a mirror holds is a copy of what is counted elsewhere, or no text at all.
    """
    copies = (Kind.IMAGE, Kind.MIRROR)
    marked = (block for line in read.lines for block in line.blocks if block.marked and block.kind not in copies)
    kinds = [block.kind for block in marked if (block.digest, block.kind, block.call) not in ours]
    return len(kinds), kinds.count(Kind.ARGUMENT)


def too_few_tokens(view: View, applied: Applied) -> str:
    """Word that a run which prunes saves the model less than is worth it; nothing if it saves enough."""
    if not view.policy.prune.enabled:
        return ""
    least = view.policy.prune.prune_minimum
    # A picture that was not counted may become a text that is.
    saved = max(tokens_of(view.survey) - tokens_of(view.survey._replace(lines=applied.lines)), 0)
    what = f"it would save the model only {saved:,} tokens (4 characters each), less than pruneMinimum {least:,}"
    return "" if saved >= least else f"{what} (a run without pruning may be worth it)"


def advice(view: View, protected: int) -> str:
    """Word how much the recent context holds, `protected` bytes, and with which options a run would keep less of it."""
    if protected < KB:
        return ""
    less = replace(view, policy=replace(view.policy, protect_tokens=_FEWER_TOKENS))
    # With fewer tokens no line is protected that was not before.
    recent = [number for number, standing in enumerate(view.standing) if standing is Standing.PROTECTED]
    keeps_less = in_question(less, recent)[0] - in_question(view, recent)[0] >= KB
    hint = f"; --protect-tokens {_FEWER_TOKENS} keeps less" if keeps_less else ""
    turns, tokens = view.policy.turn_threshold_before_compress, view.policy.protect_tokens
    context = f"the last {turns} turn{'' if turns == 1 else 's'}"
    if tokens is not None:
        context = f"the newest {tokens:,} tokens of tool I/O in {context}"
    return f"{kb(protected)} protected, mostly {context}{hint}"
