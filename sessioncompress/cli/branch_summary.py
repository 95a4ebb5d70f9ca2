"""`branch-summary`: leave a branch of a session with a summary of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, output, summarizing
from sessioncompress.core.text import counted, kb, printable, written_time
from sessioncompress.operations.branch import BranchStats, places, summarize_branch
from sessioncompress.operations.wording import author, sending
from sessioncompress.pipeline.summary import Status, to_json

SCHEMA = "sessioncompress.branch-summary/1"


@click.command(cls=options.Command, epilog="Example: sessioncompress branch-summary session.jsonl --list")
@click.argument("session", type=options.EXISTING)
@click.option("--to", metavar="ENTRY", help="Continue after this entry; by default after the newest other leaf.")
@click.option(
    "--list", "lists", is_flag=True, help="List the leaves, forks and turns you can go back to; change nothing."
)
@options.DRY_RUN
@options.CONFIG
@options.BACKUP_DIR
@options.COMMIT_ORIGINALS
@options.FORMAT
@summarizing.SUMMARY
@options.YES
@options.JSON
def branch_summary(
    session: Path,
    to: str | None,
    lists: bool,
    dry_run: bool,
    config: Path | None,
    form: str | None,
    instructions: str,
    yes: bool,
    as_json: bool,
    **overrides: Any,
) -> None:
    """Leave the session's current branch. Put a summary of it where the conversation goes on."""
    if lists and (to is not None or dry_run or as_json):
        raise click.UsageError("--list can't be combined with --to, --dry-run or --json")
    if to == "":
        raise click.UsageError("--to needs the id of an entry; this one is empty")
    policy = options.policies_of(config, **overrides).of(session)
    options.tell_of_two_stores(session, policy)
    if lists:
        for place in places(session, policy, form=form):
            kind = place.kind + (", live" if place.is_live else "")
            time = written_time(place.time / 1000) if place.time else "-"
            click.echo(printable(f"{place.id}  {kind:<10}  {time:<20}  {place.words}".rstrip()))
        return
    if not summarizing.asked([policy], overrides, sends=not dry_run, yes=yes):
        return
    if policy.commit_originals and not dry_run:
        options.show_originals(session, policy)
    how = {"dry_run": dry_run, "sends": not dry_run}
    stats = summarize_branch(session, policy, to=to or "", instructions=instructions, form=form, **how)
    summarizing.tell(str(session), stats)
    if as_json:
        told = {key: value for key, value in to_json(stats).items() if key != "summary"}
        output.echo_json({"schema": SCHEMA, "dryRun": dry_run, "files": [told | {"path": str(session)}]})
    else:
        click.echo(f"{printable(str(session))}: {_said(stats)}")
    output.tell_of_undo([stats.run], [session], overrides["backup_dir"], config)


def _said(stats: BranchStats) -> str:
    if not stats.is_summarized:
        return f"{stats.status}: {printable(stats.reason)}"
    would = "would continue" if stats.status is Status.WOULD_SUMMARIZE else "continues"
    left = counted(stats.messages_left, "message", "messages")
    sent = f"; {sending(stats.tokens_sent)}" if stats.status is Status.WOULD_SUMMARIZE and stats.tokens_sent else ""
    return printable(
        f"{would} after {stats.to}; {left} after {stats.fork or 'the beginning'} left behind (summary "
        f"{stats.tokens_summary:,} tokens{author(stats.by, stats.model)}); "
        f"{stats.tokens_before:,} -> {stats.tokens_after:,} tokens for the model; "
        f"{kb(stats.size_before)} -> {kb(stats.size_after)} on disk{sent}"
    )
