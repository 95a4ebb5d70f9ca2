"""The counts, totals and hints that a run reports about a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from sessioncompress.compressors import KINDS, View
from sessioncompress.compressors.base import Ours
from sessioncompress.core.lines import Survey, tokens_of
from sessioncompress.core.model import Answer, Kind, Protection
from sessioncompress.core.text import KB, estimate, kb, said_time
from sessioncompress.pipeline.plan import Plan, in_question
from sessioncompress.pipeline.rewrite import Applied
from sessioncompress.policy.model import PRESETS
from sessioncompress.store.journal import Journal
from sessioncompress.store.records import RunRecord

LINES = "lines"
MESSAGES = "messages"
TURNS = "turns"
"""Keys in a run's statistics: how many of each the session had."""

_FEWER_TOKENS = PRESETS["low-cost"].protect_tokens


def replaced(counts: Mapping[Kind, int]) -> dict[str, Any]:
    """Map the counts of replaced blocks to fields of CompressionStats."""
    others = {kind.value: number for kind, number in counts.items() if number and not KINDS[kind].field}
    numbers = {KINDS[kind].field: number for kind, number in counts.items() if KINDS[kind].field}
    return {**numbers, "others_replaced": others}


def noted(run: RunRecord, what: str) -> int:
    """Return a count that a run recorded about the session, or 0 if it is missing or invalid."""
    value = run.stats.get(what)
    return value if isinstance(value, int) and value > 0 else 0


def is_since(answer: Answer, run: RunRecord | None) -> bool:
    """True if an answer came after a run; false if either has no time."""
    if run is None:
        return True
    at = said_time(run.at)
    return at is not None and answer.at > at * 1000


def recorded_now(newest: Answer, journal: Journal) -> int | None:
    """Return the agent's recorded usage of the session as of now, or None if none is newer than the last run."""
    return newest.usage.context if newest.usage and is_since(newest, journal.last_run) else None


def uncached(view: View, planned: Plan, applied: Applied, per_token: float) -> int:
    """Estimate the tokens of the next request that are not cached any more, at `per_token` characters a token.

    A cache holds the start of a request up to the first message that differs. A mirror is in no request.
    """
    changed = {
        number
        for number in applied.changed
        if any(change.block is None or KINDS[change.block.kind].read for change in planned[number])
    }
    read = [number for number in view.survey.shape.live if number not in view.survey.shape.dead]
    first = next((at for at, number in enumerate(read) if number in changed), len(read))
    return estimate(sum(applied.lines[number].reads for number in read[first:]), per_token)


def boundary_of(view: View) -> int:
    """Return the index of the first protected line, or the number of lines."""
    standing = view.standing
    return standing.index(Protection.PROTECTED) if Protection.PROTECTED in standing else len(standing)


def imitated(read: Survey, ours: Ours) -> tuple[int, int]:
    """Count the blocks with text in the marker's form that is not ours, in total and in call arguments.

    Images and mirrors are left out: they copy what is counted elsewhere, or hold no text.
    """
    copies = (Kind.IMAGE, Kind.MIRROR)
    marked = (block for line in read.lines for block in line.blocks if block.marked and block.kind not in copies)
    kinds = [block.kind for block in marked if (block.digest, block.kind, block.call) not in ours]
    return len(kinds), kinds.count(Kind.ARGUMENT)


def too_few_tokens(view: View, applied: Applied) -> str:
    """Return the reason if a pruning run saves the model too few tokens, else empty."""
    if not view.policy.prune.enabled:
        return ""
    least = view.policy.prune.prune_minimum
    # An image counts no tokens, but the text that replaces it does.
    saved = max(tokens_of(view.survey) - tokens_of(view.survey._replace(lines=applied.lines)), 0)
    what = f"it would save the model only {saved:,} tokens (4 characters each), less than pruneMinimum {least:,}"
    return "" if saved >= least else f"{what} (a run without pruning may be worth it)"


def advice(view: View, protected: int) -> str:
    """Report how much the recent context protects, in `protected` bytes, and the option that would protect less."""
    if protected < KB:
        return ""
    less = replace(view, policy=replace(view.policy, protect_tokens=_FEWER_TOKENS))
    # A smaller token limit only shrinks the set of protected lines.
    recent = [number for number, standing in enumerate(view.standing) if standing is Protection.PROTECTED]
    keeps_less = in_question(less, recent)[0] - in_question(view, recent)[0] >= KB
    hint = f"; --protect-tokens {_FEWER_TOKENS} (protectTokens) keeps less" if keeps_less else ""
    turns, tokens = view.policy.turn_threshold_before_compress, view.policy.protect_tokens
    context = f"the last {turns} turn{'' if turns == 1 else 's'}"
    if tokens is not None:
        context = f"the newest {tokens:,} tokens of tool I/O in {context}"
    return f"{kb(protected)} protected, mostly {context}{hint}"
