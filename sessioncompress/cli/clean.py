"""`clean`: delete what dead runs left, and originals that the user gives up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, SessionCommand
from sessioncompress.cli.kinds import AGE, amount
from sessioncompress.core.text import counted, kb, printable
from sessioncompress.operations import batch
from sessioncompress.operations.clean import Cause, CleanStats, Limits, clean_one, plan_clean
from sessioncompress.operations.stores import stored
from sessioncompress.operations.wording import at_stake, links_kept
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import to_json

KEPT = "kept"
DELETED = "deleted"

_NUMBERS = ("bytesDeleted", "originals", "originalsLost", "leftOver", "leftOverBytes", "lateBytes", "linksKept")


def line(stats: CleanStats, *, dry_run: bool) -> str:
    """Format one session."""
    verb = "would delete" if dry_run else DELETED
    parts = []
    if stats.deleted and stats.bytes_deleted:
        parts.append(f"{verb} {at_stake(stats, done=not dry_run)}: {stats.reason}")
    if stats.late_bytes:
        carried = "would carry" if dry_run else "carried"
        parts.append(f"{carried} {stats.late_bytes:,} late bytes over into the session")
    if stats.left_over:
        files = counted(stats.left_over, "file", "files")
        parts.append(f"{verb} {files} left behind by ended runs, {kb(stats.left_over_bytes)}")
    if not stats.deleted and stats.cause is not Cause.DEAD_RUN:
        parts.append(f"{'the rest is ' if stats.left_over else ''}{KEPT}: {stats.reason}")
        if stats.links_kept:
            parts.append(f"{KEPT} {links_kept(stats.links_kept)}")
    return printable(f"{stats.path}: {'; '.join(parts)}")


def total_line(done: Sequence[CleanStats], failed: int, lying: Sequence[int], *, dry_run: bool) -> str:
    """Format the total; `lying` are the bytes of each store before."""
    going = [each for each in done if each.deleted or each.left_over]
    size = sum(each.bytes_deleted + each.left_over_bytes for each in going)
    parts = ["total: nothing to delete"]
    if going:
        verb = "would delete" if dry_run else DELETED
        parts = [f"total: {counted(len(going), 'session', 'sessions')}: {verb} {kb(size)}"]
    kept = len(done) - len(going)
    parts += [f"{number:,} {word}" for number, word in ((kept, KEPT), (failed, "failed or refused")) if number]
    if lying:
        stores = counted(len(lying), "store", "stores")
        parts.append(f"{stores} {'of' if dry_run or not going else 'had'} {kb(sum(lying))}")
    elif not failed:
        # Where something could not be read there may be stores.
        parts.append("no stores found")
    return "; ".join([*parts, *(["nothing was deleted; add --yes to delete"] if dry_run and going else [])])


def _file(stats: CleanStats, status: str) -> dict[str, Any]:
    said = to_json(stats)
    texts = {"path": said["path"], "status": status, "cause": said["cause"] or "", "reason": said["reason"]}
    return texts | {name: said[name] for name in _NUMBERS}


def _refused(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        what = (
            "in other commands this selects sessions by age; to delete the originals of runs older than that, use "
            f"--originals-older-than {value}. Nothing was done."
        )
        raise click.BadParameter(what, ctx, param)


_YES = click.option("--yes", is_flag=True, help="Delete instead of only showing what would be deleted.")
_OLDER_THAN = click.option("--older-than", hidden=True, callback=_refused, help="What --originals-older-than was.")


class Clean(SessionCommand[CleanStats]):
    """Delete what ended runs left behind; also originals over a limit, or of a session you name that is gone."""

    changes = stores = True
    parallel = False
    choice = (
        click.argument("paths", nargs=-1, type=options.ANY_PATH),
        *(options.ALL, options.AGENT, options.PROJECT, _OLDER_THAN),
    )
    flags = (options.DRY_RUN, _YES, options.JSON, options.INCLUDE, options.EXCLUDE, options.COLOR)
    takes = (
        click.option(
            "--originals-older-than",
            metavar="AGE",
            callback=amount(AGE, "an age", "90d"),
            help="Also delete the originals of sessions whose last run is older than this, as in 90d.",
        ),
        click.option(
            "--max-size",
            metavar="SIZE",
            callback=amount({"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}, "a size", "500MB"),
            help="Also delete the oldest originals until the rest fits in this size, as in 500MB.",
        ),
        options.CONFIG,
        options.THEIR_FOLDER,
    )
    hands = ()
    keeps = ("originals_older_than", "max_size")

    def found(self) -> list[Found]:
        self.dry_run = self.chosen.dry_run or not self.chosen.yes
        found = self.chosen.sessions(lambda paths, globs: stored(paths, self.policies.of, globs))
        limits = Limits(self.given.originals_older_than, self.given.max_size)
        self.holdings, unread = plan_clean(found, self.policies.of, limits)
        for each in self.holdings:
            options.tell_of_two_stores(each.session, each.policy)
        return [*unread, *(Found(each.session, named=True) for each in self.holdings)]

    def over(self, found: Iterable[Found]) -> Done[CleanStats]:
        by_session = {each.session: each for each in self.holdings}
        return self.collected(batch.each(found, lambda each: clean_one(by_session[each.path], dry_run=self.dry_run)))  # type: ignore[arg-type,return-value]

    def say(self, stats: CleanStats) -> None:
        if not self.chosen.as_json:
            click.echo(line(stats, dry_run=self.dry_run))

    def failure(self, path: str, status: str, reason: str, code: int) -> dict[str, Any]:
        return _file(CleanStats(path, deleted=False, cause=None, reason=reason), status)

    def document(self, done: Done[CleanStats]) -> dict[str, Any]:
        files = [_file(each, DELETED if each.deleted or each.left_over else KEPT) for each in done.results]
        totals = {name: sum(each[name] for each in files) for name in _NUMBERS}
        files += [each for each in done.files if isinstance(each, dict)]
        return {"dryRun": self.dry_run, "files": files, "totals": totals}

    def end(self, done: Done[CleanStats]) -> None:
        lying = [each.size for each in self.holdings if each.size]
        failed = done.others["failed"] + done.others["refused"]
        click.echo(total_line(done.results, failed, lying, dry_run=self.dry_run))

    def hints(self, done: Done[CleanStats]) -> None:
        output.tell_of_packed(self.chosen)


clean = Clean.command("clean ~/.pi/agent/sessions")
