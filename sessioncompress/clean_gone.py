"""The going of what lies beside one session that is gone, and the note of since when it is missing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sessioncompress.decide import AS_IT_WAS, MISSING_DAYS, Decision, again
from sessioncompress.errors import failing
from sessioncompress.forget import forget_gone
from sessioncompress.stats import Cause, CleanStats, ForgetStats
from sessioncompress.store import gone, missing, times

DEAD_RUN = "a run that has ended left it"


def clean_gone(decision: Decision, *, dry_run: bool) -> CleanStats | None:
    """Do what was decided of a session that is gone, or find out what that would come to; see clean_one()."""
    holding = decision.holding
    if os.path.lexists(holding.session):
        return replace(stats_of(decision), deleted=False, cause=Cause.BACK, reason="the session is there again")
    if decision.deletes and not dry_run:
        with failing(holding.session, state=AS_IT_WAS):
            decision = again(decision)
            if not _lies_there(decision):
                return None
    if decision.deletes:
        return with_cost(stats_of(decision), forget_gone(holding.session, holding.policy, dry_run=dry_run))
    return _clean_missing(decision, dry_run=dry_run)


def _lies_there(decision: Decision) -> bool:
    """Say whether anything is left: another clean-up may have been faster."""
    holding = decision.holding
    note = os.path.lexists(holding.beside.missing)
    return bool(holding.size or note or gone.remains(holding.session, holding.beside))


def _clean_missing(decision: Decision, *, dry_run: bool) -> CleanStats:
    """Keep what lies beside a session that may not be gone, but for the temp files of dead runs."""
    holding = decision.holding
    with failing(holding.session, state=AS_IT_WAS):
        needed = gone.needed_links(holding.session, holding.beside)
        others = not holding.size and set(gone.remains(holding.session, holding.beside))
        dead = gone.dead_drafts(holding.session, holding.beside)
        size = size_going(dead)
        if not dry_run:
            _keep_note(decision)
            gone.remove_drafts(dead, holding.beside)
    kept = replace(stats_of(decision), left_over=len(dead), left_over_bytes=size, links_kept=len(needed))
    if dead and others == set(dead):
        return replace(kept, cause=Cause.DEAD_RUN, reason=DEAD_RUN)
    if not dry_run and decision.cause is Cause.MISSING and decision.since is None:
        reason = f"the session is found nowhere; this goes in {MISSING_DAYS} days, if it still is not"
        return replace(kept, reason=reason)
    return kept


def _keep_note(decision: Decision) -> None:
    """Begin to count where the session is found nowhere for the first time; end it where it was found."""
    beside = decision.holding.beside
    if decision.cause in (Cause.MOVED, Cause.FORKED):
        missing.forget_note(beside)
    elif decision.cause is Cause.MISSING and decision.since is None:
        missing.note(beside, decision.told.session_id, time.time())


def stats_of(decision: Decision) -> CleanStats:
    """Return what a decision alone says."""
    since = times.written(decision.since) if decision.since is not None else ""
    path = str(decision.holding.session)
    return CleanStats(path, decision.deletes, decision.cause, decision.reason, missing_since=since)


def with_cost(stats: CleanStats, cost: ForgetStats) -> CleanStats:
    """Add what goes."""
    return replace(
        stats,
        bytes_deleted=cost.bytes_deleted,
        originals=cost.originals,
        originals_lost=cost.originals_lost,
        links_kept=cost.links_kept,
    )


def size_going(paths: Iterable[Path]) -> int:
    """Return the bytes that go with these names: those of a file that has another name stay."""
    found = [path.lstat() for path in paths]
    return sum(each.st_size for each in found if each.st_nlink == 1)
