"""`show`: print the original that a marker's reference names."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import click

from sessioncompress.cli.options import CONFIG, EXISTING, THEIR_FOLDER, errors_end_it, policies_of, tell_of_two_stores
from sessioncompress.core.text import printable

_SHOWN_BYTES = 20 * 1024


@click.command(epilog="Example: sessioncompress show 7f3a91c2e05b --lines 1:80")
@click.argument("ref")
@click.argument("path", required=False, type=EXISTING)
@click.option("--all", "everything", is_flag=True, help="Print all of it, not only the first 20 KB.")
@click.option("--lines", metavar="A:B", help="Print lines A to B only, counted from 1.")
@CONFIG
@THEIR_FOLDER
@errors_end_it
def show(
    ref: str, path: Path | None, everything: bool, lines: str | None, config: Path | None, backup_dir: Path | None
) -> None:
    """Print the original that a marker's reference names."""
    from sessioncompress.operations.report import kb
    from sessioncompress.operations.show import show as find
    from sessioncompress.operations.show import working_folder

    policies = policies_of(config, None, {"backup_dir": backup_dir})
    policy = policies.of(path or working_folder() / "session.jsonl")
    if path is not None:
        tell_of_two_stores(path, policy)
    found = find(ref, path, policy)
    if len(found) > 1:
        _ambiguous(ref, found)
    content = found[0].content
    if lines is not None:
        content = _lines(content, lines)
    rest = 0 if everything or lines is not None else max(0, len(content) - _SHOWN_BYTES)
    _print(content[: len(content) - rest])
    if rest:
        click.echo(f"\n{kb(rest)} more; --all prints everything, --lines A:B a part.", err=True)
    if found[0].record.kind.value == "image":
        click.echo("An image, in base64: 'show REF --all | base64 -d' gives the file.", err=True)


def _ambiguous(ref: str, found: Sequence[Any]) -> None:
    from sessioncompress.errors import UsageError

    for each in found:
        record = each.record
        where = f"{record.kind.value} {record.tool}, {record.bytes:,} bytes, line {record.line + 1}"
        click.echo(printable(f"{record.xxh3}  {where}  {each.journal}"), err=True)
    raise UsageError(f"{ref} names {len(found)} originals", remedy="Give more digits, or name the session.")


def _lines(content: bytes, wanted: str) -> bytes:
    found = re.fullmatch(r"(\d{1,18})(?:(:)(\d{1,18})?)?", wanted)
    if found is None or int(found[1]) < 1:
        raise click.UsageError("--lines takes A:B, two line numbers counted from 1")
    lines = list(BytesIO(content))
    first = int(found[1])
    last = int(found[3]) if found[3] else (max(first, len(lines)) if found[2] else first)
    if last < first:
        raise click.UsageError(f"--lines {wanted} ends before it begins")
    if first > len(lines):
        raise click.UsageError(f"--lines {wanted} begins behind the end, line {len(lines):,}")
    return b"".join(lines[first - 1 : last])


def _print(content: bytes) -> None:
    """Print bytes as they are; on a terminal, control characters are made visible."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return

    text = content.decode(errors="backslashreplace").removesuffix("\n")
    click.echo("\n".join(printable(each.replace("\t", "    ")) for each in text.split("\n")))
