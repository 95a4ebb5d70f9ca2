"""What the user chose: the sessions of PATHS, of URLs or by options, and how a command goes over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from sessioncompress.cli import options

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
    """The sessions that the user chose, by PATHS or by options, and how a command works through them."""

    paths: tuple[Path, ...] = ()
    everything: bool = False
    agent: str | None = None
    project: Path | None = None
    older_than: int | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
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
            from sessioncompress.operations.sessions import sessions

            return or_projects_told(sessions(self.selection, search), self.selection)
        found = search([each for each in self.paths if not (self.reads_packed and _is_packed(each))], globs)
        return iter(found) if self.older_than is None else unchanged_for(found, self.older_than)

    def packed(self, taken: Callable[[Packed], object] = lambda _: None) -> Iterator[Packed | SessionCompressError]:
        """Find the packed sessions that are chosen on this machine; see selected()."""
        from sessioncompress.operations.packed import selected

        return selected(self.paths, self.selection, taken)

    @property
    def selection(self) -> Selection:
        """The selection that the options make."""
        from sessioncompress.operations.sessions import Selection
        from sessioncompress.pipeline.discover import Globs

        return Selection(self.agent, self.project, self.older_than, Globs(self.include, self.exclude))

    def each_packed(
        self, work: Callable[[Path, Path], T], taken: Callable[[Packed], object] = lambda _: None
    ) -> Iterator[Outcome[T]]:
        """Do some work on the packed sessions that are chosen: on the place of each, and a copy that goes again."""
        from sessioncompress.operations.packed import each_packed, packed_below

        if self.places:
            return each_packed(packed_below(self.places, self.selection.globs, self.older_than, is_read=True), work)
        return each_packed(self.packed(taken), work)


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


def chosen(values: dict[str, Any], *, packed: bool, or_all: bool) -> Chosen:
    """Take out of a command's options what sessions are chosen and how it goes over them. Raises click.UsageError."""
    made = Chosen(**{name: values.pop(name) for name in Chosen._fields if name in values})
    made = made._replace(reads_packed=packed)
    remote: tuple[Any, ...] = tuple(path for path in made.paths if isinstance(path, str))
    if remote and len(remote) < len(made.paths):
        raise click.UsageError("local paths and URLs of object stores can't be combined; use one run for each")
    if remote:
        # Imported here: most sessions lie on a disk.
        from sessioncompress.operations.cloud import Places

        made = made._replace(paths=(), places=Places(remote))
    some = bool(made.agent is not None or made.project is not None or made.everything)
    named = made.paths or remote
    if not (named or some or or_all):
        raise click.UsageError("Which sessions? Give PATHS, or --agent, --project or --all")
    if named and some:
        raise click.UsageError("PATHS can't be combined with --agent, --project or --all")
    made = made._replace(everything=made.everything or not (named or some))
    of, scheduler = values.pop("of", ""), values.pop("scheduler", None)
    if of != "dask":
        if scheduler is not None:
            raise click.UsageError("--scheduler needs --engine dask")
        return made
    if scheduler is not None and made.jobs is not None:
        raise click.UsageError("--jobs starts a cluster of its own; it can't be combined with --scheduler")
    # Imported here: most runs work on this machine alone.
    from sessioncompress.operations import cluster

    # Workers have working folders of their own.
    paths = tuple(path.absolute() for path in made.paths)
    return made._replace(paths=paths, jobs=None, engine=cluster.engine(scheduler, made.jobs))
