"""What the commands share as they work: one file after the other, totals, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from sessioncompress.printable import printable

if TYPE_CHECKING:
    from sessioncompress.discover import Found


class Done(NamedTuple):
    """What became of several files: results, how many came to nothing and why, and the exit code."""

    results: list[Any]
    others: dict[str, int]
    exit_code: int


def for_each(paths: Iterable[Path], work: Callable[[Path], Any]) -> Done:
    """Do the work for every file that the paths mean; print errors."""
    from sessioncompress.discover import discover

    return for_all(discover(paths), lambda found: work(found.path))


def for_all(found: Iterable[Found], work: Callable[[Found], Any]) -> Done:
    """Do the work for every file that was found; print errors."""
    from sessioncompress import archive, report

    results = []
    codes: set[int] = set()
    others = dict.fromkeys(("failed", "refused", report.PASSED_OVER), 0)
    for outcome in archive.each(found, work):
        codes.add(outcome.exit_code)
        if outcome.error is None:
            results.append(outcome.result)
            continue
        ended = report.PASSED_OVER if outcome.passed_over else report.status_of(outcome.error).value
        others[ended] += 1
        if not outcome.passed_over:
            click.echo(f"{ended}: {outcome.error}", err=True)
    return Done(results, others, archive.worst(codes))


def echo_total(paths: Sequence[Path], done: int, what: str, others: Mapping[str, int]) -> None:
    """Print the line that ends a command over a folder or over several paths."""
    from sessioncompress.discover import is_folder
    from sessioncompress.words import counted

    if len(paths) > 1 or any(map(is_folder, paths)):
        head = f"total: {counted(done, 'session', 'sessions')}" + (what if done else "")
        click.echo("; ".join([head, *(f"{number:,} {word}" for word, number in others.items() if number)]))


def tell_of_opencode(agent: str | None) -> None:
    """Say where sessions lie that only OpenCode can read, where those of all agents or of it were asked for."""
    from sessioncompress import homes

    if agent in (None, "opencode") and (store := homes.opencode()):
        what = f"OpenCode's sessions in {store} are not read: 'opencode export SESSION > FILE' writes one out"
        click.echo(printable(what), err=True)


def echo_json(document: Any) -> None:
    """Print one JSON document, with nothing in it that a terminal would obey."""
    import orjson

    from sessioncompress.printable import printable_json

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
