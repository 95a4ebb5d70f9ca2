"""`forget`: delete the stores of sessions, after saying what that loses."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.core.text import counted, kb, printable
from sessioncompress.errors import Refused
from sessioncompress.operations import batch
from sessioncompress.operations.forget import ForgetStats, forget_session
from sessioncompress.operations.wording import at_stake, links_kept, status_of
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.relatives import Kin
from sessioncompress.pipeline.summary import to_json
from sessioncompress.store.layout import FOLDER

SCHEMA = "sessioncompress.forget/1"
DELETED = "deleted"
KEPT = "kept"
NO_STORE = "without a store"

_KEPT_ALL = "Nothing of it is deleted."
_VERIFY = "'sessioncompress verify' tells whether they are in the store of another session here"


@click.command(cls=options.Command, epilog="Example: sessioncompress forget session.jsonl")
@options.choosing(options.DRY_RUN, options.YES, options.JSON, gone=True)
@options.CONFIG
@options.THEIR_FOLDER
def forget(chosen: options.Chosen, config: Path | None, backup_dir: Path | None) -> None:
    """Delete the stores of sessions; first say what can then not be restored, and ask."""
    if chosen.as_json and not (chosen.yes or chosen.dry_run):
        raise click.UsageError("--json asks nothing: it goes with --yes or --dry-run")
    policies, kin = options.policies_of(config, backup_dir=backup_dir), Kin()
    ended: dict[str, str] = {}

    def work(found: Found) -> ForgetStats:
        path, policy = found.path, policies.of(found.path)
        stats = forget_session(path, policy, dry_run=True, kin=kin)
        name = printable(str(path)) + (" (session gone)" if stats.gone else "")
        if not stats.bytes_deleted:
            became, said = NO_STORE, _without_a_store(stats)
        elif chosen.dry_run:
            became, said = DELETED, f"would delete {at_stake(stats)}"
        elif not chosen.yes and not output.confirmed(
            f"{name}: delete {at_stake(stats)}?", path, "Nothing of it is deleted."
        ):
            became = said = KEPT
        else:
            stats = forget_session(path, policy, kin=kin)
            became, said = DELETED, f"deleted {at_stake(stats, done=True)}"
            if stats.markers:
                said += (
                    f"; but {_standing(stats)} in it of which no journal here knew. If their originals lie elsewhere, "
                    f"run again with the --backup-dir of their folder, or without it; {_VERIFY}"
                )
        if not chosen.as_json:
            click.echo(f"{name}: {said}")
        ended[str(path)] = became
        return stats

    done = output.told(batch.each(options.with_stores(chosen, policies, gone_too=True), work))
    deleted = [stats.bytes_deleted for stats in done.results if ended[stats.path] == DELETED]
    elsewhere = any(stats.markers for stats in done.results if ended[stats.path] != KEPT)
    if kept := sum(stats.links_kept for stats in done.results):
        click.echo(f"kept {links_kept(kept)}: files with '.late-' in their names, in {FOLDER} folders", err=True)
    if chosen.as_json:
        output.echo_json(_document(done, ended, dry_run=chosen.dry_run))
    elif not chosen.is_one:
        became = [ended[stats.path] for stats in done.results]
        others = {word: became.count(word) for word in (KEPT, NO_STORE)}
        verb = "would delete" if chosen.dry_run else DELETED
        click.echo(output.total(len(deleted), f": {verb} {kb(sum(deleted))}", {**others, **done.others}))
    sys.exit(batch.worst([done.exit_code, Refused.exit_code if kept or elsewhere else 0]))


def _standing(stats: ForgetStats) -> str:
    return counted(stats.markers, "marker stands", "markers stand")


def _without_a_store(stats: ForgetStats) -> str:
    if stats.links_kept:
        return f"kept {links_kept(stats.links_kept)}"
    if stats.markers:
        return (
            f"nothing is deleted: no store lies here, but {_standing(stats)} in it. Name the folder of the originals "
            f"with --backup-dir; {_VERIFY}"
        )
    return "it has no store"


def _document(done: output.Done, ended: Mapping[str, str], *, dry_run: bool) -> dict[str, Any]:
    files = [to_json(each) | {"status": ended[each.path], "reason": ""} for each in done.results]
    for path, error in done.failed:
        files.append(to_json(ForgetStats(path)) | {"status": status_of(error).value, "reason": str(error)})
    return {"schema": SCHEMA, "dryRun": dry_run, "files": files}
