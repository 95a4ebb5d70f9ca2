"""`restore`: give sessions their original bytes back, or take one run back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.tables import file_line
from sessioncompress.core.text import counted, kb, printable
from sessioncompress.errors import NOT_CHANGED, SessionCompressError, UsageError
from sessioncompress.operations import batch
from sessioncompress.operations.history import RunStats, State, history, session_runs
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.restoring import RestoreStats
from sessioncompress.operations.wording import status_of
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import Status, to_json
from sessioncompress.policy.sources import Policies

SCHEMA = "sessioncompress.restore/1"


def _takes_a_run(values: Mapping[str, Any]) -> bool:
    return bool(values["last"] or values["run"])


@click.command(cls=options.Command, epilog="Example: sessioncompress restore --last")
@click.option("--last", is_flag=True, help="Take the newest run back; without PATHS in the sessions of all agents.")
@click.option("--run", metavar="ID", default="", help="Take this run back; 'history' lists them.")
@options.choosing(
    options.JOBS, options.DRY_RUN, options.JSON, options.QUIET, options.VERBOSE, gone=True, or_all=_takes_a_run
)
@click.option("--from-markers", is_flag=True, help="Put originals back wherever a marker of ours stands.")
@click.option("--keep-checkpoints", is_flag=True, help="Leave the summaries that compact wrote.")
@click.option("--originals", type=options.ANY_PATH, help="Session whose originals to use (with --from-markers).")
@options.CONFIG
@options.THEIR_FOLDER
@options.FORMAT
def restore(
    chosen: options.Chosen,
    last: bool,
    run: str,
    from_markers: bool,
    keep_checkpoints: bool,
    originals: Path | None,
    config: Path | None,
    backup_dir: Path | None,
    form: str | None,
) -> None:
    """Give sessions their original bytes back; what was appended since stays."""
    if from_markers and keep_checkpoints:
        raise click.UsageError("--from-markers leaves checkpoints anyway: it goes without --keep-checkpoints")
    if originals and not from_markers:
        raise click.UsageError("--originals goes with --from-markers")
    if last and run:
        raise click.UsageError("--last names the newest run: it goes without --run")
    if (last or run) and (from_markers or keep_checkpoints):
        raise click.UsageError("--last and --run go with neither --from-markers nor --keep-checkpoints")
    if from_markers and chosen.dry_run:
        raise click.UsageError("--from-markers goes without --dry-run: try it on a copy of the session and its store")
    policies = options.policies_of(config, backup_dir=backup_dir)
    found = options.with_stores(chosen, policies)
    how: dict[str, Any] = {"from_markers": from_markers, "keep_checkpoints": keep_checkpoints, "originals": originals}
    work = partial(restore_session, form=form, dry_run=chosen.dry_run, **how)

    lines = output.Lines(chosen)

    def done_with(these: list[Found], name: str) -> output.Done:
        one = batch.Archive(these, lambda each: partial(work, each.path, policies.of(each.path), run=name), chosen.jobs)
        return output.told(one, partial(_say, lines))

    if not (last or run):
        done = done_with(found, "")
    else:
        done, run = _taken_back(chosen, found, policies, run, done_with)
    if chosen.as_json:
        output.echo_json(_document(done, run, dry_run=chosen.dry_run))
        sys.exit(done.exit_code)
    restored = [each for each in done.results if each.is_restored]
    before, after, number = (
        sum(getattr(each, name) for each in restored) for name in ("size_before", "size_after", "lines_restored")
    )
    verb = "would be restored" if chosen.dry_run else "restored"
    what = f" {verb}: {kb(before)} -> {kb(after)}, {number:,} lines"
    unchanged = {"unchanged": len(done.results) - len(restored)}
    lines.end([output.total(len(restored), what, unchanged | done.others)])
    if (stored := sum(each.store_size for each in done.results)) and not chosen.dry_run:
        forget = f"sessioncompress forget {chosen.typed(backup_dir)}"
        click.echo(printable(f"The store still takes {kb(stored)}; when nothing is to go back: {forget}"), err=True)
    sys.exit(done.exit_code)


def _taken_back(
    chosen: options.Chosen,
    found: list[Found],
    policies: Policies,
    run: str,
    done_with: Callable[[list[Found], str], output.Done],
) -> tuple[output.Done, str]:
    """Take back the run of that name, or else the newest one of which anything is left; return its name, too."""
    by_run: dict[str, list[Found]] = {}
    runs = []
    for each in found:
        try:
            known = session_runs(each.path, policies.of(each.path))
        except SessionCompressError:
            # Of a session that the user named, the restore will say what is wrong.
            known = []
        runs += known
        for name in dict.fromkeys(one.run for one in known if one.state is not State.RESTORED):
            by_run.setdefault(name, []).append(each)
    listed = history(runs)
    if run and all(each.run != run for each in listed):
        remedy = "'sessioncompress history' lists the runs of the sessions of all agents, and of PATHS with these."
        raise UsageError(f"no session here was written by a run {printable(run)}", state=NOT_CHANGED, remedy=remedy)
    done = output.Done([], [], {}, 0)
    for one in listed:
        if one.run in ({run} if run else by_run):
            if not chosen.as_json:
                click.echo(_head(one), err=True)
            done = done_with(by_run.get(one.run, []), one.run)
            if run or done.failed or done.exit_code or any(each.is_restored for each in done.results):
                return done, one.run
    if not chosen.as_json:
        click.echo("no run is left to take back", err=True)
    return done, ""


def _head(run: RunStats) -> str:
    sessions = counted(len(run.sessions), "session", "sessions")
    said = f"run {run.run}: {', '.join(run.commands)}, {sessions}"
    return printable(said + (", taken back already" if run.state is State.RESTORED else ""))


def _say(lines: output.Lines, done: RestoreStats) -> None:
    if not done.is_restored:
        lines.left(printable(f"{done.path}: unchanged: {done.reason}"), "unchanged", done.reason)
        return
    would = done.status is Status.WOULD_RESTORE
    back = counted(done.lines_restored, "line", "lines")
    said = f"{kb(done.size_before)} {'would become' if would else '->'} {kb(done.size_after)}"
    if done.lines_restored:
        said += f", {back} restored"
    if done.checkpoints_removed:
        said += f", {counted(done.checkpoints_removed, 'checkpoint', 'checkpoints')} taken out"
    said += f"; {done.reason}" if done.reason else ""
    short = partial(file_line, done.path, kb(done.size_before), kb(done.size_after), back)
    lines.changed(printable(f"{done.path}: {said}"), short)


def _document(done: output.Done, run: str, *, dry_run: bool) -> dict[str, Any]:
    failed = [RestoreStats(path, status_of(error), str(error), run) for path, error in done.failed]
    return {"schema": SCHEMA, "dryRun": dry_run, "files": [to_json(each) for each in (*done.results, *failed)]}
