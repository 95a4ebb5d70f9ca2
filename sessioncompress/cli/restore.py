"""`restore`: give sessions their original bytes back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.core.text import counted, printable
from sessioncompress.operations import batch
from sessioncompress.operations.report import kb
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.restoring import RestoreStats


@click.command(cls=options.Command, epilog="Example: sessioncompress restore session.jsonl")
@options.PATHS_OR_GONE
@click.option("--from-markers", is_flag=True, help="Put originals back wherever a marker of ours stands.")
@click.option("--keep-checkpoints", is_flag=True, help="Leave the summaries that compact wrote.")
@click.option("--originals", type=options.ANY_PATH, help="Session whose originals to use (with --from-markers).")
@options.INCLUDE
@options.EXCLUDE
@options.JOBS
@options.CONFIG
@options.THEIR_FOLDER
@options.FORMAT
def restore(
    paths: Sequence[Path],
    from_markers: bool,
    keep_checkpoints: bool,
    originals: Path | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    jobs: int | None,
    config: Path | None,
    backup_dir: Path | None,
    form: str | None,
) -> None:
    """Give sessions their original bytes back; what was appended since stays."""
    if from_markers and keep_checkpoints:
        raise click.UsageError("--from-markers leaves checkpoints anyway: it goes without --keep-checkpoints")
    if originals and not from_markers:
        raise click.UsageError("--originals goes with --from-markers")
    policies = options.policies_of(config, backup_dir=backup_dir)
    found = options.sessions_with_stores(paths, policies, include, exclude)
    how: dict[str, Any] = {"from_markers": from_markers, "keep_checkpoints": keep_checkpoints, "originals": originals}
    work = partial(restore_session, form=form, **how)
    run = batch.Archive(found, lambda each: partial(work, each.path, policies.of(each.path)), jobs)

    def say(done: RestoreStats) -> None:
        said = f"unchanged: {done.reason}"
        if done.is_restored:
            said = f"{kb(done.size_before)} -> {kb(done.size_after)}"
            if done.lines_restored:
                said += f", {counted(done.lines_restored, 'line', 'lines')} restored"
            if done.checkpoints_removed:
                said += f", {counted(done.checkpoints_removed, 'checkpoint', 'checkpoints')} taken out"
            said += f"; {done.reason}" if done.reason else ""
        click.echo(f"{printable(done.path)}: {said}")

    done = output.told(run, say)
    restored = [each for each in done.results if each.is_restored]
    before, after, lines = (
        sum(getattr(each, name) for each in restored) for name in ("size_before", "size_after", "lines_restored")
    )
    what = f" restored: {kb(before)} -> {kb(after)}, {lines:,} lines"
    unchanged = {"unchanged": len(done.results) - len(restored)}
    output.echo_total(paths, len(restored), what, unchanged | done.others)
    sys.exit(done.exit_code)
