"""`history`: list the runs over sessions, and what is left of each."""

from __future__ import annotations

from typing import Any

import click
from msgspec import Struct

from sessioncompress.cli import options
from sessioncompress.cli.frame import Done, SessionCommand
from sessioncompress.cli.tables import Column, echo_table, is_seen, width
from sessioncompress.core.text import age, counted, kb, printable, said_time
from sessioncompress.operations.history import RunStats, SessionRun, State, runs_of
from sessioncompress.operations.history import history as histories
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import to_json
from sessioncompress.policy.model import Policy

_COLUMNS = (
    Column("run"),
    Column("did", may_be_cut=True),
    Column("sessions", is_number=True),
    Column("saved", is_number=True),
    Column("net of store", is_number=True),
    Column("state", may_be_cut=True),
    Column("ended"),
)
_WIDE = 120
"""Columns of a terminal that has room for the age, too. The id says when the run began, in UTC."""


class _Runs(Struct, frozen=True):
    path: str
    runs: list[SessionRun]


class History(SessionCommand[_Runs]):
    """List the runs over sessions, newest first; without PATHS, only those in the agents' folders.

    'restore --run ID' undoes one.
    """

    stores = urls = True
    parallel = False
    flags = (options.JSON,)
    takes = (options.CONFIG, options.THEIR_FOLDER)
    hands = ()
    all_with = None

    def settled(self, found: Found, policy: Policy) -> _Runs:
        return _Runs("", runs_of(found, policy))

    def document(self, done: Done[_Runs]) -> dict[str, Any]:
        return {"runs": list(map(to_json, _runs(done)))}

    def end(self, done: Done[_Runs]) -> None:
        if runs := _runs(done):
            most = len(_COLUMNS) - (is_seen() and width() < _WIDE)
            echo_table(_COLUMNS[:most], [_row(each)[:most] for each in runs])
        click.echo(f"total: {counted(len(runs), 'run', 'runs')}")


history = History.command("history session.jsonl")


def _runs(done: Done[_Runs]) -> list[RunStats]:
    return histories(run for each in done.results for run in each.runs)


def _row(run: RunStats) -> list[str]:
    did, number = ", ".join(run.commands), f"{len(run.sessions):,}"
    # What was taken back saves nothing any more.
    back = [each for each in run.sessions if each.state is State.RESTORED]
    saved, net = (sum(getattr(each, name) for each in back) for name in ("saved", "saved_on_disk"))
    sums = ["-", "-"] if run.state is State.RESTORED else [kb(run.saved - saved), kb(run.saved_on_disk - net)]
    ended = said_time(run.at)
    # Programs read what is piped: they get the time.
    ago = f"{age(ended)} ago" if ended is not None and is_seen() else run.at
    return list(map(printable, (run.run, did, number, *sums, run.state, ago)))
