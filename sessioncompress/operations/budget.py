"""How a session stands against its model's context window, and whether anything is due; changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from sessioncompress.operations.compress import pruning_saves, refuse_in_merge
from sessioncompress.pipeline import due, reading, triage
from sessioncompress.pipeline.budget import Action
from sessioncompress.pipeline.incremental import Part
from sessioncompress.pipeline.summary import BudgetStats
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.layout import has_leftovers, store_of
from sessioncompress.store.lock import open_session


def budget_session(path: Path | str, policy: Policy = BALANCED, *, form: str | None = None) -> BudgetStats:
    """Judge a session by the rule of a policy. Raises SessionCompressError.

    `form` is as for compress_session().
    """
    with open_session(Path(path), writing=False) as session:
        journal = journals.load(store_of(session.path, policy).journal)
        part = Part(session, reading.read_session(session, journal, form), journal)
        refuse_in_merge(part)
        as_left = not has_leftovers(session.path) and triage.is_as_left(session.path, policy, os.stat(session.path))
        stats = due.judge(part, policy, lambda: pruning_saves(session, policy, form), as_left=as_left)
        return stats if policy.enabled else replace(stats, decision=Action.NONE.value, reason=triage.SWITCHED_OFF)
