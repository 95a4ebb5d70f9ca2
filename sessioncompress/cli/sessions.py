"""`sessions`, `stats`, `budget` and `verify`: inspect sessions without changing them."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Job, SessionCommand, Words
from sessioncompress.cli.tables import (
    Column,
    echo_table,
    echo_wrapped,
    is_longer_than_the_screen,
    is_seen,
    is_wide,
    titled,
    with_tilde,
)
from sessioncompress.core.model import Kind
from sessioncompress.core.text import age, counted, kb, printable, quote, utf8, written_time
from sessioncompress.operations import sessions as lists
from sessioncompress.operations import wording
from sessioncompress.operations.sessions import ListedSession, SessionStats, Share
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.discover import Found, SessionGone, is_database
from sessioncompress.pipeline.stats import BudgetStats

if TYPE_CHECKING:
    from sessioncompress.operations.database import DatabaseStats
    from sessioncompress.operations.verify import VerifyStats
    from sessioncompress.policy.model import Policy

COLUMNS = (
    Column("agent"),
    Column("project", may_be_cut=True),
    Column("age", is_number=True),
    Column("size", is_number=True),
    Column("could save", is_number=True),
    Column("compressed"),
    Column("session", is_below=True),
    Column("title", may_be_cut=True, at_end=True),
    Column("id", is_below=True),
)
_SORTS: dict[str, tuple[str, Callable[[ListedSession], tuple[object, ...]]]] = {
    "saves": ("with the most to save", lambda each: (-each.estimate, -each.size)),
    "size": ("that is largest", lambda each: (-each.size,)),
    "age": ("unchanged for longest", lambda each: (each.modified,)),
    "newest": ("changed last", lambda each: (-each.modified,)),
    "project": ("of the first project", lambda each: (each.project, -each.estimate)),
}
"""Sort orders by name: a description of the first session, and the key."""
_SHORT = 8
"""Least characters of a short id."""


def row(session: ListedSession) -> list[str]:
    """Format one session as a row, with `~` before an estimate."""
    about = "~" if session.could_save is None else ""
    return [
        session.agent,
        printable(lists.printed(session.project)),
        age(session.modified),
        kb(session.size),
        f"{about}{kb(session.estimate)}" if session.estimate else "-",
        "packed" if session.packed else "yes" if session.compressed else "-",
        printable(session.path),
        printable(session.title or session.path.rpartition("/")[2]),
        printable(session.id),
    ]


def echo_list(listed: Sequence[ListedSession], sort: str = "saves", *, verbose: bool = False) -> None:
    """Print the table of sessions. In a terminal show only what fits, with paths and ids if `verbose`."""
    first, order = _SORTS[sort]
    rows = sorted(listed, key=order)
    cells = [row(each) for each in rows]
    left_out = set() if verbose else {"id"}
    if is_seen():
        left_out |= {"compressed"} | (set() if verbose else {"session"}) | (set() if is_wide() else {"project"})
        folders = [lists.folder_of(each.project) for each in rows]
        # There is no room for a separate column.
        has_several = len({*folders} - {""}) > 1 and not is_wide()
        for folder, cell in zip(folders, cells, strict=True):
            cell[7] = titled(cell[7], folder if has_several else "")
            # For a session that was compressed or packed, show that instead of an expected saving.
            done = {"packed": "packed", "yes": "compressed"}.get(cell[5])
            cell[1], cell[6], cell[4] = with_tilde(cell[1]), with_tilde(cell[6]), (cell[4] == "-" and done) or cell[4]
        if not verbose:
            _tell_apart(cells, (0, 1, 2, 7) if is_wide() else (0, 2, 7))
    below = sum(column.is_below and column.name not in left_out for column in COLUMNS)
    if is_upside_down := is_seen() and is_longer_than_the_screen(cells, below):
        # Otherwise the first session would scroll off the screen.
        cells.reverse()
    echo_table(COLUMNS, cells, left_out=left_out)
    if is_upside_down:
        click.echo(f"the session {first} is at the bottom", err=True)
    if is_seen() and any(cell[4] == "-" for cell in cells) and any(each.could_save is None for each in listed):
        click.echo("-: nothing is due, or little to save; --savings counts exactly", err=True)
    if is_seen() and rows and not verbose:
        click.echo("-v: with paths and ids", err=True)
    if is_seen() and rows and rows[0].estimate:
        # Never wrapped, so that it can be copied. The shell expands `~` only outside quotes.
        path = with_tilde(rows[0].path)
        word = f"~/{quote(path[2:])}" if path.startswith("~/") else quote(path)
        click.echo(f"to compress only the session {first}:\n  sessioncompress compress {word}", err=True)


def _tell_apart(cells: Iterable[list[str]], shown: Sequence[int]) -> None:
    """Put the start of the id before the titles of rows that are equal in the `shown` columns."""
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for cell in cells:
        alike.setdefault(tuple(cell[at] for at in shown), []).append(cell)
    for same in alike.values():
        ids = {cell[8] for cell in same}
        digits = next(
            (size for size in range(_SHORT, 5 * _SHORT) if len({each[:size] for each in ids}) == len(ids)), None
        )
        for cell in same if len(ids) > 1 else ():
            # First, because the end of a title is cut.
            cell[7] = f"{cell[8][:digits]} {cell[7]}"


def total(listed: Sequence[ListedSession], due: Sequence[ListedSession] | None = None) -> str:
    """Format the total over all sessions, and what a run over the `due` ones (by default all) could save."""
    here = [each for each in listed if not each.packed]
    head = f"total: {counted(len(here), 'session', 'sessions')}"
    if not listed:
        return head
    size, now = sum(each.size for each in here), sum(each.packed_size for each in listed)
    about = "~" if any(each.could_save is None for each in listed) else ""
    saves = _saves(here if due is None else due) if about else sum(each.estimate for each in here)
    could = f"; a run could save {about}{kb(saves, size)}, stores included" if saves or not about else ""
    agents = counted(len({each.agent for each in here}), "agent", "agents")
    done, packed = sum(each.compressed for each in here), len(listed) - len(here)
    beside = f"; {packed:,} more packed into {kb(now)}" if packed else ""
    return f"{head} of {agents}, {kb(size)}; {done:,} compressed already{could}{beside}"


def _saves(listed: Sequence[ListedSession]) -> int:
    return triage.promised(sum(each.estimate for each in listed), sum(each.size for each in listed))


class Sessions(SessionCommand[ListedSession]):
    """List sessions and what could be saved; change nothing."""

    choice = (options.AGENT, options.PROJECT, options.OLDER_THAN)
    flags = (
        click.option(
            "--sort",
            type=click.Choice(list(_SORTS)),
            default="saves",
            help="What to list first; by default what could save most.",
        ),
        click.option("--savings", is_flag=True, help="Count exactly what a run would save, which takes longer."),
        options.JSON,
        options.VERBOSE,
        options.COLOR,
    )
    packed = True
    hands = ()
    all_with = None
    keeps = ("sort", "savings")
    notes = output.tell_of_others

    @staticmethod
    def work(job: Job) -> ListedSession:
        assert isinstance(job.found, lists.Session)
        return lists.listed(replace(job.found, path=job.path), job.policy, counts=True)

    def at_once(self, found: Found, policy: Policy) -> ListedSession | None:
        assert isinstance(found, lists.Session)
        return None if self.given.savings else lists.listed(found, policy, counts=False)

    def on_database(self, path: Path, rows: Sequence[Found]) -> DatabaseStats | None:
        from sessioncompress.operations.database import measured

        return measured(path, rows)

    def refuse(self) -> None:
        if others := click.get_current_context().args:
            # If this is a title or an id, the error lists its paths.
            options.EXISTING_OR_PACKED.convert(others[0], click.Argument(["title"]), click.get_current_context())
            what = "sessions lists those in the agents' folders, and takes no PATHS; for others"
            raise click.UsageError(f"{what}: sessioncompress stats {quote(others[0])}")

    def over(self, found: Iterable[Found]) -> Done[ListedSession]:
        from sessioncompress.operations.packed import listed_packed

        done = self.each(found) + self.collected(listed_packed(self.chosen.selection))
        here = ((each.agent, each.path, each.modified) for each in done.results if not each.packed)
        self.swept = lists.swept(here, self.chosen.project)
        return done

    def file(self, stats: ListedSession) -> dict[str, Any]:
        return super().file(stats) | {"modified": written_time(stats.modified)}

    def document(self, done: Done[ListedSession]) -> dict[str, Any]:
        listed = done.results
        totals = {
            "sessions": sum(not each.packed for each in listed),
            "size": sum(each.size for each in listed if not each.packed),
            "compressed": sum(each.compressed for each in listed if not each.packed),
            "couldSave": sum(each.could_save or 0 for each in listed) if self.given.savings else None,
            "couldSaveEstimate": sum(each.estimate for each in listed),
            "packed": sum(each.packed for each in listed),
            "packedSize": sum(each.packed_size for each in listed),
            "deletedSoon": self.swept.sessions,
        }
        return {"sessions": super().document(done)["files"], "totals": totals}

    def hints(self, done: Done[ListedSession]) -> None:
        super().hints(done)
        if not self.silent:
            self.tell_of_sweeps()
            output.tell_of_databases(self.databases)

    def tell_of_sweeps(self) -> None:
        """Report once which sessions agents will delete soon."""
        output.tell_of_sweeps(self.swept)
        self.swept = self.swept._replace(sessions=0)

    def end(self, done: Done[ListedSession]) -> None:
        echo_list(done.results, self.given.sort, verbose=self.chosen.verbose)
        echo_wrapped(output.with_others(total(done.results), done.others))


sessions = Sessions.command("sessions --project .")
# Accept paths, so that refuse() can name the command that takes them.
sessions.allow_extra_args = True


class Overview(Sessions):
    """Show how many sessions are here, and what to do next."""

    def end(self, done: Done[ListedSession]) -> None:
        if not done.results:
            click.echo(click.get_current_context().find_root().get_help())
            return
        is_swept = self.swept.sessions > 0
        day_ago, here = time.time() - options.AGE["d"], [each for each in done.results if not each.packed]
        old, young = ([each for each in here if (each.modified < day_ago) is of] for of in (True, False))
        head = total(done.results, old).removeprefix("total: ")
        echo_wrapped(output.with_others(head, done.others))
        if later := _saves(young):
            echo_wrapped(f"Sessions younger than a day could save ~{kb(later)} later.")
        # Suggest packing first: archives of compressed sessions are larger.
        self.tell_of_sweeps()
        if saves := _saves(old):
            ready = (each for each in old if each.estimate and each.modified < day_ago - 20 * options.AGE["d"])
            if not is_swept and any(lists.is_packable(each.path, each.agent) for each in ready):
                click.echo("Done with those unchanged for 21 days? Pack them first, typically into 10 to 20 %:")
                click.echo("  sessioncompress pack --all --older-than 21d")
            click.echo(f"To save ~{kb(saves)} in sessions unchanged for a day (asks first, can be undone):")
            click.echo("  sessioncompress compress --all --older-than 1d")
        else:
            click.echo("To list them:\n  sessioncompress sessions")


overview = Overview.command("sessions")


class Stats(SessionCommand[SessionStats]):
    """Show where the bytes are, and what would be saved. Change nothing."""

    urls = packed = True
    flags = (options.JOBS, options.JSON, options.VERBOSE)
    takes = (options.CONFIG, options.PRESET, options.BACKUP_DIR, options.FORMAT)
    notes = output.tell_of_others

    @staticmethod
    def work(job: Job, form: str | None) -> SessionStats:
        return lists.inspect_session(job.path, job.policy, form=form)

    def over(self, found: Iterable[Found]) -> Done[SessionStats]:
        here = self.each(found)
        self.reached = here.results
        return here + self.each_packed()

    def document(self, done: Done[SessionStats]) -> dict[str, Any]:
        made = wording.sessions_document(done.results, self.reached)
        return made | {"files": made["files"] + [each for each in done.files if isinstance(each, dict)]}

    def end(self, done: Done[SessionStats]) -> None:
        for each in done.results if self.chosen.verbose or self.chosen.is_one else ():
            _echo(wording.inspected(each), [("", share) for share in each.shares], each.other_bytes)
            if not self.chosen.is_one:
                click.echo()
        if not self.chosen.is_one:
            head, *would = wording.inspected_total(done.results, self.reached)
            shares = _added(done.results, most=None if self.chosen.verbose else 20)
            head = output.total(len(done.results), f", {head}", done.others)
            rest = sum(each.other_bytes for each in done.results)
            _echo([head, *(would if done.results else [])], shares, rest)


stats = Stats.command("stats session.jsonl")


def _added(all_stats: Iterable[SessionStats], *, most: int | None) -> list[tuple[str, Share]]:
    """Sum the shares of several sessions by agent, largest first. Shares after the first `most` become one row."""
    sums: dict[tuple[str, str, str], Share] = {}
    for each in all_stats:
        for share in each.shares:
            key = (each.format, share.kind, share.tool)
            sums[key] = sums[key] + share if key in sums else share
    rows = sorted(((agent, share) for (agent, _, _), share in sums.items()), key=lambda row: -row[1].size)
    small = [] if most is None else rows[most:]
    if len(small) > 1:
        others = Share("", f"{len(small):,} kinds and tools")
        for _, share in small:
            others += share
        rows[most:] = [("others", others)]
    return rows


def _echo(lines: Sequence[str], shares: Sequence[tuple[str, Share]], rest: int) -> None:
    """Print the first line, the table of shares with the remaining bytes, and the other lines."""
    head, *others = lines
    echo_wrapped(head)
    if shares:
        numbers = [Column(name, is_number=True) for name in ("blocks", "size", "protected", "old", "compacted")]
        columns = [Column("agent"), Column("kind"), Column("tool", may_be_cut=True), *numbers]
        rows = []
        for agent, share in shares:
            by_place = (share.size, share.protected_bytes, share.old_bytes, share.dead_bytes)
            sizes = (kb(size) if size else "-" for size in by_place)
            shown = Kind.MIRROR.shown if share.kind == Kind.MIRROR else share.kind
            rows.append([agent, shown, printable(share.tool) or "-", f"{share.blocks:,}", *sizes])
        rows.append(["", "text, ids", "-", "-", kb(rest), "-", "-", "-"])
        # If no agent is named, all shares have the same one.
        first = 0 if any(agent for agent, _ in shares) else 1
        left_out = ["blocks"] if first == 0 and is_seen() and not is_wide() else []
        echo_table(columns[first:], [row[first:] for row in rows], left_out=left_out)
        if is_seen():
            echo_wrapped("protected: stays; old: may be replaced; compacted: in the agent's own summary")
    elif others:
        click.echo("  no blocks of 256 bytes or more")
    for text in others:
        echo_wrapped(text)


_BY = {
    "session": "from the session",
    "policy": "from the policy",
    "table": "from our table",
    "fallback": "assumed, since the model is unknown",
}


def budget_line(stats: BudgetStats) -> str:
    """Format one session: how full the window is, what is due and why, and the underlying numbers."""
    model = f"{printable(stats.model)}, " if stats.model else ""
    window = f"{stats.context_window:,} tokens ({model}{_BY[stats.limits_from]})"
    full = f"{100 * stats.utilisation:.0f} % of the window in use, {stats.tokens:,} of {window}"
    decision = f"{stats.decision}: {stats.reason}; rule {stats.rule}"
    parts = []
    if stats.usable != stats.context_window:
        parts.append(f"{stats.usable:,} usable")
    if stats.tokens_recorded is None:
        parts.append("estimated, none recorded")
    elif stats.recorded_is_stale:
        parts.append(f"estimated, {stats.tokens_recorded:,} recorded before the last run or compaction")
    else:
        parts.append(f"{stats.tokens_recorded:,} recorded, {stats.tokens_estimated:,} estimated")
    parts.append(counted(stats.messages, "message", "messages"))
    if stats.messages_since is not None:
        seconds = stats.seconds_since
        ago = f" {counted(round(seconds), 'second', 'seconds')} ago" if seconds is not None else ""
        parts.append(f"{stats.messages_since:,} since the last run{ago}")
    return f"{printable(stats.path)}: {full}; {printable(decision)}; {', '.join(parts)}"


_HALF = 0.5


class Budget(SessionCommand[BudgetStats]):
    """Show how full the model's context window is. Exit 1 if something is due; change nothing."""

    takes = (options.RULE, options.CONFIG, options.PRESET, options.BACKUP_DIR, options.FORMAT)
    notes = output.tell_of_others

    @staticmethod
    def work(job: Job, form: str | None) -> BudgetStats:
        return lists.budget_session(job.path, job.policy, form=form)

    def words(self, stats: BudgetStats) -> Words:
        share = f"{100 * stats.utilisation:.0f} % of the window"
        short = f"{printable(stats.path)}: {share}; {stats.decision}: {printable(stats.reason)}"
        # Of many sessions, those that are due or half full are listed.
        is_news = stats.decision != "none" or stats.utilisation >= _HALF
        return Words(budget_line(stats), short, None if is_news else (stats.decision, stats.reason))

    def file(self, stats: BudgetStats) -> dict[str, Any]:
        return super().file(stats) | {"utilisation": round(stats.utilisation, 4)}

    def total(self, done: Done[BudgetStats]) -> list[str]:
        decided = Counter(stats.decision for stats in done.results)
        actions = [f"{number:,} {action}" for action, number in sorted(decided.items(), reverse=True)]
        fullest = max((stats.utilisation for stats in done.results), default=0)
        what = f": {', '.join(actions)}; the fullest has {100 * fullest:.0f} % of its window in use"
        return [output.total(len(done.results), what, done.others)]

    def codes(self, done: Done[BudgetStats]) -> list[int]:
        return [int(stats.decision != "none") for stats in done.results]


budget = Budget.command("budget --rule omp session.jsonl")


class Verify(SessionCommand["VerifyStats"]):
    """Check sessions, and that every original is there. Exit 5 if not."""

    stores = urls = packed = True
    takes = (options.CONFIG, options.THEIR_FOLDER, options.FORMAT)
    notes = output.tell_of_rollouts
    moved = "kept beside it, all readable"

    def on_database(self, path: Path, rows: Sequence[Found]) -> DatabaseStats | None:
        from sessioncompress.operations.database import check_events

        return check_events(path, rows)

    @staticmethod
    def work(job: Job, form: str | None) -> VerifyStats:
        from sessioncompress.operations.verify import verify_session

        return verify_session(job.path, job.policy, form=form)

    def over(self, found: Iterable[Found]) -> Done[VerifyStats]:
        # Agents delete their old sessions, so report a missing one as an error only if the user named it.
        found = list(found)

        def is_gone(each: Found) -> bool:
            named = {each.path, each.path.parent if _is_lost(each.path.parent) else each.path}
            return isinstance(each.error, SessionGone) and not named.intersection(self.chosen.paths)

        done = super().over([each for each in found if not is_gone(each)])
        # A packed session may also have left a store at its path.
        there = {os.path.abspath(each.path) for each in done.results}  # noqa: PTH100 - must not resolve links
        self.gone = [each.shown for each in found if is_gone(each) and os.path.abspath(each.path) not in there]  # noqa: PTH100
        return done

    def words(self, stats: VerifyStats) -> Words:
        # Sessions that are fine only count in the total.
        is_news = wording.noticed(stats) or stats.lines_not_understood
        return Words(wording.verified(stats), left=None if is_news else ("", ""))

    def total(self, done: Done[VerifyStats]) -> list[str]:
        what = wording.verified_total(done.results, are_all=not done.exit_code)
        return [output.total(len(done.results), what, done.others)]

    def document(self, done: Done[VerifyStats]) -> dict[str, Any]:
        taken = [{"path": utf8(str(each.place)), "archive": utf8(each.pack.shown)} for each in self.taken]
        return super().document(done) | {"gone": self.gone, "taken": taken}

    def hints(self, done: Done[VerifyStats]) -> None:
        super().hints(done)
        if self.silent:
            return
        if number := sum(each.open_to_others for each in done.results):
            echo_wrapped(wording.open_to_others(number), err=True)
        if self.gone:
            chosen = self.chosen._replace(older_than=None).typed(*self.where[1:])
            echo_wrapped(wording.gone(self.gone, chosen), err=True)
            if lost := dict.fromkeys(each.parent for each in map(Path, self.gone) if _is_lost(each.parent)):
                from sessioncompress.operations.database import moving

                echo_wrapped(printable(moving(lost)), err=True)
        if self.taken:
            among = [(str(each.place), each.pack.shown, each.pack.is_certain) for each in self.taken]
            echo_wrapped(wording.taken(among), err=True)


def _is_lost(database: Path) -> bool:
    return is_database(database) and not os.path.lexists(database)


verify = Verify.command("verify session.jsonl")
