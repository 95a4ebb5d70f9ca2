"""Shared by the commands while they work: results per file, totals, JSON, and questions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sessioncompress.cli.choosing import MOST_TYPED, Chosen, typed
from sessioncompress.cli.tables import Column, echo_table, echo_wrapped, with_tilde, wrapped_for
from sessioncompress.core import process
from sessioncompress.core.text import OBJECT_STORES, counted, kb, printable, printable_json, quote
from sessioncompress.errors import NONE_CHANGED, Refused, SessionCompressError, UsageError
from sessioncompress.formats import table
from sessioncompress.pipeline.discover import Found, is_folder
from sessioncompress.store.layout import FOLDER

if TYPE_CHECKING:
    from sessioncompress.operations.database import DatabaseStats
    from sessioncompress.operations.sessions import Session, Swept


def tell_error(path: str, error: SessionCompressError, told: set[str]) -> str:
    """Print a session's error and return the status to count it under. `told` holds texts that are not repeated."""
    status = "refused" if error.exit_code == Refused.exit_code else "failed"
    remedy = printable(error.remedy)
    # An invalid policy file causes the same error in all its sessions.
    if (text := f"{status}: {error}") not in told:
        # Advice that differs only in the session's name counts as the same.
        advice = re.sub(rf"\b{re.escape(Path(path).stem)}\.", "", remedy)
        known = f" {printable(error.state)} {remedy}" if error.state else f" {remedy}"
        echo_wrapped(text.removesuffix(known) if advice in told else text, err=True)
        told |= {text, advice} - {""}
    return status


def with_others(head: str, others: Mapping[str, int]) -> str:
    """Append the counts of sessions without a result to a total."""
    return "; ".join([head, *(f"{number:,} {word}" for word, number in others.items() if number)])


def total(done: int, what: str, others: Mapping[str, int]) -> str:
    """Format the total of a command over `done` sessions."""
    head = f"total: {counted(done, 'session', 'sessions')}" + (what if done else "")
    return with_others(head, others)


def tell_of_undo(
    runs: Iterable[str],
    paths: Sequence[Path],
    backup_dir: Path | None = None,
    config: Path | None = None,
    urls: Sequence[str] = (),
    *,
    quiet: bool = False,
) -> None:
    """Print the command that undoes a run. `runs` are the ids in the results, empty if the run wrote nothing there."""
    if (run := next(filter(None, runs), "")) and not quiet:
        which = map(quote, urls) if urls else typed(paths, backup_dir, config)
        command = ["sessioncompress", "restore", "--run", run, *which]
        click.echo(printable(f"undo with: {' '.join(command)}"), err=True)


def tell_of_unpack(before: str, archives: Iterable[str], sessions: int) -> None:
    """Print the command that unpacks sessions from these archives, and the number of others that it would unpack.

    Each project has its own archive, so it names folders instead of many archives, and `--all` instead of many folders.
    """
    from sessioncompress.operations.packed import each_once, packed_anywhere, packed_in
    from sessioncompress.store.packing import Packed

    names = sorted(set(archives))
    is_remote = names[0].startswith(OBJECT_STORES)
    among: Iterable[Packed | SessionCompressError] = () if is_remote else packed_in(map(Path, names))
    if len(names) > MOST_TYPED and not is_remote:
        everywhere = list(packed_anywhere())
        with_all = {str(each.pack.archive) for each in everywhere if isinstance(each, Packed)}
        folders = {str(above.parent) for name in names for above in Path(name).parents if above.name == FOLDER}
        is_all = len(folders) > MOST_TYPED and with_all.issuperset(names)
        names = ["--all"] if is_all else sorted(folders)
        among = everywhere if is_all else packed_in(map(Path, names))
    # Never wrapped, so that it can be copied.
    click.echo(printable(f"{before}sessioncompress unpack {' '.join(map(quote, names))}"), err=True)
    if (others := sum(each.is_waiting for each in each_once(among)) - sessions) > 0:
        echo_wrapped(
            f"which also brings back {counted(others, 'other session', 'other sessions')} packed earlier", err=True
        )


def echo_database(stats: DatabaseStats, verb: str) -> None:
    """Print what changed in a database, if anything did."""
    before, after = kb(stats.size_before, stats.size_after), kb(stats.size_after)
    sizes = before if stats.size_before == stats.size_after else f"{before} -> {after}"
    moved = f"{counted(stats.events, 'event', 'events')} {verb}" if stats.events else ""
    parts = [each for each in (f"{sizes} on disk", moved, stats.reason) if each]
    if stats.events or sizes != before or stats.reason:
        echo_wrapped(printable(f"{stats.path}: {', '.join(parts)}"))


def tell_of_databases(among: Iterable[DatabaseStats]) -> None:
    """Report the bytes of events and of free space in each database, if they are a large part."""
    for each in among:
        size = each.size_before
        parts = [f"{kb(each.event_bytes, size)} of them events, which compress moves out"]
        parts = parts if each.event_bytes > size // 2 else []
        parts += [f"{kb(each.free_bytes, size)} of them free inside"] if each.free_bytes > size // 10 else []
        if parts:
            echo_wrapped(printable(f"{with_tilde(each.path)}: {kb(size)}, {', and '.join(parts)}"), err=True)


def tell_of_sweeps(swept: Swept) -> None:
    """Report sessions that agents will delete soon, and the command that packs them first."""
    if swept.sessions:
        echo_wrapped(swept.said, err=True)
        click.echo(f"  {swept.command}", err=True)


def tell_of_others(chosen: Chosen) -> None:
    """Report chosen sessions that only their agents can read, unless --quiet is set."""
    if chosen.by_options and not chosen.quiet and chosen.agent in (None, "opencode") and (store := table.opencode()):
        what = f"OpenCode's sessions in {store} are not read; 'opencode export SESSION > FILE' exports one"
        click.echo(printable(what), err=True)
    tell_of_rollouts(chosen)


def tell_of_rollouts(chosen: Chosen) -> None:
    """Report how many sessions Codex itself has packed in the named folders or in its own. They stay unchanged."""
    named = [*filter(is_folder, chosen.paths)]
    if chosen.quiet or chosen.urls or chosen.agent not in (None, "codex") or (chosen.paths and not named):
        return
    from sessioncompress.pipeline.rollouts import zipped_in

    if count := sum(1 for _ in zipped_in(named or table.agent_roots("codex"))):
        packed = f"{counted(count, 'session', 'sessions')} that Codex itself packed (rollout-*.jsonl.zst)"
        click.echo(f"{packed}: not read, not changed; Codex unpacks one when it resumes it", err=True)


def echo_json(document: Any) -> None:
    """Print a JSON document without terminal control characters."""
    import orjson

    click.echo(printable_json(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()))


def confirmed(question: str, where: Path | None, state: str, *, err: bool = False) -> bool:
    """Ask the user. Exit on an interrupt; raise UsageError if there is no answer. `state` tells what was done.

    With `err`, both the question and the state after a no are printed on stderr, so that stdout stays clean.
    """
    try:
        # Without an open stdin and stdout, no one can answer.
        if None not in (sys.stdin, sys.stdout):
            goes = click.confirm(question, err=err)
            if err and not goes:
                click.echo(state, err=True)
            return goes
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            click.echo(f"\n{state}", err=True)
            sys.exit(process.EXIT_CODE)
    click.echo(err=err)
    raise UsageError("cannot ask for confirmation without a terminal", where=where, state=state, remedy="Use --yes.")


def goes_on(
    verb: str,
    found: Sequence[Found],
    frees: Callable[[Session], int | None],
    warn: Callable[[list[Path]], None],
    undo: str,
) -> bool:
    """Show how many sessions of each agent a command is about to change, and ask.

    `frees` estimates the bytes freed in a session without reading it, or returns None if it isn't due. `warn` gets
    the due sessions just before the question. `undo` ends the question. Everything is printed on stderr.
    If nothing is due, return True without asking. Raises UsageError if there is no answer.
    """
    from sessioncompress.operations.sessions import Session
    from sessioncompress.pipeline.triage import promised

    rows: dict[str, list[int]] = {}
    of_due: list[Path] = []
    for each in found:
        if isinstance(each, Session):
            freed = None
            # The run will report sessions that can't be examined.
            with suppress(SessionCompressError):
                freed = frees(each)
            row, due = rows.setdefault(each.agent, [0] * 5), freed is not None
            row[:] = row[0] + 1, row[1] + each.size, row[2] + due, row[3] + each.size * due, row[4] + (freed or 0)
            of_due += [each.path] * due
    rows = dict(sorted(rows.items())) | {"total": [sum(row[column] for row in rows.values()) for column in range(5)]}
    if not rows["total"][2]:
        return True
    saves = promised(rows["total"][4], rows["total"][1])
    cells = [
        [name, f"{sessions:,}", kb(size), f"{due:,}", kb(theirs) if due else "-", f"~{kb(freed)}" if freed else "-"]
        for name, (sessions, size, due, theirs, freed) in rows.items()
    ]
    numbers = (Column(name, is_number=True) for name in ("sessions", "size", "due", "their size", "could save"))
    echo_table([Column("agent"), *numbers], cells, err=True, left_out=() if saves else ("could save",))
    click.echo("The others are left alone. --dry-run shows the result for each.", err=True)
    warn(of_due)
    # Only reading the sessions would tell how many are worth it, and that is the run itself.
    up_to = counted(rows["total"][2], "session", "sessions") + (f" and save ~{kb(saves)}" if saves else "")
    question = f"{verb} up to {up_to}? {undo}"
    return confirmed(wrapped_for(question, err=True), None, NONE_CHANGED, err=True)
