"""What the commands share as they work: the outcome of each file, totals, JSON, and questions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec.structs import replace

from sessioncompress.cli.choosing import MOST_TYPED, typed
from sessioncompress.core import process
from sessioncompress.core.text import OBJECT_STORES, counted, printable, reasons_lines
from sessioncompress.errors import SessionCompressError, UsageError

if TYPE_CHECKING:
    from sessioncompress.cli.choosing import Chosen
    from sessioncompress.operations.batch import Archive, Outcome


class Done(NamedTuple):
    """What became of several files: results, errors by path, the numbers of both errors and no sessions by word."""

    results: list[Any]
    failed: list[tuple[str, SessionCompressError]]
    others: dict[str, int]
    exit_code: int


def told(outcomes: Iterable[Outcome[Any]], say: Callable[[Any], None] = lambda _: None) -> Done:
    """Collect the outcomes of files; say each result, with the path as the user typed it; print errors as they come."""
    from sessioncompress.cli.tables import echo_wrapped
    from sessioncompress.operations import batch, wording

    done = Done([], [], dict.fromkeys(("failed", "refused", wording.PASSED_OVER), 0), 0)
    codes: set[int] = set()
    said: set[str] = set()
    advised: set[str] = set()
    for outcome in outcomes:
        path = outcome.found.shown
        codes.add(outcome.exit_code)
        if outcome.passed_over:
            done.others[wording.PASSED_OVER] += 1
        elif outcome.error is not None:
            done.failed.append((path, outcome.error))
            status = wording.status_of(outcome.error).value
            done.others[status] += 1
            if (text := f"{status}: {outcome.error}") not in said:
                # What is wrong with a policy file is the same for all its sessions.
                said.add(text)
                # What to do is said once, where only the name of the session differs.
                remedy = printable(outcome.error.remedy)
                if (advice := re.sub(rf"\b{re.escape(Path(path).stem)}\.", "", remedy)) in advised:
                    text = text.replace(remedy, "What to do is the same as above.")
                advised |= {advice} - {""}
                echo_wrapped(text, err=True)
        elif outcome.result is not None:
            done.results.append(replace(outcome.result, path=path))
            say(done.results[-1])
    if isinstance(outcomes, batch.Archive) and outcomes.interrupted:
        codes.add(cut_short(outcomes))
    return done._replace(exit_code=batch.worst(codes))


def both(one: Done, other: Done) -> Done:
    """Put together what became of files that were worked on in two ways."""
    from sessioncompress.operations import batch

    others = {word: one.others.get(word, 0) + other.others.get(word, 0) for word in one.others | other.others}
    exit_code = batch.worst((one.exit_code, other.exit_code))
    return Done([*one.results, *other.results], [*one.failed, *other.failed], others, exit_code)


class Lines:
    """Prints the lines of a command over files: of those that changed, and how many others there are, and why.

    Of one file that the user named, and with --verbose of each, all that is known; with --quiet and --json nothing.
    """

    def __init__(self, chosen: Chosen) -> None:
        self._silent = chosen.quiet or chosen.as_json
        self._one = chosen.is_one
        self._all = self._one or chosen.verbose
        self._left: list[tuple[str, str]] = []

    def changed(self, whole: str, short: Callable[[], str]) -> None:
        """Print the line of a file that was changed."""
        from sessioncompress.cli.tables import echo_wrapped

        if self._silent:
            return
        if self._all:
            echo_wrapped(whole)
        else:
            # It is as wide as the terminal.
            click.echo(short())

    def left(self, whole: str, status: str = "", reason: str = "") -> None:
        """Print the line of a file that stays as it is, or count it by its reason if it has one."""
        from sessioncompress.cli.tables import echo_wrapped

        if self._all and not self._silent:
            echo_wrapped(whole)
        elif status:
            self._left.append((status, reason))

    def end(self, total: Iterable[str]) -> None:
        """Print the counts, and the total; neither where the user named one file."""
        from sessioncompress.cli.tables import echo_wrapped

        if self._silent or self._one:
            return
        # The work is done, and the exit code says how it went.
        with suppress(BrokenPipeError):
            for text in (*map(printable, reasons_lines(self._left)), *total):
                echo_wrapped(text)


def cut_short(run: Archive[Any]) -> int:
    """Report what an interrupt left undone; return its exit code."""
    left = counted(run.left, "file", "files")
    click.echo(f"Interrupted. {left} left. Run the command again to continue.", err=True)
    return process.EXIT_CODE


def with_others(head: str, others: Mapping[str, int]) -> str:
    """Add to a total the numbers of sessions without a result, by word."""
    return "; ".join([head, *(f"{number:,} {word}" for word, number in others.items() if number)])


def total(done: int, what: str, others: Mapping[str, int]) -> str:
    """Format the total of a command over so many sessions."""
    head = f"total: {counted(done, 'session', 'sessions')}" + (what if done else "")
    return with_others(head, others)


def tell_of_undo(
    runs: Iterable[str],
    paths: Sequence[Path],
    backup_dir: Path | None = None,
    urls: Sequence[str] = (),
    *,
    quiet: bool = False,
) -> None:
    """Tell how to take back a run that wrote something; `runs` are the ids in the results, empty where nothing was."""
    if (run := next(filter(None, runs), "")) and not quiet:
        which = map(quote, urls) if urls else typed(paths, backup_dir)
        command = ["sessioncompress", "restore", "--run", run, *which]
        click.echo(printable(f"undo with: {' '.join(command)}"), err=True)


def tell_of_unpack(before: str, archives: Iterable[str], sessions: int) -> None:
    """Print the command that brings back sessions from some archives, and how many others it would bring back.

    It names the packed folders in place of many archives: of each project there is one.
    """
    from sessioncompress.cli.tables import echo_wrapped
    from sessioncompress.operations.packed import Packed, packed_in
    from sessioncompress.store.layout import FOLDER

    names = sorted(set(archives))
    is_remote = names[0].startswith(OBJECT_STORES)
    if len(names) > MOST_TYPED and not is_remote:
        names = sorted({str(above.parent) for name in names for above in Path(name).parents if above.name == FOLDER})
    # Never broken: it is there to be copied.
    click.echo(printable(f"{before}sessioncompress unpack {' '.join(map(quote, names))}"), err=True)
    held = () if is_remote else (each for each in packed_in(map(Path, names)) if isinstance(each, Packed))
    if (others := sum(each.pack.holds(each.entry) for each in held) - sessions) > 0:
        echo_wrapped(
            f"which also brings back {counted(others, 'other session', 'other sessions')} packed earlier", err=True
        )


def tell_of_packed(chosen: Chosen) -> None:
    """Tell how many of the chosen sessions are packed, where a command passes these over, and what brings them back."""
    if chosen.quiet or chosen.as_json or chosen.urls or chosen.is_one:
        return
    from sessioncompress.cli.tables import echo_wrapped
    from sessioncompress.operations.packed import Packed

    if archives := [str(each.pack.archive) for each in chosen.packed() if isinstance(each, Packed)]:
        packed = counted(len(archives), "session is still packed", "sessions are still packed")
        echo_wrapped(f"{packed}. To bring back:", err=True)
        tell_of_unpack("  ", archives, len(archives))


def tell_of_opencode(agent: str | None) -> None:
    """Tell where OpenCode keeps sessions that cannot be read, if all agents or OpenCode were asked for."""
    from sessioncompress.formats import table

    if agent in (None, "opencode") and (store := table.opencode()):
        what = f"OpenCode's sessions in {store} are not read; 'opencode export SESSION > FILE' exports one"
        click.echo(printable(what), err=True)


def tell_of_others(chosen: Chosen) -> None:
    """Tell of sessions among the chosen ones that only their agents can read, unless it is to be quiet."""
    if chosen.by_options and not chosen.quiet:
        tell_of_opencode(chosen.agent)
    tell_of_rollouts(chosen.agent, chosen.paths, quiet=chosen.quiet or bool(chosen.urls))


def tell_of_rollouts(agent: str | None, paths: Sequence[Path] = (), *, quiet: bool = False) -> None:
    """Tell how many sessions Codex itself has packed in folders, or in its own if none are named: they stay."""
    from sessioncompress.pipeline.discover import is_folder

    named = [*filter(is_folder, paths)]
    if quiet or agent not in (None, "codex") or (paths and not named):
        return
    from sessioncompress.formats import table
    from sessioncompress.pipeline.rollouts import packed_in

    if count := sum(1 for _ in packed_in(named or table.agent_roots("codex"))):
        packed = f"{counted(count, 'session', 'sessions')} that Codex itself packed (rollout-*.jsonl.zst)"
        click.echo(f"{packed}: not read, not changed; Codex unpacks one when it resumes it", err=True)


def echo_json(document: Any) -> None:
    """Print a JSON document without characters that a terminal would obey."""
    import orjson

    from sessioncompress.core.text import printable_json

    click.echo(printable_json(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()))


def confirmed(question: str, where: Path | None, state: str, *, err: bool = False) -> bool:
    """Ask the user; exit at an interrupt. Raises UsageError if nobody answers; `state` says what was done."""
    try:
        # Where one of both was never open, nobody can be asked.
        if None not in (sys.stdin, sys.stdout):
            return click.confirm(question, err=err)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            click.echo(f"\n{state}", err=True)
            sys.exit(process.EXIT_CODE)
    click.echo(err=err)
    raise UsageError("no terminal to ask", where=where, state=state, remedy="Use --yes.")
