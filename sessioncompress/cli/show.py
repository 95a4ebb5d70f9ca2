"""`show` and `diff`: print the original of a reference, or what a session lost."""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BytesIO
from itertools import chain, zip_longest
from operator import add
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from sessioncompress.cli import options, output
from sessioncompress.cli.choosing import typed
from sessioncompress.cli.frame import Done, SessionCommand
from sessioncompress.cli.tables import Column, cut, echo_table, is_seen, is_wide
from sessioncompress.core.marker import amount
from sessioncompress.core.model import Kind
from sessioncompress.core.text import MADE_ELSEWHERE, counted, kb, printable, written_time
from sessioncompress.errors import UsageError
from sessioncompress.pipeline.discover import Found, is_database, names_rows
from sessioncompress.store.layout import lines_of, rows_of

if TYPE_CHECKING:
    from sessioncompress.operations.diff import Diff as Losses
    from sessioncompress.operations.diff import Loss
    from sessioncompress.policy.model import Policy


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

    if path is not None and names_rows(path):
        # Its store is kept there.
        path = rows_of(path) if is_database(path) else lines_of(path)
    policies = options.policies_of(config, near=False, backup_dir=backup_dir)
    policy = policies.of(path or working_folder() / "session.jsonl")
    if path is not None:
        options.tell_of_two_stores(path, policy)
    first, *others = found = find(ref, path, policy)
    if others:
        for each in found:
            record = each.record
            where = f"{record.kind.shown} {record.tool}, {record.bytes:,} bytes, line {record.line + 1}"
            click.echo(printable(f"{record.digest}  {where}  {each.journal}"), err=True)
        raise UsageError(
            f"{ref} matches {len(found)} originals", state="", remedy="Give more digits, or name the session."
        )
    content = first.content if lines is None else _lines(first.content, lines)
    rest = 0 if everything or lines is not None else max(0, len(content) - 20 * 1024)
    content = content[: len(content) - rest]
    if is_seen():
        # Print the text with control characters made visible.
        text = content.decode(errors="backslashreplace").removesuffix("\n")
        click.echo("\n".join(printable(each.replace("\t", "    ")) for each in text.split("\n")))
    elif sys.stdout is not None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    if rest:
        click.echo(f"\n{kb(rest)} more; use --all for everything, or --lines A:B for a part.", err=True)
    if first.pack is not None or not first.is_ours:
        what = "a packed session" if first.is_ours else f"a store {MADE_ELSEWHERE}"
        click.echo(printable(f"From {what}: {first.journal if first.pack is None else first.pack.archive}"), err=True)
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


_FIRST_LINES = 12


_Rows = dict[tuple[str, str], list[int]]
"""Maps (kind, tool) to the number of replaced values, their original bytes, and their bytes now."""


class _Lost(Struct, frozen=True):
    path: str
    rows: _Rows
    made_elsewhere: bool


class Diff(SessionCommand[_Lost]):
    """Show what sessions lost, next to their originals. Change nothing."""

    stores = True
    flags = (click.option("--stat", is_flag=True, help="Print only a table by kind and tool."),)
    takes = (options.CONFIG, options.THEIR_FOLDER, options.FORMAT)
    keeps = ("stat",)
    notes = output.tell_of_rollouts

    def over(self, found: Iterable[Found]) -> Done[_Lost]:
        from sessioncompress.operations.show import around

        self.echo: Callable[[str], object] = click.echo
        self.near = {os.path.realpath(each) for each in around()}
        if self.given.stat or not is_seen():
            return super().over(found)
        held: list[str] = []
        done: Done[_Lost] = Done([], [], {}, 0)
        self.echo = held.append

        def paged() -> Iterator[str]:
            nonlocal done
            for each in found:
                done += self.each([each])
                yield from (f"{line}\n" for line in held)
                held.clear()

        # As git does: if it fits, it stays on the screen. And less must not write a history file to the home.
        os.environ.setdefault("LESS", "FRX")
        os.environ.setdefault("LESSHISTFILE", "-")
        click.echo_via_pager(paged())
        if held:
            # The user quit the pager early and needs no total.
            sys.exit(0)
        return done

    def at_once(self, found: Found, policy: Policy) -> _Lost:
        if found.remote is None:
            return self._told(found, policy, found.path)
        from sessioncompress.operations.database import work_on

        return work_on(found.remote, partial(self._told, found, policy), writes=False, keeps=False)

    def _told(self, found: Found, policy: Policy, at: Path) -> _Lost:
        from sessioncompress.operations.diff import diff_session

        path, is_one, rows = found.path, self.chosen.is_one, _Rows()
        is_near = not policy.backup_dir and os.path.realpath(path.parent) in self.near
        named = "" if is_near else " ".join(["", *typed([path], *self.where[1:])])
        with diff_session(at, policy, form=self.given.form) as lost:
            lines = _by_message(path, lost, rows, named)
            if self.given.stat:
                deque(lines, maxlen=0)
                lines = _summaries(lost) if is_one else iter(())
            if (first := next(lines, None)) is not None:
                try:
                    for line in chain([] if is_one else [printable(f"{path}:")], [first], lines):
                        self.echo(line)
                except BrokenPipeError:
                    # The reader is gone, which is no fault of the session.
                    sys.exit(0)
            if is_one and not rows:
                why = "every line has its original bytes" if lost.has_store else "it has no store and no markers"
                self.echo(printable(f"{path}: nothing was replaced: {why}"))
        return _Lost(str(path), rows, lost.made_elsewhere)

    def end(self, done: Done[_Lost]) -> None:
        rows = _Rows()
        for each in done.results:
            for key, numbers in each.rows.items():
                rows[key] = [*map(add, rows.get(key, (0, 0, 0)), numbers)]
        self.summed = rows
        if rows and self.given.stat:
            # Largest loss first.
            ordered = sorted(rows.items(), key=lambda item: (item[1][2] - item[1][1], item[0]))
            ordered.append((("total", ""), _sums(rows)))
            columns = [Column("kind"), Column("tool", may_be_cut=True)]
            columns += [Column(name, is_number=True) for name in ("values", "bytes", "bytes now")]
            echo_table(columns, [[*key, *(f"{number:,}" for number in row)] for key, row in ordered])
        super().end(done)

    def total(self, done: Done[_Lost]) -> list[str]:
        lost = sum(bool(each.rows) for each in done.results)
        others = {"without a replaced value": len(done.results) - lost} | done.others
        return [output.total(lost, f", {_summed(self.summed)}", others)]


diff = Diff.command("diff session.jsonl --stat")


def _sums(rows: _Rows) -> list[int]:
    return [sum(row[column] for row in rows.values()) for column in range(3)]


def _summed(rows: _Rows, where: str = "") -> str:
    values, before, after = _sums(rows)
    return f"{counted(values, 'value', 'values')}{where}: {amount(before)} -> {amount(after)}"


def _by_message(session: Path, found: Losses, rows: _Rows, named: str) -> Iterator[str]:
    """Yield lines that describe the losses by message, and fill `rows`. `named` is the argument for `show`."""
    width = get_terminal_size((100, 24)).columns
    messages, copies = 0, [0, 0]
    yield from _summaries(found)
    for message in found.messages:
        messages += 1
        # Codex writes one after each step, so these would bury what the model lost.
        is_shown = any(loss.block.kind is not Kind.MIRROR for loss in message.losses)
        turn = f"turn {message.turn:,}" if message.turn else "on an abandoned branch"
        time = f", {written_time(message.time / 1000)}" if message.time else ""
        if is_shown:
            yield f"{turn}, line {message.line:,}, {message.role}{time}"
        calls = set[str]()
        for loss in message.losses:
            row = rows.setdefault((loss.block.kind.shown, printable(loss.block.tool)), [0, 0, 0])
            # Count as a run does: all arguments of a call are one.
            counts = loss.block.kind is not Kind.ARGUMENT or loss.block.call not in calls
            calls.update([loss.block.call] * (loss.block.kind is Kind.ARGUMENT))
            row[:] = map(add, row, (counts, loss.block.bytes, _size(loss)))
            if is_shown:
                yield f"  {_heading(loss, named)}"
                yield from _beside(loss, width) if is_wide() else _above(loss, width)
            else:
                copies[:] = map(add, copies, (1, loss.block.bytes))
        if is_shown:
            yield ""
    if copies[0]:
        what = counted(copies[0], "screen copy", "screen copies")
        yield f"not shown: {what} alone, {amount(copies[1])}, which no model reads"
    if rows:
        where = f" in {counted(messages, 'message', 'messages')}"
        yield printable(f"{session}: {_summed(rows, where)}; --stat for a table")


def _summaries(found: Losses) -> Iterator[str]:
    for each in found.summaries:
        gone = f"; {counted(each.moved, 'line', 'lines')} moved to the originals" if each.moved else ""
        tokens = f"{each.tokens_before:,} -> {each.tokens_after:,} tokens for the model"
        yield printable(f"summary ({each.by}, {each.rule}): {tokens}{gone}")


def _heading(loss: Loss, named: str) -> str:
    block = loss.block
    tool = f" of {block.tool}" if block.tool else ""
    now = "removed" if loss.now is None else amount(_size(loss))
    way = f"sessioncompress show {block.ref}{named}" if loss.original is not None else "no original was kept"
    way = way if block.ref else "which restore brings back"
    return printable(f"{block.kind.shown}{tool}: {amount(block.bytes)} -> {now}, {way}")


def _size(loss: Loss) -> int:
    return len((loss.now or "").encode(errors="replace"))


def _beside(loss: Loss, width: int) -> Iterator[str]:
    """Show the first lines of the original to the left of the current ones."""
    from rich.cells import set_cell_size

    each = (width - 5) // 2
    for was, now in zip_longest(*_sides(loss), fillvalue=""):
        yield f"  {set_cell_size(cut(was, each, at_end=True), each)} | {cut(now, each, at_end=True)}".rstrip()


def _above(loss: Loss, width: int) -> Iterator[str]:
    """Show the first lines of the original above the current ones, like a unified diff."""
    for sign, lines in zip("-+", _sides(loss), strict=True):
        for each in lines:
            yield cut(f"  {sign} {each}", width, at_end=True)


def _sides(loss: Loss) -> tuple[list[str], list[str]]:
    if loss.block.kind is Kind.IMAGE:
        return ["(an image)"], _first_lines(loss.now or "(removed)")
    return _first_lines(loss.original or "(not kept)"), _first_lines(loss.now or "(removed)")


def _first_lines(text: str) -> list[str]:
    """Return the first lines of a text in printable form, and a count of the rest."""
    lines = text.removesuffix("\n").split("\n", _FIRST_LINES)
    rest = "".join(lines[_FIRST_LINES:])
    more = rest.count("\n") + 1
    # No terminal shows more of a line.
    shown = [printable(each[:500].expandtabs(4)) for each in lines[:_FIRST_LINES]]
    return [*shown, f"... {counted(more, 'more line', 'more lines')}"] if rest else shown
