"""Render an overview as a self-contained HTML page with tables and plots. All text from sessions is escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup
from rich.cells import cell_len, set_cell_size

from sessioncompress.compressors import KINDS
from sessioncompress.core import VERSION
from sessioncompress.core.text import KB, counted, kb, printable, unit
from sessioncompress.errors import Refused, failing
from sessioncompress.operations.overview import Measured, Overview, Row, summed
from sessioncompress.operations.sessions import Swept
from sessioncompress.store import disk

BEGINNING = '<!doctype html>\n<html lang="en" data-from="sessioncompress report">'
"""The start of each page, by which an older one is recognized and may be replaced."""

_MILLION = 1_000_000
_MOST_ROWS, _MOST_BARS, _MOST_LARGEST, _MOST_MONTHS = 12, 8, 15, 24
_LONGEST_LABEL = 18


class Price(NamedTuple):
    """The price of a million input tokens, and a glob for model names."""

    model: str
    dollars: float


class Unit(NamedTuple):
    """A unit shared by all numbers of a column and shown in its heading."""

    of: int
    unit: str

    def write(self, number: int) -> str:
        """Format a number without the unit."""
        if self.of in (1, KB) or not number:
            return f"{round(number / self.of):,}"
        return f"{number / self.of:,.1f}" if number * 20 >= self.of else "<0.1"


class Table(NamedTuple):
    """One breakdown: its heading, rows, the meaning of `part`, and the rows that a plot shows."""

    key: str
    title: str
    what: str
    part: str
    means: str
    rows: tuple[Row, ...]
    size: int
    bars: tuple[Row, ...]
    sizes: Unit
    tokens: Unit


def page(
    found: Overview,
    prices: Sequence[Price],
    *,
    of: str,
    at: str,
    command: str,
    forget: str,
    swept: Swept,
    failed: int,
) -> str:
    """Render the page. `of` describes the sessions, `at` is when they were measured.

    `swept` describes what agents will delete. `command` would shrink the sessions, `forget` would delete unneeded
    stores. `failed` counts files that could not be read.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "size": kb,
        "count": count,
        "share": share,
        "dollars": dollars,
        "breaks": breaks,
        "label": _label,
    }
    sums = ("size", "store", "unused", "tokens", "saved", "saved_tokens", "frees", "adds", "frees_tokens")
    template = environment.from_string(files(__package__).joinpath("page.html").read_text("utf-8"))
    return BEGINNING + template.render(
        found=found,
        disk=found.disk,
        total={name: found.total(name) for name in sums},
        agents=len(found.agents),
        projects=len([row for row in found.projects if row.name != "unknown"]),
        unused=[each.store for each in found.sessions if 0 < each.store == each.unused],
        due=sum(each.frees > 0 for each in found.sessions),
        tables=_tables(found),
        packed=summed("", found.packed) if found.packed else None,
        packed_rows=_first(found.packed, "projects"),
        largest=found.sessions[:_MOST_LARGEST],
        columns=_columns(found.sessions),
        packed_sizes=_columns(found.packed)[0],
        prices=prices,
        saved_money=money(found.sessions, "saved_tokens", prices),
        frees_money=money(found.sessions, "frees_tokens", prices),
        of=of,
        at=at,
        command=command,
        forget=forget,
        swept=swept,
        failed=failed,
        version=VERSION,
        counted=counted,
        name_of=lambda path: printable(path.rpartition("/")[2]),
    )


def count(number: int) -> str:
    """Format a number of tokens or sessions, in millions if large."""
    return f"{number / _MILLION:,.1f} million" if number >= _MILLION else f"{number:,}"


def share(number: int, of: int) -> str:
    """Format a share in percent, rounded down so that it never overstates a saving."""
    if 0 < 100 * number < of:
        return "<1 %"
    return f"{100 * number // of} %" if of else "-"


def dollars(number: float) -> str:
    """Format an amount of money."""
    return f"${number:,.2f}"


def breaks(name: str) -> Markup:
    """Escape a name, and allow line breaks after slashes."""
    return Markup("/<wbr>").join(name.split("/"))


class Money(NamedTuple):
    """The cost of sending tokens once, and the number of sessions with a known price."""

    dollars: float
    sessions: int


def money(sessions: Iterable[Measured], field: str, prices: Sequence[Price]) -> Money:
    """Sum a field of tokens over sessions at each model's price; the first matching price counts."""
    amount, known = 0.0, 0
    for each in sessions:
        if (price := _price(each, prices)) is not None:
            amount += getattr(each, field) * price.dollars / _MILLION
            known += 1
    return Money(amount, known)


def unused_prices(sessions: Iterable[Measured], prices: Sequence[Price]) -> list[Price]:
    """List the prices that apply to no session: no model matches, or an earlier price does."""
    used = {_price(each, prices) for each in sessions}
    return [price for price in prices if price not in used]


def _price(session: Measured, prices: Sequence[Price]) -> Price | None:
    fitting = (price for price in prices if fnmatchcase(session.model.lower(), price.model.lower()))
    return next(fitting, None)


def _tables(found: Overview) -> tuple[Table, ...]:
    names = {kind.value: of.several for kind, of in KINDS.items()}
    kinds = tuple(row._replace(name=names.get(row.name, row.name)) for row in found.kinds)
    months = found.months[-_MOST_MONTHS:]
    if older := found.months[:-_MOST_MONTHS]:
        months = (summed("earlier", older), *months)
    free = ("Would free", "what a run would free, counting the store")
    protected = ("Protected", "what the policy keeps whole")
    return (
        _table("agents", "By agent", "Agent", free, found.agents),
        _table("projects", "By project", "Project", free, _first(found.projects, "projects")),
        _table("months", "By month of the newest answer", "Month", free, months, in_order=True),
        _table("kinds", "By kind", "Kind", protected, kinds),
        # A session may appear in several of these rows.
        _table("tools", "By tool", "Tool", protected, _first(found.tools, "tools", sessions=False)),
    )


def _table(
    key: str, title: str, what: str, part: tuple[str, str], rows: tuple[Row, ...], *, in_order: bool = False
) -> Table:
    bars = rows if in_order else rows[:_MOST_BARS]
    # With one row there is nothing to compare.
    bars = bars if len(rows) > 1 else ()
    return Table(key, title, what, *part, rows, sum(row.size for row in rows), bars, *_columns(rows))


def _columns(rows: Iterable[Row | Measured]) -> tuple[Unit, Unit]:
    """Choose the units of sizes and tokens by the largest value."""
    size, tokens = (max((getattr(row, name) for row in rows), default=0) for name in ("size", "tokens"))
    return Unit(*unit(size)), Unit(_MILLION, "million") if tokens >= _MILLION else Unit(1, "")


def _first(rows: Sequence[Row], what: str, *, sessions: bool = True) -> tuple[Row, ...]:
    """Keep a table's first rows and sum the others into one. Without `sessions`, that row's count is 0."""
    more = rows[_MOST_ROWS:]
    if not more:
        return tuple(rows)
    others = summed(f"{len(more):,} other {what}", more)
    return (*rows[:_MOST_ROWS], others if sessions else others._replace(sessions=0))


def _label(name: str) -> str:
    """Shorten a name for a plot; keep as many trailing parts of a path as fit."""
    if cell_len(name) <= _LONGEST_LABEL:
        return name
    end = name[-_LONGEST_LABEL:]
    if "/" in end and name.startswith("/") and cell_len(end) <= _LONGEST_LABEL:
        return end.partition("/")[2]
    return set_cell_size(name, _LONGEST_LABEL - 1).rstrip() + "\u2026"


_STATE = "Nothing was written."


def refuse_other(path: Path) -> None:
    """Raise Refused if the page's path is taken by anything except an older page; FileFailed."""
    with failing(path, _STATE):
        path.parent.stat()
        is_page = False
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                is_page = file.read(len(BEGINNING)) == BEGINNING.encode()
        if not is_page and os.path.lexists(path):
            remedy = "Name another file with -o, or rename or remove this one first."
            raise Refused("the file exists and is not one of our reports", where=path, state=_STATE, remedy=remedy)


def write(path: Path, page: str) -> None:
    """Write a private page atomically; it quotes sessions. Raises Refused, FileFailed."""
    refuse_other(path)
    with failing(path, _STATE):
        disk.put(path, page.encode())
