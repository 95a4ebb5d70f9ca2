"""`pre-commit`: make the sessions among staged files smaller, for a hook that then fails as formatters do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from sessioncompress.cli.options import (
    COMMIT_ORIGINALS,
    CONFIG,
    FILES,
    PRESET,
    errors_end_it,
    policies_of,
    show_originals,
    tell_of_two_stores,
)
from sessioncompress.core.text import printable
from sessioncompress.store.layout import beside_of, holds

if TYPE_CHECKING:
    from sessioncompress.operations.batch import Outcome
    from sessioncompress.pipeline.discover import Found
    from sessioncompress.pipeline.summary import CompressionStats
    from sessioncompress.policy.model import Policy


@click.command(
    "pre-commit", epilog="Example: sessioncompress pre-commit --check $(git diff --cached --name-only --diff-filter=d)"
)
@FILES
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if something would change.")
@CONFIG
@PRESET
@COMMIT_ORIGINALS
@errors_end_it
def pre_commit(
    files: Sequence[Path], check: bool, config: Path | None, preset: str | None, commit_originals: bool
) -> None:
    """Make the sessions among files smaller; exit 1 if one became smaller."""
    from sessioncompress.cli import git
    from sessioncompress.operations import batch
    from sessioncompress.pipeline import discover, triage

    # All before any: a policy that is wrong ends it with nothing done.
    known = policies_of(config, preset, {"commit_originals": commit_originals}, compresses=True)
    policies = {found: known.of(found.path) for found in discover.handed(files)}
    for found, policy in policies.items():
        tell_of_two_stores(found.path, policy)

    aside = git.put_aside()

    def work(found: Found) -> CompressionStats:
        if aside:
            git.refuse_if_put_aside(beside_of(found.path, policies[found]), aside)
        show_originals(found.path, policies[found], rehearse=check)
        if (skipped := triage.skip(found.path, policies[found], force=False)) is not None:
            triage.check_originals(found.path, policies[found])
            return skipped
        from sessioncompress.operations.compress import compress_session

        done = compress_session(found.path, policies[found], dry_run=check, named=found.named)
        return replace(done, path=str(found.path))

    codes = {_code(outcome) for outcome in batch.each(policies, work)}
    committed = {found.path: policy for found, policy in policies.items() if policy.commit_originals}
    hidden = _hidden(committed) if check else []
    due = 1 in codes or bool(hidden)
    staged = _stage({path: policy for path, policy in committed.items() if path not in hidden}, check=check)
    if check and (due or staged):
        click.echo(printable(_to_do(config, preset, committed, policies.values(), due=due)))
    elif due:
        click.echo(f"They are smaller now: {_ADD}.{_where(policies.values())}")
    codes |= {int(due), int(check and staged)}
    sys.exit(batch.worst(codes))


_ADD = "'git add' them, and commit again"


def _to_do(
    config: Path | None, preset: str | None, committed: Mapping[Path, Policy], policies: Iterable[Policy], *, due: bool
) -> str:
    """Say what to do after a check: a run without what the hook was given would do something else."""
    if not due:
        return f"Stage what is not staged: {_ADD}."
    options = [
        *(["--config", quote(str(config))] if config else []),
        *(["--preset", preset] if preset else []),
        *(["--commit-originals"] if committed else []),
    ]
    add = _ADD.replace("them,", "them and what lies beside them,") if committed else _ADD
    return f"Run '{' '.join(['sessioncompress compress', *options])}' on them: {add}.{_where(policies)}"


def _where(policies: Iterable[Policy]) -> str:
    """Say where the originals are: a clone has them only where they are committed, too."""
    kept = any(policy.keep_backup and not policy.commit_originals for policy in policies)
    return " Their originals stay in this work tree alone, unless the hook has --commit-originals." if kept else ""


def _code(outcome: Outcome[CompressionStats]) -> int:
    """Say what became of a file, if anything; return the code with which it would end alone."""
    from sessioncompress.errors import InUse
    from sessioncompress.operations import report

    if outcome.passed_over:
        return 0
    if outcome.error is not None:
        in_use = isinstance(outcome.error, InUse)
        click.echo(f"{'skipped' if in_use else report.status_of(outcome.error).value}: {outcome.error}", err=True)
        return 0 if in_use else outcome.exit_code
    assert outcome.result is not None
    for text in report.warnings(outcome.result):
        click.echo(text, err=True)
    if not outcome.result.is_smaller:
        return 0
    click.echo(report.line(outcome.result))
    return 1


def _hidden(policies: Mapping[Path, Policy]) -> list[Path]:
    """Say of which sessions an earlier run hid from git what is to be committed; return those."""
    from sessioncompress.store.folder import hides_from_git

    besides = {path: beside_of(path, policy) for path, policy in policies.items()}
    hidden = [path for path, beside in besides.items() if holds(beside) and hides_from_git(beside)]
    for path in hidden:
        click.echo(printable(f"{path}: hidden from git by {besides[path].folder / '.gitignore'}: its originals"))
    return hidden


def _stage(policies: Mapping[Path, Policy], *, check: bool) -> bool:
    """Stage what lies beside sessions whose originals are committed; say whether there was any that was not staged.

    Of all of them, also those that this run left alone: what an earlier run put there may not have been staged.
    """
    if not policies:
        return False
    from sessioncompress.cli import git

    staged = git.stage({path: beside_of(path, policy) for path, policy in policies.items()}, dry_run=check)
    for name in staged:
        click.echo(printable(f"{'not staged' if check else 'staged'}: {name}"))
    return bool(staged)
