"""`compact`: replace the old part of sessions, for the model, by a summary in their agent's own form.

With `--ask` it asks at a terminal what matters next.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import click

from sessioncompress.checkpoints.story import as_goal
from sessioncompress.cli import options, output, summarizing
from sessioncompress.cli.frame import Done, Job, SessionCommand, Words
from sessioncompress.cli.tables import echo_wrapped, file_line
from sessioncompress.core import text
from sessioncompress.core.checkpoint import EXTRACTIVE
from sessioncompress.core.text import counted, less, printable
from sessioncompress.errors import SessionCompressError, UsageError
from sessioncompress.operations.compact import CompactStats, compact_session, refuse_size, why_unchanged
from sessioncompress.operations.goals import Goal, GoalSource, Method, question, set_keys
from sessioncompress.operations.sessions import Session
from sessioncompress.operations.wording import compact_line, sending
from sessioncompress.pipeline.discover import Found
from sessioncompress.pipeline.stats import Status
from sessioncompress.pipeline.triage import SWITCHED_OFF
from sessioncompress.policy.model import Rule
from sessioncompress.policy.sources import Policies

_HOW_MUCH = {"keep_tokens": "tokens", "keep_messages": "messages"}
"""Options for how much stays, and the value of --keep that each needs."""
_OFTEN = {"actTokens": 200_000, "actMessages": 100}
"""Keys that set how often the rule `deliberate` acts, and their maximum when raised here."""


class Compact(SessionCommand[CompactStats]):
    """Summarize the old part of sessions, as their agent does."""

    changes = compresses = urls = adds = True
    asks = "Compact"
    flags = (options.DRY_RUN, options.YES, options.CHECK, options.JOBS, options.JSON, options.QUIET, options.VERBOSE)
    takes = (
        click.option("--print", "prints", is_flag=True, help="Print the summary of one session; change nothing."),
        click.option(
            "--if-due",
            is_flag=True,
            help="Compact only if the budget's rule asks for it; leave the rest to compress.",
        ),
        *(options.RULE, options.CONFIG, options.PRESET),
        click.option(
            "--keep",
            type=click.Choice(["tokens", "messages", "share", "sincePrompt", "turns"]),
            help="What decides how much of the conversation stays; by default compact.keep.",
        ),
        click.option(
            "--keep-tokens", type=options.WholeNumber(1), metavar="N", help="With --keep tokens: how many tokens stay."
        ),
        click.option(
            "--keep-messages", type=options.WholeNumber(1), metavar="N", help="Keep this many of the newest messages."
        ),
        *(summarizing.SUMMARY_TOKENS, summarizing.GOAL),
        click.option(
            "--goal-from",
            type=click.Choice([each.value for each in GoalSource]),
            help="Take the goal from the session: its last or first request, or its open todo items.",
        ),
        click.option(
            "--ask",
            is_flag=True,
            help="Ask what matters next; without a terminal the newest share of the session stays.",
        ),
        click.option(
            "--drop-dead",
            is_flag=True,
            help="Move the old lines to the store: the agent shows them nowhere until a restore.",
        ),
        *(options.BACKUP_DIR, options.COMMIT_ORIGINALS, options.IDLE_SECONDS, options.LOG),
        *(options.FORMAT, summarizing.SUMMARY),
    )
    hands = ("if_due", "drop_dead", "form")
    keeps = ("prints", "goal", "goal_from", "instructions", "ask")
    notes = output.tell_of_others

    @staticmethod
    def work(job: Job, **how: Any) -> CompactStats:
        return compact_session(job.path, job.policy, dry_run=job.dry_run, named=job.found.named, **how)

    def refuse(self) -> None:
        given = self.given
        if sum((given.goal is not None, given.goal_from is not None, given.ask)) > 1:
            raise click.UsageError("use only one of --goal, --goal-from and --ask")
        goal = summarizing.checked_goal(given.goal)
        method = Method.GIVEN if goal else Method.AUTO if given.ask else Method.NONE
        source = GoalSource(given.goal_from) if given.goal_from else None
        self.wanted = Goal(goal, source, method, given.instructions)
        self.handed |= {"run_id": text.run_id(time.time()), "sends": not self.chosen.rehearses}
        if given.prints:
            self.chosen = self.chosen._replace(dry_run=True)

    def agreed(self, found: Sequence[Found]) -> bool:
        self._refuse_unfit(found)
        chosen, policies, if_due = self.chosen, self.policies, self.given.if_due
        for each in found if if_due else ():
            if each.error is None and (policy := options.policy_of(each, policies)).enabled:
                refuse_size(each.path, policy)
        sends = self.handed["sends"]
        governing = [options.policy_of(each, policies) for each in found if each.error is None]
        if not summarizing.asked(governing, self.overrides, sends=sends, yes=chosen.yes, engine=chosen.engine):
            return False
        if self.given.ask and not (chosen.rehearses or chosen.yes):
            self.wanted = _ask(found[0].path, policies, self.wanted, if_due=if_due, form=self.given.form)
        return super().agreed(found)

    def frees(self, session: Session) -> int | None:
        policy = options.policy_of(session, self.policies)
        reason = "" if policy.enabled else SWITCHED_OFF
        if session.remote is None:
            reason = reason or why_unchanged(session.path, policy, again=not self._goal_for(session).chooses_cut)
        return None if reason else 0

    def _goal_for(self, found: Found) -> Goal:
        path = found.path if found.remote is None else None
        # A goal determines the cut unless an option or a policy file does.
        is_said = any(self.overrides[name] is not None for name in ("keep", *_HOW_MUCH))
        return self.wanted._replace(chooses_cut=not is_said and not self.policies.says(path, "compact.keep"))

    def handed_to(self, found: Found) -> dict[str, Any]:
        return self.handed | {"goal": self._goal_for(found)}

    def failure(self, path: str, status: str, reason: str, code: int) -> CompactStats:
        return CompactStats(path, status=Status(status), reason=reason, exit_code=code)

    def say(self, stats: CompactStats) -> None:
        summarizing.tell(stats.path, stats)
        for each in stats.unheeded:
            options.warn(f"{stats.path}: {each}")
        if number := stats.markers_without_journal:
            texts = counted(number, "preview whose original is", "previews whose originals are")
            options.warn(
                f"{stats.path}: it has {texts} in no store here; the summary is made from what is left. To look "
                "for them first, run 'sessioncompress restore --from-markers' on it"
            )
        source = self.given.goal_from
        if stats.is_compacted and source is not None and stats.goal_method == source and not self.chosen.quiet:
            click.echo(printable(f"{stats.path}: goal (--goal-from {source}): {stats.goal}"), err=True)
        if self.given.prints:
            summary = "\n".join(map(printable, stats.summary.split("\n"))) or compact_line(stats)
            if stats.summary:
                click.echo(summary)
            else:
                echo_wrapped(summary, err=True)
        else:
            super().say(stats)

    def words(self, stats: CompactStats) -> Words:
        before, after = stats.tokens_before, stats.tokens_after
        become = "would become" if stats.status is Status.WOULD_COMPACT else "->"
        short = file_line(stats.path, f"{before:,}", f"{after:,} tokens", less(before, after), become)
        return Words(compact_line(stats), short, None if stats.is_compacted else (stats.status.value, stats.reason))

    def file(self, stats: CompactStats) -> dict[str, Any]:
        left_out = ("summary", "goal", "unheeded", "budget")
        return {key: value for key, value in super().file(stats).items() if key not in left_out}

    def total(self, done: Done[CompactStats]) -> list[str]:
        written = [stats for stats in done.results if stats.is_compacted]
        left = [stats.status for stats in done.results]
        others = {status.value: left.count(status) for status in (Status.UNCHANGED, Status.SKIPPED)} | done.others
        before, after = (sum(getattr(each, name) for each in written) for name in ("tokens_before", "tokens_after"))
        verb = "would be compacted" if self.chosen.rehearses else "compacted"
        what = f" {verb}: {before:,} -> {after:,} tokens for the model"
        if self.chosen.rehearses and (sent := sum(each.tokens_sent for each in written if each.by == EXTRACTIVE)):
            what += f"; {sending(sent)}"
        return [output.total(len(written), what, others)]

    def hints(self, done: Done[CompactStats]) -> None:
        chosen, runs = self.chosen, (stats.run for stats in done.results)
        output.tell_of_undo(runs, *self.where, chosen.urls, quiet=chosen.quiet)
        self.tell_of_seen(each.path for each in done.results if each.is_compacted)

    def codes(self, done: Done[CompactStats]) -> list[int]:
        return [int(self.chosen.check and stats.is_compacted) for stats in done.results]

    def _refuse_unfit(self, found: Sequence[Found]) -> None:
        given, chosen, overrides = self.given, self.chosen, self.overrides
        is_one = len(found) == 1 and chosen.paths == (found[0].path,)
        if given.prints and (chosen.as_json or not is_one):
            raise click.UsageError("--print needs the path of one session and can't be combined with --json")
        if given.ask and not is_one:
            raise click.UsageError("--ask needs the path of one session")
        for name in ("rule", "target_tokens"):
            if overrides[name] is not None and not given.if_due:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --if-due")
        how_much = [unit for name, unit in _HOW_MUCH.items() if overrides[name] is not None]
        if len(how_much) > 1:
            raise click.UsageError("use only one of --keep-tokens and --keep-messages")
        if how_much and overrides["keep"] not in (None, *how_much):
            raise click.UsageError(f"--keep-{how_much[0]} needs --keep {how_much[0]}")


compact = Compact.command("compact session.jsonl --dry-run")


def _ask(path: Path, policies: Policies, goal: Goal, *, if_due: bool, form: str | None) -> Goal:
    """Ask for the goal of a session that is about to be compacted. Without an answer, return `goal` unchanged.

    If the user asks for fewer questions, write that to their own policy. Raises Refused or FileFailed if that fails;
    then no session is changed.
    """
    policy = policies.of(path)
    if not options.may_be_asked():
        return goal
    try:
        found = question(path, policy, if_due=if_due, form=form)
    except UsageError:
        raise
    except SessionCompressError:
        # The run will report the error.
        return goal
    if found is None or not (policy.compact.ask or found.budget.is_valve):
        return goal
    changes = {} if found.budget.is_valve else _changes(path, policies)
    use = f"{found.budget.tokens:,} tokens in use, {100 * found.budget.utilisation:.0f} % of the window"
    said = [f"{path}: {use}", "What matters next? It goes at the top of the summary."]
    if found.budget.is_valve:
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
            text = as_goal(_line() or "")
            return goal._replace(text=text, method=Method.OTHER) if text else goal
        if answer in changes:
            _set(path, policies, *changes[answer][1:])
            return goal._replace(method=Method.NEVER if answer == "n" else Method.LESS_OFTEN)
        if answer in ("", "a"):
            return goal
        if answer in rows:
            return goal._replace(text=rows[answer], method=Method.CHOSEN)
        click.echo("Type one of the keys on the left: ", nl=False, err=True)
    click.echo("auto", err=True)
    return goal._replace(method=Method.TIMEOUT) if monotonic() >= until else goal


def _line(seconds: float | None = None) -> str | None:
    """Read a line from the terminal, or None at the timeout or at the end of input."""
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return None
    line = sys.stdin.readline()
    return line.strip() if line else None


def _changes(path: Path, policies: Policies) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """List the answers that change the user's own policy: their text, section, and keys."""
    if policies.writable is None:
        return {}
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    budget = policies.of(path).budget
    # Files near the session are untrusted, so don't copy their numbers into the user's policy.
    if budget.rule is Rule.DELIBERATE and not _others(path, policies, "budget", (*_OFTEN, "frequencyMultiplier")):
        raised = (int(each * budget.frequency_multiplier + 0.5) for each in (budget.act_tokens, budget.act_messages))
        values = {key: min(each, most) for (key, most), each in zip(_OFTEN.items(), raised, strict=True)}
        words = ", ".join(f"{key} {value:,}" for key, value in values.items())
        found["l"] = (f"less often: {words}", "budget", values)
    return {**found, "n": ("never ask again", "compact", {"ask": False})}


def _set(path: Path, policies: Policies, section: str, values: dict[str, Any]) -> None:
    """Set keys in the user's own policy and print them. Warn if another file overrides it."""
    file = policies.writable
    assert file is not None
    echo_wrapped(printable(f"{file}: {json.dumps({section: values})}"), err=True)
    set_keys(file, section, values)
    for other in _others(path, policies, section, values):
        options.warn(f"{other}: it sets this too, and takes precedence for this session")


def _others(path: Path, policies: Policies, section: str, keys: Iterable[str]) -> set[Path]:
    """Find other files than the user's own that set any of the keys."""
    names = {f"{section}.{key}" for key in keys}
    files = {each.file for each in policies.settings(path) if each.key in names and each.file}
    return {each for each in files if os.path.realpath(each) != os.path.realpath(policies.writable or "")}
