"""`report`: one page to look at: where the bytes and tokens are, what was saved, and what a run would save."""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessioncompress.cli import cluster, options, output
from sessioncompress.cli.choosing import Chosen, choosing, typed
from sessioncompress.cli.kinds import AGE
from sessioncompress.cli.tables import echo_wrapped
from sessioncompress.core.text import counted, kb, printable
from sessioncompress.operations import batch
from sessioncompress.pipeline.discover import Found

if TYPE_CHECKING:
    from sessioncompress.operations.overview import Measured, Overview
    from sessioncompress.operations.page import Price


_MOST_MODELS = 5
"""That a warning names."""


def _prices(ctx: click.Context, param: click.Parameter, value: Iterable[str]) -> tuple[Price, ...]:
    # Imported here, as below, so that --help needs neither templates nor plots.
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


@click.command(cls=options.Command, epilog="Example: sessioncompress report --all -o report.html")
@choosing(options.JOBS, packed=True)
@click.option(
    "-o",
    "target",
    type=options.ANY_PATH,
    default="report.html",
    metavar="FILE",
    help="Write the page to this file, by default report.html; an older report is replaced.",
)
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="PRICE",
    callback=_prices,
    help="Dollars per million tokens, as in 3, or for some models, as in 'claude-*=3'.",
)
@options.CONFIG
@options.PRESET
@options.BACKUP_DIR
@options.FORMAT
@cluster.ENGINE
def report(
    chosen: Chosen,
    target: Path,
    prices: tuple[Price, ...],
    config: Path | None,
    preset: str | None,
    backup_dir: Path | None,
    form: str | None,
) -> None:
    """Write an HTML page that shows what sessions take and what is saved."""
    from sessioncompress.operations import overview, page
    from sessioncompress.operations.packed import packed_sizes
    from sessioncompress.operations.sessions import Session

    page.refuse_other(target)
    policies = options.policies_of(config, preset, backup_dir=backup_dir)

    def prepare(found: Found) -> Callable[[], Measured]:
        policy = policies.of(found.path)
        options.tell_of_two_stores(found.path, policy)
        project = found.project if isinstance(found, Session) else ""
        return partial(overview.measure, found.path, policy, project=project, form=form)

    done = output.told(batch.Archive(chosen.sessions(), prepare, chosen.jobs, chosen.engine))
    stored = output.told(packed_sizes(chosen.packed()))
    output.tell_of_others(chosen)
    if not (done.results or stored.results):
        # An older page tells more than one about nothing.
        echo_wrapped(printable(f"{target}: not written: no sessions to report on"), err=True)
        sys.exit(batch.worst((done.exit_code, stored.exit_code)))
    found = overview.overview(done.results)._replace(packed=overview.packed_rows(stored.results))
    samples = [
        sample
        for each in overview.sampled(found.sessions)
        for sample in overview.samples(Path(each.path), policies.of(Path(each.path)), form=form)
    ]
    # What chose the sessions, as the user could type it; nothing for all.
    which = list(map(str, chosen.paths))
    which += ["--agent", chosen.agent] if chosen.agent is not None else []
    which += ["--project", str(chosen.project)] if chosen.project is not None else []
    unused = [Path(each.path) for each in found.sessions if each.unused]
    made = page.page(
        found,
        samples,
        prices,
        of=printable(", ".join(which)) or "All sessions on this machine",
        at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        command=printable(shlex.join(["sessioncompress", "compress", *(which or ["--all"]), *_age(chosen)])),
        forget=printable(" ".join(["sessioncompress forget", *typed(unused, backup_dir)])),
        failed=len(done.failed) + len(stored.failed),
    )
    page.write(target, made)
    echo_wrapped(f"{printable(str(target))}: {_headline(found, prices)}")
    _warn_of_prices(found, prices)
    if samples:
        echo_wrapped("The page quotes your sessions: review it before you share it.", err=True)
    sys.exit(batch.worst((done.exit_code, stored.exit_code)))


def _age(chosen: Chosen) -> list[str]:
    """Write the age that a run over these sessions should ask for: who names none is told to leave today's alone."""
    if chosen.older_than is not None:
        return ["--older-than", f"{chosen.older_than // AGE['h']}h"]
    return ["--older-than", "1d"] if chosen.by_options else []


def _warn_of_prices(found: Overview, prices: tuple[Price, ...]) -> None:
    """Warn of prices that count for no session, with the models that there are."""
    from sessioncompress.operations.page import unused_prices

    models = sorted({each.model for each in found.sessions if each.model})
    there = f"; there are {', '.join(models[:_MOST_MODELS])}" if models else ""
    there += f" and {len(models) - _MOST_MODELS:,} more" if len(models) > _MOST_MODELS else ""
    for price in unused_prices(found.sessions, prices):
        what = f"--price {price.model}={price.dollars:g} counts for no session"
        options.warn(f"{what}: no model fits it, or an earlier --price does{there}")


def _headline(found: Overview, prices: tuple[Price, ...]) -> str:
    from sessioncompress.operations.page import dollars, money, share

    disk, stores = found.disk, found.total("store")
    saved, frees = disk.without - disk.now, disk.now - disk.then
    sessions = counted(len(found.sessions), "session", "sessions")
    size = found.total("size")
    with_stores = f" and {kb(stores, size)} of stores" if stores else ""
    parts = [f"{sessions} of {counted(len(found.agents), 'agent', 'agents')}, {kb(size)}{with_stores}"]
    if saved > 0:
        parts.append(f"{kb(saved, size)} ({share(saved, disk.without)}) saved so far")
    elif saved < 0:
        parts.append(f"the stores take {kb(-saved)} more than was saved so far")
    parts.append(
        f"a run would free {kb(frees, size)} ({share(frees, disk.now)})" if frees > 0 else "a run would free nothing"
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
