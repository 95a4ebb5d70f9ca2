"""The command line: the table of commands, and usage errors without terminal escapes."""

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
"""Each command with the name of its module and function. Only the one that runs is imported."""


def command(name: str) -> click.Command:
    """Import a command by its name. Raises KeyError."""
    module = _COMMANDS[name]
    found: click.Command = getattr(import_module(f"sessioncompress.cli.{module}"), module)
    return found


def commands() -> dict[str, click.Command]:
    """Import all commands."""
    return {name: command(name) for name in _COMMANDS}


@contextmanager
def _said_printably() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        said = error.format_message()
        if isinstance(error, click.MissingParameter):
            # Its text is ours, and has several lines.
            said = " ".join(said.split())
        if said.isprintable() or (error.ctx and said == error.ctx.get_help()):
            raise
        raise click.UsageError(printable(said), error.ctx) from error


class _Commands(click.Group):
    """The commands. Usage errors quote what was typed, which may hold terminal escapes: they are made printable."""

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
