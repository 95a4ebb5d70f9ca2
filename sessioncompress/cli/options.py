"""What the commands share before they work: options, policies, and how an error ends a command."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from sessioncompress.core import process
from sessioncompress.core.text import printable
from sessioncompress.errors import SessionCompressError
from sessioncompress.policy.sources import Policies

if TYPE_CHECKING:
    from sessioncompress.pipeline.discover import Found, Globs
    from sessioncompress.policy.model import Policy


class Command(click.Command):
    """Prints an error of ours and exits with its code, or with 130 after an interrupt."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with process.raised():
                return super().invoke(ctx)
        except SessionCompressError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("Interrupted; every session is as it was or as it will be, none in between.", err=True)
            sys.exit(process.EXIT_CODE)


class _Path(click.Path):
    """A path that need not exist. An empty one, as of an unset shell variable, would name the working folder."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if not os.fspath(value):
            self.fail("the path is empty; '.' is the working folder.", param, ctx)
        return super().convert(value, param, ctx)

    def fail(self, message: str, param: click.Parameter | None = None, ctx: click.Context | None = None) -> NoReturn:
        super().fail(f"{message} Nothing was done.", param, ctx)


class _Format(click.types.StringParamType):
    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        # Imported here: most runs need no table of formats.
        from sessioncompress.formats.table import NAMES

        if value not in NAMES:
            self.fail(f"{value!r} is none of {', '.join(NAMES)}. Nothing was done.", param, ctx)
        return value


def amount(units: Mapping[str, int], example: str) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Make a callback that converts a number with a unit, such as `7d`."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        if found := re.fullmatch(rf"([0-9]{{1,9}})({'|'.join(units)})", value):
            return int(found[1]) * units[found[2]]
        behind = " or ".join(units)
        what = f"is no whole number, of nine digits at most, with {behind} behind it, as in {example}"
        if re.fullmatch("[0-9]{1,9}", value):
            what = f"needs {'a ' if len(units) == 1 else ''}{behind} behind it, as in {example}"
        raise click.BadParameter(f"{value!r} {what}", ctx, param)

    return read


DAYS = {"d": 24 * 3600}
"""The units of an age, in seconds."""

ANY_PATH = _Path(path_type=Path)
EXISTING = _Path(path_type=Path, exists=True, readable=False)
PATHS = click.argument("paths", nargs=-1, required=True, type=EXISTING)
PATHS_OR_GONE = click.argument("paths", nargs=-1, required=True, type=ANY_PATH)
"""For sessions that may be gone; sessions_with_stores() checks."""
PATHS_OR_NONE = click.argument("paths", nargs=-1, type=EXISTING)
"""For commands whose options can select sessions instead."""
FILES = click.argument("files", nargs=-1, type=_Path(path_type=Path, exists=True, dir_okay=False, readable=False))
"""For files that a program such as pre-commit hands over."""
CONFIG = click.option(
    "--config",
    type=_Path(path_type=Path, exists=True, dir_okay=False),
    help="Policy file of yours, which may set every key; else the nearest compression.json above the session.",
)
PRESET = click.option(
    "--preset",
    type=click.Choice(["balanced", "low-cost", "high-quality", "archive"]),
    help="Base policy; a file changes it. archive is for sessions nobody works in: it alone also takes mirrors, which "
    "no model reads, out of the recent context.",
)
BACKUP_DIR = click.option(
    "--backup-dir", type=_Path(path_type=Path, file_okay=False), help="Folder for originals and journals."
)
THEIR_FOLDER = click.option(
    "--backup-dir",
    type=_Path(path_type=Path, exists=True, file_okay=False),
    help="Folder where the originals and journals are.",
)
COMMIT_ORIGINALS = click.option("--commit-originals", is_flag=True, help="Let git see the stores of the sessions.")
FORMAT = click.option(
    "--format",
    "form",
    metavar="NAME",
    type=_Format(),
    help="Take the files for sessions of this format, whatever they look like.",
)
AGENT = click.option("--agent", metavar="NAME", type=_Format(), help="Only sessions of this agent.")
PROJECT = click.option(
    "--project", type=ANY_PATH, metavar="DIR", help="Only sessions begun in this folder, or below it."
)
ALL = click.option("--all", "everything", is_flag=True, help="The sessions of all agents on this machine.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")
CHECK = click.option("--check", is_flag=True, help="Like --dry-run; exit 1 if something would change.")
QUIET_SECONDS = click.option(
    "--quiet-seconds", type=click.FloatRange(0), help="Refuse a session that changed within so many seconds."
)
OLDER_THAN = click.option(
    "--older-than",
    metavar="AGE",
    callback=amount(DAYS, "7d"),
    help="Only sessions whose files have not changed for so long, as in 7d.",
)
INCLUDE = click.option(
    "--include", multiple=True, metavar="GLOB", help="Of the files in folders only those with such a path or name."
)
EXCLUDE = click.option(
    "--exclude",
    multiple=True,
    metavar="GLOB",
    help="None of the files and folders in folders with such a path or name.",
)
JOBS = click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Work on so many files at once; else on as many as there are processors.",
)
RULE = click.option(
    "--rule",
    type=click.Choice(["size", "gencode", "omp", "eunice", "deliberate"]),
    help="What decides whether a session is due; else budget.rule of the policy.",
)
IDLE_SECONDS = click.option(
    "--idle-seconds",
    type=click.FloatRange(0),
    help="Skip a session that changed within so many seconds, since its provider may have it in its cache.",
)
LOG = click.option("--log", type=ANY_PATH, help="Append one JSON line for each session to this file.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


_OVER_SESSIONS = (
    PATHS_OR_NONE,
    AGENT,
    PROJECT,
    ALL,
    OLDER_THAN,
    INCLUDE,
    EXCLUDE,
    JOBS,
    DRY_RUN,
    CHECK,
)


def over_sessions(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the arguments that choose sessions, as selected() takes them, and that only rehearse."""
    for option in reversed(_OVER_SESSIONS):
        command = option(command)
    return command


def policies_of(
    config: Path | None, preset: str | None = None, *, compresses: bool = False, **overrides: Any
) -> Policies:
    """Make the policies of a command's sessions. Warnings about policy files go to stderr."""
    return Policies(config, preset, overrides, warn=warn, compresses=compresses)


def warn(said: str) -> None:
    """Print a warning on stderr."""
    click.echo(printable(f"warning: {said}"), err=True)


def sessions_with_stores(
    paths: Iterable[Path], policies: Policies, include: tuple[str, ...], exclude: tuple[str, ...]
) -> list[Found]:
    """List the sessions for a command that reads stores, after reading the policy of each.

    Raises UsageError, and click's error for a path that does not exist and has no store.
    """
    from sessioncompress.operations.stores import compressed
    from sessioncompress.pipeline.discover import Globs
    from sessioncompress.store.layout import holds, store_at

    context = click.get_current_context()
    for path in paths:
        if not (os.path.exists(path) or holds(store_at(path, policies.of(path)))):  # noqa: PTH110 - raises nothing
            EXISTING.convert(path, next(each for each in context.command.params if each.name == "paths"), context)
    return all_governed(compressed(paths, policies.of, Globs(include, exclude)), policies)


def all_governed(found: Iterable[Found], policies: Policies) -> list[Found]:
    """List the files after reading the policy of each, so that a wrong one ends the command with nothing done.

    Raises UsageError.
    """
    listed = list(found)
    for each in listed:
        if each.error is None:
            tell_of_two_stores(each.path, policies.of(each.path))
    return listed


def tell_of_two_stores(path: Path, policy: Policy) -> None:
    """Warn on stderr if a session has one store in the backup folder and another in its own folder.

    If it has none in the backup folder, the command itself refuses the session.
    """
    if not policy.backup_dir:
        return
    from sessioncompress.store.layout import holds, store_at, store_in_own_folder

    path = path.parent.resolve() / path.name
    if (other := store_in_own_folder(path, policy)) is not None and holds(store_at(path, policy)):
        warn(f"{path}: another store of it lies in {other.folder}, which a run without --backup-dir knows")


def show_originals(path: Path, policy: Policy) -> None:
    """Let git see a store that is to be committed, even if no run is due. Raises FileFailed, Refused."""
    from sessioncompress.store.folder import show_to_git
    from sessioncompress.store.layout import holds, store_at

    if holds(files := store_at(path, policy)):
        show_to_git(files)


def selected(
    paths: Sequence[Path],
    agent: str | None,
    project: Path | None,
    everything: bool,
    older_than: int | None,
    globs: Globs,
) -> Iterator[Found]:
    """Find the sessions that a command's paths or options select. Raises click's UsageError where they name none."""
    some = agent is not None or project is not None
    if not paths and not (some or everything):
        context = click.get_current_context()
        click.echo(context.get_help(), err=True)
        click.echo(err=True)
        raise click.UsageError("no session is named: give PATHS, or --agent, --project or --all")
    if paths and (some or everything or older_than is not None):
        raise click.UsageError("PATHS go with none of --agent, --project, --all and --older-than")
    if some and everything:
        raise click.UsageError("--all goes with neither --agent nor --project")
    from sessioncompress.pipeline.discover import discover

    if paths:
        return discover(paths, globs)
    from sessioncompress.operations.sessions import Selection, sessions

    return sessions(Selection(agent, project, older_than, globs))
