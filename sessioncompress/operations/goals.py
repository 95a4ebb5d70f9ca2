"""The goal of a session: where to find it, what to ask the user, and what an answer changes in their policy."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from msgspec.structs import replace

from sessioncompress.checkpoints.cut import find_cut, for_the_model
from sessioncompress.checkpoints.notes import Notes
from sessioncompress.checkpoints.story import as_goal
from sessioncompress.core.checkpoint import Cut, Say, Utterance
from sessioncompress.core.jsonl import LINE_CAP
from sessioncompress.core.model import JsonPath, Role
from sessioncompress.core.splice import Added, CannotSplice, splice
from sessioncompress.errors import Refused, failing
from sessioncompress.formats.values import DONE_STATES
from sessioncompress.operations.compress import judge_open
from sessioncompress.operations.draft import Opened, opened
from sessioncompress.operations.old_part import find_latest, said
from sessioncompress.pipeline import triage
from sessioncompress.pipeline.stats import Action, BudgetStats
from sessioncompress.policy.file import SECTION
from sessioncompress.policy.model import Compact, CutRule, Policy
from sessioncompress.store import disk


class GoalSource(StrEnum):
    """The source of a goal: the session's last or first request, or the open items of its todo list."""

    LAST = "last"
    FIRST = "first"
    TODO = "todo"


class Method(StrEnum):
    """The way a goal was found: given, taken from the session, chosen or typed by the user, or none.

    `task` is the first request of a subagent's session, which is its purpose. From `auto` on there is no goal: no one
    was asked, the time ran out, or the user asked for fewer questions or none.
    """

    GIVEN = "given"
    LAST = "last"
    FIRST = "first"
    TODO = "todo"
    TASK = "task"
    CHOSEN = "chosen"
    OTHER = "other"
    AUTO = "auto"
    TIMEOUT = "timeout"
    LESS_OFTEN = "lessOften"
    NEVER = "never"
    NONE = ""


class Goal(NamedTuple):
    """A goal or its source, how it was found, and instructions, which only affect ranking.

    `chooses_cut` is true if no option or policy sets the cut, so the goal does.
    """

    text: str = ""
    source: GoalSource | None = None
    method: Method = Method.NONE
    instructions: str = ""
    chooses_cut: bool = False


NO_GOAL = Goal()

_NOT_WRITTEN = "It was not changed, and neither was any session."


def found_in(session: Opened, wanted: Goal) -> Goal:
    """Take a goal from the session if requested. A subagent's goal is its task."""
    if wanted.text:
        return wanted._replace(text=as_goal(wanted.text))
    if wanted.source is None and not (session.read.lines and session.form.is_subagent(session.written)):
        return wanted
    method = Method.TASK if wanted.source is None else Method(wanted.source)
    if method is Method.TODO:
        text = open_item(said(session, for_the_model(session.read)))
    else:
        live = session.read.shape.live
        prompts = _prompts(session, reversed(live) if method is Method.LAST else live)
        text = next(filter(None, map(as_goal, prompts)), "")
    return wanted._replace(text=text, method=method) if text else wanted


def open_item(said: Iterable[tuple[int, Utterance]]) -> str:
    """Return the todo item in progress in the last list, or else its first open item, or empty."""
    items = Notes(said, splits=False).deeds.items()
    under_way = [words for status, words in items if status == "in_progress"]
    waiting = [words for status, words in items if status not in DONE_STATES]
    return as_goal(next(iter([*under_way, *waiting]), ""))


def rules_for(rules: Compact, goal: Goal) -> Compact:
    """Return the cut rule: the policy's, or if the goal chooses, one that depends on whether there is a goal.

    A subagent has a single request, so its task doesn't determine a cut.
    """
    if not goal.chooses_cut or goal.method is Method.TASK:
        return rules
    if goal.text:
        return replace(rules, keep=CutRule.SINCE_PROMPT)
    return replace(rules, keep=CutRule.SHARE) if goal.method is not Method.NONE else rules


class Question(NamedTuple):
    """The content of the question about a session: goals to choose from, and its budget."""

    goals: tuple[str, ...]
    budget: BudgetStats


def question(path: Path, policy: Policy, *, if_due: bool, form: str | None = None) -> Question | None:
    """Prepare the question before a session is compacted; None if there is nothing to compact.

    Raises SessionCompressError.
    """
    if not policy.enabled:
        return None
    with opened(path, policy, writing=False, form=form) as session:
        if triage.may_be_cached(session.session.stat, policy):
            return None
        if (written := find_latest(session)) is not None and written.is_newest(policy.compact):
            return None
        budget = judge_open(session.known, policy, to_compact=True)
        if if_due and budget.decision != Action.COMPACT:
            return None
        rules = [replace(policy.compact, keep=keep) for keep in (policy.compact.keep, CutRule.SHARE)]
        if not any(isinstance(find_cut(session.read, each, splits=session.form.splits_turns), Cut) for each in rules):
            return None
        found: dict[str, str] = {}
        for text in _prompts(session, reversed(session.read.shape.live)):
            if goal := as_goal(text):
                found.setdefault(goal.casefold(), goal)
            if len(found) == 3:  # noqa: PLR2004 - no one would read more
                break
        return Question(tuple(found.values()), budget)


def _prompts(session: Opened, numbers: Iterable[int]) -> Iterator[str]:
    reader, lines = session.form.reader(), session.read.lines
    for number in numbers:
        line = lines[number]
        if (line.role is Role.USER or line.facts.prompt) and line.size < LINE_CAP:
            yield from (each.text for each in reader.said(session.entry(number)) if each.say is Say.PROMPT)


def set_keys(file: Path, section: str, values: Mapping[str, Any]) -> None:
    """Set keys in a user's own policy file, or create it; all other bytes stay. Raises Refused, FileFailed."""
    file = Path(os.path.realpath(file))
    with failing(file, _NOT_WRITTEN):
        if not file.exists():
            disk.make_folder(file.parent)
            disk.put_new(file, f"{json.dumps({SECTION: {section: values}}, indent=2)}\n".encode())
            return
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            what = "it is not a regular file, or has other hard links"
            remedy = "Put a copy in its place: cp -p FILE COPY && mv COPY FILE."
            raise Refused(what, where=file, state=_NOT_WRITTEN, remedy=remedy)
        before = file.read_bytes()
        try:
            document = orjson.loads(before)
            there = document[SECTION].get(section)
            new: dict[JsonPath, Any] = {(SECTION, section): Added(dict(values))}
            if isinstance(there, dict):
                pairs = values.items()
                new = {(SECTION, section, key): value if key in there else Added(value) for key, value in pairs}
            after = splice(before, document, new)[0]
        except (ValueError, TypeError, KeyError, AttributeError, CannotSplice) as error:
            remedy = f'Write {json.dumps({section: values})} into its "{SECTION}" by hand.'
            raise Refused("we can't edit this policy file", where=file, state=_NOT_WRITTEN, remedy=remedy) from error
        disk.put(file, after)
