"""`sessions`: list the sessions of all agents on this machine."""

from __future__ import annotations

import sys
import time
from itertools import chain
from pathlib import Path

import click

from sessioncompress.cli import options, output
from sessioncompress.core.text import counted, printable, written_time
from sessioncompress.operations import batch
from sessioncompress.operations import sessions as lists
from sessioncompress.operations.packed import listed_packed
from sessioncompress.operations.report import kb
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.summary import to_json

SCHEMA = "sessioncompress.sessions/1"
HEADING = f"{'agent':<12} {'size':>12} {'age':>7} {'could save':>12}  {'compressed':<10}  project  session"

_DIGEST_SHOWN = 12
_DIGEST_DIGITS = 64
_UNITS = (("d", 24 * 3600), ("h", 3600), ("min", 60))


def line(session: lists.ListedSession) -> str:
    """Format one session."""
    seconds = max(time.time() - session.modified, 0)
    unit, length = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    age = f"{int(seconds // length):,} {unit}"
    saves = kb(session.could_save) if session.could_save else "-"
    compressed = "packed" if session.packed else "yes" if session.compressed else "-"
    is_digest = len(session.project) == _DIGEST_DIGITS and "/" not in session.project
    project = f"sha256:{session.project[:_DIGEST_SHOWN]}" if is_digest else printable(session.project) or "-"
    head = f"{session.agent:<12} {kb(session.size):>12} {age:>7} {saves:>12}  {compressed:<10}"
    return f"{head}  {project}  {printable(session.path)}"


@click.command(cls=options.Command, epilog="Example: sessioncompress sessions --project .")
@options.AGENT
@options.PROJECT
@options.OLDER_THAN
@options.JSON
def sessions(agent: str | None, project: Path | None, older_than: int | None, as_json: bool) -> None:
    """List the sessions of all agents on this machine, and what could be saved; change nothing."""
    policies = options.policies_of(None)

    def work(found: Found) -> lists.ListedSession:
        assert isinstance(found, lists.Session)
        return lists.listed(found, policies.of(found.path))

    if not as_json:
        click.echo(HEADING)
    selection = lists.Selection(agent, project, older_than)
    outcomes = chain(batch.each(lists.sessions(selection), work), listed_packed(selection))
    done = output.told(outcomes, lambda one: None if as_json else click.echo(line(one)))
    totals = {
        "sessions": len(done.results),
        "size": sum(each.size for each in done.results),
        "compressed": sum(each.compressed for each in done.results),
        "couldSave": sum(each.could_save for each in done.results),
        "packed": sum(each.packed for each in done.results),
    }
    if as_json:
        listed = [to_json(each) | {"modified": written_time(each.modified)} for each in done.results]
        output.echo_json({"schema": SCHEMA, "sessions": listed, "totals": totals})
    else:
        head = f"total: {counted(len(done.results), 'session', 'sessions')}"
        if done.results:
            agents = counted(len({each.agent for each in done.results}), "agent", "agents")
            saves = f"a run could save {kb(totals['couldSave'])}, originals included"
            packed = f" {totals['packed']:,} packed;" if totals["packed"] else ""
            head += f" of {agents}, {kb(totals['size'])}; {totals['compressed']:,} compressed already;{packed} {saves}"
        click.echo(output.with_others(head, done.others))
    output.tell_of_opencode(agent)
    sys.exit(done.exit_code)
