"""`config`: show which policy counts for a session and why, where its files are looked for, or begin one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output
from sessioncompress.core.text import printable, shown_url, utf8
from sessioncompress.policy.sources import FILE_NAME, Setting

SCHEMA = "sessioncompress.config/1"


@click.command(cls=options.Command, epilog="Example: sessioncompress config show session.jsonl")
@click.argument("action", type=click.Choice(["show", "path", "init"]))
@click.argument("path", default=".", type=options.EXISTING)
@options.CONFIG
@options.PRESET
@options.JSON
def config(action: str, path: Path, config: Path | None, preset: str | None, as_json: bool) -> None:
    """Show the policy of a session or folder: each key, its value, and where it comes from.

    'path' lists where policy files are looked for. 'init' writes a compression.json with the preset, and the keys that
    differ from it here.
    """
    from sessioncompress.pipeline.discover import is_folder

    if as_json and action != "show":
        raise click.UsageError("--json only works with show")
    session = path / "session.jsonl" if is_folder(path) else path
    policies = options.policies_of(config, preset, compresses=True)
    if action == "path":
        for file, found in policies.places(session):
            click.echo(f"{found:<11}  {printable(str(file))}")
        return
    settings = [_without_secrets(each) for each in policies.settings(session)]
    if action == "init":
        _begin(session.parent / FILE_NAME, settings)
    elif as_json:
        files = [None if each.file is None else utf8(str(each.file)) for each in settings]
        keys = [{**each._asdict(), "file": file} for each, file in zip(settings, files, strict=True)]
        output.echo_json({"schema": SCHEMA, "path": utf8(str(path)), "keys": keys})
    else:
        by = {"option": "--preset", "preset": f"preset {settings[0].value}"}
        width = max(len(each.key) for each in settings)
        for each in settings:
            said = str(each.file) if each.file else by.get(each.by, each.by)
            click.echo(f"{each.key:<{width}}  {json.dumps(each.value)}  ({printable(said)})")


def _without_secrets(setting: Setting) -> Setting:
    is_url = setting.key == "summarizer.endpoint" and setting.value is not None
    return setting._replace(value=shown_url(setting.value)) if is_url else setting


def _begin(file: Path, settings: list[Setting]) -> None:
    """Write a policy that comes to the same, but for what no file near a session may set."""
    from sessioncompress.operations.handoff import write_new
    from sessioncompress.policy.file import KEYS, PRESET, SECTION, flat, schema_address, to_mapping
    from sessioncompress.policy.model import PRESETS

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
