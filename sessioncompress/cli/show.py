"""`show`: print the original that a marker's reference names."""

from __future__ import annotations

import re
import sys
from io import BytesIO
from pathlib import Path

import click

from sessioncompress.cli import options
from sessioncompress.cli.tables import is_seen
from sessioncompress.core.text import kb, printable
from sessioncompress.errors import UsageError


@click.command(cls=options.ReadOnly, epilog="Example: sessioncompress show 7f3a91c2e05b --lines 1:80")
@click.argument("ref")
@click.argument("path", required=False, type=options.EXISTING_OR_PACKED)
@click.option("--all", "everything", is_flag=True, help="Print all of it, not only the first 20 KB.")
@click.option("--lines", metavar="A:B", help="Print lines A to B only, counted from 1.")
@options.CONFIG
@options.THEIR_FOLDER
def show(
    ref: str, path: Path | None, everything: bool, lines: str | None, config: Path | None, backup_dir: Path | None
) -> None:
    """Print the original that a marker's reference names."""
    from sessioncompress.operations.show import show as find
    from sessioncompress.operations.show import working_folder

    policy = options.policies_of(config, backup_dir=backup_dir).of(path or working_folder() / "session.jsonl")
    if path is not None:
        options.tell_of_two_stores(path, policy)
    first, *others = found = find(ref, path, policy)
    if others:
        for each in found:
            record = each.record
            where = f"{record.kind.value} {record.tool}, {record.bytes:,} bytes, line {record.line + 1}"
            click.echo(printable(f"{record.digest}  {where}  {each.journal}"), err=True)
        raise UsageError(f"{ref} matches {len(found)} originals", remedy="Give more digits, or name the session.")
    content = first.content if lines is None else _lines(first.content, lines)
    rest = 0 if everything or lines is not None else max(0, len(content) - 20 * 1024)
    content = content[: len(content) - rest]
    if is_seen():
        # The bytes as they are, but for control characters, which are made visible.
        text = content.decode(errors="backslashreplace").removesuffix("\n")
        click.echo("\n".join(printable(each.replace("\t", "    ")) for each in text.split("\n")))
    elif sys.stdout is not None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    if rest:
        click.echo(f"\n{kb(rest)} more; use --all for everything, or --lines A:B for a part.", err=True)
    if not first.is_ours:
        click.echo(printable(f"From a store made elsewhere, or by an earlier version: {first.journal}"), err=True)
    if first.record.kind.value == "image":
        click.echo("An image, in base64: 'show REF --all | base64 -d' gives the file.", err=True)


def _lines(content: bytes, wanted: str) -> bytes:
    found = re.fullmatch(r"(\d{1,18})(?:(:)(\d{1,18})?)?", wanted)
    if found is None or int(found[1]) < 1:
        raise click.UsageError("--lines needs A:B, two line numbers counted from 1")
    lines = list(BytesIO(content))
    first = int(found[1])
    last = int(found[3]) if found[3] else (max(first, len(lines)) if found[2] else first)
    if last < first:
        raise click.UsageError(f"--lines {wanted} ends before it starts")
    if first > len(lines):
        raise click.UsageError(f"--lines {wanted} starts after the last line, {len(lines):,}")
    return b"".join(lines[first - 1 : last])
