"""`forget`: delete the stores of sessions, after saying what that loses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from sessioncompress.cli import options, output
from sessioncompress.core.text import counted, kb, printable
from sessioncompress.errors import Refused
from sessioncompress.operations import batch
from sessioncompress.operations.forget import ForgetStats, forget_session
from sessioncompress.operations.stores import compressed
from sessioncompress.operations.wording import at_stake, links_kept
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.relatives import Kin
from sessioncompress.store.layout import FOLDER

_VERIFY = "'sessioncompress verify' tells whether they are in the store of another session here"


@click.command(cls=options.Command, epilog="Example: sessioncompress forget session.jsonl")
@click.argument("paths", nargs=-1, required=True, type=options.ANY_PATH)
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.CONFIG
@options.THEIR_FOLDER
def forget(paths: Sequence[Path], yes: bool, config: Path | None, backup_dir: Path | None) -> None:
    """Delete the stores of sessions, after saying what can then not be restored."""
    policies, kin = options.policies_of(config, backup_dir=backup_dir), Kin()
    ended: dict[str, list[ForgetStats]] = {"deleted": [], "kept": [], "without a store": []}

    def work(found: Found) -> ForgetStats:
        path, policy = found.path, policies.of(found.path)
        stats = forget_session(path, policy, dry_run=True, kin=kin)
        name = printable(str(path)) + (" (session gone)" if stats.gone else "")
        standing = counted(stats.markers, "marker stands", "markers stand")
        if not stats.bytes_deleted:
            became, said = "without a store", "it has no store"
            if stats.links_kept:
                said = f"kept {links_kept(stats.links_kept)}"
            elif stats.markers:
                said = (
                    f"nothing is deleted: no store lies here, but {standing} in it. Name the folder of the originals "
                    f"with --backup-dir; {_VERIFY}"
                )
        elif not yes and not output.confirmed(f"{name}: delete {at_stake(stats)}?", path, "Nothing of it is deleted."):
            became = said = "kept"
        else:
            stats = forget_session(path, policy, kin=kin)
            became, said = "deleted", f"deleted {at_stake(stats, done=True)}"
            if stats.markers:
                standing = counted(stats.markers, "marker stands", "markers stand")
                said += (
                    f"; but {standing} in it of which no journal here knew. If their originals lie elsewhere, run "
                    f"again with the --backup-dir of their folder, or without it; {_VERIFY}"
                )
        click.echo(f"{name}: {said}")
        ended[became].append(stats)
        return stats

    found = options.all_governed(compressed(paths, policies.of, gone_too=True), policies)
    done = output.told(batch.each(found, work))
    deleted = [stats.bytes_deleted for stats in ended["deleted"]]
    elsewhere = any(stats.markers for stats in ended["deleted"] + ended["without a store"])
    if kept := sum(stats.links_kept for stats in done.results):
        click.echo(f"kept {links_kept(kept)}: files with '.late-' in their names, in {FOLDER} folders", err=True)
    others = {word: len(ended[word]) for word in ("kept", "without a store")}
    output.echo_total(paths, len(deleted), f": deleted {kb(sum(deleted))}", {**others, **done.others})
    sys.exit(batch.worst([done.exit_code, Refused.exit_code if kept or elsewhere else 0]))
