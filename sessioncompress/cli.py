"""The command line: the table of its commands, and errors that are said without power over a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from sessioncompress.commands.budget import budget
from sessioncompress.commands.clean import clean
from sessioncompress.commands.compress import compress
from sessioncompress.commands.forget import forget
from sessioncompress.commands.hook import hook
from sessioncompress.commands.pre_commit import pre_commit
from sessioncompress.commands.restore import restore
from sessioncompress.commands.sessions import sessions
from sessioncompress.commands.show import show
from sessioncompress.commands.stats import stats
from sessioncompress.commands.verify import verify
from sessioncompress.printable import printable
from sessioncompress.version import VERSION

COMMANDS = (budget, clean, compress, forget, hook, pre_commit, restore, sessions, show, stats, verify)


@contextmanager
def _said_printably() -> Iterator[None]:
    """Let click say what was typed, a file's name perhaps, without its power over a terminal."""
    try:
        yield
    except click.UsageError as error:
        said = error.format_message()
        if isinstance(error, click.MissingParameter):
            # Nobody typed what it says, and some of it stands on lines of its own.
            said = " ".join(said.split())
        if said.isprintable() or (error.ctx and said == error.ctx.get_help()):
            raise
        raise click.UsageError(printable(said), error.ctx) from error


class _Commands(click.Group):
    """The commands; an error is said printably, whether this or one of them raises it."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _said_printably():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _said_printably():
            return super().invoke(ctx)


@click.group(cls=_Commands, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="sessioncompress")
def main() -> None:
    """Rewrite coding-agent sessions in place into smaller ones; every original stays recoverable."""
