"""The question before a command changes all sessions, or those of an agent or a project: nobody has named them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import click

from sessioncompress.cli import output
from sessioncompress.cli.tables import Column, echo_table, wrapped_for
from sessioncompress.core.text import counted, kb
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.sessions import Session
from sessioncompress.pipeline.discover import Found

_COLUMNS = (Column("agent"), *(Column(name, is_number=True) for name in ("sessions", "size", "due", "their size")))
STATE = "No session was changed."


def goes_on(verb: str, found: Sequence[Found], is_due: Callable[[Path], bool], *, can_undo: bool = True) -> bool:
    """Show how many sessions of each agent a command is about to change, and ask; `is_due` reads no session.

    `can_undo` says whether originals are kept. Everything goes to stderr, so that stdout can be kept. Where nothing is
    due nothing is asked. Raises UsageError if nobody answers.
    """
    rows: dict[str, list[int]] = {}
    for each in found:
        if isinstance(each, Session):
            due = False
            # The run says what is wrong with one that cannot be looked at.
            with suppress(SessionCompressError):
                due = is_due(each.path)
            row = rows.setdefault(each.agent, [0, 0, 0, 0])
            row[:] = row[0] + 1, row[1] + each.size, row[2] + due, row[3] + each.size * due
    rows = dict(sorted(rows.items())) | {"total": [sum(row[column] for row in rows.values()) for column in range(4)]}
    if not rows["total"][2]:
        return True
    cells = [(name, f"{row[0]:,}", kb(row[1]), f"{row[2]:,}", kb(row[3])) for name, row in rows.items()]
    echo_table(_COLUMNS, cells, err=True)
    click.echo("The others are left alone. --dry-run shows what each would become.", err=True)
    # How many of them are worth it, only reading them would tell: that is the run itself.
    undo = "You can undo this." if can_undo else "You cannot undo this."
    question = f"{verb} up to {counted(rows['total'][2], 'session', 'sessions')}? {undo}"
    goes = output.confirmed(wrapped_for(question, err=True), None, STATE, err=True)
    if not goes:
        click.echo(STATE, err=True)
    return goes
