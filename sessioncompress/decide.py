"""What is to become of what lies beside one session, from what its journal tells and what was seen; changes nothing."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from sessioncompress import files
from sessioncompress.errors import SessionCompressError, failing
from sessioncompress.holdings import NOTHING_TOLD, Holding, Told, references, told
from sessioncompress.sightings import Lookout, Sightings
from sessioncompress.stats import Cause
from sessioncompress.store import gone, missing, times

AS_IT_WAS = "What lies beside it is as it was."
DAY = 24 * 3600
MISSING_DAYS = 30
"""So long a session must have been found nowhere before what lies beside it goes."""
_NOWHERE = "the session is found nowhere (if it was moved, name the folder that it is in, too)"
_ELSEWHERE = {
    Cause.MOVED: "; its session is elsewhere now, and may need them",
    Cause.FORKED: "; a fork of its session may need them",
    Cause.MISSING: "; the session is found nowhere, but may only have been moved",
    Cause.UNKNOWN: "; the session is not there, but may only have been moved",
}
"""What is said of a session that is not at its path where a limit deletes its originals."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a user asked to delete of sessions that still exist: seconds since the last run, bytes in all."""

    older_than: int | None = None
    max_size: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of one session's holding: `deletes` originals and journal, or an `error` kept it from that.

    A session that is gone has a `lookout`, to look for it once more.
    """

    holding: Holding
    deletes: bool
    cause: Cause = Cause.DEAD_RUN
    reason: str = ""
    told: Told = NOTHING_TOLD
    since: float | None = None
    error: SessionCompressError | None = None
    lookout: Lookout | None = field(default=None, compare=False)


def decide(holding: Holding, lookout: Lookout | None, limits: Limits) -> Decision:
    """Decide by what is known before anything is locked."""
    decision = Decision(holding, deletes=False, lookout=lookout)
    wanted = limits.older_than is not None or limits.max_size is not None or not holding.exists
    try:
        with failing(holding.session, state=AS_IT_WAS):
            decision = replace(decision, told=told(holding) if wanted and holding.size else NOTHING_TOLD)
            if not holding.exists:
                decision = decide_gone(decision, lookout.first if lookout else Sightings())
    except SessionCompressError as error:
        return Decision(holding, deletes=False, error=error)
    return _by_age(decision, limits.older_than)


def again(decision: Decision) -> Decision:
    """Decide once more what was to be deleted, now that it goes: a run, or the session, may have come meanwhile."""
    with failing(decision.holding.session, state=AS_IT_WAS):
        holding = replace(decision.holding, size=files.size_beside(decision.holding.beside))
    now = replace(decision, holding=holding, told=told(holding) if holding.size else NOTHING_TOLD)
    if decision.cause is Cause.GONE and decision.lookout is not None:
        return decide_gone(replace(now, deletes=False), decision.lookout.again())
    if now.told != decision.told:
        reason = "a run has been at work on it since it was looked at"
        return replace(now, deletes=False, cause=Cause.CHANGED, reason=reason)
    return now


def decide_gone(decision: Decision, sights: Sightings) -> Decision:
    """Say whether a session that is not at its path is gone: long missing, and found nowhere now."""
    holding, known = decision.holding, decision.told
    if not holding.size and not gone.remains(holding.session, holding.beside):
        return replace(decision, deletes=True, cause=Cause.GONE, reason="all else of it is gone already")
    if not known.session_ids:
        why = "its journal, of version 0.1.0, has no id of it" if known.runs else "no journal there tells of a run"
        return replace(decision, cause=Cause.UNKNOWN, reason=_unknown(why))
    if _may_be_off(holding):
        why = "its folder is not there or empty, as where a disk is off"
        return replace(decision, cause=Cause.UNKNOWN, reason=_unknown(why))
    return _if_seen(decision, sights) or _unless_unread(decision, sights)


def _by_age(decision: Decision, older_than: int | None) -> Decision:
    if decision.deletes or older_than is None or not decision.holding.size:
        return decision
    if decision.told.last_run is None:
        return decision if decision.reason else undated(decision)
    age = time.time() - decision.told.last_run
    if age <= older_than:
        return decision
    return by_limit(decision, Cause.AGE, f"its last run was {int(age / DAY):,} days ago")


def by_limit(decision: Decision, cause: Cause, reason: str) -> Decision:
    """Delete what a limit asks for, and say where the session is not at its path: somebody may still need it."""
    return replace(decision, deletes=True, cause=cause, reason=reason + _ELSEWHERE.get(decision.cause, ""))


def undated(decision: Decision) -> Decision:
    """Say why no limit deletes what has no age."""
    reason = "no run that a journal dates is there, so that no limit deletes this; 'sessioncompress forget' does"
    return replace(decision, cause=Cause.UNKNOWN, reason=reason)


def _may_be_off(holding: Holding) -> bool:
    """Say whether the session's folder may be on a disk that is off, while what lies beside is elsewhere."""
    folder = holding.session.parent
    return not os.path.isdir(folder) or not os.listdir(folder)  # noqa: PTH112


def _if_seen(decision: Decision, sights: Sightings) -> Decision | None:
    """Say where a session is that is not gone, or what of it is there."""
    ids, file = decision.told.session_ids, decision.holding.session.name
    if (path := sights.session(ids)) is not None:
        return replace(decision, cause=Cause.MOVED, reason=f"its session is now {path}: {_puts_back(decision, path)}")
    if (path := sights.archived(file)) is not None:
        return replace(decision, cause=Cause.MOVED, reason=f"{path} may be its session, packed")
    path = sights.fork(ids, file)
    if path is None and sights.forks and decision.lookout is not None:
        path = decision.lookout.fork_with(references(decision.holding), sights.forks)
    if path is not None:
        return replace(decision, cause=Cause.FORKED, reason=f"{path} is a fork of it, and may need its originals")
    return None


def _puts_back(decision: Decision, path: Path) -> str:
    """Return what a user can do that harms nothing, even where that place has originals of its own by now."""
    line = shlex.join(["restore", "--from-markers", "--originals", str(decision.holding.session), str(path)])
    return f"'sessioncompress {line}' puts these originals back into it"


def _unless_unread(decision: Decision, sights: Sightings) -> Decision:
    if sights.unread:
        reason = "the session is not there, but not all places where it may be could be read"
        return replace(decision, cause=Cause.UNKNOWN, reason=reason)
    return _by_time(decision, missing.since(decision.holding.beside, decision.told.session_id))


def _by_time(decision: Decision, since: float | None) -> Decision:
    last_run = decision.told.last_run
    if since is None or (last_run is not None and since < last_run):
        # A run saw the session after that: a clock was wrong, and the days begin anew.
        begin = f"{MISSING_DAYS} days count from the first run with --yes that finds it so"
        reason = f"{_NOWHERE}; {begin}"
        return replace(decision, cause=Cause.MISSING, reason=reason, since=None)
    decision = replace(decision, since=since)
    if time.time() - since < MISSING_DAYS * DAY:
        goes = times.written(since + MISSING_DAYS * DAY)
        return replace(decision, cause=Cause.MISSING, reason=f"{_NOWHERE}; this goes from {goes} on")
    reason = f"the session is found nowhere since {times.written(since)}"
    return replace(decision, deletes=True, cause=Cause.GONE, reason=reason)


def _unknown(why: str) -> str:
    return f"the session is not there, but may only have been moved: {why}; 'sessioncompress forget' deletes this"
