"""`handoff` and `branch-summary`, and what they share with `compact`: summary options, and consent to use a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from sessioncompress.checkpoints.story import as_goal
from sessioncompress.cli import options, output
from sessioncompress.cli.tables import echo_wrapped
from sessioncompress.core.text import MADE_ELSEWHERE, counted, kb, printable, written_time
from sessioncompress.errors import NOTHING_SENT, UsageError
from sessioncompress.operations import summarizer
from sessioncompress.operations.branch import BranchStats, places, summarize_branch
from sessioncompress.operations.handoff import handoff_session, refuse_taken
from sessioncompress.operations.wording import author, sending
from sessioncompress.pipeline.stats import Status, Summarized, to_json
from sessioncompress.policy.model import Policy, Summarizer

SCHEMA = "sessioncompress.branch-summary/1"
GOAL = click.option("--goal", metavar="TEXT", help="What matters next; it goes at the top of the summary.")
SUMMARY_TOKENS = click.option(
    "--summary-tokens", type=options.WholeNumber(1000), metavar="N", help="Largest size of the summary, in tokens."
)
SUMMARY = options.all_of(
    click.option(
        "--instructions",
        metavar="TEXT",
        default="",
        help="What to focus on: lines that share words with it come first.",
    ),
    click.option(
        "--before-command",
        metavar="COMMAND",
        help="Run this program before a summary is made, with JSON on its stdin.",
    ),
    click.option(
        "--after-command",
        metavar="COMMAND",
        help="Run this program after a summary is written, with JSON on its stdin.",
    ),
    click.option(
        "--summarizer",
        metavar="COMMAND",
        help="Let this command write the summary; it reads a prompt on stdin and prints the text.",
    ),
    click.option(
        "--endpoint",
        metavar="URL",
        help="Let the model at this URL write it, as in https://host/v1; needs sessioncompress[llm].",
    ),
    click.option(
        "--model",
        metavar="NAME",
        multiple=True,
        help="With --endpoint: the model, then its fallbacks.",
    ),
    click.option(
        "--protocol",
        type=click.Choice(["openai", "omp"]),
        help="With --endpoint: OpenAI's chat API (default), or oh-my-pi's remote compaction.",
    ),
    click.option(
        "--api-key-env",
        metavar="VARIABLE",
        help="With --endpoint: the variable that has the key; by default OPENAI_API_KEY.",
    ),
    click.option(
        "--prompt",
        type=options.PathKind(path_type=str, exists=True, dir_okay=False),
        help="Use this file instead of our prompt.",
    ),
    click.option(
        "--on-failure",
        type=click.Choice(["extractive", "leave"]),
        help="If no model writes it: use the summary made without one (default), or leave the session, exit code 3.",
    ),
    click.option("--no-network", is_flag=True, help="Ask no model, even if your configuration names one."),
)
"""Options for what a summary focuses on and who writes it. They are passed to the policy."""


def checked_goal(goal: str | None) -> str:
    """Normalize a goal as the summary will show it. Raises click's UsageError if it is empty."""
    text = as_goal(goal or "")
    if goal is not None and not text:
        raise click.UsageError("--goal is empty")
    return text


def tell(path: str, made: Summarized) -> None:
    """Warn on stderr if a model or a command failed, or if the originals may not be this user's."""
    if failure := made.model_failure:
        by = author(made.by, made.model)
        options.warn(f"{path}: {failure}; summarized{by}" if by else f"{path}: summarized without a model: {failure}")
    if made.made_elsewhere:
        options.warn(f"{path}: its store was {MADE_ELSEWHERE}: trust the summary only as far as you trust the store")
    if made.warning:
        options.warn(f"{path}: {made.warning}; the summary was written anyway")


def asked(
    policies: Iterable[Policy], given: Mapping[str, Any], *, sends: bool, yes: bool, engine: object = None
) -> bool:
    """Print who will receive the conversation before anything is sent, ask for consent, and return whether to go on.

    `policies` are the sessions' policies, `given` the options. Ask only if an option names the model; a user who put it
    in their own configuration has already decided. Raises UsageError if no model can or may be used.
    """
    of = Counter(policy.summarizer for policy in policies if policy.enabled)
    if all(rules == Summarizer() for rules in of):
        return True
    for rules in of:
        summarizer.check(rules)
    used = {rules: number for rules, number in of.items() if summarizer.is_used(rules)}
    if used and given.get("no_network"):
        what, remedy = "--no-network is given, but a model is named", "Leave out one of them."
        raise UsageError(what, state=NOTHING_SENT, remedy=remedy)
    if used and engine is not None:
        what, remedy = "only this machine can ask a model", "Leave out --engine dask."
        raise UsageError(what, state=NOTHING_SENT, remedy=remedy)
    for rules, number in used.items():
        sessions = f"each of {number:,} sessions" if number > 1 else "the session"
        models = f", {' or '.join(map(printable, rules.models))}" if rules.models else ""
        whom = summarizer.destination(rules)
        verb = "may send" if sends else "nothing is sent now; a run may send"
        echo_wrapped(f"{verb} up to {rules.input_tokens:,} tokens of {sessions} to {whom}{models}", err=True)
    if not (used and sends):
        return True
    if yes or not options.may_be_asked() or not (given.get("summarizer") or given.get("endpoint")):
        return True
    return output.confirmed("Send it?", None, NOTHING_SENT, err=True)


@click.command(cls=options.Command, epilog="Example: sessioncompress handoff session.jsonl -o handoff.md")
@click.argument("session", type=options.EXISTING)
@click.option(
    "-o", "to", type=options.ANY_PATH, metavar="FILE", help="Write it to this file, which must not exist yet."
)
@click.option("--new", is_flag=True, help="Start a new session with it, next to this one (pi and oh-my-pi).")
@SUMMARY_TOKENS
@GOAL
@options.CONFIG
@options.THEIR_FOLDER
@options.FORMAT
@SUMMARY
@options.YES
def handoff(
    session: Path,
    to: Path | None,
    new: bool,
    goal: str | None,
    config: Path | None,
    form: str | None,
    instructions: str,
    yes: bool,
    **overrides: Any,
) -> None:
    """Summarize a whole session for another one, as markdown. The session is not changed."""
    if new and to is not None:
        raise click.UsageError("--new chooses its own file; it can't be combined with -o")
    policy = options.policies_of(config, **overrides).of(session)
    options.tell_of_two_stores(session, policy)
    text = checked_goal(goal)
    if to is not None:
        refuse_taken(to)
    if not asked([policy], overrides, sends=True, yes=yes):
        return
    made = handoff_session(session, policy, new=new, to=to, goal=text, instructions=instructions, form=form)
    tell(str(session), made)
    if to is not None or new:
        said = f"{counted(made.messages, 'message', 'messages')}, {made.tokens_before:,} tokens for the model"
        said += f" -> {made.tokens_summary:,} tokens in {made.begun or to}"
        click.echo(printable(f"{session}: {said}{author(made.by, made.model)}"))
    else:
        click.echo("\n".join(map(printable, made.text.removesuffix("\n").split("\n"))))


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
@SUMMARY
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
    """Leave the session's current branch. Put a summary of it where the conversation continues."""
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
    if not asked([policy], overrides, sends=not dry_run, yes=yes):
        return
    if policy.commit_originals and not dry_run:
        options.show_originals(session, policy)
    how = {"dry_run": dry_run, "sends": not dry_run}
    stats = summarize_branch(session, policy, to=to or "", instructions=instructions, form=form, **how)
    tell(str(session), stats)
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
