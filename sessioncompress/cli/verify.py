"""`verify`: check sessions, and that every original is there and right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessioncompress.cli.options import (
    CONFIG,
    EXCLUDE,
    FORMAT,
    INCLUDE,
    JOBS,
    JSON,
    PATHS_OR_GONE,
    THEIR_FOLDER,
    all_governed,
    errors_end_it,
    policies_of,
    refuse_missing,
)
from sessioncompress.cli.output import at_once, echo_json, echo_total

if TYPE_CHECKING:
    from sessioncompress.operations.verify import VerifyStats
    from sessioncompress.pipeline.discover import Found


@click.command(epilog="Example: sessioncompress verify session.jsonl")
@PATHS_OR_GONE
@INCLUDE
@EXCLUDE
@JOBS
@CONFIG
@THEIR_FOLDER
@FORMAT
@JSON
@errors_end_it
def verify(
    paths: Sequence[Path],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    jobs: int | None,
    config: Path | None,
    backup_dir: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Check sessions and that every original is there and right; exit 5 if not."""
    from functools import partial

    from sessioncompress.operations import report
    from sessioncompress.operations.stores import compressed
    from sessioncompress.operations.verify import verify_session
    from sessioncompress.pipeline.discover import Globs

    policies = policies_of(config, None, {"backup_dir": backup_dir})

    def prepare(found: Found) -> Callable[[], VerifyStats]:
        return partial(verify_session, found.path, policies.of(found.path), form=form)

    def say(done: VerifyStats) -> None:
        if not as_json:
            click.echo(report.verified(done))

    refuse_missing(paths, policies)
    found = compressed(paths, policies.of, Globs(include, exclude))
    done = at_once(all_governed(found, policies), jobs, prepare, say)
    if as_json:
        echo_json(report.verify_document(done.results))
    else:
        echo_total(paths, len(done.results), report.verified_total(done.results), done.others)
    sys.exit(done.exit_code)
