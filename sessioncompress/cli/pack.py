"""`pack`: put sessions that nobody resumes into archives, a project's together."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.choosing import MOST_TYPED, Chosen, choosing
from sessioncompress.cli.tables import echo_wrapped, shown
from sessioncompress.core.text import OBJECT_STORES, counted, kb, printable
from sessioncompress.errors import InUse
from sessioncompress.operations.pack import PackStats, pack_sessions
from sessioncompress.operations.packed import packed_in
from sessioncompress.pipeline.discover import is_folder
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.pack/1"
_MEASURED = "would be moved into an archive of about a tenth to a fifth of that"
"""What real sessions came to; see docs/how-to/archive.md."""


@click.command(cls=options.Command, epilog="Example: sessioncompress pack --all --older-than 30d")
@choosing(options.DRY_RUN, options.YES, options.JSON, urls=True)
@options.CONFIG
@options.QUIET_SECONDS
def pack(chosen: Chosen, config: Path | None, **overrides: Any) -> None:
    """Move old sessions into archives, one for each project."""
    from sessioncompress.formats import table
    from sessioncompress.pipeline.rollouts import with_packed

    if chosen.by_options and chosen.older_than is None:
        raise click.UsageError("without PATHS, use --older-than to say which sessions to pack, as in 30d")
    policies = options.policies_of(config, by_options=chosen.by_options, **overrides)
    # In an object store with those of which only a store is left: a killed run may have packed them.
    found = options.all_governed(chosen.sessions(with_packed), policies)
    if chosen.asks:
        # Imported here: most runs ask nothing.
        from sessioncompress.cli.asking import goes_on

        if not goes_on("Pack", found, lambda _: True):
            return
    if chosen.places:
        from sessioncompress.operations import cloud_packs

        outcomes = list(cloud_packs.pack(found, chosen.places, policies.apart, dry_run=chosen.dry_run))
    else:
        roots = [*table.agent_roots()] if chosen.by_options else [*filter(is_folder, chosen.paths)]
        outcomes = list(pack_sessions(found, roots, policies.of, dry_run=chosen.dry_run))
    # Nobody has named those: an agent may be at work in one, and the next run takes it.
    in_use = [each for each in outcomes if chosen.by_options and isinstance(each.error, InUse)]
    done = output.told(each for each in outcomes if each not in in_use)
    done.others["skipped, in use"] = len(in_use)
    as_json, dry_run = chosen.as_json, chosen.dry_run
    archives = _archives(done.results)
    if as_json:
        output.echo_json(_document(done, archives, dry_run=dry_run))
    else:
        for archive, (sessions, size) in archives.items():
            sizes = f"{kb(size)} {_MEASURED}" if dry_run else _sizes(size, _size_of(archive))
            echo_wrapped(f"{shown(archive)}: {counted(sessions, 'session', 'sessions')}, {sizes}")
        size = sum(each.size for each in done.results)
        verb = "would pack" if dry_run else "packed"
        head = f"total: {verb} {counted(len(done.results), 'session', 'sessions')}"
        said = kb(size) if dry_run or not size else _sizes(size, sum(map(_size_of, archives)))
        echo_wrapped(output.with_others(f"{head}, {said}", done.others))
    if not dry_run:
        _tell_of_undo(archives)
    sys.exit(done.exit_code)


def _archives(results: Sequence[PackStats]) -> dict[str, tuple[int, int]]:
    """Count the sessions, and their bytes, that went into each archive."""
    found: dict[str, tuple[int, int]] = {}
    for each in results:
        if each.archive:
            sessions, size = found.get(each.archive, (0, 0))
            found[each.archive] = (sessions + 1, size + each.size)
    return found


def _tell_of_undo(archives: Mapping[str, tuple[int, int]]) -> None:
    """Tell what brings the sessions back, and what else that would bring."""
    if not archives:
        return
    if len(archives) > MOST_TYPED:
        click.echo(f"undo with: sessioncompress unpack ARCHIVE, for each of the {len(archives):,} above", err=True)
        return
    # Never broken: it is there to be copied.
    click.echo(printable(f"undo with: sessioncompress unpack {' '.join(map(quote, archives))}"), err=True)
    held = sum(1 for each in packed_in(Path(name) for name in archives if not name.startswith(OBJECT_STORES)))
    if (before := held - sum(sessions for sessions, _ in archives.values())) > 0:
        echo_wrapped(f"this also brings back {counted(before, 'session', 'sessions')} packed earlier", err=True)


def _size_of(archive: str) -> int:
    if archive.startswith(OBJECT_STORES):
        from sessioncompress.operations.objects import looked_up

        found = looked_up(archive)
        return found["size"] if found else 0
    # In a rehearsal none is there.
    return Path(archive).stat().st_size if Path(archive).exists() else 0


def _sizes(before: int, after: int) -> str:
    return f"{kb(before)} -> {kb(after)} ({100 * after / max(before, 1):.1f} % of the original size)"


def _document(done: output.Done, archives: dict[str, tuple[int, int]], *, dry_run: bool) -> dict[str, Any]:
    packs = [
        {"path": path, "sessions": sessions, "size": size, "archiveSize": _size_of(path)}
        for path, (sessions, size) in archives.items()
    ]
    return {"schema": SCHEMA, "dryRun": dry_run, "archives": packs, "files": [to_json(each) for each in done.results]}
