"""What fits into a terminal: tables, and lines of a file and two numbers; plain text where it goes elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from shutil import get_terminal_size
from typing import NamedTuple, TextIO

import click

from sessioncompress.core.text import printable

_GAP = 2
_CUT = "..."
_LEAST = 10
"""Characters that a column keeps which may be cut."""
_MOST = 100
"""Characters of a path. The numbers behind it would stand too far off."""
_SIZE = 9
_BY = 6


class Column(NamedTuple):
    """A column: its name, whether it holds numbers, and whether what does not fit may be cut in the middle."""

    name: str
    is_number: bool = False
    may_be_cut: bool = False


def is_seen() -> bool:
    """Tell whether somebody reads stdout in a terminal."""
    return _is_terminal(sys.stdout)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def width() -> int:
    """Measure the terminal in columns."""
    return get_terminal_size().columns


def with_tilde(path: str) -> str:
    """Write `~` for the home in a path."""
    home = os.path.expanduser("~")  # noqa: PTH111 - raises nothing without a home
    return "~" + path[len(home) :] if path == home or path.startswith(home.rstrip("/") + "/") else path


_UNITS = (("d", 24 * 3600), ("h", 3600), ("min", 60))


def age(since: float) -> str:
    """Format how long ago a time was, in seconds since 1970: `3 h`."""
    seconds = max(time.time() - since, 0)
    unit, length = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    return f"{int(seconds // length):,} {unit}"


def cut(text: str, room: int) -> str:
    """Cut a text in the middle: paths differ at their ends, and begin with what they have in common."""
    if len(text) <= room:
        return text
    head = max(room - len(_CUT), 0) // 3
    return text[:head] + _CUT + text[len(text) - max(room - len(_CUT) - head, 0) :]


def distinct(names: Iterable[str], room: int) -> Mapping[str, str]:
    """Cut names in the middle, at other places where two would be the same: the tools of a server differ somewhere."""
    made: dict[str, str] = {}
    left = room - len(_CUT)
    for name in sorted(set(names)):
        cuts = [name[:head] + _CUT + name[head - left :] for head in range(left // 2, left)]
        fitting = [name] if len(name) <= room else cuts
        made[name] = next((each for each in fitting if each not in made.values()), fitting[0])
    return made


def file_line(path: str, before: str, after: str, by: str, arrow: str = "->") -> str:
    """Format what changed in a file, under the lines of others; elsewhere than in a terminal with its whole path."""
    name = printable(path)
    if not is_seen():
        return f"{name}: {before} {arrow} {after} ({by})"
    said = f"{before:>{_SIZE}} -> {after:>{_SIZE}}  {click.style(f'{by:>{_BY}}', fg='green')}"
    room = min(max(width() - len(click.unstyle(said)) - _GAP, _LEAST), _MOST)
    return f"{cut(with_tilde(name), room):<{room}}  {said}"


def shown(path: str) -> str:
    """Write the path that a line begins with: in a terminal with `~`, and so that it fits."""
    name = printable(path)
    return cut(with_tilde(name), width() - _GAP) if is_seen() else name


def wrapped(text: str, spare: int = 0) -> str:
    """Break a line between words, and indent it where it goes on; `spare` columns at its end stay free."""
    from textwrap import wrap

    indent = " " * (len(text) - len(text.lstrip()) + _GAP)
    room = max(width() - spare, 2 * _LEAST)
    return "\n".join(wrap(text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def echo_wrapped(text: str, *, err: bool = False) -> None:
    """Print a line; broken where it goes to a terminal."""
    click.echo(wrapped_for(text, err=err), err=err)


def wrapped_for(text: str, *, err: bool) -> str:
    """Break a line where it goes to a terminal."""
    return wrapped(text) if _is_seen_on(err) else text


def _is_seen_on(err: bool) -> bool:
    return _is_terminal(sys.stderr) if err else is_seen()


def echo_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, err: bool = False) -> None:
    """Print a table in the width of the terminal; elsewhere its values with tabs between them, and nothing cut.

    Where the heading leaves the screen it stands at the end once more.
    """
    heading = [column.name for column in columns]
    if not _is_seen_on(err):
        for row in (heading, *rows):
            click.echo("\t".join(row), err=err)
        return
    # Imported here: only who sees a table waits for it.
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen = get_terminal_size()
    values = [list(column) for column in zip(heading, *rows, strict=True)]
    needs = [max(map(cell_len, column)) for column in values]
    fixed = sum(need for column, need in zip(columns, needs, strict=True) if not column.may_be_cut)
    open_ones = {number: needs[number] for number, column in enumerate(columns) if column.may_be_cut}
    for number, most in _shared(open_ones, screen.columns - fixed - _GAP * (len(columns) - 1)).items():
        made = distinct(values[number], most)
        values[number] = [made[value] for value in values[number]]
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.name, justify="right" if column.is_number else "left", no_wrap=True)
    for row in list(zip(*values, strict=True))[1:]:
        table.add_row(*map(Text, row))
    if len(rows) > screen.lines:
        table.add_row(*(Text(name, style="bold") for name in heading))
    console = Console(width=screen.columns, force_terminal=True, color_system="standard", emoji=False, highlight=False)
    with console.capture() as made_of:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in made_of.get().splitlines()), err=err)


def _shared(needs: Mapping[int, int], room: int) -> Mapping[int, int]:
    """Share out room by needs: nobody gets more than that, nor less than a few characters."""
    given = {}
    for left, number in zip(range(len(needs), 0, -1), sorted(needs, key=lambda each: needs[each]), strict=True):
        given[number] = min(needs[number], max(room // left, _LEAST))
        room -= given[number]
    return given
