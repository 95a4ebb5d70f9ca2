"""`compress`: make sessions smaller, in place."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sessioncompress.cli import cluster, options, output
from sessioncompress.cli.choosing import Chosen, choosing
from sessioncompress.cli.kinds import WholeNumber
from sessioncompress.core import text
from sessioncompress.core.text import kb, less
from sessioncompress.operations import batch
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.discover import Found

if TYPE_CHECKING:
    from sessioncompress.pipeline.summary import CompressionStats
    from sessioncompress.policy.model import Policy
    from sessioncompress.policy.sources import Policies


@click.command(cls=options.Command, epilog="Example: sessioncompress compress ~/.pi/agent/sessions")
@choosing(
    options.DRY_RUN, options.YES, options.CHECK, options.JOBS, options.JSON, options.QUIET, options.VERBOSE, urls=True
)
@options.CONFIG
@options.PRESET
@click.option(
    "--keep-turns",
    type=WholeNumber(0),
    metavar="N",
    help="Keep this many of the last user turns whole; of their tool I/O the newest --protect-tokens.",
)
@click.option(
    "--protect-tokens",
    type=WholeNumber(0),
    metavar="N",
    help="Keep this many of the newest tokens of tool I/O in these turns whole.",
)
@options.RULE
@click.option("--min-size", type=WholeNumber(0), metavar="KB", help="Leave smaller sessions alone.")
@click.option("--prune", is_flag=True, help="Also clear whole old results; see prune in the policy.")
@click.option("--no-backup", is_flag=True, help="Keep no originals: nothing can be restored.")
@options.BACKUP_DIR
@options.COMMIT_ORIGINALS
@options.QUIET_SECONDS
@options.IDLE_SECONDS
@options.LOG
@click.option(
    "--force",
    is_flag=True,
    help="Also compress sessions that are under the size threshold or grew little, and for savings under minSavedKB.",
)
@options.FORMAT
@cluster.ENGINE
def compress(
    chosen: Chosen, config: Path | None, preset: str | None, force: bool, form: str | None, **overrides: Any
) -> None:
    """Make sessions smaller, in place."""
    from sessioncompress.cli.tables import echo_wrapped
    from sessioncompress.operations import wording

    rehearse = chosen.rehearses
    policies = options.policies_of(config, preset, compresses=True, by_options=chosen.by_options, **overrides)
    run_id = text.run_id(time.time())

    def prepare(found: Found) -> batch.Settled[CompressionStats] | Callable[[], CompressionStats]:
        policy = options.policy_of(found, policies)
        if policy.commit_originals and not rehearse:
            options.show_originals(found.path, policy)
        named = found.named
        if (skipped := _skip(found, policy, force=force)) is not None and _is_settled(found, skipped, rehearse):
            return batch.Settled(skipped)
        from sessioncompress.operations.compress import compress_session
        from sessioncompress.pipeline.summary import CompressionStats, Status

        how: dict[str, Any] = {"dry_run": rehearse, "force": force, "form": form, "named": named, "run_id": run_id}
        work = options.on(found, partial(compress_session, policy=policy, **how), writes=not rehearse)
        return chosen.unless_in_use(work, partial(CompressionStats, str(found.path), status=Status.SKIPPED))

    listed = options.all_governed(chosen.sessions(), policies)
    if chosen.asks and not _agreed(listed, policies, force=force):
        return

    lines = output.Lines(chosen)
    done: list[CompressionStats] = []
    passed_over = 0
    codes: set[int] = set()
    run = batch.Archive(listed, prepare, chosen.jobs, chosen.engine, quiet=chosen.quiet)
    for outcome in run:
        codes.add(outcome.exit_code)
        if outcome.passed_over:
            passed_over += 1
            continue
        stats = wording.stats_of(outcome)
        done.append(stats)
        if outcome.error is not None:
            echo_wrapped(wording.line(stats), err=True)
        elif stats.is_smaller:
            lines.changed(wording.line(stats), partial(_short, stats))
        else:
            lines.left(wording.line(stats), stats.status.value, stats.reason)
        for warning in wording.warnings(stats):
            echo_wrapped(warning, err=True)
    _warn_of_closed(chosen, done)
    output.tell_of_others(chosen)
    if chosen.as_json:
        output.echo_json(wording.document(done, dry_run=rehearse))
    lines.end(wording.total_lines(done, passed_over=passed_over))
    # Without originals there is no way back.
    runs = (stats.run for stats in done if chosen.urls or policies.of(Path(stats.path)).keep_backup)
    output.tell_of_undo(runs, chosen.paths, overrides["backup_dir"], chosen.urls, quiet=chosen.quiet)
    if run.interrupted:
        codes.add(output.cut_short(run))
    if chosen.check and any(stats.is_smaller for stats in done):
        codes.add(1)
    sys.exit(batch.worst(codes))


def _agreed(listed: Sequence[Found], policies: Policies, *, force: bool) -> bool:
    """Ask whether to go on. Raises UsageError if nobody answers."""
    # Imported here: most runs ask nothing.
    from sessioncompress.cli.asking import goes_on

    def is_due(path: Path) -> bool:
        return not triage.not_due(path, policies.of(path), force=force)

    can_undo = all(policies.of(each.path).keep_backup for each in listed if each.error is None)
    return goes_on("Compress", listed, is_due, can_undo=can_undo)


def _warn_of_closed(chosen: Chosen, done: Sequence[CompressionStats]) -> None:
    """Warn of the folders with sessions that a run would change if it could write there."""
    changing = [stats for stats in done if stats.is_smaller] if chosen.rehearses and not chosen.urls else []
    for folder in dict.fromkeys(Path(stats.path).parent for stats in changing):
        if not os.access(folder, os.W_OK | os.X_OK):
            options.warn(f"{folder} is not writable: a run would change nothing in it")


def _skip(found: Found, policy: Policy, *, force: bool) -> CompressionStats | None:
    if found.remote is None:
        return triage.skip(found.path, policy, force=force)
    from sessioncompress.operations import cloud

    return cloud.skip(found, policy, force=force)


def _is_settled(found: Found, skipped: CompressionStats, rehearse: bool) -> bool:
    """Tell whether a file in which nothing is due need not be opened."""
    is_known = skipped.status == triage.UNCHANGED
    if not found.named and not is_known:
        return True
    # A file that the user named may be no session. Where an agent keeps places of one elsewhere, these are put right.
    has_places = not rehearse and triage.has_places(found.path)
    return not has_places and (is_known or triage.is_plainly_session(found.path))


def _short(stats: CompressionStats) -> str:
    from sessioncompress.cli.tables import file_line
    from sessioncompress.operations.wording import arrow

    before, after = stats.original_size, stats.compressed_size
    return file_line(stats.path, kb(before), kb(after, before), less(before, after), arrow(stats))
