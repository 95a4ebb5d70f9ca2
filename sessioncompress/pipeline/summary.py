"""What a session holds, in the numbers and words that a run reports of it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from sessioncompress.compressors import View
from sessioncompress.core.lines import Survey
from sessioncompress.core.model import Change, Kind, Standing
from sessioncompress.core.text import estimate
from sessioncompress.core.turns import messages_of, tokens_of, turns_of
from sessioncompress.pipeline.apply import Applied
from sessioncompress.pipeline.plan import Plan, in_question
from sessioncompress.pipeline.stats import CompressionStats
from sessioncompress.pipeline.triage import KB
from sessioncompress.policy.model import PRESETS
from sessioncompress.store.records import RunRecord

_COPIES = frozenset({Kind.IMAGE, Kind.MIRROR})
"""What holds a text in the marker's form there is a copy of what was counted elsewhere, or no text at all."""


LINES = "lines"
MESSAGES = "messages"
TURNS = "turns"
"""Among a run's statistics: how many of them the session had."""

_FEWER_TOKENS = PRESETS["low-cost"].protect_tokens


def counted(view: View, path: str, backup_size: int) -> CompressionStats:
    """Return the statistics of a session as it is."""
    found = view.survey
    markers, in_calls = imitated(view)
    before = found.before
    return CompressionStats(
        path,
        format=view.form.name,
        original_size=found.size,
        compressed_size=found.size,
        backup_size=backup_size,
        lines=before.lines + len(found.lines),
        lines_not_understood=before.strange + found.lines.not_understood(),
        imitated_markers=markers,
        imitated_in_calls=in_calls,
        turns=turns_of(found),
        tokens_before=tokens_of(found),
        tokens_after=tokens_of(found),
    )


def all_messages(read: Survey, run: RunRecord | None) -> int:
    """Count the messages of a session, though only those behind what `run`, its newest run, finished were read.

    One that was being written at that run, in several lines, was counted by it.
    """
    if run is None or not read.before.size:
        return messages_of(read)
    again = messages_of(read, range(known_lines(read, run)))
    return noted(run, MESSAGES) + messages_of(read) - again


def known_lines(read: Survey, run: RunRecord) -> int:
    """Return how many of the lines that were read were there at a run."""
    return max(noted(run, LINES) - read.before.lines, 0)


def noted(run: RunRecord, what: str) -> int:
    """Return what a run noted of the session; 0 where it noted nothing, or no number."""
    value = run.stats.get(what)
    return value if isinstance(value, int) and value > 0 else 0


def with_changes(stats: CompressionStats, view: View, planned: Plan, applied: Applied) -> CompressionStats:
    """Return the statistics with what a run changed, or would change."""
    tally = applied.tally
    return replace(
        stats,
        lines_changed=len(applied.changed),
        messages_changed=messages_of(view.survey, frozenset(applied.changed)),
        tool_calls_compressed=tally.calls,
        tool_results_compressed=tally.counts[Kind.RESULT],
        thinking_blocks_removed=tally.counts[Kind.THINKING],
        images_replaced=tally.counts[Kind.IMAGE],
        mirrors_replaced=tally.counts[Kind.MIRROR],
        redundancies_eliminated=tally.redundancies,
        removed_bytes=tally.removed,
        tokens_after=tokens_of(view.survey._replace(lines=applied.lines)),
        tokens_uncached=_uncached(view, planned, applied),
    )


def _uncached(view: View, planned: Plan, applied: Applied) -> int:
    """Estimate what the next request sends that its provider's cache no longer holds.

    A cache holds the beginning of a request, up to the first message that differs; a mirror is in no request.
    """
    changed = frozenset(applied.changed)
    read = [number for number in view.survey.shape.live if number not in view.survey.shape.dead]
    differing = (at for at, number in enumerate(read) if number in changed and _is_read(planned[number]))
    first = next(differing, len(read))
    return estimate(sum(applied.lines[number].reads for number in read[first:]))


def _is_read(changes: Iterable[Change]) -> bool:
    return any(change.block is None or change.block.kind is not Kind.MIRROR for change in changes)


def boundary_of(view: View) -> int:
    """Return the first protected line, or the number of lines."""
    try:
        return view.standing.index(Standing.PROTECTED)
    except ValueError:
        return len(view.lines)


def imitated(view: View) -> tuple[int, int]:
    """Count the blocks that hold something in the marker's form that is not ours; and those in calls' arguments."""
    marked = [block for line in view.lines for block in line.blocks if block.marked]
    kinds = [block.kind for block in marked if block.kind not in _COPIES and not view.holds_ours(block)]
    before = view.survey.before
    return before.imitated + len(kinds), before.in_calls + kinds.count(Kind.ARGUMENT)


def too_few_tokens(view: View, applied: Applied) -> str:
    """Say that a run which prunes saves the model less than is worth it; nothing where it saves enough."""
    if not view.policy.prune.enabled:
        return ""
    least = view.policy.prune.prune_minimum
    # A picture that was not counted may become a text that is.
    saved = max(tokens_of(view.survey) - tokens_of(view.survey._replace(lines=applied.lines)), 0)
    what = f"it would save the model {saved:,} tokens, less than pruneMinimum {least:,}"
    return "" if saved >= least else f"{what} (a run without pruning may pay)"


def why(view: View, protected: int, gain: int, reason: str = "") -> str:
    """Say in one sentence why nothing was written, and what would help."""
    reason = reason or "nothing to remove that would pay"
    if gain:
        reason = f"it would save {gain / KB:,.1f} KB, less than minSavedKB {view.policy.min_saved_kb:,}"
    return "; ".join(part for part in (reason, advice(view, protected)) if part)


def advice(view: View, protected: int) -> str:
    """Say how much the recent context holds, `protected` bytes, and with which options a run would keep less of it."""
    if protected < KB:
        return ""
    less = replace(view, policy=replace(view.policy, protect_tokens=_FEWER_TOKENS))
    # With fewer tokens no line is protected that was not before.
    recent = [number for number, standing in enumerate(view.standing) if standing is Standing.PROTECTED]
    keeps_less = in_question(less, recent)[0] - in_question(view, recent)[0] >= KB
    hint = f"; --protect-tokens {_FEWER_TOKENS} keeps less" if keeps_less else ""
    return f"inside {_recent(view)}: {protected / KB:,.0f} KB{hint}"


def _recent(view: View) -> str:
    """Name the recent context as it was measured for this session."""
    turns, tokens = view.policy.turn_threshold_before_compress, view.policy.protect_tokens
    asked = f"the last {turns} turn{'' if turns == 1 else 's'}"
    return asked if tokens is None else f"the newest {tokens:,} tokens of tool I/O in {asked}"
