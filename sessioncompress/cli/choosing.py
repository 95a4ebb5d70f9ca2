"""The sessions that the user chose by PATHS, URLs or options, and the settings for working through them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from sessioncompress.cli import options
from sessioncompress.cli.tables import with_tilde
from sessioncompress.core.text import argument, listed, quote
from sessioncompress.errors import SessionCompressError
from sessioncompress.formats import table
from sessioncompress.pipeline.discover import (
    Found,
    Globs,
    Search,
    databases_with_store,
    discover,
    is_database,
    is_folder,
    names_rows,
    unchanged_for,
)
from sessioncompress.store.layout import is_archive

if TYPE_CHECKING:
    from sessioncompress.operations.batch import Engine
    from sessioncompress.operations.cloud import RemoteSessions
    from sessioncompress.operations.sessions import Selection
    from sessioncompress.store.packing import Packed

MOST_TYPED = 3
"""Maximum number of paths that a message repeats."""
_MOST_PROJECTS = 5


def typed(paths: Sequence[Path], backup_dir: Path | None, config: Path | None = None) -> list[str]:
    """Return arguments that name these files, or just their folders if there are many, and the stores' location."""
    if len(paths) > MOST_TYPED:
        paths = list(dict.fromkeys(each if is_folder(each) else each.parent for each in paths))
    words = list(map(argument, paths))
    options_of = {"--backup-dir": backup_dir, "--config": config}
    return words + [f"{name} {quote(str(path))}" for name, path in options_of.items() if path]


class Chosen(NamedTuple):
    """The sessions that the user chose by PATHS or options, and the settings for working through them."""

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
    places: RemoteSessions | None = None
    reads_packed: bool = False
    is_one: bool = False
    """True if the user named one file that isn't an archive of several, judged before the work changes any."""

    @property
    def urls(self) -> Sequence[str]:
        """URLs of sessions in object stores."""
        return self.places.urls if self.places else ()

    @property
    def by_options(self) -> bool:
        """True if options chose the sessions, and the user named no file or folder."""
        return not (self.paths or self.urls)

    @property
    def rehearses(self) -> bool:
        """True if nothing will be changed."""
        return self.dry_run or self.check

    @property
    def asks(self) -> bool:
        """True if the command must ask first: options chose the sessions, and a user at a terminal can answer."""
        return self.by_options and self.may_ask

    @property
    def may_ask(self) -> bool:
        """True if a change needs confirmation and a user at a terminal can answer."""
        return options.may_be_asked() and not (self.yes or self.rehearses)

    def typed(self, backup_dir: Path | None = None, config: Path | None = None) -> str:
        """Return shell arguments that choose the same sessions again."""
        words = ["--all"] if self.everything else []
        words += ["--agent", self.agent] if self.agent else []
        words += ["--project", quote(str(self.project))] if self.project else []
        words += ["--older-than", self.age] if self.older_than is not None else []
        words += [f"--include {quote(each)}" for each in self.include]
        words += [f"--exclude {quote(each)}" for each in self.exclude]
        return " ".join([*words, *typed(self.paths, backup_dir, config)])

    @property
    def age(self) -> str:
        """The minimum age in the form that a user would type."""
        seconds = self.older_than or 0
        name, unit = next(each for each in reversed(options.AGE.items()) if not seconds % each[1])
        return f"{seconds // unit}{name}"

    def sessions(self, search: Search | None = None) -> Iterator[Found]:
        """Yield the chosen sessions, or explain on stderr why there are none. `search` resolves paths to sessions."""
        if self.places:
            return self.places.find(Globs(self.include, self.exclude), self.older_than, stores=search is not None)
        found = self.found(search or discover)
        return found if self.quiet else _or_told(found, self, search or discover)

    def found(self, search: Search) -> Iterator[Found]:
        """Yield the chosen sessions without messages."""
        if self.by_options:
            from sessioncompress.operations.sessions import sessions

            return chain(sessions(self.selection, search), self._rows(search))
        paths = [each for each in self.paths if not (names_rows(each) or (self.reads_packed and _is_packed(each)))]
        found = search(paths, Globs(self.include, self.exclude))
        files = iter(found) if self.older_than is None else unchanged_for(found, self.older_than)
        return chain(files, self._rows(search))

    def _rows(self, search: Search) -> Iterator[Found]:
        """Yield the sessions in databases. Any search other than discover() wants only those with stores."""
        named, stores = [each for each in self.paths if names_rows(each)], search is not discover
        for path in filter(is_folder, self.paths):
            there = [each for each in table.databases_in(path) if not is_folder(each)]
            named += dict.fromkeys(there + (databases_with_store(path) if stores else []))
        if not (named or self.by_options):
            return
        from sessioncompress.operations import database

        if self.by_options:
            yield from database.selected(self.selection, stores=stores)
        for path in named:
            yield from database.found_in(path, self.selection, stores=stores)

    def left_out(self, search: Search) -> str:
        """Describe how many sessions here were not chosen, and why."""
        from sessioncompress.store.packing import Packed

        of_any_age = self._replace(older_than=None)
        fitting = sum(1 for _ in of_any_age.found(search))
        named = sum(1 for _ in of_any_age._replace(include=(), exclude=()).found(search)) - fitting
        packed = 0 if self.reads_packed else sum(isinstance(each, Packed) for each in self.packed())
        counts = {f"younger than {self.age}": fitting, "left out by --include and --exclude": named, "packed": packed}
        return ", ".join(
            f"{number:,} {'is' if number == 1 else 'are'} {why}" for why, number in counts.items() if number
        )

    def packed(self, taken: Callable[[Packed], object] = lambda _: None) -> Iterator[Packed | SessionCompressError]:
        """Find the chosen packed sessions; see selected()."""
        from sessioncompress.operations.packed import selected

        return selected(self.paths, self.selection, taken, self.places)

    @property
    def selection(self) -> Selection:
        """The selection that the options describe."""
        from sessioncompress.operations.sessions import Selection

        return Selection(self.agent, self.project, self.older_than, Globs(self.include, self.exclude))


def _is_one(chosen: Chosen) -> bool:
    if chosen.urls:
        return len(chosen.urls) == 1 and chosen.urls[0].endswith((".jsonl", ".json"))
    return len(chosen.paths) == 1 and not any(each(chosen.paths[0]) for each in (is_folder, is_archive, is_database))


def _is_packed(path: Path) -> bool:
    """True if a path is an archive, or if its session is packed. Commands that read packs find it there."""
    if os.path.lexists(path):
        return is_archive(path)
    from sessioncompress.operations.packed import packed_at

    return packed_at(path) is not None


def _or_told(found: Iterable[Found], chosen: Chosen, search: Search) -> Iterator[Found]:
    """Yield the sessions. If there are none, explain on stderr where they were searched and what was left out."""
    for link in table.links(table.named_roots(chosen.agent), own=False) if chosen.by_options else ():
        options.warn(f"{with_tilde(str(link))} is skipped: the link or its folder is not yours")
    is_none = True
    for each in found:
        is_none = False
        yield each
    if not is_none or (chosen.reads_packed and next(chosen.packed(), None)):
        return
    said = chosen.left_out(search)
    if chosen.project and not said:
        from sessioncompress.operations.packed import projects_instead

        if projects := projects_instead(chosen.selection):
            there = listed(projects, _MOST_PROJECTS)
            options.warn(f"no sessions in the project {chosen.project}; there are sessions in {there}")
            return
    which = f"{chosen.agent} sessions" if chosen.agent else "sessions"
    which += f" in the project {chosen.project}" if chosen.project else ""
    roots = chosen.paths or [root for root in table.agent_roots(chosen.agent) if chosen.agent or os.path.lexists(root)]
    if roots or not chosen.agent:
        where = listed([with_tilde(str(root)) for root in roots], _MOST_PROJECTS)
        where = where or "the agents' folders, none of which exists"
        options.warn(f"no matching {which} under {where}{said and f'; {said}'}")


def chosen(values: dict[str, Any], *, packed: bool, or_all: bool) -> Chosen:
    """Take the options that choose sessions out of `values` and return them. Raises click.UsageError."""
    made = Chosen(**{name: values.pop(name) for name in Chosen._fields if name in values})
    made = made._replace(reads_packed=packed)
    remote: tuple[Any, ...] = tuple(path for path in made.paths if isinstance(path, str))
    if remote and len(remote) < len(made.paths):
        raise click.UsageError("local paths and URLs of object stores can't be combined; use one run for each")
    if remote:
        from sessioncompress.operations.cloud import RemoteSessions

        made = made._replace(paths=(), places=RemoteSessions(remote))
    made = made._replace(is_one=_is_one(made))
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
    from sessioncompress.operations import cluster

    # Workers have their own working folders.
    paths = tuple(path.absolute() for path in made.paths)
    return made._replace(paths=paths, jobs=None, engine=cluster.engine(scheduler, made.jobs))
