"""`compress`: make sessions smaller, in place."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sessioncompress.commands.options import (
    AGENT,
    BACKUP_DIR,
    CONFIG,
    FORMAT,
    JSON,
    OLDER_THAN,
    PATHS_OR_NONE,
    PRESET,
    PROJECT,
    errors_end_it,
    policy_for,
    show_originals,
)
from sessioncompress.commands.output import echo_json, tell_of_opencode
from sessioncompress.errors import SessionCompressError

if TYPE_CHECKING:
    from sessioncompress.discover import Found
    from sessioncompress.stats import CompressionStats


@click.command(epilog="Example: sessioncompress compress ~/.pi/agent/sessions")
@PATHS_OR_NONE
@AGENT
@PROJECT
@click.option("--all", "everything", is_flag=True, help="The sessions of all agents on this machine.")
@OLDER_THAN
@click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")
@click.option("--check", is_flag=True, help="Like --dry-run; exit 1 if something would change.")
@CONFIG
@PRESET
@click.option(
    "--keep-turns",
    type=click.IntRange(0),
    help="User turns that stay whole; in a session with no more of them --protect-tokens counts.",
)
@click.option(
    "--protect-mode",
    type=click.Choice(["turns-or-tokens", "turns", "turns-and-tokens"]),
    help="How the recent context is measured.",
)
@click.option("--protect-tokens", type=click.IntRange(0), help="Newest tokens of tool I/O that stay whole.")
@click.option("--min-size", type=click.IntRange(0), metavar="KB", help="Leave smaller sessions alone.")
@click.option("--no-backup", is_flag=True, help="Keep no originals: nothing can be restored.")
@BACKUP_DIR
@click.option("--commit-originals", is_flag=True, help="Let git see what lies beside the sessions.")
@click.option("--quiet-seconds", type=click.FloatRange(0), help="Refuse a session that changed within so many seconds.")
@click.option("--force", is_flag=True, help="Also sessions under the size threshold, and savings under minSavedKB.")
@FORMAT
@JSON
@errors_end_it
def compress(
    paths: Sequence[Path],
    agent: str | None,
    project: Path | None,
    everything: bool,
    older_than: int | None,
    dry_run: bool,
    check: bool,
    config: Path | None,
    preset: str | None,
    as_json: bool,
    force: bool,
    form: str | None,
    **overrides: Any,
) -> None:
    """Make sessions smaller, in place."""
    from dataclasses import replace

    from sessioncompress import archive, gate, report

    selected = _meant(paths, agent, project, everything=everything, older_than=older_than)
    rehearse = dry_run or check

    def work(found: Found) -> CompressionStats:
        policy = policy_for(found.path, config, preset, overrides)
        show_originals(found.path, policy, rehearse=rehearse)
        if (skipped := gate.skip(found.path, policy, force=force)) is not None:
            return skipped
        from sessioncompress.compress import compress_session

        done = compress_session(found.path, policy, dry_run=rehearse, force=force, form=form, named=found.named)
        return replace(done, path=str(found.path))

    done: list[CompressionStats] = []
    passed_over = 0
    codes: set[int] = set()
    for outcome in archive.each(selected, work):
        codes.add(outcome.exit_code)
        if outcome.passed_over:
            passed_over += 1
            continue
        stats = outcome.result or report.failed(
            str(outcome.found.path), outcome.error or SessionCompressError("nothing came of it")
        )
        done.append(stats)
        if not as_json or outcome.error:
            click.echo(report.line(stats, dry_run=rehearse), err=outcome.error is not None)
        for text in report.warnings(stats):
            click.echo(text, err=True)
    if not paths:
        tell_of_opencode(agent)
    if as_json:
        echo_json(report.document(done))
    else:
        click.echo(report.total_line(done, passed_over=passed_over, dry_run=rehearse))
    if check and any(stats.status.value == "compressed" for stats in done):
        codes.add(1)
    sys.exit(archive.worst(codes))


def _meant(
    paths: Sequence[Path], agent: str | None, project: Path | None, *, everything: bool, older_than: int | None
) -> Iterator[Found]:
    """Return the files of the paths, or the sessions that the options select; one of both must be given, not both."""
    some = agent is not None or project is not None
    if not paths and not (some or everything):
        context = click.get_current_context()
        click.echo(context.get_help(), err=True)
        click.echo(err=True)
        raise click.UsageError("no session is named: give PATHS, or --agent, --project or --all")
    if paths and (some or everything or older_than is not None):
        raise click.UsageError("PATHS go with none of --agent, --project, --all and --older-than")
    if some and everything:
        raise click.UsageError("--all goes with neither --agent nor --project")
    if paths:
        from sessioncompress.discover import discover

        return discover(paths)
    from sessioncompress.selection import Selection, sessions

    return sessions(Selection(agent, project, older_than))
