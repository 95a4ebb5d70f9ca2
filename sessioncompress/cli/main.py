"""The command line: the table of commands, and usage errors without terminal escapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from sessioncompress.cli.tables import wrapped_for
from sessioncompress.core import VERSION
from sessioncompress.core.text import printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMMANDS = (
    *("sessions", "compress", "compact", "restore", "history", "pack", "unpack"),
    *("search", "stats", "report", "diff", "show", "verify"),
    *("forget", "budget", "handoff", "branch-summary", "config", "hook", "pre-commit", "completion"),
)
"""In the order of use. Each is a function of that name. Only the module of the command that runs is imported."""

_MODULES = {
    "history": "restore",
    **dict.fromkeys(("stats", "budget", "verify"), "sessions"),
    "diff": "show",
    **dict.fromkeys(("handoff", "branch-summary"), "summarizing"),
    **dict.fromkeys(("config", "hook", "completion"), "settings"),
}
"""Modules of the commands that share one."""

_ERROR = "Error: "
_MEANT = {
    "help": "--help",
    "undo": "restore --last",
    "list": "sessions",
    "clean": "forget --gone, --unneeded or --max-size",
}
"""Commands that users may expect from other tools, and ours for them."""


@contextmanager
def _said_printably() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        said = error.format_message()
        if isinstance(error, click.NoSuchOption):
            # Prefer completions of a partly typed option over options that merely look similar.
            begun = [each for each in error.possibilities or () if each.startswith(error.option_name)]
            said = click.NoSuchOption(error.option_name, error.message, begun).format_message() if begun else said
        if isinstance(error, click.MissingParameter):
            # Our own text for this error has several lines.
            said = " ".join(said.split())
        # Click prints its prefix first, so include its width when wrapping.
        fitting = wrapped_for(f"{_ERROR}{printable(said)}", err=True).removeprefix(_ERROR)
        raise click.UsageError(fitting, error.ctx) from error


class _Commands(click.Group):
    """The commands. Usage errors quote the user's input, which may hold terminal escapes, so make them printable."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = import_module(f"sessioncompress.cli.{_MODULES.get(cmd_name, name)}")
        found: click.Command = getattr(module, name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. The error suggests a similar name; not every version of click does."""
        typed = args[0]
        if not (typed in _COMMANDS or typed.startswith("-") or ctx.resilient_parsing):
            import difflib

            near = [_MEANT[typed]] if typed in _MEANT else difflib.get_close_matches(typed, _COMMANDS, n=1)
            ctx.fail(f"No such command '{typed}'.{f' Did you mean {near[0]}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name. Importing the commands for their help would be too slow."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in _COMMANDS if name.startswith(incomplete)]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _said_printably():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _said_printably():
            return super().invoke(ctx)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    epilog="Example: sessioncompress sessions",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, prog_name="sessioncompress")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Make coding agents' sessions smaller in place; every original is kept."""
    if ctx.invoked_subcommand is None:
        from sessioncompress.cli.sessions import overview

        overview.main([], parent=ctx, standalone_mode=False)
