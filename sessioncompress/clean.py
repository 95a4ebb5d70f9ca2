"""What of all that lies beside sessions can go: of gone sessions, by age, by size, of dead runs; and its going."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sessioncompress.discover import Found, is_folder
from sessioncompress.errors import SessionCompressError, failing
from sessioncompress.forget import forget_gone, forget_session
from sessioncompress.holdings import NOTHING_TOLD, Holding, Told, holdings, told
from sessioncompress.policy import Policy
from sessioncompress.sightings import Sightings, look
from sessioncompress.stats import Cause, CleanStats
from sessioncompress.store import gone, missing, times
from sessioncompress.store import journal as journals
from sessioncompress.store.lock import open_session
from sessioncompress.store.recover import check, recover, removable

DAY = 24 * 3600
MISSING_DAYS = 30
"""So long a session must have been found nowhere before what lies beside it goes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a user asked to delete of sessions that still exist: seconds since the last run, bytes in all."""

    older_than: int | None = None
    max_size: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of one session's holding: `deletes` originals and journal, or an `error` kept it from that."""

    holding: Holding
    deletes: bool
    cause: Cause = Cause.DEAD_RUN
    reason: str = ""
    told: Told = NOTHING_TOLD
    since: float | None = None
    error: SessionCompressError | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions, and the files and folders that could not be read while sessions were looked for."""

    decisions: tuple[Decision, ...]
    unread: tuple[Found, ...] = ()


def plan_clean(paths: Sequence[Path], policy_of: Callable[[Path], Policy], limits: Limits) -> Plan:
    """Find out what can go under the paths; changes nothing."""
    found = list(holdings(paths, policy_of))
    lost = [each for each in found if not each.exists and each.size]
    sights = look(path if is_folder(path) else path.parent for path in paths) if lost else Sightings()
    decisions = [_decide(each, sights, limits) for each in found]
    return Plan(tuple(_fit(decisions, limits.max_size)), sights.unread)


def clean_one(decision: Decision, *, dry_run: bool) -> CleanStats | None:
    """Do what was decided, or with `dry_run` find out what that would come to; None where nothing is to be said.

    Raises SessionCompressError where what lies there is damaged or in use: it is then as it was.
    """
    if decision.error is not None:
        raise decision.error
    holding = decision.holding
    if not holding.exists:
        return _clean_gone(decision, dry_run=dry_run)
    done = _tidy(holding, dry_run=dry_run) if holding.left_over else None
    if not decision.deletes:
        return done
    cost = forget_session(holding.session, holding.policy, dry_run=dry_run)
    base = done or _stats(decision)
    return replace(
        base,
        deleted=True,
        cause=decision.cause,
        reason=decision.reason,
        bytes_deleted=cost.bytes_deleted,
        originals=cost.originals,
        originals_lost=cost.originals_lost,
    )


def _decide(holding: Holding, sights: Sightings, limits: Limits) -> Decision:
    wanted = limits.older_than is not None or limits.max_size is not None or not holding.exists
    try:
        known = told(holding) if wanted and holding.size else NOTHING_TOLD
    except SessionCompressError as error:
        return Decision(holding, deletes=False, error=error)
    decision = Decision(holding, deletes=False, told=known)
    if not holding.exists:
        decision = _decide_gone(decision, sights)
    age = None if known.last_run is None else time.time() - known.last_run
    if not decision.deletes and limits.older_than is not None and age is not None and age > limits.older_than:
        return replace(decision, deletes=True, cause=Cause.AGE, reason=f"its last run was {int(age / DAY):,} days ago")
    return decision


def _decide_gone(decision: Decision, sights: Sightings) -> Decision:
    """Say whether a session that is not at its path is gone: long missing, and found nowhere now."""
    holding, session_id = decision.holding, decision.told.session_id
    if not holding.size and not gone.remains(holding.session, holding.beside):
        return replace(decision, deletes=True, cause=Cause.GONE, reason="all else of it is gone already")
    if not session_id:
        why = "its journal, of version 0.1.0, has no id of it" if decision.told.last_run else "no journal lies there"
        return replace(decision, cause=Cause.UNKNOWN, reason=_unknown(why))
    return _unless_seen(decision, sights)


def _unless_seen(decision: Decision, sights: Sightings) -> Decision:
    """Say the same of a session of which the id is known."""
    holding, session_id = decision.holding, decision.told.session_id
    if (path := sights.session(session_id)) is not None:
        return replace(decision, cause=Cause.MOVED, reason=f"its session is now {path}: move these files with it")
    if (path := sights.fork(session_id, holding.session.name)) is not None:
        return replace(decision, cause=Cause.FORKED, reason=f"{path} is a fork of it, and may need its originals")
    if sights.unread:
        reason = "the session is not there, but not all places where it may be could be read"
        return replace(decision, cause=Cause.UNKNOWN, reason=reason)
    return _by_time(decision, missing.since(holding.beside, session_id))


def _by_time(decision: Decision, since: float | None) -> Decision:
    if since is None:
        reason = (
            f"the session is found nowhere; {MISSING_DAYS} days count from the first run with --yes that finds it so"
        )
        return replace(decision, cause=Cause.MISSING, reason=reason)
    decision = replace(decision, since=since)
    if time.time() - since < MISSING_DAYS * DAY:
        goes = times.written(since + MISSING_DAYS * DAY)
        return replace(decision, cause=Cause.MISSING, reason=f"the session is found nowhere; this goes from {goes} on")
    reason = f"the session is found nowhere since {times.written(since)}"
    return replace(decision, deletes=True, cause=Cause.GONE, reason=reason)


def _unknown(why: str) -> str:
    return f"the session is not there, but may only have been moved: {why}; 'sessioncompress forget' deletes this"


def _fit(decisions: list[Decision], most: int | None) -> Iterator[Decision]:
    """Let the oldest go until the rest fits."""
    total = sum(each.holding.size for each in decisions if not each.deletes)
    over: set[Path] = set()
    dated = [each for each in decisions if not each.deletes and each.told.last_run is not None]
    for each in sorted(dated, key=lambda each: each.told.last_run or 0):
        if most is not None and total > most:
            over.add(each.holding.session)
            total -= each.holding.size
    for each in decisions:
        if each.holding.session in over:
            reason = f"of all that lies there it is of the oldest, last run {times.written(each.told.last_run or 0)}"
            yield replace(each, deletes=True, cause=Cause.SIZE, reason=reason)
        else:
            yield each


def _clean_gone(decision: Decision, *, dry_run: bool) -> CleanStats:
    holding = decision.holding
    kept = _stats(decision)
    if os.path.lexists(holding.session):
        return replace(kept, deleted=False, cause=Cause.BACK, reason="the session is there again")
    if decision.deletes:
        cost = forget_gone(holding.session, holding.policy, dry_run=dry_run)
        return replace(
            kept, bytes_deleted=cost.bytes_deleted, originals=cost.originals, originals_lost=cost.originals_lost
        )
    with failing(holding.session, state="What lies beside it is as it was."):
        dead = gone.dead_drafts(holding.session, holding.beside)
        size = _size(dead)
        if not dry_run:
            _keep_note(decision)
            gone.remove_drafts(dead, holding.beside)
    if not dry_run and decision.cause is Cause.MISSING and decision.since is None:
        kept = replace(
            kept, reason=f"the session is found nowhere; this goes in {MISSING_DAYS} days, if it still is not"
        )
    return replace(kept, left_over=len(dead), left_over_bytes=size)


def _keep_note(decision: Decision) -> None:
    """Begin to count where the session is found nowhere for the first time; end it where it was found."""
    beside = decision.holding.beside
    if decision.cause in (Cause.MOVED, Cause.FORKED):
        missing.forget_note(beside)
    elif decision.cause is Cause.MISSING and decision.since is None:
        missing.note(beside, decision.told.session_id, time.time())


def _tidy(holding: Holding, *, dry_run: bool) -> CleanStats | None:
    """Remove what dead runs left beside a session that exists, after carrying over what came late."""
    with open_session(holding.session, writing=True) as session:
        lengths = journals.load(holding.beside.journal).lengths
        check(session, holding.beside, lengths)
        going = removable(session, holding.beside)
        size = _size(going)
        if not dry_run:
            recover(session, holding.beside, lengths)
            going = [each for each in going if not os.path.lexists(each)]
    if not going:
        return None
    reason = "a run that has ended left it"
    return CleanStats(
        str(holding.session),
        deleted=False,
        cause=Cause.DEAD_RUN,
        reason=reason,
        left_over=len(going),
        left_over_bytes=size,
    )


def _stats(decision: Decision) -> CleanStats:
    since = times.written(decision.since) if decision.since is not None else ""
    path = str(decision.holding.session)
    return CleanStats(path, decision.deletes, decision.cause, decision.reason, missing_since=since)


def _size(paths: Iterable[Path]) -> int:
    """Return the bytes that go with these names: those of a file that has another name stay."""
    found = [path.lstat() for path in paths]
    return sum(each.st_size for each in found if each.st_nlink == 1)
