"""`pack`: put sessions that are no longer in use into archives, one for each project."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, SessionCommand
from sessioncompress.cli.tables import Column, echo_table, echo_wrapped, is_seen, with_tilde
from sessioncompress.core.text import OBJECT_STORES, counted, kb, printable, smaller
from sessioncompress.errors import InUse
from sessioncompress.formats import table
from sessioncompress.operations.pack import PackStats, pack_objects, pack_sessions
from sessioncompress.operations.sessions import printed
from sessioncompress.pipeline.discover import Found, is_folder
from sessioncompress.pipeline.rollouts import with_zipped
from sessioncompress.store import git
from sessioncompress.store.layout import real_place
from sessioncompress.store.objects import looked_up

_LARGE = 1 << 20
_OF_LARGE, _OF_SMALL, _OF_STORES = (0.06, 0.22), (0.07, 0.5), 7 / 8
"""Range of an archive's size: shares of the sessions (1 MB or more in total, or less), and of their stores.

Measured on real sessions; 55 of 58 archives were in this range. See docs/how-to/archive.md.
"""
_STORES = (
    "stores do not compress well in an archive. After 'restore' and 'forget --unneeded' over the same sessions, "
    "archives of such sessions are typically 20 to 33 % smaller"
)


class Pack(SessionCommand[PackStats]):
    """Move old sessions into archives, one for each project."""

    changes = urls = True
    rows = False
    asks = "Pack"
    flags = (options.DRY_RUN, options.YES, options.JSON)
    takes = (options.CONFIG,)
    hands = ()

    def refuse(self) -> None:
        if self.chosen.by_options and self.chosen.older_than is None:
            raise click.UsageError("without PATHS, use --older-than to say which sessions to pack, as in 30d")

    def found(self) -> Iterable[Found]:
        # In an object store, include sessions with only a store left: a killed run may have packed them.
        return self.chosen.sessions(with_zipped)

    def undo(self, found: Sequence[Found]) -> str:
        return "Their agents do not list them until 'unpack' brings them back."

    def over(self, found: Iterable[Found]) -> Done[PackStats]:
        chosen, policies = self.chosen, self.policies
        if chosen.places:
            outcomes = list(pack_objects(found, chosen.urls, policies.apart, dry_run=chosen.dry_run))
        else:
            roots = [*table.agent_roots()] if chosen.by_options else [*filter(is_folder, chosen.paths)]
            outcomes = list(pack_sessions(found, roots, policies.of, dry_run=chosen.dry_run))
        # The user didn't name these, and an agent may be using them; the next run packs them.
        in_use = [each for each in outcomes if chosen.by_options and isinstance(each.error, InUse)]
        done = self.collected(each for each in outcomes if each not in in_use)
        done.others["skipped, in use"] = len(in_use)
        self.archives: dict[str, list[PackStats]] = {}
        for each in done.results:
            if each.archive:
                self.archives.setdefault(each.archive, []).append(each)
        return done

    def document(self, done: Done[PackStats]) -> dict[str, Any]:
        packs = [
            {"path": path, "sessions": len(these), "size": _total(these), "archiveSize": _size_of(path)}
            for path, these in self.archives.items()
        ]
        return super().document(done) | {"archives": packs}

    def end(self, done: Done[PackStats]) -> None:
        archives, dry_run = self.archives, self.chosen.dry_run
        cells = []
        for at, to in archives.items():
            # In a terminal, the commands that undo this have the whole paths.
            shown = Path(at).name if is_seen() else at
            after = _range([to]) if dry_run else kb(_size_of(at))
            cells.append((printable(shown), with_tilde(printed(to[0].project)), f"{len(to):,}", kb(_total(to)), after))
        numbers = (Column(name, is_number=True) for name in ("sessions", "size", "packed"))
        if cells:
            columns = Column("archive", may_be_cut=True), Column("project", may_be_cut=True)
            echo_table([*columns, *numbers], cells)
        size = _total(done.results)
        verb = "would pack" if dry_run else "packed"
        head = f"total: {verb} {counted(len(done.results), 'session', 'sessions')}"
        said = kb(size)
        if size and not dry_run:
            left = sum(map(_size_of, archives))
            said += f" -> {kb(left, size)} ({smaller(size, left)})"
        said += f" into an estimated {_range(archives.values())}" if dry_run and archives else ""
        echo_wrapped(output.with_others(f"{head}, {said}", done.others))
        tracked = [] if self.chosen.places else git.known(real_place(Path(each.path)) for each in done.results)
        if tracked:
            has = counted(len(tracked), "session", "sessions")
            what = "the archives are hidden from git, on this machine alone; a commit takes the sessions from others"
            echo_wrapped(f"git has {has} of these: {what}", err=True)
        elif stores := sum(1 for each in done.results if each.store_size):
            echo_wrapped(f"{counted(stores, 'session has a store', 'sessions have stores')}: {_STORES}", err=True)
        for stats in done.results:
            for journal in stats.other_stores:
                options.warn(f"{stats.path}: it has another store, which stays in its place: {journal}")

    def hints(self, done: Done[PackStats]) -> None:
        if self.archives and not self.chosen.dry_run:
            output.tell_of_unpack("undo with: ", self.archives, sum(map(len, self.archives.values())))


pack = Pack.command("pack --all --older-than 30d")


def _total(packed: Iterable[PackStats]) -> int:
    return sum(each.size for each in packed)


def _range(archives: Iterable[Sequence[PackStats]]) -> str:
    """Estimate the size of archives. Originals are compressed already, and a few small sessions compress less well."""
    least = most = 0.0
    for each in archives:
        stores = sum(stats.store_size for stats in each)
        sessions = _total(each) - stores
        shares = _OF_LARGE if sessions >= _LARGE else _OF_SMALL
        least, most = (
            sum_ + share * sessions + _OF_STORES * stores for sum_, share in zip((least, most), shares, strict=True)
        )
    return f"{kb(round(least))} to {kb(round(most))}"


def _size_of(archive: str) -> int:
    if archive.startswith(OBJECT_STORES):
        found = looked_up(archive)
        return found["size"] if found else 0
    # A dry run writes no archive.
    return Path(archive).stat().st_size if Path(archive).exists() else 0
