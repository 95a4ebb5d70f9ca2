"""What of all that lies beside sessions can go: of gone sessions, by age, by size, of dead runs; and its going."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sessioncompress.clean_gone import DEAD_RUN, clean_gone, size_going, stats_of, with_cost
from sessioncompress.decide import Decision, Limits, again, by_limit, decide, undated
from sessioncompress.discover import Found, is_folder
from sessioncompress.forget import forget_open
from sessioncompress.holdings import Holding, holdings
from sessioncompress.policy import Policy
from sessioncompress.sightings import Lookout
from sessioncompress.stats import Cause, CleanStats
from sessioncompress.store import journal as journals
from sessioncompress.store import times
from sessioncompress.store.beside import size_of
from sessioncompress.store.lock import open_session
from sessioncompress.store.recover import check, recover, removable


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions, and the files and folders of which nothing could be found out."""

    decisions: tuple[Decision, ...]
    unread: tuple[Found, ...] = ()


def plan_clean(paths: Sequence[Path], policy_of: Callable[[Path], Policy], limits: Limits) -> Plan:
    """Find out what can go under the paths; changes nothing."""
    found = list(holdings(paths, policy_of))
    held = [each for each in found if isinstance(each, Holding)]
    unread = [each for each in found if isinstance(each, Found)]
    lost = [each.session.name for each in held if not each.exists and each.size]
    lookout = Lookout((path if is_folder(path) else path.parent for path in paths), lost) if lost else None
    decisions = [decide(each, None if each.exists else lookout, limits) for each in held]
    return Plan(tuple(_fit(decisions, limits.max_size)), (*unread, *(lookout.first.unread if lookout else ())))


def clean_one(decision: Decision, *, dry_run: bool) -> CleanStats | None:
    """Do what was decided, or with `dry_run` find out what that would come to; None where nothing is to be said.

    What is to be deleted is decided once more before it goes. Raises SessionCompressError where what lies there is
    damaged or in use: it is then as it was.
    """
    if decision.error is not None:
        raise decision.error
    holding = decision.holding
    if not holding.exists:
        return clean_gone(decision, dry_run=dry_run)
    done = _tidy(holding, dry_run=dry_run) if holding.left_over else None
    if decision.deletes:
        return _clean_there(decision, done, dry_run=dry_run)
    if decision.reason:
        return replace(done or stats_of(decision), cause=decision.cause, reason=decision.reason)
    return done


def _fit(decisions: list[Decision], most: int | None) -> Iterator[Decision]:
    """Let the oldest go until the rest fits; what has no age does not go."""
    total = sum(each.holding.size for each in decisions if not each.deletes)
    if most is None or total <= most:
        yield from decisions
        return
    over: dict[Path, float] = {}
    dated = [(each.told.last_run or 0, each.holding) for each in decisions if _is_dated(each)]
    for last_run, holding in sorted(dated, key=lambda each: each[0]):
        if total > most:
            over[holding.session] = last_run
            total -= holding.size
    for each in decisions:
        if each.holding.session in over:
            when = times.written(over[each.holding.session])
            reason = f"its last run, {when}, is among the oldest"
            yield by_limit(each, Cause.SIZE, reason)
        else:
            yield undated(each) if total > most and _is_undated(each) else each


def _is_undated(decision: Decision) -> bool:
    """Say whether nothing is said yet of why this stays."""
    return bool(decision.holding.size) and not (decision.deletes or decision.reason or decision.error)


def _is_dated(decision: Decision) -> bool:
    last_run = decision.told.last_run
    return not decision.deletes and last_run is not None and last_run <= time.time()


def _clean_there(decision: Decision, done: CleanStats | None, *, dry_run: bool) -> CleanStats:
    """Delete originals and journal of a session that exists, unless a run has been there since they were looked at."""
    holding = decision.holding
    with open_session(holding.session, writing=not dry_run) as session:
        now = decision if dry_run else again(decision)
        cost = forget_open(session, holding.beside, dry_run=dry_run) if now.deletes else None
    stats = stats_of(now)
    if done is not None:
        stats = replace(stats, left_over=done.left_over, left_over_bytes=done.left_over_bytes)
    return with_cost(stats, cost) if cost else stats


def _tidy(holding: Holding, *, dry_run: bool) -> CleanStats | None:
    """Remove what dead runs left beside a session that exists, after carrying over what came late."""
    with open_session(holding.session, writing=True) as session:
        lengths = journals.load(holding.beside.journal).lengths
        check(session, holding.beside, lengths)
        cut = (size_of(holding.beside.originals) or 0) - lengths.originals
        cut += (size_of(holding.beside.journal) or 0) - lengths.journal
        going = removable(session, holding.beside)
        size = size_going(going) + cut
        if not dry_run:
            recover(session, holding.beside, lengths)
            going = [each for each in going if not os.path.lexists(each)]
    if not going:
        return None
    kept = CleanStats(str(holding.session), deleted=False, cause=Cause.DEAD_RUN, reason=DEAD_RUN)
    return replace(kept, left_over=len(going), left_over_bytes=size)
