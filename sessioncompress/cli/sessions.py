"""`sessions`: list the sessions of all agents on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessioncompress.cli.options import AGENT, JSON, OLDER_THAN, PROJECT, errors_end_it, policies_of
from sessioncompress.cli.output import echo_json, for_all, tell_of_opencode

if TYPE_CHECKING:
    from sessioncompress.operations.sessions import ListedSession
    from sessioncompress.pipeline.discover import Found


@click.command(epilog="Example: sessioncompress sessions --project .")
@AGENT
@PROJECT
@OLDER_THAN
@JSON
@errors_end_it
def sessions(agent: str | None, project: Path | None, older_than: int | None, as_json: bool) -> None:
    """List the sessions of all agents on this machine, and what could be saved; change nothing."""
    from sessioncompress.cli import sessions_report
    from sessioncompress.operations.sessions import Selection, Session, listed
    from sessioncompress.operations.sessions import sessions as selected

    policies = policies_of(None, None, {})

    def work(found: Found) -> ListedSession:
        assert isinstance(found, Session)
        one = listed(found, policies.of(found.path))
        if not as_json:
            click.echo(sessions_report.line(one))
        return one

    if not as_json:
        click.echo(sessions_report.HEADING)
    done = for_all(selected(Selection(agent, project, older_than)), work)
    if as_json:
        echo_json(sessions_report.document(done.results))
    else:
        click.echo(sessions_report.total_line(done.results, done.others))
    tell_of_opencode(agent)
    sys.exit(done.exit_code)
