"""Delete what dead runs left, and stores by a limit or of sessions that the user names as gone.

A session that is not at its path need not be gone. It may have been moved, or be on another branch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.core import text
from sessioncompress.errors import SessionCompressError, failing
from sessioncompress.operations import stores
from sessioncompress.operations.forget import ForgetStats, forget_gone, forget_open
from sessioncompress.operations.stores import NOTHING_TOLD, Holding, Told, holdings, told
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.relatives import Kin
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk, git
from sessioncompress.store import journal as journals
from sessioncompress.store.folder import tidy
from sessioncompress.store.layout import size_of
from sessioncompress.store.lock import open_session
from sessioncompress.store.recover import check, recover, removable

_DAY = 24 * 3600
_AS_IT_WAS = "Its store is as it was."
_DEAD_RUN = "a run that has ended left it"
_NOT_THERE = "the session is not there"
_FORGET = "'sessioncompress forget' deletes this all the same"
_MISSING = f"{_NOT_THERE}, but may only have been moved; if it is gone, name its own path to delete this"


class Cause(StrEnum):
    """Why a store is deleted or kept."""

    GONE = "gone"
    AGE = "age"
    SIZE = "size"
    DEAD_RUN = "dead run"
    MISSING = "missing"
    GIT = "git"
    UNKNOWN = "unknown"
    BACK = "back"
    CHANGED = "changed"


class CleanStats(Struct, frozen=True, rename="camel"):
    """What `clean` deletes of one store, or why it keeps it.

    `left_over` counts the temp files and late links of dead runs, `left_over_bytes` their bytes, and `late_bytes` what
    is carried over from such links into the session first. The other numbers are those of ForgetStats.
    """

    path: str
    deleted: bool
    cause: Cause | None
    reason: str
    bytes_deleted: int = 0
    originals: int = 0
    originals_lost: int = 0
    left_over: int = 0
    left_over_bytes: int = 0
    late_bytes: int = 0
    links_kept: int = 0
    referring: tuple[str, ...] = ()


class Limits(NamedTuple):
    """Which originals to delete: by seconds since the last run, or by bytes in all stores."""

    older_than: int | None = None
    max_size: int | None = None


class Decision(NamedTuple):
    """Whether a store is deleted (`deletes`), why, and the `error` that prevented a decision."""

    holding: Holding
    deletes: bool = False
    cause: Cause = Cause.DEAD_RUN
    reason: str = ""
    told: Told = NOTHING_TOLD
    error: SessionCompressError | None = None


class Plan(NamedTuple):
    """The decisions, and the files and folders that could not be read."""

    decisions: tuple[Decision, ...]
    unread: tuple[Found, ...] = ()


def plan_clean(paths: Sequence[Path], policy_of: Callable[[Path], Policy], limits: Limits) -> Plan:
    """Decide for every store under the paths. Changes nothing."""
    found = list(holdings(paths, policy_of))
    held = [each for each in found if isinstance(each, Holding)]
    withheld = _withheld(each for each in held if not each.exists)
    decisions = [_decide(each, limits, withheld.get(each.session)) for each in held]
    unread = tuple(each for each in found if isinstance(each, Found))
    return Plan(tuple(_fit(decisions, limits.max_size)), unread)


def clean_one(decision: Decision, kin: Kin, *, dry_run: bool) -> CleanStats | None:
    """Carry out a decision, or with `dry_run` find out what it would delete; None if there is nothing to report.

    The store is read again before it is deleted. Raises SessionCompressError, with the store as it was, if it is
    damaged or in use.
    """
    if decision.error is not None:
        raise decision.error
    holding = decision.holding
    if not holding.exists:
        return _clean_gone(decision, kin, dry_run=dry_run)
    done = _tidy(holding, dry_run=dry_run) if holding.left_over else None
    if decision.deletes:
        return _clean_there(decision, done, kin, dry_run=dry_run)
    if decision.reason:
        return replace(done or _stats_of(decision), cause=decision.cause, reason=decision.reason)
    return done


def _withheld(missing: Iterable[Holding]) -> Mapping[Path, tuple[Cause, str]]:
    places = {holding.session.parent.resolve() / holding.session.name: holding for holding in missing}
    found: dict[Path, tuple[Cause, str]] = {}
    for place, error in git.known(places).items():
        cause, what = Cause.GIT, "git has it in a commit, a stash or the index"
        if error is not None:
            cause, what = Cause.UNKNOWN, f"git may have it, but does not answer ({error.what})"
        found[places[place].session] = cause, f"{_NOT_THERE}, and {what}; {_FORGET}"
    for holding in places.values():
        if _may_be_off(holding):
            reason = f"{_NOT_THERE}, nor is anything else in its folder, as where a disk is off; {_FORGET}"
            found[holding.session] = Cause.UNKNOWN, reason
    return found


def _may_be_off(holding: Holding) -> bool:
    try:
        return not os.listdir(holding.session.parent)
    except OSError:
        return True


def _decide(holding: Holding, limits: Limits, withheld: tuple[Cause, str] | None) -> Decision:
    decision = Decision(holding)
    if withheld:
        cause, reason = withheld
        return decision._replace(cause=cause, reason=reason)
    if not holding.exists and holding.named:
        decision = decision._replace(deletes=True, cause=Cause.GONE, reason=f"{_NOT_THERE}, and named as gone")
    elif not holding.exists:
        decision = decision._replace(cause=Cause.MISSING, reason=_MISSING)
    if not decision.deletes and (not holding.size or limits == Limits()):
        return decision
    try:
        with failing(holding.session, state=_AS_IT_WAS):
            return _by_age(decision._replace(told=told(holding)), limits.older_than)
    except SessionCompressError as error:
        return Decision(holding, error=error)


def _by_age(decision: Decision, older_than: int | None) -> Decision:
    if decision.deletes or older_than is None:
        return decision
    if decision.told.last_run is None:
        return _undated(decision)
    age = time.time() - decision.told.last_run
    if age <= older_than:
        return decision
    return _by_limit(decision, Cause.AGE, f"its last run was {int(age / _DAY):,} days ago")


def _fit(decisions: list[Decision], most: int | None) -> Iterator[Decision]:
    """Delete the oldest until the rest fits. Without a time of the last run a store stays."""
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
            when = text.written_time(over[each.holding.session])
            yield _by_limit(each, Cause.SIZE, f"its last run, {when}, is among the oldest")
        else:
            yield _undated(each) if total > most and _is_undated(each) else each


def _is_dated(decision: Decision) -> bool:
    last_run = decision.told.last_run
    return not decision.deletes and last_run is not None and last_run <= time.time()


def _is_undated(decision: Decision) -> bool:
    said = decision.deletes or decision.error or (decision.reason and decision.cause is not Cause.MISSING)
    return bool(decision.holding.size) and not said


def _by_limit(decision: Decision, cause: Cause, reason: str) -> Decision:
    elsewhere = "" if decision.holding.exists else f"; {_NOT_THERE}, and may only have been moved"
    return decision._replace(deletes=True, cause=cause, reason=reason + elsewhere)


def _undated(decision: Decision) -> Decision:
    reason = "no run that a journal dates is there, so that no limit deletes this; 'sessioncompress forget' does"
    return decision._replace(cause=Cause.UNKNOWN, reason=reason)


def _again(decision: Decision) -> Decision:
    holding = decision.holding
    with failing(holding.session, state=_AS_IT_WAS):
        holding = holding._replace(size=reading.size_beside(holding.beside))
        now = decision._replace(holding=holding, told=told(holding))
    if holding.size and now.told != decision.told:
        reason = "a run has been at work on it since it was looked at"
        return now._replace(deletes=False, cause=Cause.CHANGED, reason=reason)
    return now


def _clean_there(decision: Decision, done: CleanStats | None, kin: Kin, *, dry_run: bool) -> CleanStats:
    holding = decision.holding
    with open_session(holding.session, writing=not dry_run) as session:
        now = decision if dry_run else _again(decision)
        cost = forget_open(session, holding.beside, holding.policy, kin, dry_run=dry_run) if now.deletes else None
    stats = _stats_of(now)
    if done is not None:
        stats = replace(
            stats, left_over=done.left_over, left_over_bytes=done.left_over_bytes, late_bytes=done.late_bytes
        )
    return _with_cost(stats, cost) if cost else stats


def _tidy(holding: Holding, *, dry_run: bool) -> CleanStats | None:
    with open_session(holding.session, writing=True) as session:
        lengths = journals.load(holding.beside.journal).lengths
        check(session, holding.beside, lengths)
        cut = (size_of(holding.beside.originals) or 0) - lengths.originals
        cut += (size_of(holding.beside.journal) or 0) - lengths.journal
        going, late = removable(session)
        size = reading.size_of_names(going) + cut
        if not dry_run:
            late = recover(session, holding.beside, lengths)
            going = [each for each in going if not os.path.lexists(each)]
    if not going and not late:
        return None
    stats = _stats_of(Decision(holding, reason=_DEAD_RUN))
    return replace(stats, left_over=len(going), left_over_bytes=size if going else 0, late_bytes=late)


def _clean_gone(decision: Decision, kin: Kin, *, dry_run: bool) -> CleanStats | None:
    holding = decision.holding
    if os.path.lexists(holding.session):
        return replace(_stats_of(decision), deleted=False, cause=Cause.BACK, reason="the session is there again")
    if decision.deletes and not dry_run:
        decision = _again(decision)
        if not (decision.holding.size or stores.remains(holding.session, holding.beside)):
            # Another clean-up was faster.
            return None
    if decision.deletes:
        return _with_cost(_stats_of(decision), forget_gone(holding.session, holding.policy, kin, dry_run=dry_run))
    return _clean_missing(decision, dry_run=dry_run)


def _clean_missing(decision: Decision, *, dry_run: bool) -> CleanStats:
    holding = decision.holding
    with failing(holding.session, state=_AS_IT_WAS):
        needed = stores.needed_links(holding.session, holding.beside)
        others = not holding.size and set(stores.remains(holding.session, holding.beside))
        dead = stores.dead_drafts(holding.session, holding.beside)
        size = reading.size_of_names(dead)
        if not dry_run:
            for path in dead:
                disk.remove(path)
            tidy(holding.beside.work)
    kept = replace(_stats_of(decision), left_over=len(dead), left_over_bytes=size, links_kept=len(needed))
    if dead and others == set(dead):
        return replace(kept, cause=Cause.DEAD_RUN, reason=_DEAD_RUN)
    return kept


def _stats_of(decision: Decision) -> CleanStats:
    return CleanStats(str(decision.holding.session), decision.deletes, decision.cause, decision.reason)


def _with_cost(stats: CleanStats, cost: ForgetStats) -> CleanStats:
    return replace(
        stats,
        bytes_deleted=cost.bytes_deleted,
        originals=cost.originals,
        originals_lost=cost.originals_lost,
        links_kept=cost.links_kept,
        referring=cost.referring,
    )
