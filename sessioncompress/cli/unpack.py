"""`unpack`: move packed sessions back to their original paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, SessionCommand
from sessioncompress.cli.tables import Column, echo_table, echo_wrapped, is_seen, line_of, with_tilde
from sessioncompress.core.text import OBJECT_STORES, counted, kb, printable
from sessioncompress.errors import NOTHING_DONE, UsageError
from sessioncompress.operations.packed import (
    AT_PLACE,
    Ambiguous,
    UnpackStats,
    meant_by,
    packed_below,
    selected,
    unpack_sessions,
)
from sessioncompress.operations.sessions import Selection
from sessioncompress.pipeline.discover import Found
from sessioncompress.store.packing import Packed

_MOST_LISTED = 10


class Unpack(SessionCommand[UnpackStats]):
    """Bring packed sessions back byte for byte. Name them by id, title or path, or by URL in object stores."""

    changes = True
    choice = (
        click.argument("what", nargs=-1, metavar="ID|PATH|TITLE..."),
        click.option("--all", "all_packed", is_flag=True, help="All packed sessions of all agents on this machine."),
    )
    flags = (options.DRY_RUN, options.JSON, options.COLOR)
    hands = ()
    all_with = None
    keeps = ("what", "all_packed")

    def refuse(self) -> None:
        what = self.given.what
        if bool(what) is self.given.all_packed:
            raise click.UsageError("Which sessions? Give their ids, paths or titles, or --all")
        if "" in what:
            raise click.UsageError("a name is empty; use '.' for the working folder. Nothing was done")
        self.urls_named = [each for each in what if each.startswith(OBJECT_STORES)]
        if self.urls_named and len(self.urls_named) < len(what):
            raise click.UsageError("local paths and URLs of object stores can't be combined; use one run for each")

    def found(self) -> list[Found]:
        # The arguments name sessions in packs, which over() resolves.
        return []

    def over(self, found: Iterable[Found]) -> Done[UnpackStats]:
        dry_run = self.chosen.dry_run
        if self.urls_named:
            from sessioncompress.operations.cloud import RemoteSessions

            if not (urls := packed_below(RemoteSessions(self.urls_named))):
                what, where = "no packed session matches it", self.urls_named[0]
                raise UsageError(what, where=where, state=NOTHING_DONE)
            return self.collected(unpack_sessions(urls, dry_run=dry_run))
        try:
            packed = selected((), Selection()) if self.given.all_packed else meant_by(self.given.what)
        except Ambiguous as error:
            _end_with_names(error)
        return self.collected(unpack_sessions(packed, dry_run=dry_run))

    def say(self, stats: UnpackStats) -> None:
        if not self.silent:
            status = "already in place" if stats.status == AT_PLACE else stats.status.replace("-", " ")
            path, title, size = printable(stats.path), printable(stats.title), kb(stats.size)
            whole = f"{path}: {status}, {size}{title and f': {title}'}"
            click.echo(line_of(path, title, f"{size:>9}  {status}") if is_seen() else whole)

    def end(self, done: Done[UnpackStats]) -> None:
        verb = "would unpack" if self.chosen.dry_run else "unpacked"
        back = [each for each in done.results if each.status != AT_PLACE]
        head = f"total: {verb} {counted(len(back), 'session', 'sessions')}"
        said = f"{head}, {kb(sum(each.size for each in back))}"
        echo_wrapped(output.with_others(said, {AT_PLACE: len(done.results) - len(back)} | done.others))

    def hints(self, done: Done[UnpackStats]) -> None:
        if (number := sum(each.made_elsewhere for each in done.results)) and not self.silent:
            sessions = counted(number, "session is", "sessions are")
            are = f"{sessions} from packs that git knows, or that were made elsewhere or by an earlier version"
            echo_wrapped(f"{are}: trust them only as far as you trust those packs", err=True)


unpack = Unpack.command("unpack ~/.pi/agent/sessions")


def _end_with_names(error: Ambiguous) -> NoReturn:
    """Print the sessions that a name may mean, newest first, each with a name that identifies it."""
    echo_wrapped(str(error), err=True)
    ids, places = (Counter(map(key, error.found)) for key in (lambda each: each.entry.id, lambda each: each.place))

    def row(each: Packed) -> tuple[str, ...]:
        # In some agents, a fork keeps its parent's id.
        path = each.place if places[each.place] == 1 else each.pack.archive
        name = each.entry.id if ids[each.entry.id] == 1 and each.entry.id else with_tilde(str(path))
        return tuple(map(printable, (name, each.entry.agent, each.entry.modified[:10], each.entry.title)))

    newest = sorted(error.found, key=lambda each: each.entry.members[0].mtime_ns, reverse=True)
    columns = (Column("session"), Column("agent"), Column("changed"), Column("title", may_be_cut=True))
    echo_table(columns, [row(each) for each in newest[:_MOST_LISTED]], err=True)
    if (more := len(newest) - _MOST_LISTED) > 0:
        click.echo(f"and {more:,} more; 'sessioncompress sessions' lists them", err=True)
    click.get_current_context().exit(error.exit_code)
