"""`stats`: where the bytes of sessions are, and what would be saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from msgspec.structs import replace

from sessioncompress.cli import options, output
from sessioncompress.cli.frame import Done, Each, SessionCommand
from sessioncompress.cli.tables import Column, echo_table, echo_wrapped
from sessioncompress.core.text import kb, printable
from sessioncompress.operations import wording
from sessioncompress.operations.sessions import SessionStats, Share, inspect_session
from sessioncompress.pipeline.discover import Found


class Stats(SessionCommand[SessionStats]):
    """Show where the bytes are, and what would be saved; change nothing."""

    urls = packed = True
    flags = (options.JOBS, options.JSON, options.VERBOSE)
    takes = (options.CONFIG, options.PRESET, options.BACKUP_DIR, options.FORMAT)
    notes = output.tell_of_others

    @staticmethod
    def work(each: Each, form: str | None) -> SessionStats:
        return inspect_session(each.path, each.policy, form=form)

    def over(self, found: Iterable[Found]) -> Done[SessionStats]:
        here = self.each(found)
        self.reached = here.results
        return here + self.each_packed()

    def document(self, done: Done[SessionStats]) -> dict[str, Any]:
        made = wording.sessions_document(_named(done.results), _named(self.reached))
        return made | {"files": made["files"] + [each for each in done.files if isinstance(each, dict)]}

    def end(self, done: Done[SessionStats]) -> None:
        for each in _named(done.results) if self.chosen.verbose or self.chosen.is_one else ():
            _echo(wording.inspected(each), {("", share.kind, share.tool): share for share in each.shares})
            if not self.chosen.is_one:
                click.echo()
        if not self.chosen.is_one:
            head, *would = wording.inspected_total(done.results, self.reached)
            shares = _added(done.results)
            head = output.total(len(done.results), f", {head}", done.others)
            _echo([head, *(would if done.results else [])], shares if self.chosen.verbose else _largest(shares))


stats = Stats.command("stats session.jsonl")


def _named(results: Sequence[SessionStats]) -> list[SessionStats]:
    return [replace(each, would=replace(each.would, path=each.path)) for each in results]


_Shares = Mapping[tuple[str, str, str], Share]
"""Shares by agent, empty where it goes without saying, kind and tool."""

_SHOWN = 0.99
_OTHERS = "others"


def _bytes(share: Share) -> int:
    return share.protected + share.old + share.dead


def _sum(shares: Iterable[Share]) -> Share:
    shares = list(shares)
    names = ("blocks", "protected", "old", "dead")
    return replace(shares[0], **{name: sum(getattr(share, name) for share in shares) for name in names})


def _added(all_stats: Sequence[SessionStats]) -> _Shares:
    """Add up the shares of several sessions."""
    found: dict[tuple[str, str, str], list[Share]] = {}
    for each in all_stats:
        for share in each.shares:
            found.setdefault((each.format, share.kind, share.tool), []).append(share)
    return {key: _sum(shares) for key, shares in found.items()}


def _largest(shares: _Shares) -> _Shares:
    """Keep the shares that nearly all bytes are in, and the others as one."""
    left = (1 - _SHOWN) * sum(map(_bytes, shares.values()))
    small: list[tuple[str, str, str]] = []
    for key in sorted(shares, key=lambda each: _bytes(shares[each])):
        left -= _bytes(shares[key])
        if left < 0:
            break
        small.append(key)
    if len(small) <= 1:
        return shares
    kept = {key: share for key, share in shares.items() if key not in small}
    return {**kept, (_OTHERS, "", f"{len(small):,} kinds and tools"): _sum(shares[key] for key in small)}


def _echo(lines: Sequence[str], shares: _Shares) -> None:
    """Print the first line, the table of the shares, and the other lines."""
    head, *others = lines
    echo_wrapped(head)
    if shares:
        numbers = [Column(name, is_number=True) for name in ("blocks", "protected", "old", "dead")]
        columns = [Column("agent"), Column("kind"), Column("tool", may_be_cut=True), *numbers]
        rows = []
        # The others come last, however many they are.
        ordered = sorted(shares.items(), key=lambda each: (each[0][0] == _OTHERS, -_bytes(each[1])))
        for (agent, kind, tool), share in ordered:
            sizes = (kb(size) if size else "-" for size in (share.protected, share.old, share.dead))
            rows.append([agent, kind, printable(tool) or "-", f"{share.blocks:,}", *sizes])
        # All are of one agent where none is named.
        first = 0 if any(agent for agent, _, _ in shares) else 1
        echo_table(columns[first:], [row[first:] for row in rows])
    elif others:
        click.echo("  no blocks of 256 bytes or more")
    for text in others:
        echo_wrapped(text)
