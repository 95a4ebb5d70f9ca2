"""What the user chose: the sessions of PATHS, of URLs or by options, and how a command goes over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from sessioncompress.cli import options
from sessioncompress.policy.sources import Policies

if TYPE_CHECKING:
    from sessioncompress.errors import SessionCompressError
    from sessioncompress.operations.batch import Engine, Outcome
    from sessioncompress.operations.cloud import Places
    from sessioncompress.operations.packed import Packed
    from sessioncompress.operations.sessions import Selection
    from sessioncompress.pipeline.discover import Found, Search

T = TypeVar("T")

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
    reads_packed: bool = False

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
        return self.by_options and self.may_ask

    @property
    def may_ask(self) -> bool:
        """Whether somebody at a terminal can answer a question before something is changed."""
        return options.may_be_asked() and not (self.yes or self.rehearses)

    def unless_in_use(self, work: Callable[[], T], skipped: Callable[..., T]) -> Callable[[], T]:
        """Let work skip a session that is in use, if the user did not name it; `skipped` makes the result of that."""
        from sessioncompress.operations.batch import unless_in_use

        return partial(unless_in_use, work, skipped) if self.by_options else work

    @property
    def is_one(self) -> bool:
        """Whether the user named one file, and no archive of several."""
        from sessioncompress.pipeline.discover import is_folder
        from sessioncompress.store.layout import is_archive

        if self.urls:
            return len(self.urls) == 1 and self.urls[0].endswith((".jsonl", ".json"))
        return len(self.paths) == 1 and not (is_folder(self.paths[0]) or is_archive(self.paths[0]))

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
        found = search([each for each in self.paths if not (self.reads_packed and _is_packed(each))], globs)
        return iter(found) if self.older_than is None else unchanged_for(found, self.older_than)

    def packed(self) -> Iterator[Packed | SessionCompressError]:
        """Find the packed sessions that are chosen on this machine."""
        from sessioncompress.operations.packed import selected
        from sessioncompress.operations.sessions import Selection
        from sessioncompress.pipeline.discover import Globs

        selection = Selection(self.agent, self.project, self.older_than, Globs(self.include, self.exclude))
        return selected(self.paths, selection)

    def each_packed(self, work: Callable[[Path, Path], T]) -> Iterator[Outcome[T]]:
        """Do some work on the packed sessions that are chosen: on the place of each, and a copy that goes again."""
        if self.places:
            from sessioncompress.operations import cloud_packed
            from sessioncompress.pipeline.discover import Globs

            return cloud_packed.each_packed(self.places, Globs(self.include, self.exclude), self.older_than, work)
        from sessioncompress.operations.packed import each_packed

        return each_packed(self.packed(), work)


def _is_packed(path: Path) -> bool:
    """Tell whether a path is an archive, or nothing is there but what was is packed: who reads packs finds it there."""
    if os.path.lexists(path):
        from sessioncompress.store.layout import is_archive

        return is_archive(path)
    from sessioncompress.operations.packed import packed_at

    return packed_at(path) is not None


def or_projects_told(found: Iterable[Found], selection: Selection) -> Iterator[Found]:
    """Yield the selected sessions; where there is none, say on stderr which projects there are, or where it looked."""
    is_none = True
    for each in found:
        is_none = False
        yield each
    if is_none and selection.project:
        # Imported here: hardly any run needs it.
        from sessioncompress.operations.packed import projects_instead

        if projects := projects_instead(selection):
            options.warn(f"no sessions in the project {selection.project}; there are sessions in:")
            for project in projects[:_MOST_PROJECTS]:
                click.echo(f"  {project}", err=True)
            if len(projects) > _MOST_PROJECTS:
                click.echo(
                    f"  and {len(projects) - _MOST_PROJECTS:,} more; 'sessioncompress sessions' lists them", err=True
                )
    elif is_none and selection.agent:
        from sessioncompress.cli.tables import with_tilde
        from sessioncompress.formats.table import agent_roots

        narrowed = selection.older_than is not None or selection.globs.include or selection.globs.exclude
        which = "no such session" if narrowed else f"no session of {selection.agent}"
        roots = [with_tilde(str(root)) for root in agent_roots(selection.agent)]
        if roots:
            options.warn(f"{which} is in {' or '.join(roots)}")


def choosing(
    *more: Callable[[Any], Any],
    gone: bool = False,
    urls: bool = False,
    packed: bool = False,
    older_than: Callable[[Any], Any] = options.OLDER_THAN,
    or_all: Callable[[Mapping[str, Any]], bool] = lambda _: False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command PATHS, the options that choose sessions, and `more` for what Chosen has; it takes one Chosen.

    With `gone` the sessions of PATHS may be gone, if they have a store: with_stores() checks. With `packed` they may be
    packed, and the command reads them there. Where the other options are such that `or_all` says so, no choice is that
    of all sessions.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_chosen(**values: Any) -> None:
            chosen = Chosen(**{name: values.pop(name) for name in Chosen._fields if name in values})
            chosen = chosen._replace(reads_packed=packed)
            remote: tuple[Any, ...] = tuple(path for path in chosen.paths if isinstance(path, str))
            if remote and len(remote) < len(chosen.paths):
                raise click.UsageError("local paths and URLs of object stores can't be combined; use one run for each")
            if remote:
                # Imported here: most sessions lie on a disk.
                from sessioncompress.operations.cloud import Places

                chosen = chosen._replace(paths=(), places=Places(remote))
            if not (chosen.paths or remote or chosen.agent or chosen.project) and or_all(values):
                chosen = chosen._replace(everything=True)
            _refuse_unless_plain(chosen)
            command(chosen, **values)

        if gone:
            kind = options.PATH_OR_URL if urls else options.ANY_PATH
        elif packed:
            kind = options.EXISTING_PACKED_OR_URL if urls else options.EXISTING_OR_PACKED
        else:
            kind = options.EXISTING_OR_URL if urls else options.EXISTING
        paths = click.argument("paths", nargs=-1, type=kind)
        choice = (paths, options.ALL, options.AGENT, options.PROJECT, older_than)
        return options.all_of(*choice, *more, options.INCLUDE, options.EXCLUDE, options.COLOR)(with_chosen)

    return decorate


def _refuse_unless_plain(chosen: Chosen) -> None:
    """Raise click's UsageError where nothing is named, or in two ways."""
    some = chosen.agent is not None or chosen.project is not None or chosen.everything
    named = chosen.paths or chosen.urls
    if not (named or some):
        raise click.UsageError("Which sessions? Give PATHS, or --agent, --project or --all")
    if named and some:
        raise click.UsageError("PATHS can't be combined with --agent, --project or --all")


def with_stores(chosen: Chosen, policies: Policies, *, gone_too: bool = False) -> list[Found]:
    """List the sessions for a command that reads stores, as compressed() finds them, after reading the policy of each.

    Raises UsageError, and click's error for a path that does not exist and has no store, unless `gone_too`.
    """
    from sessioncompress.operations.stores import compressed
    from sessioncompress.store.layout import holds, store_at

    context = click.get_current_context()
    for path in () if gone_too else chosen.paths:
        if not (os.path.exists(path) or holds(store_at(path, policies.of(path)))):  # noqa: PTH110 - raises nothing
            kind = options.EXISTING_OR_PACKED if chosen.reads_packed else options.EXISTING
            kind.convert(path, next(each for each in context.command.params if each.name == "paths"), context)
    found = chosen.sessions(lambda paths, globs: compressed(paths, policies.of, globs, gone_too=gone_too))
    return options.all_governed(found, policies)
