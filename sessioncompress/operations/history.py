"""The runs over sessions, as their journals know them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.errors import failing
from sessioncompress.pipeline.discover import Found
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import records
from sessioncompress.store.folder import refuse_linked
from sessioncompress.store.journal import Standing
from sessioncompress.store.layout import last_line, lines_of, store_of
from sessioncompress.store.lock import open_file
from sessioncompress.store.records import Command, RunRecord


class State(StrEnum):
    """What is left of a run, in all sessions together."""

    IN_PLACE = "in place"
    RESTORED = "restored"
    PARTLY = "partly restored"


class SessionRun(Struct, frozen=True, rename="camel"):
    """A run over one session, perhaps `packed` since: bytes by which it made that smaller, and freed on the disk."""

    path: str
    run: str
    at: str
    command: str
    state: State
    saved: int
    saved_on_disk: int
    packed: bool = False


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
    return read_runs(store_of(path.parent.resolve() / path.name, policy).journal, str(path))


def read_runs(journal: Path, path: str = "") -> list[SessionRun]:
    """List the runs over the session at `path` by its journal, the oldest first; other records are not read.

    A run that died before the session was put in place is none. What it added to the store counts for the next run that
    is in place, as does what was added by restores and by runs that were taken back: it is on the disk still, and that
    run need not add it again. What is no record of a run is passed over: `verify` tells if the journal is whole. Raises
    SessionCompressError where the system fails.
    """
    runs: list[tuple[RunRecord, int]] = []
    standing = Standing()
    before = size = 0
    with failing(journal):
        refuse_linked(journal)
        try:
            fd = open_file(journal)
        except FileNotFoundError:
            return []
        with open(fd, "rb", buffering=1 << 20) as file:
            for raw in records.raw_records(file):
                size += len(raw)
                if records.may_be_run(raw):
                    with suppress(ValueError, KeyError, TypeError):
                        run = records.decode(raw)
                        if isinstance(run, RunRecord):
                            standing.add(len(runs), run)
                            runs.append((run, run.store_size + size - before))
                            before = run.store_size + size
    found = []
    waiting = 0
    """The bytes in the store for which no run that is in place accounts yet."""
    for number, (run, added) in enumerate(runs):
        waiting += added
        if run.is_restore or number in standing.dead:
            continue
        saved = run.original_size - run.compressed_size
        state, in_store = State.RESTORED, added
        if number in standing:
            state = State.PARTLY if standing.touched(number) else State.IN_PLACE
            in_store, waiting = waiting, 0
        found.append(SessionRun(path, run.id, run.at, run.command, state, saved, saved - in_store))
    return found


def written_by(name: str, command: Command, journal: Path) -> SessionRun | None:
    """Find what the newest run over a session did to it, if it was of that name, and by that command.

    Whoever has to ask was given the work of a process that died when it had written and not yet told.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        newest = records.decode(last_line(journal))
        if isinstance(newest, RunRecord) and (newest.id, newest.command) == (name, command):
            return read_runs(journal)[-1]
    return None


def runs_of(found: Found, policy: Policy) -> list[SessionRun]:
    """List the runs over a session that was found, wherever it is. Raises SessionCompressError."""
    if found.remote is None:
        return session_runs(found.path, policy)
    if found.remote.is_row:
        found_runs = session_runs(lines_of(found.path))
    else:
        from sessioncompress.operations.cloud import on_journal

        found_runs = on_journal(found.remote, session_runs)
    return [replace(each, path=found.shown) for each in found_runs]


def history(found: Iterable[SessionRun]) -> list[RunStats]:
    """Put the runs over several sessions together by their names, the newest first.

    In each session they are in the order of its journal, whatever the clock said when they ran; between sessions, and
    where journals contradict each other, the times in their names decide.
    """
    by_name: dict[str, list[SessionRun]] = {}
    in_session: dict[str, list[str]] = {}
    for each in found:
        by_name.setdefault(each.run, []).append(each)
        in_session.setdefault(each.path, []).append(each.run)
    sorter = TopologicalSorter(dict.fromkeys(by_name, ()))
    for names in in_session.values():
        # A command may have written a session more than once; its newest writing counts.
        newest_first = list(dict.fromkeys(reversed(names)))
        for newer, older in pairwise(newest_first):
            sorter.add(older, newer)
    try:
        sorter.prepare()
    except CycleError:
        return [together(by_name[name]) for name in sorted(by_name, reverse=True)]
    order: list[str] = []
    ready: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            insort(ready, name)
        order.append(ready.pop())
        sorter.done(order[-1])
    return [together(by_name[name]) for name in order]


def together(runs: list[SessionRun]) -> RunStats:
    """Sum up what a run did to several sessions."""
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
