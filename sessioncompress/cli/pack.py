"""`pack`: put sessions that nobody resumes into archives, a project's together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.core.text import counted, printable
from sessioncompress.operations.pack import PackStats, pack_sessions
from sessioncompress.operations.report import kb
from sessioncompress.pipeline.discover import Globs, is_folder
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.pack/1"


@click.command(cls=options.Command, epilog="Example: sessioncompress pack --all --older-than 30d")
@options.PATHS_OR_NONE
@options.AGENT
@options.PROJECT
@options.ALL
@options.OLDER_THAN
@options.INCLUDE
@options.EXCLUDE
@options.DRY_RUN
@options.CONFIG
@options.QUIET_SECONDS
@options.JSON
def pack(
    paths: Sequence[Path],
    agent: str | None,
    project: Path | None,
    everything: bool,
    older_than: int | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    dry_run: bool,
    config: Path | None,
    as_json: bool,
    **overrides: Any,
) -> None:
    """Put sessions that nobody resumes into archives, one for each project; 'unpack' brings them back."""
    from sessioncompress.formats import table

    found = options.selected(paths, agent, project, everything, older_than, Globs(include, exclude))
    if not paths and older_than is None:
        raise click.UsageError("without PATHS, --older-than says which sessions nobody resumes, as in 30d")
    policies = options.policies_of(config, **overrides)
    roots = [*filter(is_folder, paths)] if paths else [*table.agent_roots()]
    done = output.told(pack_sessions(found, roots, policies.of, dry_run=dry_run))
    archives = _archives(done.results)
    if as_json:
        output.echo_json(_document(done, archives, dry_run=dry_run))
    else:
        for archive, (sessions, size) in archives.items():
            packed = Path(archive).stat().st_size
            click.echo(printable(f"{archive}: {counted(sessions, 'session', 'sessions')}, {_sizes(size, packed)}"))
        size = sum(each.size for each in done.results)
        verb = "would pack" if dry_run else "packed"
        head = f"total: {verb} {counted(len(done.results), 'session', 'sessions')}"
        into = sum(Path(archive).stat().st_size for archive in archives)
        said = kb(size) if dry_run or not size else _sizes(size, into)
        click.echo(output.with_others(f"{head}, {said}", done.others))
    sys.exit(done.exit_code)


def _archives(results: Sequence[PackStats]) -> dict[str, tuple[int, int]]:
    """Count the sessions, and their bytes, that went into each archive."""
    found: dict[str, tuple[int, int]] = {}
    for each in results:
        if each.archive:
            sessions, size = found.get(each.archive, (0, 0))
            found[each.archive] = (sessions + 1, size + each.size)
    return found


def _sizes(before: int, after: int) -> str:
    return f"{kb(before)} -> {kb(after)} ({100 * after / max(before, 1):.1f} % of before)"


def _document(done: output.Done, archives: dict[str, tuple[int, int]], *, dry_run: bool) -> dict[str, Any]:
    packs = [
        {"path": path, "sessions": sessions, "size": size, "archiveSize": Path(path).stat().st_size}
        for path, (sessions, size) in archives.items()
    ]
    return {"schema": SCHEMA, "dryRun": dry_run, "archives": packs, "files": [to_json(each) for each in done.results]}
