"""`restore`: give sessions their original bytes back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessioncompress.cli.options import (
    ANY_PATH,
    CONFIG,
    EXCLUDE,
    FORMAT,
    INCLUDE,
    JOBS,
    PATHS_OR_GONE,
    THEIR_FOLDER,
    all_governed,
    errors_end_it,
    policies_of,
    refuse_missing,
)
from sessioncompress.cli.output import at_once, echo_total
from sessioncompress.core.text import printable

if TYPE_CHECKING:
    from sessioncompress.operations.restore import RestoreStats
    from sessioncompress.pipeline.discover import Found


@click.command(epilog="Example: sessioncompress restore session.jsonl")
@PATHS_OR_GONE
@click.option("--from-markers", is_flag=True, help="Put originals back wherever a marker of ours stands.")
@click.option("--originals", type=ANY_PATH, help="Session whose originals to use (with --from-markers).")
@INCLUDE
@EXCLUDE
@JOBS
@CONFIG
@THEIR_FOLDER
@FORMAT
@errors_end_it
def restore(
    paths: Sequence[Path],
    from_markers: bool,
    originals: Path | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    jobs: int | None,
    config: Path | None,
    backup_dir: Path | None,
    form: str | None,
) -> None:
    """Give sessions their original bytes back; what was appended since stays."""
    if originals and not from_markers:
        raise click.UsageError("--originals goes with --from-markers")
    from functools import partial

    from sessioncompress.operations.report import kb
    from sessioncompress.operations.restore import restore_session
    from sessioncompress.operations.stores import compressed
    from sessioncompress.pipeline.discover import Globs

    policies = policies_of(config, None, {"backup_dir": backup_dir})

    def prepare(found: Found) -> Callable[[], RestoreStats]:
        policy, path = policies.of(found.path), found.path
        return partial(restore_session, path, policy, from_markers=from_markers, originals=originals, form=form)

    def say(done: RestoreStats) -> None:
        name = printable(done.path)
        if done.lines_restored:
            lines = f"{done.lines_restored:,} {'line' if done.lines_restored == 1 else 'lines'} restored"
            sizes = f"{kb(done.size_before)} -> {kb(done.size_after)}"
            click.echo(f"{name}: {sizes}, {lines}" + (f"; {done.reason}" if done.reason else ""))
        else:
            click.echo(f"{name}: unchanged: {done.reason}")

    refuse_missing(paths, policies)
    found = compressed(paths, policies.of, Globs(include, exclude))
    done = at_once(all_governed(found, policies), jobs, prepare, say)
    restored = [each for each in done.results if each.lines_restored]
    before, after, lines = (
        sum(getattr(each, name) for each in restored) for name in ("size_before", "size_after", "lines_restored")
    )
    what = f" restored: {kb(before)} -> {kb(after)}, {lines:,} lines"
    echo_total(paths, len(restored), what, {"unchanged": len(done.results) - len(restored), **done.others})
    sys.exit(done.exit_code)
