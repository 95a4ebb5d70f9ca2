"""What the user wants of a session next: where that is said in it, and how it reads in a summary."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from sessioncompress.checkpoints.deeds import Deeds
from sessioncompress.checkpoints.merge import items, parse
from sessioncompress.checkpoints.quote import one_line
from sessioncompress.checkpoints.story import without_skills
from sessioncompress.core.checkpoint import Said, Say

LONGEST = 500
"""Characters of a goal."""
TODO = "Todo list"
"""The section of a summary that holds the last todo list."""

_DONE = frozenset({"completed", "done", "cancelled", "canceled", "deleted"})
_UNDER_WAY = "in_progress"


class Source(StrEnum):
    """Where a goal is taken from a session: its last request, its first one, or what is open of its todo list."""

    LAST = "last"
    FIRST = "first"
    TODO = "todo"


class Method(StrEnum):
    """How a goal was found: named, taken from the session, chosen or typed when it was asked for, or not at all.

    `task`: the session is that of a subagent, whose first request is what it is for.
    """

    GIVEN = "given"
    LAST = "last"
    FIRST = "first"
    TODO = "todo"
    TASK = "task"
    CHOSEN = "chosen"
    OTHER = "other"
    AUTO = "auto"
    NONE = ""


class Goal(NamedTuple):
    """A goal, or where to take it from, and how it was found; and instructions, which only rank.

    `chooses_cut`: nobody has said how to cut, so that the goal does.
    """

    text: str = ""
    source: Source | None = None
    method: Method = Method.NONE
    instructions: str = ""
    chooses_cut: bool = False


NO_GOAL = Goal()


def written(text: str) -> str:
    """Write a goal as one line without escapes and tags, at most so long."""
    return one_line(without_skills(text[: 64 * 1024]), LONGEST)


def open_item(said: Iterable[Said]) -> str:
    """Find what is under way in the last todo list, or else the first item that is open; empty where none is."""
    deeds = Deeds()
    for each in said:
        if each.say in (Say.SUMMARY, Say.FOREIGN):
            earlier = parse(each.text, (TODO,)) if each.say is Say.SUMMARY else None
            rows = items(earlier.section(TODO).rows) if earlier else ()
            deeds.todo, deeds.tasks = [], {str(at + 1): item for at, item in enumerate(rows)}
        elif each.say is Say.CALL:
            deeds.call(each)
        elif each.say is Say.RESULT:
            deeds.result(each)
    under_way = [words for status, words in deeds.items() if status == _UNDER_WAY]
    waiting = [words for status, words in deeds.items() if status not in _DONE]
    return written(next(iter([*under_way, *waiting]), ""))
