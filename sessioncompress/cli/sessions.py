"""`sessions`: list the sessions of all agents on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.tables import Column, echo_table, echo_wrapped, is_seen, width, with_tilde
from sessioncompress.core.text import counted, kb, printable, written_time
from sessioncompress.operations import batch
from sessioncompress.operations import sessions as lists
from sessioncompress.operations.packed import listed_packed
from sessioncompress.operations.sessions import ListedSession
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.sessions/1"
COLUMNS = (
    Column("agent"),
    Column("project", may_be_cut=True),
    Column("age", is_number=True),
    Column("size", is_number=True),
    Column("could save", is_number=True),
    Column("compressed"),
    Column("session", may_be_cut=True),
)

_WIDE = 120
"""Columns of a terminal that has room for the paths of sessions."""
_UNITS = (("d", 24 * 3600), ("h", 3600), ("min", 60))
_SORTS: dict[str, Callable[[ListedSession], tuple[object, ...]]] = {
    "saves": lambda each: (-each.could_save, -each.size),
    "size": lambda each: (-each.size,),
    "age": lambda each: (each.modified,),
    "project": lambda each: (each.project, -each.could_save),
}


def row(session: ListedSession, name: Callable[[str], str] = printable) -> list[str]:
    """Format one session; `name` says how a path is written."""
    seconds = max(time.time() - session.modified, 0)
    unit, length = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    return [
        session.agent,
        name(lists.printed(session.project)),
        f"{int(seconds // length):,} {unit}",
        kb(session.size),
        kb(session.could_save) if session.could_save else "-",
        "packed" if session.packed else "yes" if session.compressed else "-",
        name(session.path),
    ]


def echo_list(listed: Sequence[ListedSession], sort: str = "saves") -> None:
    """Print the table of sessions, and their total."""
    rows = sorted(listed, key=_SORTS[sort])
    if is_seen():
        # A narrow terminal has no room for the paths.
        most = len(COLUMNS) if width() >= _WIDE else len(COLUMNS) - 1
        cells = [row(each, lambda path: with_tilde(printable(path)))[:most] for each in rows]
        echo_table(COLUMNS[:most], cells)
    else:
        echo_table(COLUMNS, [row(each) for each in rows])


def total(listed: Sequence[ListedSession]) -> str:
    """Format what all sessions come to."""
    head = f"total: {counted(len(listed), 'session', 'sessions')}"
    if not listed:
        return head
    size, saves = (sum(getattr(each, name) for each in listed) for name in ("size", "could_save"))
    agents = counted(len({each.agent for each in listed}), "agent", "agents")
    done = sum(each.compressed for each in listed)
    packed = sum(each.packed for each in listed)
    already = f"{done:,} compressed already{f', {packed:,} packed' if packed else ''}"
    return f"{head} of {agents}, {kb(size)}; {already}; a run could save {kb(saves)}, stores included"


@click.command(cls=options.ReadOnly, epilog="Example: sessioncompress sessions --project .")
@options.AGENT
@options.PROJECT
@options.OLDER_THAN
@click.option(
    "--sort", type=click.Choice(list(_SORTS)), default="saves", help="What comes first; by itself what saves most."
)
@options.JSON
@options.COLOR
def sessions(agent: str | None, project: Path | None, older_than: int | None, sort: str, as_json: bool) -> None:
    """List the sessions on this machine, and what could be saved; change nothing."""
    policies = options.policies_of(None)

    def prepare(found: Found) -> Callable[[], ListedSession]:
        assert isinstance(found, lists.Session)
        return partial(lists.listed, found, policies.of(found.path))

    selection = lists.Selection(agent, project, older_than)
    found = options.or_projects_told(lists.sessions(selection), selection)
    run = output.told(batch.Archive(found, prepare, None))
    done = output.both(run, output.told(listed_packed(selection)))
    listed: list[ListedSession] = done.results
    if as_json:
        totals = {
            "sessions": len(listed),
            "size": sum(each.size for each in listed),
            "compressed": sum(each.compressed for each in listed),
            "couldSave": sum(each.could_save for each in listed),
            "packed": sum(each.packed for each in listed),
        }
        documents = [to_json(each) | {"modified": written_time(each.modified)} for each in listed]
        output.echo_json({"schema": SCHEMA, "sessions": documents, "totals": totals})
    else:
        echo_list(listed, sort)
        echo_wrapped(output.with_others(total(listed), done.others))
    output.tell_of_opencode(agent)
    output.tell_of_rollouts(agent)
    sys.exit(done.exit_code)
