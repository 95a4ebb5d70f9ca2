"""Measure a session: its bytes by kind and tool, what a run would save, and its budget. Changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.core.lines import turns_of
from sessioncompress.operations.compress import pruning_saves, refuse_in_merge, rehearse_open
from sessioncompress.pipeline import reading, triage
from sessioncompress.pipeline.budget import Action
from sessioncompress.pipeline.incremental import Part
from sessioncompress.pipeline.run import judge
from sessioncompress.pipeline.summary import BudgetStats, CompressionStats
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import has_leftovers, store_of
from sessioncompress.store.lock import open_session


class Share(Struct, frozen=True, rename="camel"):
    """The blocks of one kind and tool: their number, and their bytes by standing."""

    kind: str
    tool: str
    blocks: int = 0
    protected: int = field(default=0, name="protectedBytes")
    old: int = field(default=0, name="oldBytes")
    dead: int = field(default=0, name="deadBytes")


class SessionStats(Struct, frozen=True, rename="camel"):
    """The bytes of a session, and the result of a dry run with the same policy."""

    path: str
    format: str
    size: int
    backup_size: int
    lines: int
    turns: int
    shares: tuple[Share, ...]
    would: CompressionStats


def inspect_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> SessionStats:
    """Measure the blocks of a session and do a dry run over it. `form` as in compress_session().

    Raises SessionCompressError.
    """
    with open_session(Path(path), writing=False) as session:
        # The dry run comes first, so that the session is not held twice.
        store = store_of(session.path, policy)
        would = rehearse_open(session, store, policy, form)
        known = reading.read_session(session, journals.load(store.journal), form)
        return SessionStats(
            str(session.path),
            known.form.name,
            session.size,
            reading.size_beside(store),
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
                share = shares.get(key, Share(*key))
                added = {standing.value: getattr(share, standing.value) + block.size}
                shares[key] = replace(share, blocks=share.blocks + 1, **added)
    return tuple(sorted(shares.values(), key=lambda share: -(share.protected + share.old + share.dead)))


def budget_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> BudgetStats:
    """Judge a session by the rule of a policy. `form` as in compress_session(). Raises SessionCompressError."""
    with open_session(Path(path), writing=False) as session:
        store = store_of(session.path, policy)
        journal = journals.load(store.journal)
        part = Part(session, reading.read_session(session, journal, form), journal)
        refuse_in_merge(part)
        as_left = not has_leftovers(session.path) and triage.is_as_left(session.path, policy, os.stat(session.path))
        stats = judge(part, policy, lambda: pruning_saves(session, store, policy, form), as_left=as_left)
        return stats if policy.enabled else replace(stats, decision=Action.NONE.value, reason=triage.SWITCHED_OFF)
