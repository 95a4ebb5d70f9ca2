"""`sessions`: list the sessions of all agents on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sessioncompress.cli.options import AGENT, JSON, OLDER_THAN, PROJECT, errors_end_it, policies_of
from sessioncompress.cli.output import echo_json, for_all, tell_of_opencode
from sessioncompress.core import text
from sessioncompress.core.text import counted, printable
from sessioncompress.operations.report import kb
from sessioncompress.operations.sessions import ListedSession
from sessioncompress.pipeline.summary import to_json

if TYPE_CHECKING:
    from sessioncompress.pipeline.discover import Found

SCHEMA = "sessioncompress.sessions/1"
HEADING = f"{'agent':<12} {'size':>12} {'age':>7} {'could save':>12}  {'compressed':<10}  project  session"

_DIGEST_SHOWN = 12
_DIGEST_DIGITS = 64
_UNITS = (("d", 24 * 3600), ("h", 3600), ("min", 60))


def line(session: ListedSession) -> str:
    """Format one session."""
    saves = kb(session.could_save) if session.could_save else "-"
    compressed = "yes" if session.compressed else "-"
    age = _age(max(time.time() - session.modified, 0))
    head = f"{session.agent:<12} {kb(session.size):>12} {age:>7} {saves:>12}  {compressed:<10}"
    return f"{head}  {_project(session.project)}  {printable(session.path)}"


def total_line(sessions: Sequence[ListedSession], others: Mapping[str, int]) -> str:
    """Format the total; `others` are the numbers of sessions without a result, by word."""
    agents = len({each.agent for each in sessions})
    head = f"total: {counted(len(sessions), 'session', 'sessions')}"
    if sessions:
        compressed = sum(each.compressed for each in sessions)
        saves = kb(sum(each.could_save for each in sessions))
        head += f" of {counted(agents, 'agent', 'agents')}, {kb(sum(each.size for each in sessions))}"
        head += f"; {compressed:,} compressed already; a run could save {saves}, originals included"
    return "; ".join([head, *(f"{number:,} {word}" for word, number in others.items() if number)])


def document(sessions: Sequence[ListedSession]) -> dict[str, Any]:
    """Build the `--json` document of the list."""
    totals = {
        "sessions": len(sessions),
        "size": sum(each.size for each in sessions),
        "compressed": sum(each.compressed for each in sessions),
        "couldSave": sum(each.could_save for each in sessions),
    }
    listed = [to_json(each) | {"modified": text.written_time(each.modified)} for each in sessions]
    return {"schema": SCHEMA, "sessions": listed, "totals": totals}


def _project(said: str) -> str:
    is_digest = len(said) == _DIGEST_DIGITS and "/" not in said
    return f"sha256:{said[:_DIGEST_SHOWN]}" if is_digest else printable(said) or "-"


def _age(seconds: float) -> str:
    unit, length = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    return f"{int(seconds // length):,} {unit}"


@click.command(epilog="Example: sessioncompress sessions --project .")
@AGENT
@PROJECT
@OLDER_THAN
@JSON
@errors_end_it
def sessions(agent: str | None, project: Path | None, older_than: int | None, as_json: bool) -> None:
    """List the sessions of all agents on this machine, and what could be saved; change nothing."""
    from sessioncompress.operations.sessions import Selection, Session, listed
    from sessioncompress.operations.sessions import sessions as selected

    policies = policies_of(None, None, {})

    def work(found: Found) -> ListedSession:
        assert isinstance(found, Session)
        one = listed(found, policies.of(found.path))
        if not as_json:
            click.echo(line(one))
        return one

    if not as_json:
        click.echo(HEADING)
    done = for_all(selected(Selection(agent, project, older_than)), work)
    if as_json:
        echo_json(document(done.results))
    else:
        click.echo(total_line(done.results, done.others))
    tell_of_opencode(agent)
    sys.exit(done.exit_code)
