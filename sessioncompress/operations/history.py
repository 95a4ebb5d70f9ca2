"""The runs over sessions, as their journals know them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.pipeline.discover import Found
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store.layout import store_of
from sessioncompress.store.runs import read_runs


class State(StrEnum):
    """What is left of a run, in all sessions together."""

    IN_PLACE = "in place"
    RESTORED = "restored"
    PARTLY = "partly restored"


class SessionRun(Struct, frozen=True, rename="camel"):
    """A run over one session: bytes by which it made the session smaller, and those that it freed on the disk."""

    path: str
    run: str
    at: str
    command: str
    state: State
    saved: int
    saved_on_disk: int


class RunStats(Struct, frozen=True, rename="camel"):
    """A run over several sessions, with the sums of what it did to each."""

    run: str
    at: str
    commands: tuple[str, ...]
    state: State
    saved: int
    saved_on_disk: int
    sessions: tuple[SessionRun, ...]


def session_runs(path: Path | str, policy: Policy = BALANCED) -> list[SessionRun]:
    """List the runs over a session that its journal knows, the oldest first. Raises SessionCompressError."""
    path = Path(path)
    return [
        SessionRun(
            str(path),
            run.name,
            run.at,
            run.command,
            State.RESTORED if run.restored else State.PARTLY if run.touched else State.IN_PLACE,
            run.saved,
            run.saved - run.added - run.found,
        )
        for run in read_runs(store_of(path.parent.resolve() / path.name, policy).journal)
    ]


def runs_of(found: Found, policy: Policy) -> list[SessionRun]:
    """List the runs over a session that was found, also in an object store. Raises SessionCompressError."""
    if found.remote is None:
        return session_runs(found.path, policy)
    from sessioncompress.operations.cloud import on_journal

    return [replace(each, path=found.shown) for each in on_journal(found.remote, session_runs)]


def history(found: Iterable[SessionRun]) -> list[RunStats]:
    """Put the runs over several sessions together by their names, the newest first."""
    by_name: dict[str, list[SessionRun]] = {}
    for each in found:
        by_name.setdefault(each.run, []).append(each)
    return [_together(by_name[name]) for name in sorted(by_name, reverse=True)]


def _together(runs: list[SessionRun]) -> RunStats:
    states = {each.state for each in runs}
    return RunStats(
        runs[0].run,
        max(each.at for each in runs),
        tuple(sorted({each.command for each in runs})),
        states.pop() if len(states) == 1 else State.PARTLY,
        sum(each.saved for each in runs),
        sum(each.saved_on_disk for each in runs),
        tuple(runs),
    )
