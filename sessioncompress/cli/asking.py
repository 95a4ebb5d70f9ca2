"""The question before a command changes all sessions, or those of an agent or a project: nobody has named them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

_COLUMNS = (Column("agent"), *(Column(name, is_number=True) for name in ("sessions", "size", "due", "size", "saves")))
STATE = "No session is changed."
_HINT = "Those that are not due stay. With --dry-run it only says what each would become."


class _Row(NamedTuple):
    """Sessions and their bytes, those of them that are due, and the bytes that a run would free, if that is known."""

    agent: str
    sessions: int
    size: int
    due: int
    size_due: int
    saves: int

    def cells(self) -> tuple[str, ...]:
        return (self.agent, f"{self.sessions:,}", kb(self.size), f"{self.due:,}", kb(self.size_due), kb(self.saves))


def goes_on(
    verb: str,
    found: Sequence[Found],
    is_due: Callable[[Path], bool],
    saving: Callable[[Sequence[Found]], Mapping[Path, int]] | None = None,
    *,
    undo: str = "",
) -> bool:
    """Show how many sessions of each agent a command is about to change, and ask; `is_due` reads no session.

    `saving` does: it tells the bytes that a run would free in those of the due ones that it would change, and no others
    count then. `undo` says what takes that back. Everything goes to stderr, so that stdout can be kept. Where nothing
    is due nothing is asked. Raises UsageError if nobody answers.
    """
    listed = [each for each in found if isinstance(each, Session)]
    due = [each for each in listed if _is(is_due, each)]
    saved = dict.fromkeys((each.path for each in due), 0) if saving is None else saving(due)
    rows = [_row(agent, listed, saved) for agent in sorted({each.agent for each in listed})]
    total = _Row("total", *(sum(row[column] for row in rows) for column in range(1, 6)))  # type: ignore[misc]
    if not total.due:
        return True
    most = len(_COLUMNS) - (saving is None)
    echo_table(_COLUMNS[:most], [row.cells()[:most] for row in (*rows, total)], err=True)
    click.echo(_HINT, err=True)
    sessions = counted(total.due, "session", "sessions")
    question = f"{verb} what pays of {sessions}?"
    if saving is not None:
        question = f"{verb} {sessions}, about {kb(total.saves)} less on disk ({undo})?"
    goes = output.confirmed(wrapped_for(question, err=True), None, STATE, err=True)
    if not goes:
        click.echo(STATE, err=True)
    return goes


def _is(due: Callable[[Path], bool], session: Session) -> bool:
    # The run says what is wrong with one that cannot be looked at.
    with suppress(SessionCompressError):
        return due(session.path)
    return False


def _row(agent: str, listed: Sequence[Session], saved: Mapping[Path, int]) -> _Row:
    own = [each for each in listed if each.agent == agent]
    due = [each for each in own if each.path in saved]
    size, size_due = (sum(each.size for each in sessions) for sessions in (own, due))
    return _Row(agent, len(own), size, len(due), size_due, sum(saved[each.path] for each in due))
