"""Output that fits a terminal: tables, and lines with a file and two sizes. Plain text if it isn't a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from shutil import get_terminal_size
from typing import NamedTuple, TextIO

import click

from sessioncompress.core.text import printable, quote

_GAP = 2
_CUT = "..."
_LEAST = 10
"""Minimum characters of a column that may be cut."""
_QUOTED = re.compile(r"(?<!\w)'[^']+'(?!\w)")
_SIZE = 9


class Column(NamedTuple):
    """A column: its name, if it holds numbers, and if values may be cut (in the middle, or `at_end`).

    In a terminal, an `is_below` value is printed on its own line under the row and is never cut.
    """

    name: str
    is_number: bool = False
    may_be_cut: bool = False
    at_end: bool = False
    is_below: bool = False


def is_seen() -> bool:
    """True if stdout is a terminal."""
    return _is_terminal(sys.stdout)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def width() -> int:
    """Return the terminal's width in columns."""
    return get_terminal_size().columns


def is_wide() -> bool:
    """True if the terminal has room for optional columns, or for two texts side by side."""
    return width() >= 120  # noqa: PLR2004


def is_longer_than_the_screen(rows: Sequence[Sequence[str]], below: int) -> bool:
    """True if a table of these rows, each with `below` lines under it, is longer than the screen."""
    return len(rows) * (1 + below) > get_terminal_size().lines


def with_tilde(path: str) -> str:
    """Abbreviate the home folder in a path to `~`."""
    home = os.path.expanduser("~")  # noqa: PTH111 - never raises
    return "~" + path[len(home) :] if path == home or path.startswith(home.rstrip("/") + "/") else path


def cut(text: str, room: int, *, at_end: bool = False) -> str:
    """Cut a text in the middle, because paths differ most at their ends. Or cut it at its end."""
    if at_end:
        from rich.cells import cell_len, set_cell_size

        return text if cell_len(text) <= room else set_cell_size(text, max(room - len(_CUT), 0)).rstrip() + _CUT
    if len(text) <= room:
        return text
    head = max(room - len(_CUT), 0) // 3
    return text[:head] + _CUT + text[len(text) - max(room - len(_CUT) - head, 0) :]


def distinct(names: Iterable[str], room: int, *, at_end: bool = False) -> Mapping[str, str]:
    """Cut names as cut() does. If two would become equal, omit the part in the middle that they share."""
    ordered = sorted(set(names))
    made = {name: cut(name, room, at_end=at_end) for name in ordered}
    number_of = Counter(made.values())
    for before, name, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        if number_of[made[name]] > 1:
            alike = max(len(os.path.commonprefix([name, each])) for each in (before, after))  # noqa: RUF071
            alike = name.rfind(" ", alike - _LEAST, alike) + 1 or alike
            made[name] = cut(name[: room // 3] + _CUT + name[max(alike, room // 3) :], room, at_end=True)
    return made


def file_line(path: str, before: str, after: str, by: str, arrow: str = "->", title: str = "") -> str:
    """Format a file's change, aligned with other lines. Show its title in a terminal, and its path elsewhere."""
    if not is_seen():
        return f"{printable(path)}: {before} {arrow} {after} ({by})"
    said = f"{before:>{_SIZE}} -> {after:>{_SIZE}}  {click.style(f'{by:>6}', fg='green')}"
    return line_of(path, title, said)


def titled(title: str, folder: str) -> str:
    """Prefix a title with its project's folder name, if both exist."""
    return f"{cut(printable(folder), 14)}: {title}" if folder and title else title


def line_of(path: str, title: str, said: str) -> str:
    """Format a file's title, or its path without one, followed by the result, on one terminal line."""
    from rich.cells import cell_len

    # A wider name column would put the numbers too far away.
    room = min(max(width() - len(click.unstyle(said)) - _GAP, _LEAST), 100)
    name = cut(title, room, at_end=True) if title else cut(with_tilde(printable(path)), room)
    return f"{name}{' ' * (room - cell_len(name))}  {said}"


def pasted(path: str) -> str:
    """Return a path as a shell takes it: quoted if needed, else with the home abbreviated."""
    return with_tilde(path) if quote(path) == path else quote(path)


def shown(path: str) -> str:
    """Return a path to start a line with. In a terminal, abbreviate the home and cut to fit."""
    name = printable(path)
    return cut(with_tilde(name), width() - _GAP) if is_seen() else name


def wrapped(text: str, spare: int = 0) -> str:
    """Wrap a line between words, with an indent, leaving `spare` columns free at the end.

    Quoted text, such as a command, is never wrapped, so that it can be copied.
    """
    from textwrap import wrap

    indent = " " * (len(text) - len(text.lstrip()) + _GAP)
    room = max(width() - spare, 2 * _LEAST)
    text = _QUOTED.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = wrap(text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def echo_wrapped(text: str, *, err: bool = False) -> None:
    """Print a line, wrapped if the output is a terminal."""
    click.echo(wrapped_for(text, err=err), err=err)


def wrapped_for(text: str, *, err: bool) -> str:
    """Wrap a line if the output is a terminal."""
    return wrapped(text) if _is_seen_on(err) else text


def _is_seen_on(err: bool) -> bool:
    return _is_terminal(sys.stderr) if err else is_seen()


def echo_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], *, err: bool = False, left_out: Collection[str] = ()
) -> None:
    """Print a table that fits the terminal; elsewhere print full values separated by tabs.

    If the heading scrolls off the screen, it is repeated at the end. `left_out` names columns to omit.
    """
    rows = list(rows)
    kept = [at for at, each in enumerate(columns) if each.name not in left_out]
    if not _is_seen_on(err):
        for row in ([column.name for column in columns], *rows):
            click.echo("\t".join(row[at] for at in kept), err=err)
        return
    from rich.cells import cell_len

    screen = get_terminal_size()
    room = screen.columns - _GAP
    under = [at for at in kept if columns[at].is_below]
    below = [[cut(row[at], room, at_end=True) if columns[at].may_be_cut else row[at] for at in under] for row in rows]
    values = {at: [columns[at].name, *(row[at] for row in rows)] for at in kept if at not in under}
    needs = {at: max(map(cell_len, cells)) for at, cells in values.items()}
    open_ones = {at: need for at, need in needs.items() if columns[at].may_be_cut}
    fixed = sum(needs.values()) - sum(open_ones.values()) + _GAP * (len(values) - 1)
    for at, most in _shared(open_ones, screen.columns - fixed).items():
        made = distinct(values[at], most, at_end=columns[at].at_end)
        values[at] = [made[name] for name in values[at]]
    for at, cells in values.items():
        size = max(map(cell_len, cells))
        for place, cell in enumerate(cells):
            padding = " " * (size - cell_len(cell))
            cells[place] = padding + cell if columns[at].is_number else cell + padding
    heading, *lines = ((" " * _GAP).join(row).rstrip() for row in zip(*values.values(), strict=True))
    heading = click.style(heading, bold=True)
    click.echo(heading, err=err)
    for line, more in zip(lines, below, strict=True):
        click.echo("\n  ".join([line, *more]), err=err)
    if is_longer_than_the_screen(rows, len(under)):
        click.echo(heading, err=err)


def _shared(needs: Mapping[int, int], room: int) -> Mapping[int, int]:
    """Divide the room among columns. Each gets at most its need, and at least a few characters."""
    given = {}
    for left, number in zip(range(len(needs), 0, -1), sorted(needs, key=lambda each: needs[each]), strict=True):
        given[number] = min(needs[number], max(room // left, _LEAST))
        room -= given[number]
    return given
