"""What the commands share as they work: what became of each file, totals, and JSON."""

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

T = TypeVar("T")
S = TypeVar("S", "RestoreStats", "VerifyStats")


class Done(NamedTuple):
    """What became of several files: results, how many came to nothing and why, and the exit code."""

    results: list[Any]
    others: dict[str, int]
    exit_code: int


def for_each(paths: Iterable[Path], work: Callable[[Path], Any]) -> Done:
    """Do the work for every file that the paths mean; print errors."""
    from sessioncompress.pipeline.discover import discover

    return for_all(discover(paths), lambda found: work(found.path))


def for_all(found: Iterable[Found], work: Callable[[Found], Any]) -> Done:
    """Do the work for every file that was found; print errors."""
    from sessioncompress.operations import batch

    return _told(batch.each(found, work))


def at_once(
    found: Iterable[Found], jobs: int | None, prepare: Callable[[Found], Callable[[], S]], say: Callable[[S], None]
) -> Done:
    """Do what is prepared for every file, several at once; say each result, print errors, and what was cut short."""
    from sessioncompress.operations import batch

    def as_typed(outcome: Outcome[S]) -> Outcome[S]:
        result = outcome.result
        return outcome if result is None else outcome._replace(result=replace(result, path=str(outcome.found.path)))

    run = batch.Archive(found, prepare, jobs)
    done = _told(map(as_typed, run), say)
    return done._replace(exit_code=batch.worst({done.exit_code, cut_short(run)}))


def cut_short(run: Archive[Any]) -> int:
    """Say where an interrupt ended a run over many files what is left; return the exit code for it, 0 for none."""
    if not run.interrupted:
        return 0
    from sessioncompress.core.text import counted

    begun = counted(run.left, "file was", "files were")
    click.echo(f"Interrupted; {begun} not begun, the others are done: run again to go on.", err=True)
    return process.EXIT_CODE


def _told(outcomes: Iterable[Outcome[T]], say: Callable[[T], None] | None = None) -> Done:
    from sessioncompress.operations import batch, report

    results: list[T] = []
    codes: set[int] = set()
    said: set[str] = set()
    others = dict.fromkeys(("failed", "refused", report.PASSED_OVER), 0)
    for outcome in outcomes:
        codes.add(outcome.exit_code)
        if outcome.error is None and outcome.result is not None:
            results.append(outcome.result)
            if say is not None:
                say(outcome.result)
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
    """Print the line that ends a command over a folder or over several paths."""
    from sessioncompress.core.text import counted
    from sessioncompress.pipeline.discover import is_folder

    if len(paths) > 1 or any(map(is_folder, paths)):
        head = f"total: {counted(done, 'session', 'sessions')}" + (what if done else "")
        click.echo("; ".join([head, *(f"{number:,} {word}" for word, number in others.items() if number)]))


def tell_of_opencode(agent: str | None) -> None:
    """Say where sessions lie that only OpenCode can read, where those of all agents or of it were asked for."""
    from sessioncompress.formats import locations

    if agent in (None, "opencode") and (store := locations.opencode()):
        what = f"OpenCode's sessions in {store} are not read: 'opencode export SESSION > FILE' writes one out"
        click.echo(printable(what), err=True)


def echo_json(document: Any) -> None:
    """Print one JSON document, with nothing in it that a terminal would obey."""
    import orjson

    from sessioncompress.core.text import printable_json

    click.echo(printable_json(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()))


def confirmed(question: str, where: Path, state: str) -> bool:
    """Ask; an interrupt ends it all, and where nobody is there to answer, that is an error which names the state."""
    try:
        return click.confirm(question)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise KeyboardInterrupt from None
    click.echo()
    from sessioncompress.errors import UsageError

    raise UsageError("nobody answers", where=where, state=state, remedy="Use --yes.")
