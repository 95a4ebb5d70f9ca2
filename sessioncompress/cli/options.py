"""Shared by the commands: options and their types, policies, and how an error ends a command."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click
from msgspec.structs import replace

from sessioncompress.cli.tables import echo_wrapped
from sessioncompress.core import process
from sessioncompress.core.text import OBJECT_STORES, listed, printable, quote
from sessioncompress.errors import EACH_OLD_OR_NEW, NOTHING_DONE, SessionCompressError, UsageError
from sessioncompress.formats.table import NAMES, agent_named
from sessioncompress.pipeline.discover import Found, names_rows
from sessioncompress.policy.model import Policy
from sessioncompress.policy.sources import Policies
from sessioncompress.store.layout import holds, real_place, store_at, store_in_own_folder


class Command(click.Command):
    """Prints our errors and exits with their code, or with 130 after an interrupt."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with process.raised():
                return super().invoke(ctx)
        except SessionCompressError as error:
            echo_wrapped(str(error), err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo(f"Interrupted. {EACH_OLD_OR_NEW}", err=True)
            sys.exit(process.EXIT_CODE)


class ReadOnly(Command):
    """A command that changes nothing. It ends when the reader of its output does."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with process.ending_with_its_reader():
                return super().invoke(ctx)
        except BrokenPipeError:
            sys.exit(0)


class PathKind(click.Path):
    """A path that need not exist. An empty one, such as an unset shell variable, must not mean the working folder.

    If the path must exist and its session is packed, tell the user, or let the command read the pack.
    """

    def __init__(
        self,
        takes_urls: bool = False,  # noqa: FBT002
        takes_packed: bool = False,  # noqa: FBT002
        takes_rows: bool = False,  # noqa: FBT002
        **how: Any,
    ) -> None:
        super().__init__(**how)
        self.takes_urls, self.takes_packed, self.takes_rows = takes_urls, takes_packed, takes_rows

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, or a URL of an object store."""
        if not os.fspath(value):
            self.fail("the path is empty; use '.' for the working folder.", param, ctx)
        if isinstance(value, str) and value.startswith(OBJECT_STORES):
            if self.takes_urls:
                return value
            commands = "compress, compact, history, pack, restore, search, stats, unpack and verify"
            self.fail(f"only {commands} take URLs of object stores.", param, ctx)
        path = Path(os.fsdecode(value))
        if not path.is_absolute():
            try:
                Path.cwd()
            except FileNotFoundError:
                what = f"the working folder, which '{path}' begins from, no longer exists."
                self.fail(f"{what} Change to another one, or name an absolute path.", param, ctx)
        if names_rows(path):
            if not self.takes_rows:
                self.fail(f"'{path}' is a database, or in one: this command takes no sessions there.", param, ctx)
            if not self.exists or os.path.lexists(path) or path.parent.is_file():
                return self.coerce_path_result(str(path))
        if self.exists and not os.path.lexists(value):
            from sessioncompress.operations.packed import called_here, way_back

            if back := way_back(path):
                if self.takes_packed:
                    return self.coerce_path_result(str(path))
                self.fail(f"'{path}' does not exist. {back}", param, ctx)
            if isinstance(param, click.Argument) and (paths := [quote(each.shown) for each in called_here(str(path))]):
                of = "The session" if len(paths) == 1 else "Sessions"
                self.fail(f"'{path}' is not a path. {of} with that id or title: {listed(paths, 5)}.", param, ctx)
        return super().convert(value, param, ctx)

    def fail(self, message: str, param: click.Parameter | None = None, ctx: click.Context | None = None) -> NoReturn:
        """Raise the error, adding that nothing was done."""
        super().fail(f"{message} {NOTHING_DONE}", param, ctx)


class Agent(click.types.StringParamType):
    """An agent, by any of its names. If only some are allowed, `lacking` names what the others don't have."""

    def __init__(self, among: Collection[str] = (), lacking: str = "") -> None:
        self._among, self._lacking = tuple(among), lacking

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return our name for the agent."""
        try:
            return agent_named(value, self._among or NAMES)
        except UsageError as error:
            said = str(error)
            with suppress(UsageError):
                other = agent_named(value)
                said = f"there is no {self._lacking} for {other}, only for {', '.join(self._among)}. {NOTHING_DONE}"
            self.fail(said, param, ctx)


class WholeNumber(click.IntRange):
    """A whole number in a range, with errors that call it that."""

    name = "whole number"


class Number(click.FloatRange):
    """A number in a range, with errors that call it that."""

    name = "number"


def amount(
    units: Mapping[str, int], noun: str, example: str
) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that parses a number with a unit, such as `7d`. `noun` names the value in errors."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        found = re.fullmatch("([0-9]{1,9})([A-Za-z]*)", value)
        if found and found[2] in units:
            return int(found[1]) * units[found[2]]
        *others, last = units
        use = f"{', '.join(others)} or {last}, as in {example}"
        if found is None and re.match("[0-9]{10}", value):
            what = f" is too large; use at most nine digits and {use}"
        elif found is None:
            what = f" is not {noun}; use a number and {use}"
        elif found[2]:
            what = f": unknown unit '{found[2]}'; use {use}"
        else:
            what = f" needs a unit; use {use}"
        raise click.BadParameter(f"'{printable(value)}'{what}", ctx, param)

    return read


AGE = {"m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
"""Units of an age, in seconds."""


def all_of(*given: Callable[[Any], Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Combine options; a command lists them in this order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(given):
            command = option(command)
        return command

    return decorate


def may_be_asked() -> bool:
    """True if a user at a terminal can see a question and answer it."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


ANY_PATH = PathKind(path_type=Path)
EXISTING = PathKind(path_type=Path, exists=True, readable=False)
EXISTING_OR_PACKED = PathKind(takes_packed=True, takes_rows=True, path_type=Path, exists=True, readable=False)
FILES = click.argument("files", nargs=-1, type=PathKind(path_type=Path, exists=True, dir_okay=False, readable=False))
"""For files passed by a program such as pre-commit."""
CONFIG = click.option(
    "--config",
    type=PathKind(path_type=Path, exists=True, dir_okay=False),
    help="Your own policy file, which may set every key, in place of the nearest compression.json.",
)
PRESET = click.option(
    "--preset",
    type=click.Choice(["balanced", "low-cost", "high-quality", "archive"]),
    help="Base policy; a policy file overrides it. archive is for sessions that nobody works in.",
)
BACKUP_DIR = click.option(
    "--backup-dir", type=PathKind(path_type=Path, file_okay=False), help="Folder for originals and journals."
)
THEIR_FOLDER = click.option(
    "--backup-dir",
    type=PathKind(path_type=Path, exists=True, file_okay=False),
    help="Folder for originals and journals.",
)
COMMIT_ORIGINALS = all_of(
    click.option("--commit-originals", flag_value="committed", help="Short for --originals-in committed."),
    click.option(
        "--originals-in",
        "commit_originals",
        type=click.Choice(["hidden", "committed", "history"]),
        help="Where originals are: in a store that git does not see, in one that it sees, or in the commits, with a "
        "store that git sees for the rest.",
    ),
)
FORMAT = click.option(
    "--format",
    "form",
    metavar="NAME",
    type=Agent(),
    help="Read the files as sessions of this format.",
)


def once(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Return the only value, or None. By default click would silently take the last of several."""
    if len(values) > 1:
        raise click.BadParameter(f"it can be given once; use one run for each. {NOTHING_DONE}", ctx, param)
    return values[0] if values else None


AGENT = click.option(
    "--agent", metavar="NAME", type=Agent(), multiple=True, callback=once, help="Only sessions of this agent."
)
PROJECT = click.option(
    "--project",
    type=ANY_PATH,
    multiple=True,
    callback=once,
    metavar="DIR",
    help="Only sessions started in this folder or below it.",
)
ALL = click.option("--all", "everything", is_flag=True, help="The sessions of all agents on this machine.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
YES = click.option("--yes", is_flag=True, help="Do not ask.")
CHECK = click.option("--check", is_flag=True, help="Exit 1 if something would change; change nothing.")
OLDER_THAN = click.option(
    "--older-than",
    metavar="AGE",
    callback=amount(AGE, "an age", "7d"),
    help="Only sessions unchanged for at least this long, as in 30m, 12h, 7d or 2w.",
)
INCLUDE = click.option(
    "--include", multiple=True, metavar="GLOB", help="In folders, only files whose path or name matches."
)
EXCLUDE = click.option(
    "--exclude", multiple=True, metavar="GLOB", help="In folders, skip files whose path or name matches."
)
JOBS = click.option(
    "--jobs", type=WholeNumber(1), metavar="N", help="Work on N files at once; by default one per processor."
)
ENGINE = (
    click.option(
        "--engine",
        "of",
        type=click.Choice(["processes", "dask"]),
        default="processes",
        help="What does the work; dask starts --jobs workers on this machine, and needs sessioncompress[cluster].",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="With --engine dask: a running scheduler, as in tcp://host:8786. Its workers must see the same paths.",
    ),
)
"""Options of the commands that can send sessions to cluster workers."""
RULE = all_of(
    click.option(
        "--rule",
        type=click.Choice(["size", "gencode", "omp", "eunice", "deliberate"]),
        help="Rule that says whether a session is due; by default budget.rule.",
    ),
    click.option(
        "--target-tokens",
        type=WholeNumber(0),
        metavar="N",
        help="With --rule eunice: pruning is enough if it leaves fewer tokens than this.",
    ),
)
IDLE_SECONDS = click.option(
    "--idle-seconds",
    type=Number(0),
    metavar="SECONDS",
    help="Skip a session that changed this recently: its provider may still have it cached.",
)
LOG = click.option("--log", type=ANY_PATH, help="Append one JSON line for each session to this file.")


def _colored(ctx: click.Context, param: click.Parameter, value: str) -> None:
    """Set the color mode for the rest of the command; click strips colors accordingly."""
    del param
    ctx.color = {"always": True, "never": False}.get(value, False if os.environ.get("NO_COLOR") else None)


COLOR = click.option(
    "--color",
    metavar="WHEN",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    expose_value=False,
    callback=_colored,
    help="When to use colors; auto: in a terminal, unless NO_COLOR is set.",
)
QUIET = click.option("-q", "--quiet", is_flag=True, help="Print errors and warnings only.")
VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Print everything known about each session.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


def policies_of(
    config: Path | None,
    preset: str | None = None,
    *,
    compresses: bool = False,
    near: bool = True,
    by_options: bool = False,
    **overrides: Any,
) -> Policies:
    """Build the policies for a command; set `by_options` if options chose the sessions. Warnings go to stderr."""
    # The user didn't name these sessions, and an agent may be using them.
    quiet = 60 if by_options and overrides.get("idle_seconds") is None else 0
    return Policies(config, preset, overrides, warn=warn, compresses=compresses, near=near, quiet_seconds=quiet)


def warn(said: str) -> None:
    """Print a warning on stderr."""
    echo_wrapped(printable(f"warning: {said}"), err=True)


def policy_of(found: Found, policies: Policies) -> Policy:
    """Return a session's policy. Raises UsageError."""
    if found.remote is None:
        return policies.of(found.path)
    if found.remote.is_row:
        # The originals of rows are always next to the database.
        return replace(policies.of(found.path.parent), backup_dir=None, commit_originals=False)
    from sessioncompress.operations.cloud import policy_for

    return policy_for(found.remote, policies)


def tell_of_two_stores(path: Path, policy: Policy) -> None:
    """Warn on stderr if a session has one store in the backup folder and another in its own folder.

    If it has none in the backup folder, the command itself refuses the session.
    """
    if not policy.backup_dir:
        return
    path = real_place(path)
    if (other := store_in_own_folder(path, policy)) is not None and holds(store_at(path, policy)):
        warn(f"{path}: it has another store in {other.folder}, which a run without --backup-dir uses")


def show_originals(path: Path, policy: Policy) -> None:
    """Make a store that is to be committed visible to git, even if no run is due. Raises FileFailed, Refused."""
    from sessioncompress.store.folder import hides_from_git, show_to_git

    if holds(files := store_at(path, policy)):
        is_news = files.is_hidden or hides_from_git(files)
        if files.is_hidden:
            from sessioncompress.pipeline import reading
            from sessioncompress.store.recover import brought_home

            with reading.opened(path, writing=True) as session:
                files = brought_home(session, policy)
        show_to_git(files)
        if is_news:
            click.echo(printable(f"{path}: git sees its store from now on: {files.folder}"), err=True)
