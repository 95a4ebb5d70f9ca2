"""The runs over sessions, as recorded in their journals."""

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
from sessioncompress.store.journal import ActiveRuns
from sessioncompress.store.layout import last_line, lines_of, real_place, store_of
from sessioncompress.store.lock import open_file
from sessioncompress.store.records import RunKind, RunRecord


class RunState(StrEnum):
    """The state of a run over all its sessions."""

    IN_PLACE = "in place"
    RESTORED = "restored"
    PARTLY = "partly restored"


class SessionRun(Struct, frozen=True, rename="camel"):
    """A run over one session: the bytes saved in the session and on disk. `packed`: it is in a pack now."""

    path: str
    run: str
    at: str
    command: str
    state: RunState
    saved: int
    saved_on_disk: int
    packed: bool = False


class RunStats(Struct, frozen=True, rename="camel"):
    """A run over several sessions, with totals."""

    run: str
    at: str
    commands: tuple[str, ...]
    state: RunState
    saved: int
    saved_on_disk: int
    sessions: tuple[SessionRun, ...]


def session_runs(path: Path | str, policy: Policy = BALANCED) -> list[SessionRun]:
    """List the runs in a session's journal, oldest first. Raises SessionCompressError."""
    path = Path(path)
    return read_runs(store_of(real_place(path), policy).journal, str(path))


def read_runs(journal: Path, path: str = "") -> list[SessionRun]:
    """List the runs in a journal over the session at `path`, oldest first. Reads no other records.

    A run that died before it replaced the session doesn't count. What it added to the store is charged to the next run
    in place, as are additions by restores and by undone runs: they are still on disk, and that run need not add them
    again. An invalid record is skipped; `verify` reports damage. Raises SessionCompressError on system errors.
    """
    runs: list[tuple[RunRecord, int]] = []
    standing = ActiveRuns()
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
    """Bytes in the store that no run in place accounts for yet."""
    for number, (run, added) in enumerate(runs):
        waiting += added
        if run.is_restore or number in standing.dead:
            continue
        saved = run.original_size - run.compressed_size
        state, in_store = RunState.RESTORED, added
        if number in standing:
            state = RunState.PARTLY if standing.touched(number) else RunState.IN_PLACE
            in_store, waiting = waiting, 0
        found.append(SessionRun(path, run.id, run.at, run.command, state, saved, saved - in_store))
    return found


def written_by(name: str, command: RunKind, journal: Path) -> SessionRun | None:
    """Return the newest run over a session if it has this id and command, else None.

    A worker asks this before it redoes the work of a process that died after writing and before reporting.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        newest = records.decode(last_line(journal))
        if isinstance(newest, RunRecord) and (newest.id, newest.command) == (name, command):
            return read_runs(journal)[-1]
    return None


def runs_of(found: Found, policy: Policy) -> list[SessionRun]:
    """List the runs over a session, wherever it is stored. Raises SessionCompressError."""
    if found.remote is None:
        return session_runs(found.path, policy)
    if found.remote.is_row:
        found_runs = session_runs(lines_of(found.path))
    else:
        from sessioncompress.operations.cloud import on_journal

        found_runs = on_journal(found.remote, session_runs)
    return [replace(each, path=found.shown) for each in found_runs]


def history(found: Iterable[SessionRun]) -> list[RunStats]:
    """Merge the runs over several sessions by id, newest first.

    Within a session the order is the journal's, regardless of clock times. Between sessions, or if journals contradict
    each other, the times in the run ids decide.
    """
    by_name: dict[str, list[SessionRun]] = {}
    in_session: dict[str, list[str]] = {}
    for each in found:
        by_name.setdefault(each.run, []).append(each)
        in_session.setdefault(each.path, []).append(each.run)
    sorter = TopologicalSorter(dict.fromkeys(by_name, ()))
    for names in in_session.values():
        # A command may have written a session more than once; the newest one counts.
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
    """Merge the records of one run over several sessions."""
    states = {each.state for each in runs}
    return RunStats(
        runs[0].run,
        max(each.at for each in runs),
        tuple(sorted({each.command for each in runs})),
        states.pop() if len(states) == 1 else RunState.PARTLY,
        sum(each.saved for each in runs),
        sum(each.saved_on_disk for each in runs),
        tuple(runs),
    )
