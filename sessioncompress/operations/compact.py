"""Write a checkpoint into one session: cut, sum up, write in the agent's own form, check, commit."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.checkpoints.cut import NoCut, find_cut
from sessioncompress.core import text
from sessioncompress.core.lines import messages_of, tokens_of
from sessioncompress.errors import NOT_CHANGED, Refused
from sessioncompress.operations.draft import Opened, opened
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.summary import Status
from sessioncompress.policy.model import BALANCED, Policy


class CompactStats(Struct, frozen=True, rename="camel"):
    """What `compact` did to one session, or with `dry_run` would do. Sizes are bytes; tokens are estimates.

    `tokens_before` and `tokens_after` are what the model reads; `tokens_summary` is the summary's part of the latter.
    `splits_turn`: what is kept begins inside a turn. `summary` is the text, where it was asked for.
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
    messages_before: int = 0
    messages_kept: int = 0
    splits_turn: bool = False
    exit_code: int = 0
    summary: str = ""

    @property
    def is_compacted(self) -> bool:
        """Whether a checkpoint was written, or with `dry_run` would be."""
        return self.status in (Status.COMPACTED, Status.WOULD_COMPACT)


def compact_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    dry_run: bool = False,
    form: str | None = None,
    named: bool = True,
) -> CompactStats:
    """Write a checkpoint into a session in place, or with `dry_run` only find out what that would do.

    What goes and how long the summary is says `policy.compact`. `form` and `named` as in compress_session(). Raises
    SessionCompressError with the session unchanged: Refused where the session's agent has no checkpoint that we write.
    """
    path = Path(path)
    if not policy.enabled:
        return CompactStats(str(path), status=Status.SKIPPED, reason=triage.SWITCHED_OFF)
    with opened(path, policy, writing=not dry_run, form=form, named=named) as session:
        return _compact(session, dry_run=dry_run)


def _compact(session: Opened, *, dry_run: bool) -> CompactStats:
    """Write the checkpoint, unless nothing is to go or too little is saved."""
    form, read, rules = session.form, session.read, session.policy.compact
    found = find_cut(read, rules, splits=form.splits_turns)
    if isinstance(found, NoCut):
        return _unchanged(session, found.reason)
    before = tokens_of(read)
    summary = session.summary(found.old, budget=session.budget(found.old), splits=found.splits)
    kept = text.estimate(sum(read.lines[number].reads for number in found.kept))
    summary = summary._replace(tokens_before=before, tokens_after=kept + text.estimate(len(summary.text)))
    with session.refusing():
        made = form.checkpoint(session.written, found, summary)
    if made is None:
        what = f"compact writes no checkpoint for sessions of {form.name} yet"
        raise Refused(what, where=session.where, state=NOT_CHANGED, remedy="compress makes this session smaller.")
    with session.draft(made, found, dry_run=dry_run) as draft:
        tokens = tokens_of(draft.read)
        stats = CompactStats(
            session.where,
            form.name,
            status=Status.WOULD_COMPACT if dry_run else Status.COMPACTED,
            size_before=session.session.size,
            size_after=draft.size,
            tokens_before=before,
            tokens_after=tokens,
            tokens_summary=text.estimate(len(summary.text)),
            messages_before=messages_of(read),
            messages_kept=messages_of(read, frozenset(found.kept)),
            splits_turn=found.splits,
            summary=summary.text,
        )
        if before - tokens < rules.min_saved_tokens:
            least = rules.min_saved_tokens
            return _unchanged(session, f"it would save {before - tokens:,} tokens, less than minSavedTokens {least:,}")
        if dry_run:
            return stats
        return replace(stats, size_after=session.commit(draft, summary, rules.rule, (before, tokens)))


def _unchanged(session: Opened, reason: str) -> CompactStats:
    size, tokens, messages = session.session.size, tokens_of(session.read), messages_of(session.read)
    return CompactStats(
        session.where,
        session.form.name,
        reason=reason,
        size_before=size,
        size_after=size,
        tokens_before=tokens,
        tokens_after=tokens,
        messages_before=messages,
        messages_kept=messages,
    )
