"""`forget`: delete the stores of sessions, after saying what that loses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessioncompress.cli.options import ANY_PATH, CONFIG, THEIR_FOLDER, all_governed, errors_end_it, policies_of
from sessioncompress.cli.output import confirmed, echo_total, for_all
from sessioncompress.core.text import printable

if TYPE_CHECKING:
    from sessioncompress.operations.forget import ForgetStats


@click.command(epilog="Example: sessioncompress forget session.jsonl")
@click.argument("paths", nargs=-1, required=True, type=ANY_PATH)
@click.option("--yes", is_flag=True, help="Do not ask.")
@CONFIG
@THEIR_FOLDER
@errors_end_it
def forget(paths: Sequence[Path], yes: bool, config: Path | None, backup_dir: Path | None) -> None:
    """Delete the stores of sessions, after saying what can then not be restored."""
    from sessioncompress.errors import Refused
    from sessioncompress.operations.batch import worst
    from sessioncompress.operations.forget import forget_session
    from sessioncompress.operations.report import at_stake, kb, links_kept
    from sessioncompress.operations.stores import compressed
    from sessioncompress.pipeline.relatives import Kin
    from sessioncompress.store.layout import FOLDER

    policies, kin = policies_of(config, None, {"backup_dir": backup_dir}), Kin()

    def work(path: Path) -> tuple[str, ForgetStats]:
        policy = policies.of(path)
        would = forget_session(path, policy, dry_run=True, kin=kin)
        name = printable(str(path)) + (" (session gone)" if would.gone else "")
        if not would.bytes_deleted:
            click.echo(f"{name}: {_nothing(would)}")
            return "without a store", would
        if not yes and not confirmed(f"{name}: delete {at_stake(would)}?", path, "Nothing of it is deleted."):
            click.echo(f"{name}: kept")
            return "kept", would
        done = forget_session(path, policy, kin=kin)
        click.echo(f"{name}: deleted {at_stake(done, done=True)}{_elsewhere(done)}")
        return "deleted", done

    found = compressed(paths, policies.of, gone_too=True)
    done = for_all(all_governed(found, policies), lambda found: work(found.path))
    deleted = [stats.bytes_deleted for ended, stats in done.results if ended == "deleted"]
    elsewhere = any(stats.markers for ended, stats in done.results if ended != "kept")
    if kept := sum(stats.links_kept for _, stats in done.results):
        click.echo(f"kept {links_kept(kept)}: files with '.late-' in their names, in {FOLDER} folders", err=True)
    others = {word: sum(ended == word for ended, _ in done.results) for word in ("kept", "without a store")}
    echo_total(paths, len(deleted), f": deleted {kb(sum(deleted))}", {**others, **done.others})
    sys.exit(worst([done.exit_code, Refused.exit_code if kept or elsewhere else 0]))


def _nothing(stats: ForgetStats) -> str:
    from sessioncompress.operations.report import links_kept

    if stats.links_kept:
        return f"kept {links_kept(stats.links_kept)}"
    if not stats.markers:
        return "it has no store"
    return (
        f"nothing is deleted: no store lies here, but {_standing(stats)} in it. Name the folder of the originals with "
        "--backup-dir; 'sessioncompress verify' tells whether they are in the store of another session here"
    )


def _elsewhere(stats: ForgetStats) -> str:
    if not stats.markers:
        return ""
    return (
        f"; but {_standing(stats)} in it of which no journal here knew. If their originals lie elsewhere, run again "
        "with the --backup-dir of their folder, or without it; 'sessioncompress verify' tells whether they are in the "
        "store of another session here"
    )


def _standing(stats: ForgetStats) -> str:
    from sessioncompress.core.text import counted

    return counted(stats.markers, "marker stands", "markers stand")
