"""What matters in what comes next: the options of `compact` that say it, and the question at a terminal."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from sessioncompress.checkpoints.goals import Goal, Method, Source, written
from sessioncompress.cli import options
from sessioncompress.cli.tables import echo_wrapped
from sessioncompress.core.text import printable
from sessioncompress.errors import SessionCompressError, UsageError
from sessioncompress.operations.goals import THRESHOLDS, Question, less_often, question, setting, write
from sessioncompress.policy.model import Policy, Rule
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
_AUTO, _OTHER, _LESS, _NEVER = "a", "o", "l", "n"


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


class Terminal:
    """The terminal at which the user is asked."""

    def is_there(self) -> bool:
        """Tell whether somebody sees a question and can answer."""
        return options.may_be_asked()

    def now(self) -> float:
        """Tell the time in seconds."""
        return time.monotonic()

    def is_ready(self, seconds: float | None) -> bool:
        """Wait for a line; for so long, if not forever."""
        return bool(select.select([sys.stdin], [], [], seconds)[0])

    def line(self, until: float | None = None) -> str | None:
        """Read a line; None where none comes until then, or none can come any more."""
        if not self.is_ready(None if until is None else max(until - self.now(), 0)):
            return None
        line = sys.stdin.readline()
        return line.strip() if line else None


class Asked(NamedTuple):
    """The session of which is asked, and the policies of the command."""

    path: Path
    policies: Policies

    @property
    def policy(self) -> Policy:
        """The policy by which it is compacted."""
        return self.policies.of(self.path)


def ask(asked: Asked, goal: Goal, *, if_due: bool, form: str | None, terminal: Terminal | None = None) -> Goal:
    """Ask for the goal of a session that is about to be compacted; without an answer there is none.

    What the user wants to be asked less often is written into their own policy. Raises Refused or FileFailed where that
    cannot be done; no session is changed then.
    """
    terminal = terminal or Terminal()
    if not terminal.is_there():
        return goal
    try:
        found = question(asked.path, asked.policy, if_due=if_due, form=form)
    except UsageError:
        raise
    except SessionCompressError:
        # The run says what is wrong.
        return goal
    if found is None or not (asked.policy.compact.ask or found.is_valve):
        return goal
    changes = _changes(found, asked)
    _show(found, asked, changes)
    until = terminal.now() + asked.policy.compact.ask_seconds
    while (answer := terminal.line(until)) is not None:
        answer = answer.lower()
        if answer.isdecimal() and 1 <= int(answer[:3]) <= len(found.goals):
            return goal._replace(text=found.goals[int(answer) - 1], method=Method.CHOSEN)
        if answer == _OTHER:
            click.echo("Goal: ", nl=False, err=True)
            text = written(terminal.line() or "")
            return goal._replace(text=text, method=Method.OTHER) if text else goal
        if answer in changes:
            _write(asked, *changes[answer])
            return goal
        if answer in ("", _AUTO):
            return goal
        click.echo("Type one of the keys on the left: ", nl=False, err=True)
    click.echo("auto", err=True)
    return goal


def _changes(found: Question, asked: Asked) -> dict[str, tuple[str, dict[str, Any]]]:
    """Say which answers change which keys of the policy; none where the session has to be summed up in any case."""
    if found.is_valve or asked.policies.writable is None:
        return {}
    never: dict[str, tuple[str, dict[str, Any]]] = {_NEVER: ("compact", {"ask": False})}
    if asked.policy.budget.rule is not Rule.DELIBERATE or _others(
        asked, "budget", ("frequencyMultiplier", *THRESHOLDS)
    ):
        return never
    return {_LESS: ("budget", less_often(asked.policy.budget)), **never}


def _show(found: Question, asked: Asked, changes: Mapping[str, tuple[str, dict[str, Any]]]) -> None:
    echo_wrapped(printable(f"{asked.path}: what matters next? It goes at the top of the summary."), err=True)
    rows = [(str(at + 1), goal) for at, goal in enumerate(found.goals)]
    rows += [(_AUTO, "auto: no goal"), (_OTHER, "type another goal")]
    if _LESS in changes:
        raised = ", ".join(f"{key} {value:,}" for key, value in changes[_LESS][1].items())
        rows.append((_LESS, f"less often: {raised}"))
    if _NEVER in changes:
        rows.append((_NEVER, "never ask again"))
    for key, words in rows:
        echo_wrapped(printable(f"  {key}  {words}"), err=True)
    click.echo(f"Answer (auto after {asked.policy.compact.ask_seconds} seconds): ", nl=False, err=True)


def _write(asked: Asked, section: str, values: dict[str, Any]) -> None:
    """Write keys into the user's own policy, after showing them; say so where another file wins over it."""
    file = asked.policies.writable
    assert file is not None
    change = setting(file, section, values)
    echo_wrapped(printable(f"{file}: {json.dumps({section: values})}"), err=True)
    write(change)
    for other in _others(asked, section, values):
        options.warn(f"{other}: it sets this too, and takes precedence for this session")


def _others(asked: Asked, section: str, keys: Iterable[str]) -> set[Path]:
    """Find the files besides the user's own that say some keys: they win, and what they say is not the user's."""
    names = {f"{section}.{key}" for key in keys}
    said = {each.file for each in asked.policies.settings(asked.path) if each.key in names and each.file}
    return {each for each in said if os.path.realpath(each) != os.path.realpath(asked.policies.writable or "")}
