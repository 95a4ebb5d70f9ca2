"""The frame of the commands over sessions: choose, ask, work, print and exit. Each command adds its own parts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast

import click
from msgspec.structs import replace

from sessioncompress.cli import choosing, options, output
from sessioncompress.cli.tables import echo_wrapped
from sessioncompress.core import process
from sessioncompress.core.text import MADE_ELSEWHERE, counted, listed, printable, reasons_lines, utf8
from sessioncompress.errors import InUse, SessionCompressError, UsageError
from sessioncompress.operations import batch
from sessioncompress.pipeline.discover import Found, compressed, names_rows
from sessioncompress.pipeline.stats import to_json
from sessioncompress.store.layout import holds, rows_of, store_at

if TYPE_CHECKING:
    from msgspec import Struct

    from sessioncompress.operations.database import DatabaseStats
    from sessioncompress.operations.sessions import Session
    from sessioncompress.policy.model import Policy
    from sessioncompress.store.packing import Packed

S = TypeVar("S", bound="Struct")
T = TypeVar("T")
Option = Callable[[Any], Any]


class Job(NamedTuple):
    """One session as passed to a command's work, in this process, another process, or a cluster worker.

    `path` is the file to read: the session, or a temporary copy if it is packed or in a bucket.
    """

    found: Found
    path: Path
    policy: Policy
    dry_run: bool
    packed: bool = False


class Done(NamedTuple, Generic[S]):
    """Results of a run. `files` is what --json lists: the results, and an entry for each session that failed."""

    results: list[S]
    files: list[Any]
    others: dict[str, int]
    exit_code: int

    def __add__(self, other: Done[S]) -> Done[S]:  # type: ignore[override]
        others = {word: self.others.get(word, 0) + other.others.get(word, 0) for word in self.others | other.others}
        code = batch.worst((self.exit_code, other.exit_code))
        return Done(self.results + other.results, self.files + other.files, others, code)


class Words(NamedTuple):
    """Text for one session: the `whole` line, a `short` one if there are many sessions, and warnings.

    `left` is the status and reason of an unchanged session. If there are many, these are only counted.
    """

    whole: str
    short: str = ""
    left: tuple[str, str] | None = None
    warnings: Sequence[str] = ()


class SessionCommand(Generic[S]):
    """A command over sessions. A subclass sets its options, does its `work` on one session, and words the results.

    Its docstring is the help text. `work` is a static method, so that other processes can find it by name.
    """

    changes: ClassVar = False
    """True if it changes sessions or stores."""
    compresses: ClassVar = False
    stores: ClassVar = False
    """True if it reads stores, also of missing sessions and under any name. With `gone_too`, missing is no error."""
    gone_too: ClassVar = False
    adds: ClassVar = False
    """True if it adds lines to sessions."""
    urls: ClassVar = False
    rows: ClassVar = True
    """True if it accepts sessions in databases."""
    packed: ClassVar = False
    asks: ClassVar = ""
    """The verb of the question before all sessions are changed; empty to never ask."""
    first: ClassVar[Sequence[Option]] = ()
    choice: ClassVar[Sequence[Option]] = ()
    """Replaces PATHS and the options for choosing sessions."""
    flags: ClassVar[Sequence[Option]] = (options.JOBS, options.JSON, options.QUIET, options.VERBOSE)
    takes: ClassVar[Sequence[Option]] = ()
    hands: ClassVar[Sequence[str]] = ("form",)
    """Options passed to `work`. Options in `keeps` are only in `given`; all others override the policy."""
    keeps: ClassVar[Sequence[str]] = ()
    all_with: ClassVar[Sequence[str] | None] = ()
    """Options that imply all sessions if the user chose none. None: no choice always means all."""
    parallel: ClassVar = True
    notes: ClassVar[Callable[[choosing.Chosen], object]] = staticmethod(lambda _: None)
    """Reports, before the total, sessions that only their agents can read."""

    # Overridden by commands as needed.

    work: ClassVar[Callable[..., Any]]
    """Does the work on one session: a static method that takes a Job and the options in `hands`."""

    def refuse(self) -> None:
        """Raise click.UsageError if options conflict."""

    def found(self) -> Iterable[Found]:
        if not self.stores:
            return self.chosen.sessions()
        chosen, policies, context = self.chosen, self.policies, click.get_current_context()
        for path in () if self.gone_too else chosen.paths:
            if not (os.path.exists(path) or names_rows(path) or holds(store_at(path, policies.of(path)))):  # noqa: PTH110 - raises nothing
                kind = options.PathKind(takes_packed=self.packed, exists=True)
                kind.convert(path, next(each for each in context.command.params if each.name == "paths"), context)
        return chosen.sessions(lambda paths, globs: compressed(paths, policies.of, globs, gone_too=self.gone_too))

    def governed(self, found: Iterable[Found]) -> list[Found]:
        """List the sessions. An invalid policy becomes the error of the sessions it governs, printed once for all."""
        governed: list[Found] = []
        wrong: dict[str, list[str]] = {}
        for each in found:
            governed.append(each)
            try:
                if each.error is None and (policy := options.policy_of(each, self.policies)) and not each.remote:
                    options.tell_of_two_stores(each.path, policy)
            except UsageError as error:
                error.state = "No session that it governs was changed."
                wrong.setdefault(str(error), []).append(each.shown)
                governed[-1] = replace(each, error=error)
        for text, paths in wrong.items():
            echo_wrapped(printable(f"failed: {text} It governs {listed(paths, 3)}."), err=True)
            self.told.add(f"failed: {text}")
        return governed

    def agreed(self, found: Sequence[Found]) -> bool:
        """Ask before all sessions are changed."""
        if not (self.asks and self.chosen.asks):
            return True
        from sessioncompress.store.lock import is_busy

        def frees(session: Session) -> int | None:
            quiet_seconds = options.policy_of(session, self.policies).quiet_seconds
            return None if is_busy(session.path, quiet_seconds) else self.frees(session)

        return output.goes_on(self.asks, found, frees, self.tell_of_seen, self.undo(found))

    def frees(self, session: Session) -> int | None:
        """Estimate the bytes freed in a session for the question: 0 if unknown, None if the session stays unchanged."""
        return 0

    def undo(self, found: Sequence[Found]) -> str:
        """Word the end of the question: if this can be undone, and what the user loses until then."""
        return "You can undo this."

    def tell_of_seen(self, paths: Iterable[str | Path]) -> None:
        """Name the originals that git sees against the policy, because an earlier run was told to show them."""
        from sessioncompress.store.folder import may_move

        seen: list[str] = []
        for path in map(Path, () if self.chosen.urls or self.chosen.quiet else paths):
            # The run itself reports what it can't read.
            with suppress(SessionCompressError):
                policy = self.policies.of(path)
                store = store_at(path, policy)
                hides = self.compresses and policy.keep_backup and not policy.commit_originals
                # Those of a store for `history` may all be in commits.
                is_there = os.path.exists(store.originals)  # noqa: PTH110 - raises nothing
                is_seen = is_there and not (store.is_hidden or may_move(store))
                seen += [str(store.originals)] if hides and is_seen else []
        if seen:
            number = counted(len(seen), "session", "sessions")
            said = f"git sees the originals of {number}, as an earlier run was told: {listed(seen, 3)}"
            echo_wrapped(printable(said), err=True)

    def over(self, found: Iterable[Found]) -> Done[S]:
        """Work on all sessions. Override this for another order or several rounds."""
        return self.each(found) + self.each_packed() if self.packed else self.each(found)

    def handed_to(self, found: Found) -> dict[str, Any]:
        """Return the keyword arguments of `work`: the options, and what the command adds."""
        return self.handed

    def at_once(self, found: Found, policy: Policy) -> S | None:
        """Return the result of a session that needs no work, or None."""
        return None

    def failure(self, path: str, status: str, reason: str, code: int) -> S | dict[str, Any]:
        """Return the --json entry of a session that failed or was skipped: at least path, status and reason."""
        return {"path": utf8(path), "status": status, "reason": reason}

    def words(self, stats: S) -> Words | None:
        """Word one result; it is printed immediately."""
        return None

    def file(self, stats: S) -> dict[str, Any]:
        """Return the --json entry of a session."""
        return to_json(stats)

    def document(self, done: Done[S]) -> dict[str, Any]:
        """Return the --json document without its schema."""
        head = {"dryRun": self.chosen.rehearses} if self.changes else {}
        return head | {"files": [each if isinstance(each, dict) else self.file(each) for each in done.files]}

    def hints(self, done: Done[S]) -> None:
        """Print after the total what the user can do next, and warn about stores made elsewhere."""
        number = sum(getattr(each, "made_elsewhere", False) for each in done.results)
        if number and not self.chosen.as_json:
            made = f"{counted(number, 'store was', 'stores were')} {MADE_ELSEWHERE}"
            echo_wrapped(f"{made}: what is in there is only as good as whoever wrote it", err=True)

    def total(self, done: Done[S]) -> Iterable[str]:
        """Return the final lines of a run."""
        return ()

    def codes(self, done: Done[S]) -> Iterable[int]:
        """Return the exit codes for the results."""
        return ()

    # Implemented by the frame.

    def __init__(
        self, chosen: choosing.Chosen, config: Path | None, preset: str | None, values: dict[str, Any]
    ) -> None:
        self.chosen = chosen
        self.handed = {name: values.pop(name) for name in self.hands if name in values}
        self.given = SimpleNamespace(**self.handed, **{name: values.pop(name) for name in self.keeps})
        self.overrides = values
        by_options = chosen.by_options and bool(self.asks)
        self.preset = preset
        self.where = (chosen.paths, values.get("backup_dir"), config)
        """The sessions, store folder and policy file that the user named. The policy may also set the folder."""
        how = {"compresses": self.compresses, "near": not self.stores, "by_options": by_options}
        self.policies = options.policies_of(config, preset, **how, **values)
        self.silent = chosen.quiet or chosen.as_json
        self._left: list[tuple[str, str]] = []
        self._warnings: list[str] = []
        self.told = set[str]()
        """Errors that were already printed."""
        self.rows_in: dict[Path, list[Found]] = {}
        """The sessions in databases that are worked on, by database."""
        self.databases: list[DatabaseStats] = []
        self.taken: list[Packed] = []
        """Packed sessions whose original paths are now taken by files."""

    def run(self) -> None:
        """Run the command and exit."""
        self.refuse()
        # Errors in options or in the user's own policy affect every session, so raise them first.
        _ = self.policies.apart
        found = self.governed(self.found())
        if not self.agreed(found):
            return
        done = self.over(found)
        done = self.on_databases(done)
        # Printed here, so that warnings don't break up the sessions' lines.
        for warning in self._warnings:
            echo_wrapped(warning, err=True)
        if self.changes and not self.chosen.rehearses:
            from sessioncompress.store.recover import sweep

            folders = {each.path.parent for each in found if each.error is None and each.remote is None}
            for folder in folders.union(map(rows_of, self.rows_in)):
                sweep(folder)
        type(self).notes(self.chosen)
        if self.chosen.as_json:
            head: dict[str, Any] = {"schema": f"sessioncompress.{type(self).__name__.lower()}/1"}
            if self.databases:
                head["databases"] = [to_json(each) for each in self.databases]
            output.echo_json(head | self.document(done))
        else:
            self.end(done)
        self.hints(done)
        sys.exit(batch.worst({done.exit_code, *self.codes(done)}))

    def each(self, found: Iterable[Found]) -> Done[S]:
        """Work on sessions with the chosen engine. A session in a bucket is worked on as a copy."""
        chosen, writes = self.chosen, self.changes and not self.chosen.rehearses

        def prepare(one: Found) -> S | Callable[[], S]:
            policy = options.policy_of(one, self.policies)
            if one.remote is not None and one.remote.is_row:
                self.rows_in.setdefault(one.path.parent, []).append(one)
            if self.compresses and writes and policy.commit_originals:
                options.show_originals(one.path, policy)
            if (result := self.at_once(one, policy)) is not None:
                return result
            job = Job(one, one.path, policy, chosen.rehearses)
            work = partial(self.work, **self.handed_to(one))
            if one.remote is None:
                return partial(work, job)
            from sessioncompress.operations import cloud, database

            keeps = self.compresses and policy.keep_backup
            in_rows = partial(database.work_on, keeps=keeps, gone_too=self.gone_too, adds=self.adds)
            at_work = in_rows if one.remote.is_row else cloud.work_on
            return partial(at_work, one.remote, partial(_on_copy, work, job), writes=writes)

        jobs = chosen.jobs if self.parallel else 1
        run = batch.Archive(found, prepare, jobs, chosen.engine, quiet=chosen.quiet)
        done = self.collected(run)
        if run.left is None:
            return done
        left = counted(run.left, "file", "files")
        click.echo(f"Interrupted. {left} left. Run the command again to continue.", err=True)
        return done._replace(exit_code=process.EXIT_CODE)

    moved: ClassVar = "moved"
    """Past participle for moved events in the output."""

    def on_database(self, path: Path, rows: Sequence[Found]) -> DatabaseStats | None:
        """Finish the work on a database; `rows` are its sessions that didn't fail.

        Return None if nothing is left to do.
        """
        return None

    def on_databases(self, done: Done[S]) -> Done[S]:
        """Finish the work on the databases whose sessions were worked on."""
        paths = (each["path"] if isinstance(each, dict) else each.path for each in done.files)
        failed = {*paths} - {getattr(each, "path", "") for each in done.results}
        codes = [done.exit_code]
        for path, rows in self.rows_in.items():
            try:
                stats = self.on_database(path, [each for each in rows if each.shown not in failed])
                self.databases += [stats] if stats is not None else []
            except SessionCompressError as error:
                output.tell_error(str(path), error, self.told)
                codes.append(error.exit_code)
        return done._replace(exit_code=batch.worst(codes))

    def each_packed(self) -> Done[S]:
        return self.collected(self.on_packed(partial(self.work, **self.handed)))

    def on_packed(self, work: Callable[[Job], T], *, stores: bool = False) -> Iterator[batch.Outcome[T]]:
        """Work on copies of the chosen packed sessions, or only of those that have `stores`."""
        from sessioncompress.operations.packed import each_packed

        chosen = self.chosen

        def on_copy(each: Packed, copy: Path) -> T:
            # A copy's store is next to it, whatever the policy sets.
            policy = replace(self.policies.apart if chosen.urls else self.policies.of(each.place), backup_dir=None)
            result: Any = work(Job(Found(copy, named=True), copy, policy, dry_run=True, packed=True))
            if getattr(result, "made_elsewhere", True) or each.pack.is_certain:
                return cast("T", result)
            return cast("T", replace(result, made_elsewhere=True))

        among = chosen.packed(self.taken.append)
        if stores:
            among = (each for each in among if isinstance(each, SessionCompressError) or len(each.entry.members) > 1)
        return each_packed(among, on_copy)

    def collected(self, outcomes: Iterable[batch.Outcome[S]]) -> Done[S]:
        """Collect the results, with paths as the user typed them, and print each as it arrives."""
        done: Done[S] = Done([], [], dict.fromkeys(("failed", "refused", batch.PASSED_OVER), 0), 0)
        codes = set()
        for outcome in outcomes:
            path, result, error = outcome.found.shown, outcome.result, outcome.error
            # Options chose this session, so it is no error if an agent is working in it.
            if isinstance(error, InUse) and self.chosen.by_options and self.compresses:
                result = cast("S", self.failure(path, "skipped", error.what, 0))
            if result is not None:
                result = replace(result, path=path)
                done.results.append(result)
                done.files.append(result)
                self.say(result)
            elif outcome.passed_over:
                done.others[batch.PASSED_OVER] += 1
            elif error is not None:
                codes.add(error.exit_code)
                status = output.tell_error(path, error, self.told)
                done.others[status] += 1
                done.files.append(self.failure(path, status, str(error), error.exit_code))
        return done._replace(exit_code=batch.worst(codes))

    def say(self, stats: S) -> None:
        """Print one result. For many sessions without --verbose, print only news."""
        if (words := self.words(stats)) is None:
            return
        if not self.silent:
            if self.chosen.is_one or self.chosen.verbose:
                echo_wrapped(words.whole)
            elif words.left is None and words.short:
                # This line already has the terminal's width.
                click.echo(words.short)
            elif words.left is None:
                echo_wrapped(words.whole)
            elif words.left[0]:
                self._left.append(words.left)
        self._warnings += words.warnings

    def end(self, done: Done[S]) -> None:
        """Print the unchanged sessions by reason, and the total, unless the user named one session."""
        for each in () if self.silent else self.databases:
            output.echo_database(each, "would move" if self.chosen.rehearses else self.moved)
        if not (self.silent or self.chosen.is_one):
            # The work is done, and the exit code reports the result.
            with suppress(BrokenPipeError):
                for text in (*map(printable, reasons_lines(self._left)), *self.total(done)):
                    echo_wrapped(text)

    @cached_property
    def still_packed(self) -> list[Packed | SessionCompressError]:
        """The packed sessions that were chosen, and the errors of packs. Use it only after the work."""
        return [] if self.chosen.urls else list(self.chosen.packed())

    def tell_of_packed(self, among: Collection[str] | None = None) -> None:
        """Report how many chosen sessions (with `among`, only these paths) are packed, and how to unpack them."""
        chosen = self.chosen
        if self.silent or (among is None and (chosen.urls or chosen.is_one)):
            return
        readable = (each for each in self.still_packed if not isinstance(each, SessionCompressError))
        packed = [each for each in readable if among is None or each.shown in among]
        if archives := [str(each.pack.archive) for each in packed] or list(among or ()):
            number = counted(len(archives), "session is still packed", "sessions are still packed")
            if foreign := sum(not each.pack.is_certain for each in packed):
                number += f" ({foreign:,} of them in packs that others made, or an earlier version)"
            echo_wrapped(f"{number}. To bring back:", err=True)
            output.tell_of_unpack("  ", archives, len(archives))

    @classmethod
    def command(cls, example: str) -> click.Command:
        """Build the click command."""

        def called(**values: Any) -> None:
            or_all = cls.all_with is None or any(values[name] not in (None, False) for name in cls.all_with)
            chosen = choosing.chosen(values, packed=cls.packed, or_all=or_all)
            cls(chosen, values.pop("config", None), values.pop("preset", None), values).run()

        takes = (cls.urls, cls.packed, cls.rows)
        kind = options.PathKind(*takes, path_type=Path, exists=not cls.stores, readable=cls.stores)
        paths = click.argument("paths", nargs=-1, type=kind)
        choice = cls.choice or (paths, options.ALL, options.AGENT, options.PROJECT, options.OLDER_THAN)
        globs = () if cls.choice else (options.INCLUDE, options.EXCLUDE, options.COLOR)
        more = options.ENGINE if options.JOBS in cls.flags else ()
        shape = options.Command if cls.changes else options.ReadOnly
        made = click.command(
            cls.__name__.lower(),
            cls=shape,
            help=cls.__doc__,
            epilog=f"Example: sessioncompress {example}",
        )
        return made(options.all_of(*cls.first, *choice, *cls.flags, *globs, *cls.takes, *more)(called))


def _on_copy(work: Callable[[Job], S], job: Job, path: Path) -> S:
    return work(job._replace(path=path))
