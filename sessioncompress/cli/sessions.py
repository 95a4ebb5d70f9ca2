"""`sessions`, `stats`, `budget` and `verify`: look at sessions, and change nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Each, SessionCommand, Words
from sessioncompress.cli.tables import (
    Column,
    cut,
    distinct,
    echo_table,
    echo_wrapped,
    is_longer_than_the_screen,
    is_seen,
    room_beside,
    width,
    with_tilde,
)
from sessioncompress.core.text import age, counted, kb, printable, utf8, written_time
from sessioncompress.errors import SessionGone
from sessioncompress.operations import sessions as lists
from sessioncompress.operations import wording
from sessioncompress.operations.sessions import ListedSession, SessionStats, Share
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import BudgetStats

if TYPE_CHECKING:
    from sessioncompress.operations.verify import VerifyStats

COLUMNS = (
    Column("agent"),
    Column("project", may_be_cut=True),
    Column("age", is_number=True),
    Column("size", is_number=True),
    Column("could save", is_number=True),
    Column("compressed"),
    Column("session", may_be_cut=True),
)

_WIDE = 120
"""Columns of a terminal that has room for the paths of sessions."""
_LEAST_OF_TITLE = 20
"""Characters that must be free for titles to stand in a terminal: no path is cut for one."""
_LEFT_OUT = {"age": "size"}
"""The column that a narrower one has no room for, by what the list is sorted by; else their age."""
_LEAST, _MOST = 14, 20
"""Characters of a path's end that stand for it there; more than the least only where two would end alike."""
_SPECIAL = "*?["
"""Characters that mean more than themselves in a pattern."""
_SORTS: dict[str, Callable[[ListedSession], tuple[object, ...]]] = {
    "saves": lambda each: (-each.could_save, -each.size),
    "size": lambda each: (-each.size,),
    "age": lambda each: (each.modified,),
    "project": lambda each: (each.project, -each.could_save),
}


def row(session: ListedSession, name: Callable[[str], str] = printable) -> list[str]:
    """Format one session; `name` says how a path is written."""
    return [
        session.agent,
        name(lists.printed(session.project)),
        age(session.modified),
        kb(session.size),
        kb(session.could_save) if session.could_save else "-",
        "packed" if session.packed else "yes" if session.compressed else "-",
        name(session.path),
    ]


def echo_list(listed: Sequence[ListedSession], sort: str = "saves") -> None:
    """Print the table of sessions, and their total."""
    rows = sorted(listed, key=_SORTS[sort])
    if not is_seen():
        _echo_all(rows, [row(each) for each in rows])
        return
    best = next((each for each in rows if not each.packed), None)
    cells = [row(each, lambda path: with_tilde(printable(path))) for each in rows]
    if is_upside_down := is_longer_than_the_screen(cells):
        # Else what comes first is the first to leave the screen.
        rows.reverse()
        cells.reverse()
    if width() >= _WIDE:
        # The room is for paths, which have the project in them.
        names = distinct((cell[1] for cell in cells), width() // 5)
        cells = [[cell[0], names[cell[1]], *cell[2:]] for cell in cells]
        _echo_all(rows, cells, room_beside(COLUMNS, cells))
    else:
        ends = ends_of(each.path for each in rows)
        left_out = _LEFT_OUT.get(sort, "age")
        shown = [number for number, column in enumerate(COLUMNS) if column.name != left_out]
        *columns, last = (COLUMNS[number] for number in shown)
        made = (
            [*(cell[number] for number in shown[:-1]), ends[each.path]] for each, cell in zip(rows, cells, strict=True)
        )
        echo_table([*columns, last._replace(may_be_cut=False)], list(made))
    if is_upside_down:
        click.echo("in reverse order: the first session is at the bottom", err=True)
    if best is not None and width() < _WIDE:
        # Never broken: it is there to be copied.
        click.echo(f"only the first: sessioncompress compress --all --include {quote(ends[best.path])}", err=True)


def _echo_all(rows: Sequence[ListedSession], cells: Sequence[Sequence[str]], room: int | None = None) -> None:
    """Print all columns, and the titles of the sessions where the others leave room; None: nothing is cut."""
    if room is not None and room < _LEAST_OF_TITLE:
        echo_table(COLUMNS, cells)
        return
    titles = [printable(each.title) if room is None else cut(printable(each.title), room) for each in rows]
    echo_table((*COLUMNS, Column("title")), [[*cell, title] for cell, title in zip(cells, titles, strict=True)])


def ends_of(paths: Iterable[str]) -> Mapping[str, str]:
    """Write paths as patterns for --include, by their ends: each matches no other path, if that is not too long."""
    backwards = sorted(path[::-1] for path in set(paths))
    alike = [0, *(len(os.path.commonprefix(pair)) for pair in pairwise(backwards)), 0]  # noqa: RUF071 - characters
    made = {}
    for path, *shared in zip(backwards, alike, alike[1:], strict=False):
        # A pattern is compared with what stands below an agent's folder: a short name stands alone if it can.
        least = min(_LEAST, len(path.partition("/")[0]))
        end = path[: min(max(least, *(each + 1 for each in shared)), _MOST)][::-1]
        plain = "".join(char if char.isprintable() and char not in _SPECIAL else "?" for char in end)
        made[path[::-1]] = f"*{plain}"
    return made


def total(listed: Sequence[ListedSession]) -> str:
    """Format what all sessions come to."""
    head = f"total: {counted(len(listed), 'session', 'sessions')}"
    if not listed:
        return head
    now, saves = (sum(getattr(each, name) for each in listed) for name in ("packed_size", "could_save"))
    size = sum(each.size for each in listed if not each.packed)
    agents = counted(len({each.agent for each in listed}), "agent", "agents")
    done = sum(each.compressed for each in listed if not each.packed)
    packed = sum(each.packed for each in listed)
    already = f"{done:,} compressed already{f', {packed:,} packed into {kb(now)}' if packed else ''}"
    return f"{head} of {agents}, {kb(size)}; {already}; a run could save {kb(saves, size)}, stores included"


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
        options.JSON,
        options.COLOR,
    )
    hands = ()
    all_with = None
    keeps = ("sort",)
    notes = output.tell_of_others

    @staticmethod
    def work(each: Each) -> ListedSession:
        assert isinstance(each.found, lists.Session)
        return lists.listed(each.found, each.policy)

    def refuse(self) -> None:
        if others := click.get_current_context().args:
            what = "sessions lists those in the agents' folders, and takes no PATHS; for others"
            raise click.UsageError(f"{what}: sessioncompress stats {quote(others[0])}")

    def over(self, found: Iterable[Found]) -> Done[ListedSession]:
        # Imported here: only the list looks into packs.
        from sessioncompress.operations.packed import listed_packed

        return self.each(found) + self.collected(listed_packed(self.chosen.selection))

    def file(self, stats: ListedSession) -> dict[str, Any]:
        return super().file(stats) | {"modified": written_time(stats.modified)}

    def document(self, done: Done[ListedSession]) -> dict[str, Any]:
        listed = done.results
        totals = {
            "sessions": len(listed),
            "size": sum(each.size for each in listed if not each.packed),
            "compressed": sum(each.compressed for each in listed if not each.packed),
            "couldSave": sum(each.could_save for each in listed),
            "packed": sum(each.packed for each in listed),
            "packedSize": sum(each.packed_size for each in listed),
        }
        return {"sessions": super().document(done)["files"], "totals": totals}

    def end(self, done: Done[ListedSession]) -> None:
        echo_list(done.results, self.given.sort)
        echo_wrapped(output.with_others(total(done.results), done.others))


sessions = Sessions.command("sessions --project .")
# To say what does take them.
sessions.allow_extra_args = True


class Stats(SessionCommand[SessionStats]):
    """Show where the bytes are, and what would be saved. Change nothing."""

    urls = packed = True
    flags = (options.JOBS, options.JSON, options.VERBOSE)
    takes = (options.CONFIG, options.PRESET, options.BACKUP_DIR, options.FORMAT)
    notes = output.tell_of_others

    @staticmethod
    def work(each: Each, form: str | None) -> SessionStats:
        return lists.inspect_session(each.path, each.policy, form=form)

    def over(self, found: Iterable[Found]) -> Done[SessionStats]:
        here = self.each(found)
        self.reached = here.results
        return here + self.each_packed()

    def document(self, done: Done[SessionStats]) -> dict[str, Any]:
        made = wording.sessions_document(_named(done.results), _named(self.reached))
        return made | {"files": made["files"] + [each for each in done.files if isinstance(each, dict)]}

    def end(self, done: Done[SessionStats]) -> None:
        for each in _named(done.results) if self.chosen.verbose or self.chosen.is_one else ():
            _echo(wording.inspected(each), {("", share.kind, share.tool): share for share in each.shares})
            if not self.chosen.is_one:
                click.echo()
        if not self.chosen.is_one:
            head, *would = wording.inspected_total(done.results, self.reached)
            shares = _added(done.results)
            head = output.total(len(done.results), f", {head}", done.others)
            _echo([head, *(would if done.results else [])], shares if self.chosen.verbose else _largest(shares))


stats = Stats.command("stats session.jsonl")


def _named(results: Sequence[SessionStats]) -> list[SessionStats]:
    return [replace(each, would=replace(each.would, path=each.path)) for each in results]


_Shares = Mapping[tuple[str, str, str], Share]
"""Shares by agent, empty where it goes without saying, kind and tool."""

_SHOWN = 0.99
_OTHERS = "others"


def _bytes(share: Share) -> int:
    return share.protected + share.old + share.dead


def _sum(shares: Iterable[Share]) -> Share:
    shares = list(shares)
    names = ("blocks", "protected", "old", "dead")
    return replace(shares[0], **{name: sum(getattr(share, name) for share in shares) for name in names})


def _added(all_stats: Sequence[SessionStats]) -> _Shares:
    """Add up the shares of several sessions."""
    found: dict[tuple[str, str, str], list[Share]] = {}
    for each in all_stats:
        for share in each.shares:
            found.setdefault((each.format, share.kind, share.tool), []).append(share)
    return {key: _sum(shares) for key, shares in found.items()}


def _largest(shares: _Shares) -> _Shares:
    """Keep the shares that nearly all bytes are in, and the others as one."""
    left = (1 - _SHOWN) * sum(map(_bytes, shares.values()))
    small: list[tuple[str, str, str]] = []
    for key in sorted(shares, key=lambda each: _bytes(shares[each])):
        left -= _bytes(shares[key])
        if left < 0:
            break
        small.append(key)
    if len(small) <= 1:
        return shares
    kept = {key: share for key, share in shares.items() if key not in small}
    return {**kept, (_OTHERS, "", f"{len(small):,} kinds and tools"): _sum(shares[key] for key in small)}


def _echo(lines: Sequence[str], shares: _Shares) -> None:
    """Print the first line, the table of the shares, and the other lines."""
    head, *others = lines
    echo_wrapped(head)
    if shares:
        numbers = [Column(name, is_number=True) for name in ("blocks", "protected", "old", "dead")]
        columns = [Column("agent"), Column("kind"), Column("tool", may_be_cut=True), *numbers]
        rows = []
        # The others come last, however many they are.
        ordered = sorted(shares.items(), key=lambda each: (each[0][0] == _OTHERS, -_bytes(each[1])))
        for (agent, kind, tool), share in ordered:
            sizes = (kb(size) if size else "-" for size in (share.protected, share.old, share.dead))
            rows.append([agent, kind, printable(tool) or "-", f"{share.blocks:,}", *sizes])
        # All are of one agent where none is named.
        first = 0 if any(agent for agent, _, _ in shares) else 1
        echo_table(columns[first:], [row[first:] for row in rows])
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
    """Format one session: how full the window is, what is due and why, and the numbers behind that."""
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


class Budget(SessionCommand[BudgetStats]):
    """Show how full the model's context window is. Exit 1 if something is due; change nothing."""

    takes = (options.RULE, options.CONFIG, options.PRESET, options.BACKUP_DIR, options.FORMAT)
    notes = output.tell_of_others

    @staticmethod
    def work(each: Each, form: str | None) -> BudgetStats:
        return lists.budget_session(each.path, each.policy, form=form)

    def words(self, stats: BudgetStats) -> Words:
        short = f"{printable(stats.path)}: {stats.decision}: {printable(stats.reason)}"
        return Words(budget_line(stats), short, (stats.decision, stats.reason) if stats.decision == "none" else None)

    def file(self, stats: BudgetStats) -> dict[str, Any]:
        return super().file(stats) | {"utilisation": round(stats.utilisation, 4)}

    def total(self, done: Done[BudgetStats]) -> list[str]:
        # Imported here: the other commands do without.
        from sessioncompress.pipeline.budget import Action

        decided = [stats.decision for stats in done.results]
        actions = [f"{decided.count(action):,} {action}" for action in Action if action in decided]
        return [output.total(len(decided), f": {', '.join(actions)}", done.others)]

    def codes(self, done: Done[BudgetStats]) -> list[int]:
        return [int(stats.decision != "none") for stats in done.results]


budget = Budget.command("budget --rule omp session.jsonl")


class Verify(SessionCommand["VerifyStats"]):
    """Check sessions, and that every original is there. Exit 5 if not."""

    stores = urls = packed = True
    takes = (options.CONFIG, options.THEIR_FOLDER, options.FORMAT)
    notes = output.tell_of_rollouts

    @staticmethod
    def work(each: Each, form: str | None) -> VerifyStats:
        # Imported here: the other commands do without.
        from sessioncompress.operations.verify import verify_session

        return verify_session(each.path, each.policy, form=form)

    def over(self, found: Iterable[Found]) -> Done[VerifyStats]:
        # An agent deletes its old sessions; only one that the user named is missed.
        found = list(found)

        def is_gone(each: Found) -> bool:
            return isinstance(each.error, SessionGone) and each.path not in self.chosen.paths

        self.gone = [each.shown for each in found if is_gone(each)]
        return super().over([each for each in found if not is_gone(each)])

    def words(self, stats: VerifyStats) -> Words:
        # What is right and nothing more is in the total.
        is_news = wording.noticed(stats) or stats.lines_not_understood
        return Words(wording.verified(stats), left=None if is_news else ("", ""))

    def total(self, done: Done[VerifyStats]) -> list[str]:
        return [output.total(len(done.results), wording.verified_total(done.results), done.others)]

    def document(self, done: Done[VerifyStats]) -> dict[str, Any]:
        taken = [{"path": utf8(str(each.place)), "archive": utf8(each.pack.shown)} for each in self.taken]
        return super().document(done) | {"gone": self.gone, "taken": taken}

    def hints(self, done: Done[VerifyStats]) -> None:
        if self.gone and not self.silent:
            echo_wrapped(wording.gone(self.gone, self.chosen.typed(self.overrides["backup_dir"])), err=True)
        if self.taken and not self.silent:
            echo_wrapped(wording.taken([(str(each.place), each.pack.shown) for each in self.taken]), err=True)


verify = Verify.command("verify session.jsonl")
