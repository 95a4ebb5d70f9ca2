"""The question before a command changes all sessions, or those of an agent or a project: nobody has named them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from sessioncompress.cli import output
from sessioncompress.cli.tables import Column, echo_table, wrapped_for
from sessioncompress.core.text import counted, kb
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations.sessions import Session
from sessioncompress.pipeline.discover import Found

_COLUMNS = (Column("agent"), *(Column(name, is_number=True) for name in ("sessions", "size", "due", "their size")))
STATE = "No session was changed."


class _Row(NamedTuple):
    """Sessions and their bytes, and those of them that are due."""

    agent: str
    sessions: int
    size: int
    due: int
    size_due: int

    def cells(self) -> tuple[str, ...]:
        return (self.agent, f"{self.sessions:,}", kb(self.size), f"{self.due:,}", kb(self.size_due))


def goes_on(verb: str, found: Sequence[Found], is_due: Callable[[Path], bool], *, can_undo: bool = True) -> bool:
    """Show how many sessions of each agent a command is about to change, and ask; `is_due` reads no session.

    `can_undo` says whether originals are kept. Everything goes to stderr, so that stdout can be kept. Where nothing is
    due nothing is asked. Raises UsageError if nobody answers.
    """
    listed = [each for each in found if isinstance(each, Session)]
    rows = [_row(agent, listed, is_due) for agent in sorted({each.agent for each in listed})]
    total = _Row("total", *(sum(row[column] for row in rows) for column in range(1, 5)))  # type: ignore[misc]
    if not total.due:
        return True
    echo_table(_COLUMNS, [row.cells() for row in (*rows, total)], err=True)
    click.echo("The others are left alone. --dry-run shows what each would become.", err=True)
    # How many of them are worth it, only reading them would tell: that is the run itself.
    undo = "You can undo this." if can_undo else "You cannot undo this."
    question = f"{verb} up to {counted(total.due, 'session', 'sessions')}? {undo}"
    goes = output.confirmed(wrapped_for(question, err=True), None, STATE, err=True)
    if not goes:
        click.echo(STATE, err=True)
    return goes


def _row(agent: str, listed: Sequence[Session], is_due: Callable[[Path], bool]) -> _Row:
    own, due = [each for each in listed if each.agent == agent], []
    for each in own:
        # The run says what is wrong with one that cannot be looked at.
        with suppress(SessionCompressError):
            due += [each.size] if is_due(each.path) else []
    return _Row(agent, len(own), sum(each.size for each in own), len(due), sum(due))
