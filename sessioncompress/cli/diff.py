"""`diff`: show what a session lost against its originals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from shutil import get_terminal_size

import click

from sessioncompress.cli import options
from sessioncompress.cli.tables import is_seen
from sessioncompress.core.marker import amount
from sessioncompress.core.model import Kind
from sessioncompress.core.text import counted, printable, written_time
from sessioncompress.operations.diff import Diff, Loss, diff_session

_FIRST_LINES = 12
"""So many lines of a text are shown."""
_BESIDE = 120
"""Columns from which on the two texts stand beside each other."""
_CUT = "..."


@click.command(cls=options.ReadOnly, epilog="Example: sessioncompress diff session.jsonl --stat")
@click.argument("session", type=options.EXISTING)
@click.option("--stat", is_flag=True, help="Print only a table by kind and tool.")
@options.CONFIG
@options.THEIR_FOLDER
@options.FORMAT
def diff(session: Path, stat: bool, config: Path | None, backup_dir: Path | None, form: str | None) -> None:
    """Show what a session lost, beside its originals. Change nothing."""
    policy = options.policies_of(config, backup_dir=backup_dir).of(session)
    options.tell_of_two_stores(session, policy)
    with diff_session(session, policy, form=form) as found:
        if stat:
            for line in _table(session, found):
                click.echo(line)
        elif is_seen():
            click.echo_via_pager(f"{line}\n" for line in _shown(session, found))
        else:
            for line in _shown(session, found):
                click.echo(line)


def _shown(session: Path, found: Diff) -> Iterator[str]:
    """Yield the lines for a person: summaries, messages, and what it came to."""
    width = get_terminal_size((100, 24)).columns
    messages = values = before = after = 0
    yield from _summaries(found)
    for message in found.messages:
        messages += 1
        turn = f"turn {message.turn:,}" if message.turn else "on an abandoned branch"
        time = f", {written_time(message.time / 1000)}" if message.time else ""
        yield f"{turn}, line {message.line:,}, {message.role}{time}"
        for loss in message.losses:
            values += 1
            before, after = before + loss.block.bytes, after + _size(loss)
            yield f"  {_heading(loss)}"
            yield from _beside(loss, width) if width >= _BESIDE else _above(loss, width)
        yield ""
    said = f"{counted(values, 'value', 'values')} in {counted(messages, 'message', 'messages')}"
    if not values:
        yield _nothing(session, found)
    else:
        yield printable(f"{session}: {said}: {amount(before)} -> {amount(after)}; --stat for a table")


def _nothing(session: Path, found: Diff) -> str:
    why = "every line has its original bytes" if found.has_store else "it has no store and no markers"
    return printable(f"{session}: nothing was replaced: {why}")


def _summaries(found: Diff) -> Iterator[str]:
    for each in found.summaries:
        gone = f"; {counted(each.moved, 'line', 'lines')} moved to the originals" if each.moved else ""
        tokens = f"{each.tokens_before:,} -> {each.tokens_after:,} tokens for the model"
        yield printable(f"summary ({each.by}, {each.rule}): {tokens}{gone}")


def _heading(loss: Loss) -> str:
    block = loss.block
    tool = f" of {block.tool}" if block.tool else ""
    now = "removed" if loss.now is None else amount(_size(loss))
    way = f"sessioncompress show {block.ref}" if loss.original is not None else "no original was kept"
    return printable(f"{block.kind.value}{tool}: {amount(block.bytes)} -> {now}, {way}")


def _size(loss: Loss) -> int:
    return len((loss.now or "").encode(errors="replace"))


def _beside(loss: Loss, width: int) -> Iterator[str]:
    """Put the first lines of the original to the left of what stands there now."""
    from rich.cells import set_cell_size

    each = (width - 5) // 2
    for was, now in zip_longest(*_sides(loss), fillvalue=""):
        yield f"  {set_cell_size(_fitting(was, each), each)} | {_fitting(now, each)}".rstrip()


def _fitting(line: str, width: int) -> str:
    """Cut a line that is wider than its columns, and show that it was cut."""
    from rich.cells import cell_len, set_cell_size

    return line if cell_len(line) <= width else set_cell_size(line, width - len(_CUT)) + _CUT


def _above(loss: Loss, width: int) -> Iterator[str]:
    """Put the first lines of the original above what stands there now, as other programs show a difference."""
    for sign, lines in zip("-+", _sides(loss), strict=True):
        for each in lines:
            line = f"  {sign} {each}"
            yield _fitting(line, width)


def _sides(loss: Loss) -> tuple[list[str], list[str]]:
    if loss.block.kind is Kind.IMAGE:
        return ["(an image)"], _first_lines(loss.now or "(removed)")
    return _first_lines(loss.original or "(not kept)"), _first_lines(loss.now or "(removed)")


def _first_lines(text: str) -> list[str]:
    """Take the first lines of a text as a terminal may show them, and tell how many more there are."""
    lines = text.removesuffix("\n").split("\n", _FIRST_LINES)
    rest = "".join(lines[_FIRST_LINES:])
    more = rest.count("\n") + 1
    # No terminal shows more of a line.
    shown = [printable(each[:500].expandtabs(4)) for each in lines[:_FIRST_LINES]]
    return [*shown, f"... {counted(more, 'more line', 'more lines')}"] if rest else shown


def _table(session: Path, found: Diff) -> Iterator[str]:
    """Yield the lines of a table: kinds and tools, those that lost most first."""
    yield from _summaries(found)
    rows: dict[tuple[str, str], list[int]] = {}
    for message in found.messages:
        for loss in message.losses:
            row = rows.setdefault((loss.block.kind.value, printable(loss.block.tool)), [0, 0, 0])
            row[:] = row[0] + 1, row[1] + loss.block.bytes, row[2] + _size(loss)
    if not rows:
        yield _nothing(session, found)
        return
    ordered = sorted(rows.items(), key=lambda item: (item[1][2] - item[1][1], item[0]))
    total = [sum(row[column] for row in rows.values()) for column in range(3)]
    width = max(4, *(len(tool) for _, tool in rows))
    yield f"{'kind':<10} {'tool':<{width}} {'values':>9} {'bytes':>13} {'bytes now':>13}"
    for (kind, tool), (values, before, after) in (*ordered, (("total", ""), total)):
        yield f"{kind:<10} {tool:<{width}} {values:>9,} {before:>13,} {after:>13,}"
