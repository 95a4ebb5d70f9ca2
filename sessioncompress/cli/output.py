"""What the commands share as they work: the outcome of each file, totals, JSON, and questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from msgspec.structs import replace

from sessioncompress.core import process
from sessioncompress.core.text import printable

if TYPE_CHECKING:
    from sessioncompress.operations.batch import Archive, Outcome
    from sessioncompress.operations.restore import RestoreStats
    from sessioncompress.operations.verify import VerifyStats
    from sessioncompress.pipeline.discover import Found

S = TypeVar("S", "RestoreStats", "VerifyStats")


class Done(NamedTuple):
    """The results of several files, the number of other outcomes by word, and the exit code."""

    results: list[Any]
    others: dict[str, int]
    exit_code: int


def for_each(paths: Iterable[Path], work: Callable[[Path], Any]) -> Done:
    """Do the work for every session of the paths; print errors."""
    from sessioncompress.pipeline.discover import discover

    return for_all(discover(paths), lambda found: work(found.path))


def for_all(found: Iterable[Found], work: Callable[[Found], Any]) -> Done:
    """Do the work for every found file; print errors."""
    from sessioncompress.operations import batch

    return _told(batch.each(found, work))


def at_once(
    found: Iterable[Found], jobs: int | None, prepare: Callable[[Found], Callable[[], S]], say: Callable[[S], None]
) -> Done:
    """Do the prepared work on several files at a time; report each result, errors, and an interrupt."""
    from sessioncompress.operations import batch

    run = batch.Archive(found, prepare, jobs)
    done = _told(run, say)
    return done._replace(exit_code=batch.worst({done.exit_code, cut_short(run)}))


def cut_short(run: Archive[Any]) -> int:
    """Report what an interrupt left undone; return its exit code, 0 if there was none."""
    if not run.interrupted:
        return 0
    from sessioncompress.core.text import counted

    begun = counted(run.left, "file was", "files were")
    click.echo(f"Interrupted; {begun} not begun, the others are done: run again to go on.", err=True)
    return process.EXIT_CODE


def _told(outcomes: Iterable[Outcome[Any]], say: Callable[[Any], None] | None = None) -> Done:
    from sessioncompress.operations import batch, report

    results: list[Any] = []
    codes: set[int] = set()
    said: set[str] = set()
    others = dict.fromkeys(("failed", "refused", report.PASSED_OVER), 0)
    for outcome in outcomes:
        codes.add(outcome.exit_code)
        if outcome.error is None and outcome.result is not None:
            result = outcome.result
            if say is not None:
                # With the path as the user typed it.
                result = replace(result, path=str(outcome.found.path))
                say(result)
            results.append(result)
            continue
        assert outcome.error is not None
        ended = report.PASSED_OVER if outcome.passed_over else report.status_of(outcome.error).value
        others[ended] += 1
        if not outcome.passed_over and (text := f"{ended}: {outcome.error}") not in said:
            # What is wrong with a policy file is the same for all its sessions.
            said.add(text)
            click.echo(text, err=True)
    return Done(results, others, batch.worst(codes))


def echo_total(paths: Sequence[Path], done: int, what: str, others: Mapping[str, int]) -> None:
    """Print the total of a command over a folder or several paths."""
    from sessioncompress.core.text import counted
    from sessioncompress.pipeline.discover import is_folder

    if len(paths) > 1 or any(map(is_folder, paths)):
        head = f"total: {counted(done, 'session', 'sessions')}" + (what if done else "")
        click.echo("; ".join([head, *(f"{number:,} {word}" for word, number in others.items() if number)]))


def tell_of_opencode(agent: str | None) -> None:
    """Tell where OpenCode keeps sessions that cannot be read, if all agents or OpenCode were asked for."""
    from sessioncompress.formats import locations

    if agent in (None, "opencode") and (store := locations.opencode()):
        what = f"OpenCode's sessions in {store} are not read: 'opencode export SESSION > FILE' writes one out"
        click.echo(printable(what), err=True)


def echo_json(document: Any) -> None:
    """Print a JSON document without characters that a terminal would obey."""
    import orjson

    from sessioncompress.core.text import printable_json

    click.echo(printable_json(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()))


def confirmed(question: str, where: Path, state: str) -> bool:
    """Ask the user. Raises KeyboardInterrupt, or UsageError if nobody answers; `state` says what was done."""
    try:
        return click.confirm(question)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise KeyboardInterrupt from None
    click.echo()
    from sessioncompress.errors import UsageError

    raise UsageError("nobody answers", where=where, state=state, remedy="Use --yes.")
