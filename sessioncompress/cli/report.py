"""`report`: one HTML page with where the bytes and tokens are, what was saved, and what a run would save."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Job, SessionCommand
from sessioncompress.cli.tables import echo_wrapped
from sessioncompress.core.text import counted, kb, listed, printable
from sessioncompress.pipeline.discover import Found

if TYPE_CHECKING:
    from sessioncompress.operations.database import DatabaseStats
    from sessioncompress.operations.overview import Measured, Overview
    from sessioncompress.operations.page import Price


def _prices(ctx: click.Context, param: click.Parameter, value: Iterable[str]) -> tuple[Price, ...]:
    from sessioncompress.operations.page import Price

    found = []
    for each in value:
        model, _, written = each.rpartition("=")
        try:
            dollars = float(written)
        except ValueError:
            dollars = math.nan
        if not 0 <= dollars < math.inf:
            what = f"'{printable(each)}' is not a price; give dollars per million tokens, as in 3 or 'claude-*=3'"
            raise click.BadParameter(what, ctx, param)
        found.append(Price(model or "*", dollars))
    return tuple(found)


class Report(SessionCommand["Measured"]):
    """Write an HTML page: what sessions take, and what is saved."""

    packed = True
    flags = (options.JOBS,)
    takes = (
        click.option(
            "-o",
            "target",
            type=options.ANY_PATH,
            default="report.html",
            metavar="FILE",
            help="Write the page to this file, by default report.html; an older report is replaced.",
        ),
        click.option(
            "--price",
            "prices",
            multiple=True,
            metavar="PRICE",
            callback=_prices,
            help="Dollars per million tokens, as in 3, or for some models, as in 'claude-*=3'.",
        ),
        *(options.CONFIG, options.PRESET, options.BACKUP_DIR, options.FORMAT),
    )
    keeps = ("target", "prices")
    notes = output.tell_of_others

    @staticmethod
    def work(job: Job, form: str | None) -> Measured:
        from sessioncompress.operations import overview
        from sessioncompress.operations.sessions import Session

        project = job.found.project if isinstance(job.found, Session) else ""
        return overview.measure(job.path, job.policy, project=project, form=form)

    def on_database(self, path: Path, rows: Sequence[Found]) -> DatabaseStats:
        from sessioncompress.operations.database import measured

        return measured(path, rows)

    def refuse(self) -> None:
        from sessioncompress.operations import page

        page.refuse_other(self.given.target)

    def over(self, found: Iterable[Found]) -> Done[Measured]:
        from sessioncompress.operations.packed import failures
        from sessioncompress.store.packing import Packed

        measured, stored = self.each(found), list(self.chosen.packed())
        self.stored = [each for each in stored if isinstance(each, Packed)]
        return measured + self.collected(failures(stored))

    def end(self, done: Done[Measured]) -> None:
        from sessioncompress.operations import overview, page
        from sessioncompress.operations import sessions as lists

        chosen, target, prices = self.chosen, self.given.target, self.given.prices
        if not (done.results or self.stored):
            # An older page is more useful than an empty one.
            echo_wrapped(printable(f"{target}: not written: no sessions to report on"), err=True)
            return
        found = overview.overview(done.results)._replace(packed=overview.packed_rows(self.stored))
        which = [*map(str, chosen.paths), chosen.agent or "", str(chosen.project or "")]
        # Repeat this command's options, because another run would free a different amount.
        asked = [chosen.typed(*self.where[1:])]
        asked += [f"--preset {self.preset}"] if self.preset else []
        asked += [f"--format {self.given.form}"] if self.given.form else []
        swept = lists.swept(((each.agent, each.path, each.changed) for each in found.sessions), chosen.project)
        made = page.page(
            found,
            prices,
            of=printable(", ".join(filter(None, which))) or "All sessions on this machine",
            at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            command=f"sessioncompress compress {' '.join(asked)}",
            forget=f"sessioncompress forget --unneeded {asked[0]}",
            swept=swept,
            failed=done.others["failed"] + done.others["refused"],
        )
        page.write(target, made)
        echo_wrapped(f"{printable(str(target))}: {_headline(found, prices)}")
        models = sorted({each.model for each in found.sessions if each.model})
        there = f"; the models here are {listed(models, 5)}" if models else ""
        for price in page.unused_prices(found.sessions, prices):
            what = f"--price {price.model}={price.dollars:g} applies to no session"
            options.warn(f"{what}: no model matches it, or an earlier --price does{there}")
        output.tell_of_databases(self.databases)
        output.tell_of_sweeps(swept)
        echo_wrapped("The page names your sessions and projects: review it before you share it.", err=True)


report = Report.command("report --all -o report.html")


def _headline(found: Overview, prices: tuple[Price, ...]) -> str:
    from sessioncompress.operations.page import dollars, money, share

    disk, stores = found.disk, found.total("store")
    saved, frees = disk.without - disk.now, disk.now - disk.then
    sessions = counted(len(found.sessions), "session", "sessions")
    size = found.total("size")
    with_stores = f" and {kb(stores, size)} of stores" if stores else ""
    if unused := found.total("unused"):
        with_stores += " that nothing needs" if unused == stores else f", of which nothing needs {kb(unused, size)}"
    parts = [f"{sessions} of {counted(len(found.agents), 'agent', 'agents')}, {kb(size)}{with_stores}"]
    if saved > 0:
        parts.append(f"{kb(saved, size)} ({share(saved, disk.without)}) saved so far")
    elif saved < 0:
        parts.append(f"the stores take {kb(-saved)} more than was saved so far")
    parts.append(
        f"a run would free {kb(frees, size)} ({share(frees, disk.now)}), counted exactly"
        if frees > 0
        else "a run would free nothing"
    )
    if prices:
        so_far, more = (money(found.sessions, name, prices).dollars for name in ("saved_tokens", "frees_tokens"))
        once = "less to send each once"
        parts += [f"{dollars(so_far)} {once}"] if so_far or not more else []
        parts += [f"{dollars(more)} {'more' if so_far else once} after a run"] if more else []
    if found.packed:
        before, now = sum(row.size for row in found.packed), sum(row.part for row in found.packed)
        packed = counted(sum(row.sessions for row in found.packed), "session", "sessions")
        parts.append(f"{packed} packed, {kb(before)} before and {kb(now, before)} now")
    return "; ".join(parts)
