"""`config`, `hook` and `completion`: the policy of sessions, hooks in agents' settings, and shell completion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.core.text import printable, shown_url, utf8
from sessioncompress.hooks import AGENTS
from sessioncompress.pipeline.discover import is_folder
from sessioncompress.policy.model import PRESETS
from sessioncompress.policy.sources import FILE_NAME, Setting


@click.command(cls=options.Command, epilog="Example: sessioncompress config show session.jsonl")
@click.argument("action", type=click.Choice(["show", "path", "init"]))
@click.argument("path", default=".", type=options.EXISTING)
@options.CONFIG
@options.PRESET
@options.JSON
def config(action: str, path: Path, config: Path | None, preset: str | None, as_json: bool) -> None:
    """Show the policy of a session or folder. It prints each key, its value, and its source.

    'path' lists where policy files are looked for. 'init' writes a compression.json with the preset, and the keys that
    differ from it here.
    """
    if as_json and action != "show":
        raise click.UsageError("--json only works with show")
    session = path / "session.jsonl" if is_folder(path) else path
    policies = options.policies_of(config, preset, compresses=True)
    if action == "path":
        for file, found in policies.places(session):
            click.echo(f"{found:<11}  {printable(str(file))}")
        return
    # An endpoint's URL may hold a secret.
    settings = [
        each._replace(value=shown_url(each.value)) if each.key == "summarizer.endpoint" and each.value else each
        for each in policies.settings(session)
    ]
    if action == "init":
        _begin(session.parent / FILE_NAME, settings)
    elif as_json:
        files = [None if each.file is None else utf8(str(each.file)) for each in settings]
        keys = [{**each._asdict(), "file": file} for each, file in zip(settings, files, strict=True)]
        output.echo_json({"schema": "sessioncompress.config/1", "path": utf8(str(path)), "keys": keys})
    else:
        by = {"option": "--preset", "preset": f"preset {settings[0].value}"}
        width = max(len(each.key) for each in settings)
        for each in settings:
            said = str(each.file) if each.file else by.get(each.by, each.by)
            click.echo(f"{each.key:<{width}}  {json.dumps(each.value)}  ({printable(said)})")


def _begin(file: Path, settings: list[Setting]) -> None:
    """Write an equivalent policy file, without the keys that no file near a session may set."""
    from sessioncompress.operations.handoff import write_new
    from sessioncompress.policy.file import KEYS, PRESET, SECTION, flat, schema_address, to_mapping

    preset, *others = settings
    of_preset = flat(to_mapping(PRESETS[preset.value]))
    section: dict[str, Any] = {PRESET: preset.value}
    for each in others:
        outer, _, inner = each.key.partition(".")
        if each.value != of_preset[each.key] and KEYS[outer].only_user is None:
            (section.setdefault(outer, {}) if inner else section)[inner or outer] = each.value
    address = schema_address()
    text = json.dumps(({"$schema": address} if address else {}) | {SECTION: section}, indent=2)
    write_new(file, f"{text}\n".encode())
    click.echo(f"{printable(str(file))}: written")


@click.command(cls=options.Command, epilog="Example: sessioncompress hook install claude-code")
@click.argument("action", type=click.Choice(["install", "uninstall", "status"]))
@click.argument("agent", type=options.Agent(AGENTS, "hook"), required=False)
@click.option("--compact", is_flag=True, help="With install: also compact each session that has ended.")
@options.PRESET
@options.YES
def hook(action: str, agent: str | None, compact: bool, preset: str | None, yes: bool) -> None:
    """Let an agent compress each session when it ends. The agent then also refuses to write markers into files.

    The agent is claude-code, codex, gemini, opencode, pi or qwen; status without an agent shows all.
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
    question = f"Delete {name}?" if change.after is None else f"Write this to {name}?"
    if not yes and not output.confirmed(question, change.file, "It was not changed."):
        click.echo(f"{name}: not changed")
        return
    install.write(change)
    done = "installed" if action == "install" else "uninstalled"
    click.echo(f"{name}: {done}; it takes effect the next time you start {known.title}")
    if action == "uninstall" and (log := log_file()).exists():
        # It is a record of what was done, and other agents' hooks may write to it.
        click.echo(printable(f"their log stays in {log}: delete it if you no longer need it"))
    if known.advice and action == "install":
        click.echo(known.advice)


@click.command(
    cls=options.Command, epilog="Example: sessioncompress completion bash > ~/.sessioncompress-complete.bash"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script for completion in a shell. It completes commands, options and paths."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    program = "sessioncompress"
    click.echo(found(context.find_root().command, {}, program, f"_{program.upper()}_COMPLETE").source())
