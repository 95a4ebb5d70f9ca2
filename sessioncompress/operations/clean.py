"""Delete what dead runs left, and stores by a limit or of sessions that the user names as gone.

A session that is not at its path need not be gone. It may have been moved, or be on another branch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import asdict, replace

from sessioncompress.core import text
from sessioncompress.errors import SessionCompressError, UsageError, failing
from sessioncompress.operations import stores
from sessioncompress.operations.forget import ForgetStats, forget_gone, forget_open
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.discover import Found
from sessioncompress.policy.model import Policy
from sessioncompress.store import disk, folder, git, recover
from sessioncompress.store import journal as journals
from sessioncompress.store.damage import refuse_if_of_another
from sessioncompress.store.layout import Store, all_stores, backups_of, sessions_named, size_of, store_of
from sessioncompress.store.lock import open_session

_AS_IT_WAS = "Its store was not changed."
_DEAD_RUN = "left by a run that ended"
_NOT_THERE = "the session is missing"
_FORGET = "'sessioncompress forget' deletes this anyway"


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


class CleanStats(ForgetStats, frozen=True, kw_only=True, rename="camel"):
    """What `clean` deletes of one store, or why it keeps it.

    `left_over` counts the temp files and late links of dead runs, `left_over_bytes` their bytes, and `late_bytes` what
    is carried over from such links into the session first.
    """

    deleted: bool
    cause: Cause | None
    reason: str
    left_over: int = 0
    left_over_bytes: int = 0
    late_bytes: int = 0


class Limits(NamedTuple):
    """Which originals to delete: by seconds since the last run, or by bytes in all stores."""

    older_than: int | None = None
    max_size: int | None = None


class Holding(NamedTuple):
    """The store of one session, and what is decided of it.

    `named`: the user named the session itself, not a folder above it. `size` is that of originals and journal;
    `left_over`: temp files or late links exist. `runs` and `last_run`, in seconds since 1970, are what the journal says
    where it was read; the time is None if it says none, and a wrong clock may have put it into the future. It is
    deleted if `deletes`. An `error` prevented a decision.
    """

    session: Path
    named: bool
    policy: Policy
    store: Store
    exists: bool
    size: int
    left_over: bool
    runs: int = 0
    last_run: float | None = None
    deletes: bool = False
    cause: Cause = Cause.DEAD_RUN
    reason: str = ""
    error: SessionCompressError | None = None


def plan_clean(
    sessions: Iterable[Found], policy_of: Callable[[Path], Policy], limits: Limits
) -> tuple[list[Holding], list[Found]]:
    """Decide for the stores of sessions, as stored() finds them; also return what could not be read.

    Changes nothing. Raises UsageError if a session that is named does not exist and has no store.
    """
    found = list(_holdings(list(sessions), policy_of))
    held = [each for each in found if isinstance(each, Holding)]
    withheld = _withheld(each for each in held if not each.exists)
    decided = [_decide(each, limits, withheld.get(each.session)) for each in held]
    return _fit(decided, limits.max_size), [each for each in found if isinstance(each, Found)]


def _holdings(sessions: Sequence[Found], policy_of: Callable[[Path], Policy]) -> Iterator[Holding | Found]:
    """Yield the stores of the sessions, each once, and what cannot be read with its error."""
    named = {_place(each.path) for each in sessions if each.named and each.error is None}
    # Of thousands of sessions in a folder it is listed once: a command that removes what is left looks again.
    left_in = cache(sessions_named)
    seen: set[Path] = set()
    for found in sessions:
        session, place = found.path, _place(found.path)
        if found.error is not None:
            yield found
        if found.error is not None or place in seen:
            continue
        seen.add(place)
        try:
            policy = policy_of(session)
            store = store_of(place, policy)
            folder.refuse_folders(store)
            with failing(session, state=""):
                size = reading.size_of_store(store)
                left_over = place.name in left_in(store.work) and bool(stores.remains(place))
            if size or left_over:
                stores.refuse_unless_there(session, gone_too=True)
            exists = os.path.lexists(place)
        except SessionCompressError as error:
            yield Found(session, named=True, error=error)
            continue
        if size or left_over:
            yield Holding(session, place in named, policy, store, exists, size, left_over)
        elif place in named and not exists:
            # Imported here: few sessions that are gone are packed.
            from sessioncompress.operations.packed import way_back

            what = "it does not exist, and it has no store"
            raise UsageError(what, where=session, state="Nothing was done.", remedy=way_back(session))


def _place(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _withheld(missing: Iterable[Holding]) -> Mapping[Path, tuple[Cause, str]]:
    """Find out which stores must stay although their sessions are missing, and why."""
    places = {_place(holding.session): holding for holding in missing}
    found: dict[Path, tuple[Cause, str]] = {}
    for place, error in git.known(places).items():
        cause, what = Cause.GIT, "git still has it in a commit, a stash or the index"
        if error is not None:
            cause, what = Cause.UNKNOWN, f"git may have it, but did not answer ({error.what})"
        found[places[place].session] = cause, f"{_NOT_THERE}, and {what}; {_FORGET}"
    for holding in places.values():
        try:
            # It may be a folder of thousands, with as many stores whose sessions are gone.
            with os.scandir(holding.session.parent) as entries:
                is_empty = next(entries, None) is None
        except OSError:
            is_empty = True
        if is_empty:
            reason = f"{_NOT_THERE}, and so is everything else in its folder, as when a disk is not mounted; {_FORGET}"
            found[holding.session] = Cause.UNKNOWN, reason
    return found


def _decide(holding: Holding, limits: Limits, withheld: tuple[Cause, str] | None) -> Holding:
    if withheld:
        cause, reason = withheld
        return holding._replace(cause=cause, reason=reason)
    if not holding.exists and holding.named:
        holding = holding._replace(deletes=True, cause=Cause.GONE, reason=f"{_NOT_THERE}, and you named it")
    elif not holding.exists:
        reason = f"{_NOT_THERE}, but may have been moved; if it is gone for good, name its own path to delete this"
        holding = holding._replace(cause=Cause.MISSING, reason=reason)
    if not holding.deletes and (not holding.size or limits == Limits()):
        return holding
    try:
        with failing(holding.session, state=_AS_IT_WAS):
            holding = _told(holding)
    except SessionCompressError as error:
        return holding._replace(deletes=False, error=error)
    if holding.deletes or limits.older_than is None:
        return holding
    if holding.last_run is None:
        return _undated(holding)
    age = time.time() - holding.last_run
    if age <= limits.older_than:
        return holding
    hours = int(age / 3600)
    ago = text.counted(hours // 24, "day", "days") if hours // 24 else text.counted(hours, "hour", "hours")
    return _by_limit(holding, Cause.AGE, f"its last run was {ago} ago")


def _told(holding: Holding) -> Holding:
    """Read the journal of a store. Raises Damaged if it cannot be read, or belongs to other originals."""
    folder.refuse_linked_store(holding.store)
    journal = journals.load(holding.store.journal)
    if size_of(holding.store.originals) not in (None, journal.store_size):
        refuse_if_of_another(holding.store, journal)
    # All its stores would go, and another branch may go on with one of them.
    there = all_stores(_place(holding.session), backups_of(holding.session, holding.policy))
    others = [journals.load(each.journal) for each in there if each != holding.store]
    dates = [text.said_time(each.runs[-1].at) for each in (journal, *others) if each.runs]
    last = None if None in dates else max(filter(None, dates), default=None)
    return holding._replace(runs=len(journal.runs), last_run=last)


def _fit(holdings: list[Holding], most: int | None) -> list[Holding]:
    """Delete the oldest until the rest fits. Without a time of the last run a store stays."""
    total = sum(each.size for each in holdings if not each.deletes)
    if most is None or total <= most:
        return holdings
    now = time.time()
    over: dict[Path, float] = {}
    for each in sorted(holdings, key=lambda each: each.last_run or 0):
        if total > most and not each.deletes and each.last_run is not None and each.last_run <= now:
            over[each.session] = each.last_run
            total -= each.size
    fitted = []
    for each in holdings:
        said = each.deletes or each.error or (each.reason and each.cause is not Cause.MISSING)
        if each.session in over:
            when = text.written_time(over[each.session])
            fitted.append(_by_limit(each, Cause.SIZE, f"its last run, {when}, is one of the oldest"))
        else:
            fitted.append(_undated(each) if total > most and each.size and not said else each)
    return fitted


def _by_limit(holding: Holding, cause: Cause, reason: str) -> Holding:
    elsewhere = "" if holding.exists else f"; {_NOT_THERE}, and may have been moved"
    return holding._replace(deletes=True, cause=cause, reason=reason + elsewhere)


def _undated(holding: Holding) -> Holding:
    reason = "no run in its journal has a date, so no limit applies to it; 'sessioncompress forget' deletes it"
    return holding._replace(cause=Cause.UNKNOWN, reason=reason)


def clean_one(holding: Holding, *, dry_run: bool) -> CleanStats | None:
    """Carry out a decision, or with `dry_run` find out what it would delete; None if there is nothing to report.

    The store is read again before it is deleted. Raises SessionCompressError, with the store as it was, if it is
    damaged or in use.
    """
    if holding.error is not None:
        raise holding.error
    if holding.exists:
        done = _tidy(holding, dry_run=dry_run) if holding.left_over else None
        if not holding.deletes:
            if not holding.reason:
                return done
            return replace(done or _stats_of(holding), cause=holding.cause, reason=holding.reason)
        with reading.opened(holding.session, writing=not dry_run) as session:
            holding = holding if dry_run else _again(holding)
            cost = None
            if holding.deletes:
                cost = forget_open(session, holding.store, holding.policy, dry_run=dry_run)
        stats = _stats_of(holding, cost)
        if done is None:
            return stats
        left = {"left_over": done.left_over, "left_over_bytes": done.left_over_bytes, "late_bytes": done.late_bytes}
        return replace(stats, **left)
    if os.path.lexists(holding.session):
        return replace(_stats_of(holding), deleted=False, cause=Cause.BACK, reason="the session is back")
    if holding.deletes and not dry_run:
        holding = _again(holding)
        if not (holding.size or stores.remains(holding.session)):
            # Another clean-up was faster.
            return None
    if holding.deletes:
        return _stats_of(holding, forget_gone(holding.session, holding.policy, dry_run=dry_run))
    return _clean_missing(holding, dry_run=dry_run)


def _again(holding: Holding) -> Holding:
    """Read a store again that is about to be deleted; keep it if a run was at work on it meanwhile."""
    with failing(holding.session, state=_AS_IT_WAS):
        now = _told(holding._replace(size=reading.size_of_store(holding.store)))
    if now.size and (now.runs, now.last_run) != (holding.runs, holding.last_run):
        reason = "a run has changed it since we looked at it"
        return now._replace(deletes=False, cause=Cause.CHANGED, reason=reason)
    return now


def _tidy(holding: Holding, *, dry_run: bool) -> CleanStats | None:
    """Delete what dead runs left of a session that is there; None if they left nothing that may go."""
    store = holding.store
    with (open_session if dry_run else reading.opened)(holding.session, writing=True) as session:
        lengths = journals.load(store.journal).lengths
        recover.check(session, store, lengths)
        cut = reading.size_of_store(store) - lengths.originals - lengths.journal
        going, late = recover.removable(session)
        size = reading.size_of_names(going) + cut
        if not dry_run:
            late = recover.recover(session, store, lengths)
            going = [each for each in going if not os.path.lexists(each)]
    if not going and not late:
        return None
    stats = _stats_of(holding._replace(deletes=False, cause=Cause.DEAD_RUN, reason=_DEAD_RUN))
    return replace(stats, left_over=len(going), left_over_bytes=size if going else 0, late_bytes=late)


def _clean_missing(holding: Holding, *, dry_run: bool) -> CleanStats:
    """Delete what dead runs left of a session that is missing, as far as nobody can be at work on it."""
    session, store = holding.session, holding.store
    with failing(session, state=_AS_IT_WAS):
        needed = stores.needed_links(session)
        others = not holding.size and set(stores.remains(session))
        dead = stores.dead_drafts(session, store)
        size = reading.size_of_names(dead)
        if not dry_run:
            for path in dead:
                disk.remove(path)
            folder.tidy_after(store)
    kept = replace(_stats_of(holding), left_over=len(dead), left_over_bytes=size, links_kept=len(needed))
    if dead and others == set(dead):
        return replace(kept, cause=Cause.DEAD_RUN, reason=_DEAD_RUN)
    return kept


def _stats_of(holding: Holding, cost: ForgetStats | None = None) -> CleanStats:
    given = asdict(cost) if cost else {}
    given["path"] = str(holding.session)
    return CleanStats(**given, deleted=holding.deletes, cause=holding.cause, reason=holding.reason)
