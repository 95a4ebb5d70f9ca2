"""The command line: the table of its commands, and errors that are said without power over a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from sessioncompress.core import VERSION
from sessioncompress.core.text import printable

_COMMANDS = {
    "budget": "budget",
    "clean": "clean",
    "compress": "compress",
    "forget": "forget",
    "hook": "hook",
    "pre-commit": "pre_commit",
    "restore": "restore",
    "sessions": "sessions",
    "show": "show",
    "stats": "stats",
    "verify": "verify",
}
"""The commands, each with its module and its name there; only the one that runs is imported."""


def command(name: str) -> click.Command:
    """Return a command. Raises KeyError where none has that name."""
    module = _COMMANDS[name]
    found: click.Command = getattr(import_module(f"sessioncompress.cli.{module}"), module)
    return found


def commands() -> dict[str, click.Command]:
    """Return all commands by their names."""
    return {name: command(name) for name in _COMMANDS}


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

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return command(cmd_name) if cmd_name in _COMMANDS else None

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _said_printably():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _said_printably():
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="sessioncompress")
def main() -> None:
    """Rewrite coding-agent sessions in place into smaller ones; every original stays recoverable."""
