"""What the commands share before they work: options, policies, and how an error ends a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from sessioncompress.cli.help import OneScreen
from sessioncompress.cli.kinds import AGE, Agent, PathKind, PathOrUrl, amount
from sessioncompress.core import process
from sessioncompress.core.text import printable
from sessioncompress.errors import SessionCompressError
from sessioncompress.policy.sources import Policies

if TYPE_CHECKING:
    from sessioncompress.operations.batch import Engine, Outcome
    from sessioncompress.operations.cloud import Places
    from sessioncompress.operations.sessions import Selection
    from sessioncompress.pipeline.discover import Found, Search
    from sessioncompress.policy.model import Policy

T = TypeVar("T")


class Command(OneScreen):
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


class ReadOnly(Command):
    """A command that changes nothing: where nobody reads its output any more, it ends."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with process.ending_with_its_reader():
                return super().invoke(ctx)
        except BrokenPipeError:
            sys.exit(0)


ANY_PATH = PathKind(path_type=Path)
PATH_OR_URL = PathOrUrl(path_type=Path)
EXISTING_OR_URL = PathOrUrl(path_type=Path, exists=True, readable=False)
EXISTING = PathKind(path_type=Path, exists=True, readable=False)
FILES = click.argument("files", nargs=-1, type=PathKind(path_type=Path, exists=True, dir_okay=False, readable=False))
"""For files that a program such as pre-commit hands over."""
CONFIG = click.option(
    "--config",
    type=PathKind(path_type=Path, exists=True, dir_okay=False),
    help="Policy file of yours, which may set every key; else the nearest compression.json above the session.",
)
PRESET = click.option(
    "--preset",
    type=click.Choice(["balanced", "low-cost", "high-quality", "archive"]),
    help="Base policy; a file changes it. archive is for sessions nobody works in: it alone also takes mirrors, which "
    "no model reads, out of the recent context.",
)
BACKUP_DIR = click.option(
    "--backup-dir", type=PathKind(path_type=Path, file_okay=False), help="Folder for originals and journals."
)
THEIR_FOLDER = click.option(
    "--backup-dir",
    type=PathKind(path_type=Path, exists=True, file_okay=False),
    help="Folder where the originals and journals are.",
)
COMMIT_ORIGINALS = click.option("--commit-originals", is_flag=True, help="Let git see the stores of the sessions.")
FORMAT = click.option(
    "--format",
    "form",
    metavar="NAME",
    type=Agent(),
    help="Take the files for sessions of this format, whatever they look like.",
)
AGENT = click.option("--agent", metavar="NAME", type=Agent(), help="Only sessions of this agent.")
PROJECT = click.option(
    "--project",
    type=ANY_PATH,
    metavar="DIR",
    help="Only sessions begun in this folder, or below it; also a project as 'sessions' prints it.",
)
ALL = click.option("--all", "everything", is_flag=True, help="The sessions of all agents on this machine.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")
YES = click.option("--yes", is_flag=True, help="Do not ask.")
CHECK = click.option("--check", is_flag=True, help="Exit 1 if something would change; change nothing.")
QUIET_SECONDS = click.option(
    "--quiet-seconds",
    type=click.FloatRange(0),
    help="Refuse a session that changed within so many seconds.",
)
OLDER_THAN = click.option(
    "--older-than",
    metavar="AGE",
    callback=amount(AGE, "7d"),
    help="Only sessions unchanged for so long, as in 12h, 7d or 2w.",
)
INCLUDE = click.option(
    "--include", multiple=True, metavar="GLOB", help="In folders, only files of such a path or name."
)
EXCLUDE = click.option(
    "--exclude",
    multiple=True,
    metavar="GLOB",
    help="In folders, nothing of such a path or name.",
)
JOBS = click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Work on so many files at once; else on one for each processor.",
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


def _colored(ctx: click.Context, param: click.Parameter, value: str) -> None:
    """Tell click, which takes colors out wherever it prints, for the rest of the command."""
    del param
    ctx.color = {"always": True, "never": False}.get(value, False if os.environ.get("NO_COLOR") else None)


COLOR = click.option(
    "--color",
    metavar="WHEN",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    expose_value=False,
    callback=_colored,
    help="Whether to use colors; by itself in a terminal, unless NO_COLOR is set.",
)
QUIET = click.option("-q", "--quiet", is_flag=True, help="Print errors and warnings only.")
VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Print all that is known of each session.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


MOST_TYPED = 3
"""Paths that a message repeats."""
_MOST_PROJECTS = 5


def typed(paths: Sequence[Path], backup_dir: Path | None) -> list[str]:
    """Write the arguments that name some files and the folder of their stores, for a shell."""
    words = [quote(str(path)) for path in paths] if len(paths) <= MOST_TYPED else ["PATHS"]
    return words + (["--backup-dir", quote(str(backup_dir))] if backup_dir else [])


class Chosen(NamedTuple):
    """What the user chose: sessions by PATHS or by options, and how a command goes over them; see choosing()."""

    paths: tuple[Path, ...]
    everything: bool
    agent: str | None
    project: Path | None
    older_than: int | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    jobs: int | None = None
    engine: Engine | None = None
    dry_run: bool = False
    check: bool = False
    as_json: bool = False
    yes: bool = False
    quiet: bool = False
    verbose: bool = False
    places: Places | None = None

    @property
    def urls(self) -> Sequence[str]:
        """The URLs that name sessions in object stores."""
        return self.places.urls if self.places else ()

    @property
    def by_options(self) -> bool:
        """Whether options choose the sessions: the user named none of them, nor a folder."""
        return not (self.paths or self.urls)

    @property
    def rehearses(self) -> bool:
        """Whether nothing is to be changed."""
        return self.dry_run or self.check

    @property
    def asks(self) -> bool:
        """Whether to ask first: nobody has named what is to be changed, and somebody at a terminal can answer."""
        is_seen = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
        return self.by_options and is_seen and not (self.yes or self.rehearses)

    def unless_in_use(self, work: Callable[[], T], skipped: Callable[..., T]) -> Callable[[], T]:
        """Let work skip a session that is in use, if the user did not name it; `skipped` makes the result of that."""
        from sessioncompress.operations.batch import unless_in_use

        return partial(unless_in_use, work, skipped) if self.by_options else work

    @property
    def is_one(self) -> bool:
        """Whether the user named one file."""
        from sessioncompress.pipeline.discover import is_folder

        if self.urls:
            return len(self.urls) == 1 and self.urls[0].endswith((".jsonl", ".json"))
        return len(self.paths) == 1 and not is_folder(self.paths[0])

    def typed(self, backup_dir: Path | None = None) -> str:
        """Write the arguments that choose the same sessions again, for a shell."""
        words = ["--all"] if self.everything else []
        words += ["--agent", self.agent] if self.agent else []
        words += ["--project", quote(str(self.project))] if self.project else []
        return " ".join([*words, *typed(self.paths, backup_dir)])

    def sessions(self, search: Search | None = None) -> Iterator[Found]:
        """Find the sessions; `search` says which files and folders mean to the command, if not what they are."""
        from sessioncompress.pipeline.discover import Globs, discover, unchanged_for

        globs = Globs(self.include, self.exclude)
        if self.places:
            return self.places.find(globs, self.older_than, stores=search is not None)
        search = search or discover
        if self.by_options:
            from sessioncompress.operations.sessions import Selection, sessions

            selection = Selection(self.agent, self.project, self.older_than, globs)
            return or_projects_told(sessions(selection, search), selection)
        found = search(self.paths, globs)
        return iter(found) if self.older_than is None else unchanged_for(found, self.older_than)

    def each_packed(self, work: Callable[[Path, Path], T]) -> Iterator[Outcome[T]]:
        """Do some work on the packed sessions that are chosen: on the place of each, and a copy that goes again."""
        from sessioncompress.operations.packed import each_packed, selected
        from sessioncompress.operations.sessions import Selection
        from sessioncompress.pipeline.discover import Globs

        globs = Globs(self.include, self.exclude)
        if self.places:
            from sessioncompress.operations import cloud_packed

            return cloud_packed.each_packed(self.places, globs, self.older_than, work)
        selection = Selection(self.agent, self.project, self.older_than, globs)
        return each_packed(selected(self.paths, selection), work)


def or_projects_told(found: Iterable[Found], selection: Selection) -> Iterator[Found]:
    """Yield the selected sessions; where there is none since none is of the project, say on stderr which there are."""
    is_none = True
    for each in found:
        is_none = False
        yield each
    if is_none and selection.project:
        # Imported here: hardly any run needs it.
        from sessioncompress.operations.packed import projects_instead

        if projects := projects_instead(selection):
            warn(f"no session is of the project {selection.project}; there are sessions of:")
            for project in projects[:_MOST_PROJECTS]:
                click.echo(f"  {project}", err=True)
            if len(projects) > _MOST_PROJECTS:
                click.echo(f"  and {len(projects) - _MOST_PROJECTS:,} more, see 'sessioncompress sessions'", err=True)


def choosing(
    *more: Callable[[Any], Any],
    gone: bool = False,
    urls: bool = False,
    older_than: Callable[[Any], Any] = OLDER_THAN,
    or_all: Callable[[Mapping[str, Any]], bool] = lambda _: False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command PATHS, the options that choose sessions, and `more` for what Chosen has; it takes one Chosen.

    With `gone` the sessions of PATHS may be gone, if they have a store: with_stores() checks. Where the other options
    are such that `or_all` says so, no choice is that of all sessions.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_chosen(**values: Any) -> None:
            chosen = Chosen(**{name: values.pop(name) for name in Chosen._fields if name in values})
            remote: tuple[Any, ...] = tuple(path for path in chosen.paths if isinstance(path, str))
            if remote and len(remote) < len(chosen.paths):
                raise click.UsageError("name sessions in object stores and those on a disk in different runs")
            if remote:
                # Imported here: most sessions lie on a disk.
                from sessioncompress.operations.cloud import Places

                chosen = chosen._replace(paths=(), places=Places(remote))
            if not (chosen.paths or remote or chosen.agent or chosen.project) and or_all(values):
                chosen = chosen._replace(everything=True)
            _refuse_unless_plain(chosen)
            command(chosen, **values)

        kinds = (EXISTING_OR_URL, PATH_OR_URL) if urls else (EXISTING, ANY_PATH)
        paths = click.argument("paths", nargs=-1, type=kinds[gone])
        given: Callable[..., None] = with_chosen
        for option in reversed((paths, ALL, AGENT, PROJECT, older_than, *more, INCLUDE, EXCLUDE, COLOR)):
            given = option(given)
        return given

    return decorate


def _refuse_unless_plain(chosen: Chosen) -> None:
    """Raise click's UsageError where nothing is named, or in two ways."""
    some = chosen.agent is not None or chosen.project is not None or chosen.everything
    named = chosen.paths or chosen.urls
    if not (named or some):
        context = click.get_current_context()
        click.echo(context.get_help(), err=True)
        click.echo(err=True)
        raise click.UsageError("no session is named: give PATHS, or --agent, --project or --all")
    if named and some:
        raise click.UsageError("PATHS go with none of --agent, --project and --all")


QUIET_BY_OPTIONS = 60
"""Seconds. Nobody has named a session that options choose: an agent may be at work in it."""


def policies_of(
    config: Path | None,
    preset: str | None = None,
    *,
    compresses: bool = False,
    chosen: Chosen | None = None,
    **overrides: Any,
) -> Policies:
    """Make the policies of a command's sessions; `chosen` are those that it changes. Warnings go to stderr."""
    quiet = QUIET_BY_OPTIONS if chosen and chosen.by_options else 0
    return Policies(config, preset, overrides, warn=warn, compresses=compresses, quiet_seconds=quiet)


def warn(said: str) -> None:
    """Print a warning on stderr."""
    click.echo(printable(f"warning: {said}"), err=True)


def with_stores(chosen: Chosen, policies: Policies, *, gone_too: bool = False) -> list[Found]:
    """List the sessions for a command that reads stores, as compressed() finds them, after reading the policy of each.

    Raises UsageError, and click's error for a path that does not exist and has no store, unless `gone_too`.
    """
    from sessioncompress.operations.stores import compressed
    from sessioncompress.store.layout import holds, store_at

    context = click.get_current_context()
    for path in () if gone_too else chosen.paths:
        if not (os.path.exists(path) or holds(store_at(path, policies.of(path)))):  # noqa: PTH110 - raises nothing
            EXISTING.convert(path, next(each for each in context.command.params if each.name == "paths"), context)
    found = chosen.sessions(lambda paths, globs: compressed(paths, policies.of, globs, gone_too=gone_too))
    return all_governed(found, policies)


def all_governed(found: Iterable[Found], policies: Policies) -> list[Found]:
    """List the files after reading the policy of each, so that a wrong one ends the command with nothing done.

    Raises UsageError.
    """
    listed = list(found)
    for each in listed:
        if each.error is None:
            policy = policy_of(each, policies)
            if each.remote is None:
                tell_of_two_stores(each.path, policy)
    return listed


def policy_of(found: Found, policies: Policies) -> Policy:
    """Find the policy of a session. Raises UsageError."""
    if found.remote is None:
        return policies.of(found.path)
    from sessioncompress.operations.cloud import policy_for

    return policy_for(found.remote, policies)


def on(found: Found, work: Callable[[Path], T], *, writes: bool = False) -> Callable[[], T]:
    """Bind work to its session; one in an object store is fetched for it, and put back if it `writes`."""
    if found.remote is None:
        return partial(work, found.path)
    from sessioncompress.operations.cloud import work_on

    return partial(work_on, found.remote, work, writes=writes)


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
