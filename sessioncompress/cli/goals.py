"""What matters in what comes next: the options of `compact` that say it, and the question at a terminal."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import click

from sessioncompress.checkpoints.goals import Goal, Method, Source, written
from sessioncompress.cli import options
from sessioncompress.cli.tables import echo_wrapped
from sessioncompress.core.text import printable
from sessioncompress.errors import SessionCompressError, UsageError
from sessioncompress.operations.goals import question, set_keys
from sessioncompress.policy.model import MOST, Rule
from sessioncompress.policy.sources import Policies

GOAL = click.option("--goal", metavar="TEXT", help="What matters next; it goes at the top of the summary.")
said = options.all_of(
    click.option(
        "--goal",
        metavar="TEXT",
        help="Put this at the top of the summary. Only the newest request and what came after it stay, unless "
        "--keep says how much.",
    ),
    click.option(
        "--goal-from",
        type=click.Choice([each.value for each in Source]),
        help="Take the goal from the session and print it: its last or first request, or its open todo items.",
    ),
    click.option(
        "--instructions",
        metavar="TEXT",
        help="What the summary should focus on: lines that share words with it come first.",
    ),
    click.option(
        "--ask", is_flag=True, help="Ask what matters next; without a terminal the newest share of the session stays."
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
)
_OFTEN = ("actTokens", "actMessages")
"""The keys of the rule `deliberate` that say how often it acts."""


def wanted(goal: str | None, goal_from: str | None, instructions: str | None, *, ask: bool) -> Goal:
    """Put together what the options say. Raises click's UsageError where they say it in two ways."""
    if sum((goal is not None, goal_from is not None, ask)) > 1:
        raise click.UsageError("use only one of --goal, --goal-from and --ask")
    text = checked(goal)
    source = Source(goal_from) if goal_from else None
    method = Method.GIVEN if text else Method.AUTO if ask else Method.NONE
    return Goal(text, source, method, instructions or "")


def checked(goal: str | None) -> str:
    """Write a goal as the summary will have it. Raises click's UsageError where nothing is left of it."""
    text = written(goal or "")
    if goal is not None and not text:
        raise click.UsageError("--goal is empty")
    return text


def leaves_cut(goal: Goal, policies: Policies, path: Path | None, overrides: Mapping[str, Any]) -> Goal:
    """Let a goal say how a session is cut, unless an option or a policy file does."""
    is_said = any(overrides[name] is not None for name in ("keep", "keep_tokens"))
    return goal._replace(chooses_cut=not is_said and not policies.says(path, "compact.keep"))


def ask(path: Path, policies: Policies, goal: Goal, *, if_due: bool, form: str | None) -> Goal:
    """Ask for the goal of a session that is about to be compacted; without an answer there is none.

    What the user wants to be asked less often is written into their own policy. Raises Refused or FileFailed where that
    cannot be done; no session is changed then.
    """
    policy = policies.of(path)
    if not options.may_be_asked():
        return goal
    try:
        found = question(path, policy, if_due=if_due, form=form)
    except UsageError:
        raise
    except SessionCompressError:
        # The run says what is wrong.
        return goal
    if found is None or not (policy.compact.ask or found.is_valve):
        return goal
    changes = {} if found.is_valve else _changes(path, policies)
    use = f"{found.budget.tokens:,} tokens in use, {100 * found.budget.utilisation:.0f} % of the window"
    said = [f"{path}: {use}", "What matters next? It goes at the top of the summary."]
    if found.is_valve:
        valve = f"budget.safetyPercent {policy.budget.safety_percent}"
        said.insert(1, f"It is due in any case ({valve}), so less often and never are not offered.")
    rows = {str(at + 1): text for at, text in enumerate(found.goals)} | {"a": "auto: no goal", "o": "type another goal"}
    rows |= {key: words for key, (words, _, _) in changes.items()}
    for line in (*said, *(f"  {key}  {words}" for key, words in rows.items())):
        echo_wrapped(printable(line), err=True)
    click.echo(f"Answer (auto after {policy.compact.ask_seconds} seconds): ", nl=False, err=True)
    until = monotonic() + policy.compact.ask_seconds
    while (answer := _line(max(until - monotonic(), 0))) is not None:
        answer = answer.lower()
        if answer == "o":
            click.echo("Goal: ", nl=False, err=True)
            text = written(_line() or "")
            return goal._replace(text=text, method=Method.OTHER) if text else goal
        if answer in changes:
            _set(path, policies, *changes[answer][1:])
            return goal
        if answer in ("", "a"):
            return goal
        if answer in rows:
            return goal._replace(text=rows[answer], method=Method.CHOSEN)
        click.echo("Type one of the keys on the left: ", nl=False, err=True)
    click.echo("auto", err=True)
    return goal


def _line(seconds: float | None = None) -> str | None:
    """Read a line from the terminal; None if none comes in time, or none can come any more."""
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return None
    line = sys.stdin.readline()
    return line.strip() if line else None


def _changes(path: Path, policies: Policies) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """List the answers that set keys of the user's own policy: their words, the section, and the keys."""
    if policies.writable is None:
        return {}
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    budget = policies.of(path).budget
    # What a file near the session says is anybody's: its numbers are not made the user's.
    if budget.rule is Rule.DELIBERATE and not _others(path, policies, "budget", (*_OFTEN, "frequencyMultiplier")):
        raised = (int(each * budget.frequency_multiplier + 0.5) for each in (budget.act_tokens, budget.act_messages))
        values = dict(zip(_OFTEN, (min(each, MOST) for each in raised), strict=True))
        words = ", ".join(f"{key} {value:,}" for key, value in values.items())
        found["l"] = (f"less often: {words}", "budget", values)
    return {**found, "n": ("never ask again", "compact", {"ask": False})}


def _set(path: Path, policies: Policies, section: str, values: dict[str, Any]) -> None:
    """Set keys in the user's own policy, after showing them; say so where another file wins over it."""
    file = policies.writable
    assert file is not None
    echo_wrapped(printable(f"{file}: {json.dumps({section: values})}"), err=True)
    set_keys(file, section, values)
    for other in _others(path, policies, section, values):
        options.warn(f"{other}: it sets this too, and takes precedence for this session")


def _others(path: Path, policies: Policies, section: str, keys: Iterable[str]) -> set[Path]:
    """Find the files besides the user's own that set some keys."""
    names = {f"{section}.{key}" for key in keys}
    files = {each.file for each in policies.settings(path) if each.key in names and each.file}
    return {each for each in files if os.path.realpath(each) != os.path.realpath(policies.writable or "")}
