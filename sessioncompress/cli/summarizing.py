"""`--summarizer` and `--endpoint`: commands whose summary a model may write, and what is said before one is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from sessioncompress.checkpoints.story import as_goal
from sessioncompress.cli import options, output
from sessioncompress.cli.tables import echo_wrapped
from sessioncompress.core.text import printable
from sessioncompress.errors import UsageError
from sessioncompress.operations.wording import author
from sessioncompress.policy.model import Policy, Summarizer

if TYPE_CHECKING:
    from sessioncompress.operations.handoff import Handoff
    from sessioncompress.pipeline.summary import Summarized

_STATE = "Nothing was sent, and no session was changed."
SUMMARY = options.all_of(
    click.option(
        "--instructions",
        metavar="TEXT",
        default="",
        help="What the summary should focus on: lines that share words with it come first.",
    ),
    click.option(
        "--before-command",
        metavar="COMMAND",
        help="Run this program before a summary is made, with JSON on its stdin; no shell runs it.",
    ),
    click.option(
        "--after-command",
        metavar="COMMAND",
        help="Run this program after a summary is written, with JSON on its stdin.",
    ),
    click.option(
        "--summarizer",
        metavar="COMMAND",
        help="Let this command write the summary; it reads a prompt on stdin and prints the text. No shell runs it.",
    ),
    click.option(
        "--endpoint",
        metavar="URL",
        help="Let the model at this URL write it; as in https://host/v1, needs sessioncompress[llm].",
    ),
    click.option(
        "--model",
        metavar="NAME",
        multiple=True,
        help="With --endpoint: the model. Repeat it to name fallbacks.",
    ),
    click.option(
        "--protocol",
        type=click.Choice(["openai", "omp"]),
        help="With --endpoint: OpenAI's chat API (the default), or oh-my-pi's remote compaction.",
    ),
    click.option(
        "--api-key-env",
        metavar="VARIABLE",
        help="With --endpoint: the environment variable that has the key; by default OPENAI_API_KEY.",
    ),
    click.option(
        "--prompt",
        type=options.PathKind(path_type=str, exists=True, dir_okay=False),
        help="Use this file instead of our prompt, which tells the model what to write.",
    ),
    click.option(
        "--on-failure",
        type=click.Choice(["extractive", "leave"]),
        help="If no model writes a summary: use the one made without a model (the default), or leave the "
        "session as it is and exit with 3.",
    ),
    click.option("--no-network", is_flag=True, help="Never ask a model, even if your configuration names one."),
)
"""They say what a summary is about and who writes it, and go to the policy with the others of its command."""


def checked_goal(goal: str | None) -> str:
    """Write a goal as the summary will have it. Raises click's UsageError where nothing is left of it."""
    text = as_goal(goal or "")
    if goal is not None and not text:
        raise click.UsageError("--goal is empty")
    return text


def tell(path: str, made: Summarized | Handoff) -> None:
    """Warn on stderr of a model that failed, of originals that others may have made, and of a failed command."""
    if failure := made.model_failure:
        by = author(made.by, made.model)
        options.warn(f"{path}: {failure}; summarized{by}" if by else f"{path}: summarized without a model: {failure}")
    if made.made_elsewhere:
        options.warn(
            f"{path}: its store was made elsewhere, or by an earlier version: trust the summary only as far as you "
            "trust the store"
        )
    if made.warning:
        options.warn(f"{path}: {made.warning}; the summary was written anyway")


def asked(
    policies: Iterable[Policy], given: Mapping[str, Any], *, sends: bool, yes: bool, engine: object = None
) -> bool:
    """Say who gets what was said, before anything is sent, and ask whether that may be; tell whether to go on.

    `policies` are those of the sessions, `given` the options. Only what an option names is asked about: who wrote it
    into a configuration of his own has decided. Raises UsageError where no model can be asked, or must not.
    """
    of = Counter(policy.summarizer for policy in policies if policy.enabled)
    if all(rules == Summarizer() for rules in of):
        return True
    # Imported here: most runs ask no model.
    from sessioncompress.operations import summarizer

    for rules in of:
        summarizer.check(rules)
    used = {rules: number for rules, number in of.items() if summarizer.is_used(rules)}
    if used and given.get("no_network"):
        what, remedy = "--no-network is given, but a model is named", "Leave out one of them."
        raise UsageError(what, state=_STATE, remedy=remedy)
    if used and engine is not None:
        what, remedy = "only this machine can ask a model", "Leave out --engine dask."
        raise UsageError(what, state=_STATE, remedy=remedy)
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
    goes = output.confirmed("Send it?", None, _STATE, err=True)
    if not goes:
        click.echo(_STATE, err=True)
    return goes
