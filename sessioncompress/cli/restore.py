"""`restore` and `history`: restore sessions' original bytes, list runs, or undo one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.cli import options, output
from sessioncompress.cli.choosing import MOST_TYPED, Chosen, typed
from sessioncompress.cli.frame import Done, Job, SessionCommand, Words
from sessioncompress.cli.tables import Column, cut, echo_table, echo_wrapped, file_line, is_seen, is_wide, with_tilde
from sessioncompress.core import process
from sessioncompress.core.text import age, counted, kb, printable, quote, restoring, said_time
from sessioncompress.errors import NONE_CHANGED, Damaged, Refused, SessionCompressError, UsageError
from sessioncompress.operations.history import RunState, RunStats, SessionRun, runs_of, session_runs, together
from sessioncompress.operations.history import history as histories
from sessioncompress.operations.sessions import title_of
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.reading import refuse_unless_session
from sessioncompress.pipeline.stats import Status, to_json
from sessioncompress.policy.model import Policy
from sessioncompress.policy.sources import Policies
from sessioncompress.store import git
from sessioncompress.store.layout import backups_of, real_place
from sessioncompress.store.lock import open_session

if TYPE_CHECKING:
    from sessioncompress.operations.database import DatabaseStats
    from sessioncompress.operations.restore import RestoreStats


class Restore(SessionCommand["RestoreStats"]):
    """Give sessions their original bytes back. What was appended since stays."""

    changes = stores = urls = True
    first = (
        click.option("--last", is_flag=True, help="Undo the newest run; without PATHS, only in the agents' folders."),
        click.option("--run", metavar="ID", help="Undo this run; 'history' lists them."),
    )
    flags = (options.JOBS, options.DRY_RUN, options.YES, options.JSON, options.QUIET, options.VERBOSE)
    takes = (
        click.option("--from-markers", is_flag=True, help="Put originals back wherever there is one of our markers."),
        click.option("--keep-checkpoints", is_flag=True, help="Keep the summaries that compact wrote."),
        click.option(
            "--originals",
            type=options.PathKind(takes_rows=True, path_type=Path),
            help="With --from-markers: use the originals of this session.",
        ),
        *(options.CONFIG, options.THEIR_FOLDER, options.FORMAT),
    )
    hands = ("from_markers", "keep_checkpoints", "originals", "form")
    keeps = all_with = ("last", "run")
    notes = output.tell_of_rollouts
    moved = "moved back"

    @staticmethod
    def work(job: Job, run: str, **how: Any) -> RestoreStats:
        from sessioncompress.operations.restore import restore_session, undo_run

        if run:
            return undo_run(job.path, job.policy, run=run, dry_run=job.dry_run, form=how["form"])
        return restore_session(job.path, job.policy, dry_run=job.dry_run, **how)

    def on_database(self, path: Path, rows: Sequence[Found]) -> DatabaseStats | None:
        from sessioncompress.operations.database import put_events

        if self.given.last or self.given.run:
            # Events are restored with the oldest run.
            policy = self.policies.of(path)
            rows = [each for each in rows if all(run.state is RunState.RESTORED for run in runs_of(each, policy))]
        return put_events(path, rows, dry_run=self.chosen.rehearses)

    def refuse(self) -> None:
        given = self.given
        if given.from_markers and given.keep_checkpoints:
            raise click.UsageError("--from-markers always keeps summaries; leave out --keep-checkpoints")
        if given.originals and not given.from_markers:
            raise click.UsageError("--originals needs --from-markers")
        if given.run == "":
            # A script's variable may be empty, which must not restore everything.
            raise click.UsageError("--run is empty; 'sessioncompress history' lists the runs")
        if given.last and given.run:
            raise click.UsageError("--last means the newest run; it can't be combined with --run")
        if (given.last or given.run) and (given.from_markers or given.keep_checkpoints):
            raise click.UsageError("--last and --run can't be combined with --from-markers or --keep-checkpoints")
        if given.from_markers and self.chosen.dry_run:
            raise click.UsageError("--from-markers has no --dry-run; try it on a copy of the session and its store")
        if self.chosen.urls and given.originals:
            raise click.UsageError("--originals takes a local session; it can't be used for sessions in object stores")

    def agreed(self, found: Sequence[Found]) -> bool:
        """Ask before all sessions are restored. To undo one run, ask later, when that run is known."""
        if not self.chosen.asks or self.given.last or self.given.run:
            return True
        due = sum(map(self._is_due, found))
        question = f"Restore {counted(due, 'session', 'sessions')}? That takes as much room again as before."
        return not due or output.confirmed(question, None, NONE_CHANGED, err=True)

    def _is_due(self, found: Found) -> bool:
        """Return True if a run is still in effect in a session, or its store can't be read."""
        try:
            return any(
                run.state is not RunState.RESTORED for run in runs_of(found, options.policy_of(found, self.policies))
            )
        except SessionCompressError:
            return True

    def over(self, found: Iterable[Found]) -> Done[RestoreStats]:
        self.refused_as_packed = set[str]()
        if self.given.last or self.given.run:
            return sum(self._taken_back(list(found), self.given.run or ""), Done([], [], {}, 0))
        return self._of_run(found, "")

    def _of_run(self, found: Iterable[Found], run: str) -> Done[RestoreStats]:
        self.handed["run"] = run
        return self.each(found)

    def _known(self, found: Sequence[Found], run: str) -> tuple[list[SessionRun], dict[str, list[Found]]]:
        """List the runs, and map runs to sessions that have them or that the user named; packed ones get errors."""
        by_run: dict[str, list[Found]] = {}
        packed = [each for each in self.on_packed(_packed_runs, stores=True) if each.result]
        runs = [replace(one, path=each.found.shown) for each in packed if each.result for one in each.result.runs]
        for one in runs:
            if one.state is not RunState.RESTORED:
                back = f"'sessioncompress unpack {quote(one.path)}' brings it back."
                error = Refused("it is packed", where=one.path, remedy=back)
                by_run.setdefault(one.run, []).append(Found(Path(one.path), named=True, error=error))
                # The command that unpacks them all is printed once, after the total.
                self.refused_as_packed.add(one.path)
                self.told |= set() if self.silent else {f"{Status.REFUSED}: {error}"}
        for each in found:
            try:
                known = runs_of(each, options.policy_of(each, self.policies))
            except SessionCompressError:
                # If the user named the session, the restore will report the error.
                known = []
            runs += known
            names = dict.fromkeys(one.run for one in known if one.state is not RunState.RESTORED)
            for name in names | ({run: None} if run and each.path in self.chosen.paths else {}):
                by_run.setdefault(name, []).append(each)
        return runs, by_run

    def _taken_back(self, found: Sequence[Found], run: str) -> list[Done[RestoreStats]]:
        """Undo the run with this id, or the newest run that can be undone, and return the results.

        These include the failures of newer runs that could not be undone. A session that failed isn't tried again,
        because an older run must not be undone beneath one that stays. Each file in PATHS is told why the named run
        restores nothing in it: its store may have been deleted.
        """
        runs, by_run = self._known(found, run)
        listed, paths = histories(runs), {each.path for each in runs}
        if run and all(each.run != run for each in listed):
            remedy = "'sessioncompress history' lists the runs over all agents' sessions; with PATHS, over those."
            bare = {str(each.path) for each in found if each.path in self.chosen.paths} - paths
            without = f"; there is no readable store of {', '.join(sorted(bare))}" if bare else ""
            what = f"no session here was changed by a run {run}{without}"
            raise UsageError(what, remedy=remedy)
        tried, is_over = self._tried(listed, by_run, run)
        if not is_over:
            tried += self._none_undone(found, paths, set[str]().union(*map(_failed, tried)))
        # Report sessions with nothing to restore only once.
        return [*(_without_results(done) for done in tried[:-1]), *tried[-1:]]

    def _tried(
        self, listed: Iterable[RunStats], by_run: Mapping[str, Sequence[Found]], run: str
    ) -> tuple[list[Done[RestoreStats]], bool]:
        """Undo runs in order, until one could be, even in part, or the user declines; False if none was left then."""
        tried: list[Done[RestoreStats]] = []
        failed: set[str] = set()
        for one in listed:
            these = [each for each in by_run.get(one.run, []) if each.shown not in failed]
            if one.run != run if run else not these:
                continue
            if not self.silent:
                echo_wrapped(_head(one, "" if run else _looked(self.chosen)), err=True)
            number = sum(each.error is None for each in these)
            # A run that the user named needs an answer only if options chose its sessions.
            if number > 1 and (self.chosen.asks if run else self.chosen.may_ask):
                packed = sum(each.packed for each in one.sessions)
                but = f", not in the {packed:,} packed" if packed else ""
                question = f"Undo this run in {counted(number, 'session', 'sessions')}{but}?"
                if not output.confirmed(question, None, NONE_CHANGED, err=True):
                    return tried, True
            done = self._of_run(these, one.run)
            tried.append(done)
            # If a run could only partly be undone, the user should retry it before any older run.
            is_it = any(each.is_restored or not each.exact for each in done.results)
            if run or done.exit_code == process.EXIT_CODE or is_it or any(each.packed for each in one.sessions):
                return tried, True
            failed.update(_failed(done))
            if _failed(done) and not self.silent:
                click.echo(printable(f"run {one.run}: nothing could be undone"), err=True)
        return tried, False

    def _none_undone(self, found: Sequence[Found], in_runs: set[str], failed: set[str]) -> list[Done[RestoreStats]]:
        """Report that no run is left, and look for markers in sessions that are in none: their store may be deleted."""
        if not self.silent:
            elsewhere = f" {_looked(self.chosen)}" if self.chosen.everything and not failed else ""
            click.echo(f"nothing {'else ' if failed else ''}left to undo{elsewhere}", err=True)
        _tell_of_put_back(in_runs, self.policies)
        listed = in_runs | failed
        unlisted = [each for each in found if each.shown not in listed and each.error is None]
        if not unlisted or self.chosen.by_options:
            return []
        # No run has this id, so this changes nothing, but it reports whether a restore would be possible.
        return [_without_results(self._of_run(unlisted, "none"))]

    def failure(self, path: str, status: str, reason: str, code: int) -> RestoreStats:
        from sessioncompress.operations.restore import RestoreStats

        return RestoreStats(path, Status(status), reason, self.handed["run"], exact=False)

    def words(self, stats: RestoreStats) -> Words:
        if not stats.is_restored:
            whole = printable(f"{stats.path}: unchanged: {stats.reason}")
            return Words(whole, left=("unchanged", stats.reason)) if stats.exact else self._inexact(whole)
        would = stats.status is Status.WOULD_RESTORE
        said = f"{kb(stats.size_before, stats.size_after)} {'would become' if would else '->'} {kb(stats.size_after)}"
        said += f", {_went(stats.lines_restored, stats.checkpoints_removed, ' restored')}"
        whole = printable(f"{stats.path}: {said}{f'; {stats.reason}' if stats.reason else ''}")
        if not stats.exact:
            return self._inexact(whole)
        went = _went(stats.lines_restored, stats.checkpoints_removed)
        title = printable(title_of(Path(stats.path))) if is_seen() else ""
        sizes = kb(stats.size_before, stats.size_after), kb(stats.size_after)
        return Words(whole, file_line(stats.path, *sizes, went, title=title))

    def _inexact(self, whole: str) -> Words:
        # The exit code needs its reason with --quiet, too.
        return Words(whole, warnings=[whole] if self.chosen.quiet else [])

    def total(self, done: Done[RestoreStats]) -> list[str]:
        restored = [each for each in done.results if each.is_restored]
        before, after, number, summaries = (
            sum(getattr(each, name) for each in restored)
            for name in ("size_before", "size_after", "lines_restored", "checkpoints_removed")
        )
        verb = "would be restored" if self.chosen.dry_run else "restored"
        what = f" {verb}: {kb(before, after)} -> {kb(after)}, {_went(number, summaries)}"
        unchanged = {"unchanged": len(done.results) - len(restored)}
        unchanged |= {"not exact": sum(not each.exact for each in done.results)}
        packed = len(self.refused_as_packed & {each.path for each in done.files})
        others = done.others | {"refused": done.others.get("refused", 0) - packed, "still packed": packed}
        return [output.total(len(restored), what, unchanged | others)]

    def hints(self, done: Done[RestoreStats]) -> None:
        """Print how much space stores still take, and which sessions are packed."""
        chosen = self.chosen
        if chosen.as_json:
            return
        restored = [each for each in done.results if each.is_restored]
        super().hints(done)
        if not (chosen.dry_run or chosen.quiet or chosen.urls):
            if number := sum(each.lines_restored > 0 for each in restored):
                again = "it" if number == 1 else "them"
                said = f"The next 'compress' of all sessions or a folder compresses {again} again, unless --exclude or"
                echo_wrapped(f"{said} enabled: false in a policy keeps {again} out.", err=True)
            _tell_of_stores(chosen, restored, self.policies, self.where[1:])
        one_run = self.given.last or self.given.run
        self.tell_of_packed(self.refused_as_packed & {each.path for each in done.files} if one_run else None)

    def codes(self, done: Done[RestoreStats]) -> list[int]:
        are_exact = (*(each.exact for each in done.results), *(not each.reason for each in self.databases))
        codes = [0 if each else Damaged.exit_code for each in are_exact]
        return [*codes, Refused.exit_code] if self._leaves_packed() else codes

    def _leaves_packed(self) -> bool:
        """True if packed sessions with a store were chosen: their originals are still in the pack."""
        chosen = self.chosen
        if chosen.is_one or chosen.urls or chosen.rehearses or self.given.last or self.given.run:
            return False
        return any(
            not isinstance(each, SessionCompressError) and len(each.entry.members) > 1 for each in self.still_packed
        )


restore = Restore.command("restore --last")


def _failed(done: Done[RestoreStats]) -> set[str]:
    return {each.path for each in done.files} - {each.path for each in done.results}


def _without_results(done: Done[RestoreStats]) -> Done[RestoreStats]:
    failed = _failed(done)
    return done._replace(results=[], files=[each for each in done.files if each.path in failed])


def _tell_of_put_back(paths: set[str], policies: Policies) -> None:
    """Report sessions that match the result of a run that was undone since, for example from a backup."""
    from sessioncompress.operations.restore import put_back_since

    for path in sorted(paths):
        with suppress(SessionCompressError):
            if found := put_back_since(Path(path), policies.of(Path(path))):
                way = f"{restoring(backups_of(Path(path), policies.of(Path(path))), quote(path))} restores everything"
                echo_wrapped(printable(f"{path}: {found}; {way}"), err=True)


def _tell_of_stores(chosen: Chosen, restored: list[RestoreStats], policies: Policies, kept: Sequence[Any]) -> None:
    """Print the size of stores whose originals were all restored, and the command that deletes only those."""
    whole: dict[Path, RestoreStats] = {}
    for each in restored:
        path = Path(each.path)
        if not each.exact:
            continue
        with suppress(SessionCompressError):
            if all(run.state is RunState.RESTORED for run in session_runs(path, policies.of(path))):
                whole[path] = each
    places = {real_place(path): path for path in whole}
    for place in git.known(places):
        # `forget --unneeded` keeps these: a commit in git may need them.
        whole.pop(places[place], None)
    if not (size := sum(each.store_size for each in whole.values())):
        return
    paths = list(whole)
    take, it = ("The store still takes", "it") if len(paths) == 1 else ("The stores still take", "them")
    # For many paths use the option instead; it keeps what other sessions there still need.
    arguments = " ".join(typed(paths, *kept)) if len(paths) <= MOST_TYPED else chosen.typed(*kept)
    echo_wrapped(f"{take} {kb(size)}; if you no longer need {it}, delete {it} with:", err=True)
    # On its own line and never wrapped, so that it can be copied.
    click.echo(printable(f"  sessioncompress forget --unneeded {arguments}"), err=True)


def _head(run: RunStats, looked: str) -> str:
    """Describe the run being undone. If the user didn't name it, add its age and where it is the newest."""
    said = f"run {run.run}: {', '.join(run.commands)}, {counted(len(run.sessions), 'session', 'sessions')}"
    if looked:
        ended = said_time(run.at)
        said += f", {age(ended)} ago" if ended is not None else ""
        said += f"; the newest {looked}"
    return printable(said + (", undone already" if run.state is RunState.RESTORED else ""))


def _looked(chosen: Chosen) -> str:
    """Describe where the newest run was searched for. There may be newer runs over sessions elsewhere."""
    if chosen.everything:
        return "in the agents' folders (for sessions elsewhere, name PATHS)"
    return "in the chosen sessions"


def _went(lines: int, summaries: int, verb: str = "") -> str:
    """Format the numbers of restored lines and removed summaries."""
    parts = [counted(lines, "line", "lines") + verb] if lines or not summaries else []
    parts += [f"{counted(summaries, 'summary', 'summaries')} removed"] if summaries else []
    return ", ".join(parts)


_COLUMNS = (
    Column("run"),
    Column("command", may_be_cut=True),
    Column("sessions", is_number=True),
    Column("saved", is_number=True),
    Column("saved on disk", is_number=True),
    Column("state"),
    Column("ended"),
    Column("title", may_be_cut=True, at_end=True, is_below=True),
    Column("session", is_below=True),
)


class _Runs(Struct, frozen=True):
    path: str
    runs: list[SessionRun]


def _packed_runs(job: Job) -> _Runs:
    return _Runs("", [replace(run, packed=True) for run in session_runs(job.path, job.policy)])


class History(SessionCommand[_Runs]):
    """List the runs over sessions, newest first. Without PATHS, only those in the agents' folders.

    'restore --run ID' undoes one.
    """

    stores = urls = packed = True
    flags = (options.JSON, options.VERBOSE)
    takes = (options.CONFIG, options.THEIR_FOLDER)
    hands = ()
    all_with = None

    def at_once(self, found: Found, policy: Policy) -> _Runs:
        runs = runs_of(found, policy)
        if found.named and not runs and found.remote is None:
            with open_session(found.path, writing=False) as session:
                refuse_unless_session(session)
        return _Runs("", runs)

    def over(self, found: Iterable[Found]) -> Done[_Runs]:
        return self.each(found) + self.collected(self.on_packed(_packed_runs, stores=True))

    def document(self, done: Done[_Runs]) -> dict[str, Any]:
        return {"runs": list(map(to_json, _runs(done)))}

    def end(self, done: Done[_Runs]) -> None:
        runs = rows = _runs(done)
        if self.chosen.verbose:
            rows = [together([each]) for run in runs for each in run.sessions]
        if runs:
            # In a narrow terminal, the age is put before the title.
            left_out = ["saved", "ended"] * (is_seen() and not is_wide()) + ["session"] * (not self.chosen.verbose)
            echo_table(_COLUMNS, list(map(_row, rows)), left_out=left_out)
        click.echo(f"total: {counted(len(runs), 'run', 'runs')}")
        left = (each for run in runs for each in run.sessions if each.packed and each.state is not RunState.RESTORED)
        is_some = self.chosen.is_one or self.chosen.urls
        self.tell_of_packed({each.path for each in left} if is_some else None)


history = History.command("history session.jsonl")


def _runs(done: Done[_Runs]) -> list[RunStats]:
    return histories(replace(run, path=each.path) for each in done.results for run in each.runs)


def _row(run: RunStats) -> list[str]:
    did, number = ", ".join(run.commands), f"{len(run.sessions):,}"
    # Undone runs no longer save anything.
    back = [each for each in run.sessions if each.state is RunState.RESTORED]
    saved, net = (sum(getattr(each, name) for each in back) for name in ("saved", "saved_on_disk"))
    sums = ["-", "-"] if run.state is RunState.RESTORED else [kb(run.saved - saved), kb(run.saved_on_disk - net)]
    ended = said_time(run.at)
    # Piped output is read by programs, so print the time.
    ago = f"{age(ended)} ago" if ended is not None and is_seen() else run.at
    paths = [each.path for each in run.sessions]
    # Some of many may be packed and have no title.
    said = next(filter(None, map(title_of, map(Path, paths[:5]))), paths[0].rpartition("/")[2])
    if more := len(paths) - 1:
        said = f"{cut(said, 40, at_end=True)} and {counted(more, 'other session', 'other sessions')}"
    said = f"{ago}: {said}" if is_seen() and not is_wide() else said
    path = with_tilde(paths[0]) if is_seen() else paths[0]
    return list(map(printable, (run.run, did, number, *sums, run.state, ago, said, path)))
