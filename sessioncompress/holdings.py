"""What lies beside the sessions of folders: whose it is, how large it is, how old; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sessioncompress import files
from sessioncompress.discover import folders, is_folder
from sessioncompress.errors import UsageError, failing
from sessioncompress.policy import Policy
from sessioncompress.store import journal as journals
from sessioncompress.store import times
from sessioncompress.store.beside import Beside, session_of
from sessioncompress.store.folder import refuse_linked_folder
from sessioncompress.store.late import late_links, sessions_named, stale_drafts
from sessioncompress.store.met import refuse_if_another_sides


@dataclass(frozen=True, slots=True)
class Holding:
    """All that lies beside one session. `size` is that of originals and journal, `left_over`: there is more."""

    session: Path
    policy: Policy
    beside: Beside
    exists: bool
    size: int
    left_over: bool


@dataclass(frozen=True, slots=True)
class Told:
    """What the journal tells: the session's id, empty where it is not noted, and when the last run was."""

    session_id: str = ""
    last_run: float | None = None


NOTHING_TOLD = Told()


def holdings(paths: Iterable[Path], policy_of: Callable[[Path], Policy]) -> Iterator[Holding]:
    """Yield what lies beside the sessions that the paths mean, each once; sessions with nothing beside are left out.

    Raises UsageError where a path does not exist and nothing lies there for it.
    """
    seen: set[Path] = set()
    for path in paths:
        for session in _in_folders(path, policy_of) if is_folder(path) else [path]:
            place = session.parent.resolve() / session.name
            if place not in seen:
                seen.add(place)
                found = _holding(session, policy_of(session))
                if found.size or found.left_over:
                    yield found
                elif not os.path.lexists(path):
                    what = "it does not exist, and nothing of ours lies there for it"
                    raise UsageError(what, where=path, state="Nothing was done.")


def told(holding: Holding) -> Told:
    """Read the journal. Raises Damaged, or Met, where it cannot be read."""
    refuse_linked_folder(holding.beside.work)
    journal = journals.load(holding.beside.journal)
    refuse_if_another_sides(holding.beside.journal, journal)
    return Told(journal.session_id, times.read(journal.runs[-1].at) if journal.runs else None)


def _in_folders(folder: Path, policy_of: Callable[[Path], Policy]) -> Iterator[Path]:
    for here in folders(folder):
        any_session = here / "session.jsonl"
        beside = files.beside_of(any_session, policy_of(any_session))
        with failing(beside.folder, state=""):
            names = os.listdir(beside.folder) if is_folder(beside.folder) else []
        found = {name for each in names if (name := session_of(beside, each))} | sessions_named(beside.work)
        yield from (here / name for name in sorted(found))


def _holding(session: Path, policy: Policy) -> Holding:
    place = session.parent.resolve() / session.name
    beside = files.beside_of(place, policy)
    left_over = bool(late_links(beside.work, place) or stale_drafts(beside.work, place))
    more = left_over or os.path.lexists(beside.missing)
    return Holding(session, policy, beside, os.path.lexists(place), files.size_beside(beside), more)
