"""`hook`: install our hooks in an agent's settings, remove them, or show their status."""

from __future__ import annotations

import click

from sessioncompress.cli import options, output
from sessioncompress.cli.kinds import Agent
from sessioncompress.core.text import printable
from sessioncompress.hooks import AGENTS


@click.command(cls=options.Command, epilog="Example: sessioncompress hook install claude-code")
@click.argument("action", type=click.Choice(["install", "uninstall", "status"]))
@click.argument("agent", type=Agent(AGENTS, "hook"), required=False)
@click.option("--compact", is_flag=True, help="With install: also compact each session that has ended.")
@options.PRESET
@click.option("--yes", is_flag=True, help="Write the change without asking.")
def hook(action: str, agent: str | None, compact: bool, preset: str | None, yes: bool) -> None:
    """Let an agent compress each session when it ends, and refuse to write markers into files.

    The agent is claude-code, codex, gemini, opencode or pi; status without an agent is that of all.
    """
    from sessioncompress.hooks import install
    from sessioncompress.hooks.base import COMPRESSED, Ending, log_file

    ending = Ending(compact, preset)
    if ending != COMPRESSED and action != "install":
        raise click.UsageError(f"{'--compact' if compact else '--preset'} only works with install")
    if action == "status":
        for each in AGENTS if agent is None else (agent,):
            for line in install.status(install.agent_named(each)):
                click.echo(printable(line))
        return
    if agent is None:
        raise click.UsageError(f"Name an agent: {', '.join(AGENTS)}")
    known = install.agent_named(agent)
    if ending != COMPRESSED and not known.compresses:
        raise click.UsageError(
            f"{known.title} keeps its sessions in a database, which no hook can compress; only the guard is available. "
            "Export a session and compress that"
        )
    change = install.to_install(known, ending) if action == "install" else install.to_uninstall(known)
    named = known.file()
    name = printable(str(named) if named.absolute() == change.file else f"{named} (which is {change.file})")
    if change.after == change.before:
        click.echo(f"{name}: nothing to do: the hooks are {'installed' if action == 'install' else 'not installed'}")
        return
    click.echo(f"{name}:{' the file will be deleted' if change.after is None else ''}")
    for line in change.lines:
        click.echo(printable(line.expandtabs()))
    if not yes and not output.confirmed(f"Write this to {name}?", change.file, "It was not changed."):
        click.echo(f"{name}: not changed")
        return
    install.write(change)
    done = "installed" if action == "install" else "uninstalled"
    click.echo(f"{name}: {done}; it takes effect the next time you start {known.title}")
    if action == "uninstall" and (log := log_file()).exists():
        # It says what was done to sessions, and other agents may have hooks that write there.
        click.echo(printable(f"their log stays in {log}: delete it if you no longer need it"))
    if known.advice and action == "install":
        click.echo(known.advice)
