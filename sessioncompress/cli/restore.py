"""`restore`: give sessions their original bytes back."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.tables import file_line
from sessioncompress.core.text import counted, kb, printable
from sessioncompress.operations import batch
from sessioncompress.operations.restore import RestoreStats, restore_session
from sessioncompress.operations.wording import status_of
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.restore/1"


@click.command(cls=options.Command, epilog="Example: sessioncompress restore session.jsonl")
@options.choosing(options.JOBS, options.JSON, options.QUIET, options.VERBOSE, gone=True)
@click.option("--from-markers", is_flag=True, help="Put originals back wherever a marker of ours stands.")
@click.option("--keep-checkpoints", is_flag=True, help="Leave the summaries that compact wrote.")
@click.option("--originals", type=options.ANY_PATH, help="Session whose originals to use (with --from-markers).")
@options.CONFIG
@options.THEIR_FOLDER
@options.FORMAT
def restore(
    chosen: options.Chosen,
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
    policies = options.policies_of(config, backup_dir=backup_dir)
    found = options.with_stores(chosen, policies)
    how: dict[str, Any] = {"from_markers": from_markers, "keep_checkpoints": keep_checkpoints, "originals": originals}
    work = partial(restore_session, form=form, **how)
    run = batch.Archive(found, lambda each: partial(work, each.path, policies.of(each.path)), chosen.jobs)

    told = output.Lines(chosen)

    def say(done: RestoreStats) -> None:
        said = f"unchanged: {done.reason}"
        if done.is_restored:
            said = f"{kb(done.size_before)} -> {kb(done.size_after)}"
            if done.lines_restored:
                said += f", {counted(done.lines_restored, 'line', 'lines')} restored"
            if done.checkpoints_removed:
                said += f", {counted(done.checkpoints_removed, 'checkpoint', 'checkpoints')} taken out"
            said += f"; {done.reason}" if done.reason else ""
            back = counted(done.lines_restored, "line", "lines")
            short = partial(file_line, done.path, kb(done.size_before), kb(done.size_after), back)
            told.changed(f"{printable(done.path)}: {said}", short)
        else:
            told.left(f"{printable(done.path)}: {said}", "unchanged", done.reason)

    done = output.told(run, say)
    if chosen.as_json:
        output.echo_json(_document(done))
        sys.exit(done.exit_code)
    restored = [each for each in done.results if each.is_restored]
    before, after, lines = (
        sum(getattr(each, name) for each in restored) for name in ("size_before", "size_after", "lines_restored")
    )
    what = f" restored: {kb(before)} -> {kb(after)}, {lines:,} lines"
    unchanged = {"unchanged": len(done.results) - len(restored)}
    told.end([output.total(len(restored), what, unchanged | done.others)])
    sys.exit(done.exit_code)


def _document(done: output.Done) -> dict[str, Any]:
    failed = [RestoreStats(path, status_of(error), str(error)) for path, error in done.failed]
    return {"schema": SCHEMA, "files": [to_json(each) for each in (*done.results, *failed)]}
