"""`handoff`: sum up a session for another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sessioncompress.cli import options, summarizing
from sessioncompress.core.text import counted, printable
from sessioncompress.operations.handoff import handoff_session, refuse_taken
from sessioncompress.operations.wording import author


@click.command(cls=options.Command, epilog="Example: sessioncompress handoff session.jsonl -o handoff.md")
@click.argument("session", type=options.EXISTING)
@click.option(
    "-o", "output", type=options.ANY_PATH, metavar="FILE", help="Write it to this file, which must not exist yet."
)
@click.option("--new", is_flag=True, help="Start a new session with it, next to this one (pi and oh-my-pi).")
@click.option(
    "--summary-tokens", type=options.WholeNumber(1000), metavar="N", help="Largest size of the summary, in tokens."
)
@click.option("--goal", metavar="TEXT", help="What matters next; it goes at the top of the summary.")
@options.CONFIG
@options.THEIR_FOLDER
@options.FORMAT
@summarizing.SUMMARY
@options.YES
def handoff(
    session: Path,
    output: Path | None,
    new: bool,
    goal: str | None,
    config: Path | None,
    form: str | None,
    instructions: str,
    yes: bool,
    **overrides: Any,
) -> None:
    """Summarize a whole session for another one, as markdown. The session is not changed."""
    if new and output is not None:
        raise click.UsageError("--new chooses its own file; it can't be combined with -o")
    policy = options.policies_of(config, **overrides).of(session)
    options.tell_of_two_stores(session, policy)
    text = summarizing.checked_goal(goal)
    if output is not None:
        refuse_taken(output)
    if not summarizing.asked([policy], overrides, sends=True, yes=yes):
        return
    made = handoff_session(session, policy, new=new, to=output, goal=text, instructions=instructions, form=form)
    summarizing.tell(str(session), made)
    if output is not None or new:
        said = f"{counted(made.messages, 'message', 'messages')}, {made.tokens_before:,} tokens for the model"
        said += f" -> {made.tokens_summary:,} tokens in {made.begun or output}"
        click.echo(printable(f"{session}: {said}{author(made.by, made.model)}"))
    else:
        click.echo("\n".join(map(printable, made.text.removesuffix("\n").split("\n"))))
