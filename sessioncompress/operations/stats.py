"""Where a session's bytes are, by kind and tool, and what a run would save; changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.core.model import Block, Standing
from sessioncompress.core.turns import turns_of
from sessioncompress.operations.compress import pruning_saves, refuse_in_merge, rehearse_open
from sessioncompress.pipeline import reading, triage
from sessioncompress.pipeline.budget import Action
from sessioncompress.pipeline.incremental import Part
from sessioncompress.pipeline.run import judge
from sessioncompress.pipeline.summary import BudgetStats, CompressionStats
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import beside_of, has_leftovers, store_of
from sessioncompress.store.lock import open_session


class Share(Struct, frozen=True, rename="camel"):
    """Blocks of one kind and tool: how many, and their bytes by where they stand."""

    kind: str
    tool: str
    blocks: int = 0
    protected: int = field(default=0, name="protectedBytes")
    old: int = field(default=0, name="oldBytes")
    dead: int = field(default=0, name="deadBytes")

    @property
    def bytes(self) -> int:
        """Return all bytes of the share."""
        return self.protected + self.old + self.dead


class SessionStats(Struct, frozen=True, rename="camel"):
    """Where a session's bytes are, and what a run with the same policy would come to."""

    path: str
    format: str
    size: int
    backup_size: int
    lines: int
    turns: int
    shares: tuple[Share, ...]
    would: CompressionStats


def inspect_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> SessionStats:
    """Return where the bytes of a session are and what would be saved. Raises SessionCompressError.

    `form` is as for compress_session().
    """
    with open_session(Path(path), writing=False) as session:
        # First, so that what is known of the lines is never held twice.
        would = rehearse_open(session, policy, form)
        beside = beside_of(session.path, policy)
        known = reading.read_session(session, journals.load(beside.journal), form)
        return SessionStats(
            str(session.path),
            known.form.name,
            session.size,
            reading.size_beside(beside),
            len(known.survey.lines),
            turns_of(known.survey),
            _shares(View(known.survey, policy, known.form, Ours())),
            would,
        )


def _shares(view: View) -> tuple[Share, ...]:
    shares: dict[tuple[str, str], Share] = {}
    for number, standing in enumerate(view.standing):
        for block in view.lines[number].blocks:
            if not block.marked:
                key = (block.kind.value, block.tool)
                shares[key] = _with(shares.get(key, Share(*key)), block, standing)
    return tuple(sorted(shares.values(), key=lambda share: share.bytes, reverse=True))


def _with(share: Share, block: Block, standing: Standing) -> Share:
    added = {standing.value: getattr(share, standing.value) + block.size}
    return replace(share, blocks=share.blocks + 1, **added)


def budget_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> BudgetStats:
    """Judge a session by the rule of a policy. Raises SessionCompressError.

    `form` is as for compress_session().
    """
    with open_session(Path(path), writing=False) as session:
        journal = journals.load(store_of(session.path, policy).journal)
        part = Part(session, reading.read_session(session, journal, form), journal)
        refuse_in_merge(part)
        as_left = not has_leftovers(session.path) and triage.is_as_left(session.path, policy, os.stat(session.path))
        stats = judge(part, policy, lambda: pruning_saves(session, policy, form), as_left=as_left)
        return stats if policy.enabled else replace(stats, decision=Action.NONE.value, reason=triage.SWITCHED_OFF)
