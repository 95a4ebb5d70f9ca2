"""`sessions`: list the sessions of all agents on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from shlex import quote
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Each, SessionCommand
from sessioncompress.cli.tables import (
    Column,
    cut,
    distinct,
    echo_table,
    echo_wrapped,
    is_longer_than_the_screen,
    is_seen,
    room_beside,
    width,
    with_tilde,
)
from sessioncompress.core.text import age, counted, kb, printable, written_time
from sessioncompress.operations import sessions as lists
from sessioncompress.operations.packed import listed_packed
from sessioncompress.operations.sessions import ListedSession
from sessioncompress.pipeline.discover import Found

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
_LEAST_OF_TITLE = 20
"""Characters that must be free for titles to stand in a terminal: no path is cut for one."""
_LEFT_OUT = {"age": "size"}
"""The column that a narrower one has no room for, by what the list is sorted by; else their age."""
_LEAST, _MOST = 14, 20
"""Characters of a path's end that stand for it there; more than the least only where two would end alike."""
_SPECIAL = "*?["
"""Characters that mean more than themselves in a pattern."""
_SORTS: dict[str, Callable[[ListedSession], tuple[object, ...]]] = {
    "saves": lambda each: (-each.could_save, -each.size),
    "size": lambda each: (-each.size,),
    "age": lambda each: (each.modified,),
    "project": lambda each: (each.project, -each.could_save),
}


def row(session: ListedSession, name: Callable[[str], str] = printable) -> list[str]:
    """Format one session; `name` says how a path is written."""
    return [
        session.agent,
        name(lists.printed(session.project)),
        age(session.modified),
        kb(session.size),
        kb(session.could_save) if session.could_save else "-",
        "packed" if session.packed else "yes" if session.compressed else "-",
        name(session.path),
    ]


def echo_list(listed: Sequence[ListedSession], sort: str = "saves") -> None:
    """Print the table of sessions, and their total."""
    rows = sorted(listed, key=_SORTS[sort])
    if not is_seen():
        _echo_all(rows, [row(each) for each in rows])
        return
    best = next((each for each in rows if not each.packed), None)
    cells = [row(each, lambda path: with_tilde(printable(path))) for each in rows]
    if is_upside_down := is_longer_than_the_screen(cells):
        # Else what comes first is the first to leave the screen.
        rows.reverse()
        cells.reverse()
    if width() >= _WIDE:
        # The room is for paths, which have the project in them.
        names = distinct((cell[1] for cell in cells), width() // 5)
        cells = [[cell[0], names[cell[1]], *cell[2:]] for cell in cells]
        _echo_all(rows, cells, room_beside(COLUMNS, cells))
    else:
        ends = ends_of(each.path for each in rows)
        left_out = _LEFT_OUT.get(sort, "age")
        shown = [number for number, column in enumerate(COLUMNS) if column.name != left_out]
        *columns, last = (COLUMNS[number] for number in shown)
        made = (
            [*(cell[number] for number in shown[:-1]), ends[each.path]] for each, cell in zip(rows, cells, strict=True)
        )
        echo_table([*columns, last._replace(may_be_cut=False)], list(made))
    if is_upside_down:
        click.echo("in reverse order: the first session is at the bottom", err=True)
    if best is not None and width() < _WIDE:
        # Never broken: it is there to be copied.
        click.echo(f"only the first: sessioncompress compress --all --include {quote(ends[best.path])}", err=True)


def _echo_all(rows: Sequence[ListedSession], cells: Sequence[Sequence[str]], room: int | None = None) -> None:
    """Print all columns, and the titles of the sessions where the others leave room; None: nothing is cut."""
    if room is not None and room < _LEAST_OF_TITLE:
        echo_table(COLUMNS, cells)
        return
    titles = [printable(each.title) if room is None else cut(printable(each.title), room) for each in rows]
    echo_table((*COLUMNS, Column("title")), [[*cell, title] for cell, title in zip(cells, titles, strict=True)])


def ends_of(paths: Iterable[str]) -> Mapping[str, str]:
    """Write paths as patterns for --include, by their ends: each matches no other path, if that is not too long."""
    backwards = sorted(path[::-1] for path in set(paths))
    alike = [0, *(len(os.path.commonprefix(pair)) for pair in pairwise(backwards)), 0]  # noqa: RUF071 - characters
    made = {}
    for path, *shared in zip(backwards, alike, alike[1:], strict=False):
        # A pattern is compared with what stands below an agent's folder: a short name stands alone if it can.
        least = min(_LEAST, len(path.partition("/")[0]))
        end = path[: min(max(least, *(each + 1 for each in shared)), _MOST)][::-1]
        plain = "".join(char if char.isprintable() and char not in _SPECIAL else "?" for char in end)
        made[path[::-1]] = f"*{plain}"
    return made


def total(listed: Sequence[ListedSession]) -> str:
    """Format what all sessions come to."""
    head = f"total: {counted(len(listed), 'session', 'sessions')}"
    if not listed:
        return head
    now, saves = (sum(getattr(each, name) for each in listed) for name in ("packed_size", "could_save"))
    size = sum(each.size for each in listed if not each.packed)
    agents = counted(len({each.agent for each in listed}), "agent", "agents")
    done = sum(each.compressed for each in listed if not each.packed)
    packed = sum(each.packed for each in listed)
    already = f"{done:,} compressed already{f', {packed:,} packed into {kb(now)}' if packed else ''}"
    return f"{head} of {agents}, {kb(size)}; {already}; a run could save {kb(saves, size)}, stores included"


class Sessions(SessionCommand[ListedSession]):
    """List the sessions on this machine, and what could be saved; change nothing."""

    choice = (options.AGENT, options.PROJECT, options.OLDER_THAN)
    flags = (
        click.option(
            "--sort",
            type=click.Choice(list(_SORTS)),
            default="saves",
            help="What to list first; by default what could save most.",
        ),
        options.JSON,
        options.COLOR,
    )
    hands = ()
    all_with = None
    keeps = ("sort",)
    notes = output.tell_of_others

    @staticmethod
    def work(each: Each) -> ListedSession:
        assert isinstance(each.found, lists.Session)
        return lists.listed(each.found, each.policy)

    def refuse(self) -> None:
        if others := click.get_current_context().args:
            what = "sessions lists those in the agents' folders, and takes no PATHS; for others"
            raise click.UsageError(f"{what}: sessioncompress stats {quote(others[0])}")

    def over(self, found: Iterable[Found]) -> Done[ListedSession]:
        return self.each(found) + self.collected(listed_packed(self.chosen.selection))

    def file(self, stats: ListedSession) -> dict[str, Any]:
        return super().file(stats) | {"modified": written_time(stats.modified)}

    def document(self, done: Done[ListedSession]) -> dict[str, Any]:
        listed = done.results
        totals = {
            "sessions": len(listed),
            "size": sum(each.size for each in listed if not each.packed),
            "compressed": sum(each.compressed for each in listed if not each.packed),
            "couldSave": sum(each.could_save for each in listed),
            "packed": sum(each.packed for each in listed),
            "packedSize": sum(each.packed_size for each in listed),
        }
        return {"sessions": super().document(done)["files"], "totals": totals}

    def end(self, done: Done[ListedSession]) -> None:
        echo_list(done.results, self.given.sort)
        echo_wrapped(output.with_others(total(done.results), done.others))


sessions = Sessions.command("sessions --project .")
# To say what does take them.
sessions.allow_extra_args = True
