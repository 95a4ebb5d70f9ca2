"""`completion`: print what lets a shell complete our commands, options and paths."""

from __future__ import annotations

import click

from sessioncompress.cli import options

PROGRAM = "sessioncompress"


@click.command(
    cls=options.Command, epilog="Example: sessioncompress completion bash > ~/.sessioncompress-complete.bash"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and paths in a shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())
