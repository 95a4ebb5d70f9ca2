"""Help that fits a screen: what finds no room there is named in a line, and `--help-all` says all of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

LINES = 23
"""A terminal opens with one more, for the prompt."""
ALL = "--help-all"


class Row(NamedTuple):
    """An option or a command, what it is for, and the heading that it stands under."""

    heading: str
    name: str
    said: str

    @property
    def short(self) -> str:
        """The beginning of what is said, up to what is said in addition."""
        return self.said.partition(". ")[0].partition("; ")[0].removesuffix(".") + "."


class OneScreen(click.Command):
    """A command or a group whose help fits a screen: its options or commands are declared in the order of their use.

    Options that are declared elsewhere and yet used most are `first`.
    """

    def __init__(self, *arguments: Any, first: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self._first = first

    def rows(self, ctx: click.Context) -> Iterator[Row]:
        """List what help has a row for."""
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and (record := each.get_help_record(ctx)):
                yield Row("Options", *record)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Add the option that prints all help, as click adds the one that prints help."""
        return [*super().get_params(ctx), _HELP_ALL]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write as many rows as find room."""
        rows = list(self.rows(ctx))
        by_use = {name: place for place, name in enumerate(self._first)}
        rows.sort(key=lambda row: by_use.get(row.name.split()[0], len(by_use)))
        for number in range(len(rows), -1, -1):
            trial = ctx.make_formatter()
            self._write(ctx, trial, [row._replace(said=row.short) for row in rows[:number]], rows[number:])
            if len(trial.getvalue().splitlines()) <= LINES:
                break
        formatter.write(trial.getvalue())

    def all_help(self, ctx: click.Context) -> str:
        """Write all rows, and all that they say."""
        formatter = ctx.make_formatter()
        self._write(ctx, formatter, list(self.rows(ctx)), [])
        return formatter.getvalue().rstrip("\n")

    def _write(
        self, ctx: click.Context, formatter: click.HelpFormatter, rows: Sequence[Row], others: Sequence[Row]
    ) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        for heading in dict.fromkeys(row.heading for row in rows):
            with formatter.section(heading):
                formatter.write_dl([(row.name, row.said) for row in rows if row.heading == heading])
        if others:
            # Click would break a line inside a name.
            names = ", ".join(row.name.split()[0].rstrip(",") for row in others)
            text = textwrap.fill(f"See {ALL} for {names}.", formatter.width, break_on_hyphens=False)
            formatter.write(f"\n{text}\n")
        self.format_epilog(ctx, formatter)


def _print_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value and not ctx.resilient_parsing:
        assert isinstance(ctx.command, OneScreen)
        click.echo(ctx.command.all_help(ctx))
        ctx.exit()


_HELP_ALL = click.Option(
    [ALL], is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=_print_all, help="Say all of this."
)
