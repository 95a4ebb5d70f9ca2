"""`clean`: delete what dead runs left, and originals that the user gives up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.choosing import Chosen, choosing
from sessioncompress.cli.kinds import AGE, amount
from sessioncompress.core.text import counted, kb, printable
from sessioncompress.operations import batch
from sessioncompress.operations.clean import Cause, CleanStats, Limits, clean_one, plan_clean
from sessioncompress.operations.stores import stored
from sessioncompress.operations.wording import at_stake, links_kept, status_of
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.clean/1"
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


def document(done: output.Done, *, dry_run: bool) -> dict[str, Any]:
    """Build the `--json` document."""
    files = [_file(stats, DELETED if stats.deleted or stats.left_over else KEPT) for stats in done.results]
    totals = {name: sum(each[name] for each in files) for name in _NUMBERS}
    for path, error in done.failed:
        stats = CleanStats(path, deleted=False, cause=None, reason=str(error))
        files.append(_file(stats, status_of(error).value))
    return {"schema": SCHEMA, "dryRun": dry_run, "files": files, "totals": totals}


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


@click.command(cls=options.Command, epilog="Example: sessioncompress clean ~/.pi/agent/sessions")
@choosing(options.DRY_RUN, _YES, options.JSON, gone=True, older_than=_OLDER_THAN)
@click.option(
    "--originals-older-than",
    metavar="AGE",
    callback=amount(AGE, "an age", "90d"),
    help="Also delete the originals of sessions whose last run is older than this, as in 90d.",
)
@click.option(
    "--max-size",
    metavar="SIZE",
    callback=amount({"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}, "a size", "500MB"),
    help="Also delete the oldest originals until the rest fits in this size, as in 500MB.",
)
@options.CONFIG
@options.THEIR_FOLDER
def clean(
    chosen: Chosen,
    originals_older_than: int | None,
    max_size: int | None,
    config: Path | None,
    backup_dir: Path | None,
) -> None:
    """Delete what ended runs left behind; also originals over a limit, or of a session you name that is gone."""
    policies = options.policies_of(config, backup_dir=backup_dir)
    dry_run = chosen.dry_run or not chosen.yes
    found = chosen.sessions(lambda paths, globs: stored(paths, policies.of, globs))
    holdings, unread = plan_clean(found, policies.of, Limits(originals_older_than, max_size))
    by_session = {each.session: each for each in holdings}
    for each in holdings:
        options.tell_of_two_stores(each.session, each.policy)
    files = [*unread, *(Found(path, named=True) for path in by_session)]
    done = output.told(
        batch.each(files, lambda each: clean_one(by_session[each.path], dry_run=dry_run)),
        lambda stats: None if chosen.as_json else click.echo(line(stats, dry_run=dry_run)),
    )
    if chosen.as_json:
        output.echo_json(document(done, dry_run=dry_run))
    else:
        stores = [each.size for each in holdings if each.size]
        click.echo(total_line(done.results, len(done.failed), stores, dry_run=dry_run))
    output.tell_of_packed(chosen)
    sys.exit(done.exit_code)
