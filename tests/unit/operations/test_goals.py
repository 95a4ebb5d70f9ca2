"""Where a goal is found in a session, how it decides the cut, and what answers change in a policy file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.core.checkpoint import Say, Utterance
from sessioncompress.errors import SessionCompressError
from sessioncompress.operations import goals
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.goals import Goal, GoalSource, Method
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Budget, CutRule, Limits, Rule
from tests.support.long import FEW, LONG, pi
from tests.support.runs import write
from tests.unit.checkpoints.said import digest

LAST = "Part 7: look at the logs, then note what failed in notes-7.md."
FIRST = LAST.replace("7", "0")


def head_of(summary: str) -> str:
    """Return the goal that a summary says; empty where it says none."""
    return summary.partition("## Current goal\n- > ")[2].partition("\n")[0]


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize(("source", "expected"), [(GoalSource.LAST, LAST), (GoalSource.FIRST, FIRST)])
def test_a_goal_is_taken_from_the_requests(tmp_path: Path, name: str, source: GoalSource, expected: str) -> None:
    """In every form, also where a checkpoint stands there already."""
    path = write(tmp_path, LONG[name](8))
    done = compact_session(path, FEW, goal=Goal(source=source), dry_run=True)
    assert done.status is Status.WOULD_COMPACT
    assert (head_of(done.summary), done.goal_method) == (expected, source.value)


def _plan(*items: tuple[str, str]) -> Utterance:
    return Utterance(
        Say.CALL, tool="TodoWrite", given={"todos": [{"status": status, "content": at} for status, at in items]}
    )


ITEMS: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "under way": ((("pending", "a"), ("in_progress", "b"), ("pending", "c")), "b"),
    "the first that waits": ((("completed", "a"), ("pending", "b"), ("pending", "c")), "b"),
    "all done": ((("completed", "a"), ("cancelled", "b")), ""),
    "none": ((), ""),
}


@pytest.mark.parametrize(("items", "expected"), ITEMS.values(), ids=list(ITEMS))
def test_the_open_item_of_a_todo_list(items: tuple[tuple[str, str], ...], expected: str) -> None:
    """Also where only a summary of ours still has the list."""
    assert goals.open_item([(0, _plan(*items))]) == expected
    summary = digest(enumerate([Utterance(Say.PROMPT, "Go."), _plan(*items)]), budget=1_000)
    assert goals.open_item([(0, Utterance(Say.SUMMARY, summary.text))]) == expected


CUTS = {
    "a goal": (Goal("x", method=Method.GIVEN, chooses_cut=True), CutRule.SINCE_PROMPT),
    "auto": (Goal(method=Method.AUTO, chooses_cut=True), CutRule.SHARE),
    "a goal, and a cut": (Goal("x", method=Method.GIVEN), CutRule.TOKENS),
    "auto, and a cut": (Goal(method=Method.AUTO), CutRule.TOKENS),
    "nothing": (Goal(chooses_cut=True), CutRule.TOKENS),
    "a task": (Goal("x", method=Method.TASK, chooses_cut=True), CutRule.TOKENS),
}


@pytest.mark.parametrize(("goal", "keep"), CUTS.values(), ids=list(CUTS))
def test_the_goal_says_how_to_cut(tmp_path: Path, goal: Goal, keep: CutRule) -> None:
    assert goals.rules_for(FEW.compact, goal).keep is keep
    if goal.method is not Method.TASK:
        assert compact_session(write(tmp_path, pi()), FEW, goal=goal, dry_run=True).strategy == keep


# What is asked

LOW = Budget(rule=Rule.DELIBERATE, act_tokens=10_000, act_messages=5, models=(Limits("*", 10_000_000, 1_000),))


def test_what_is_asked(tmp_path: Path) -> None:
    """The newest requests that differ, and how full the context is; nothing of a session that is short, switched off, or not due."""
    path = write(tmp_path, pi())
    found = goals.question(path, FEW, if_due=False)
    assert found is not None
    assert found.goals == tuple(LAST.replace("7", str(turn)) for turn in (7, 6, 5))
    assert not found.budget.is_valve
    assert 0 < found.budget.tokens < found.budget.context_window
    assert goals.question(write(tmp_path, pi(1), "short.jsonl"), FEW, if_due=False) is None
    assert goals.question(path, replace(FEW, enabled=False), if_due=False) is None
    os.utime(path)
    assert goals.question(path, replace(FEW, idle_seconds=9_000), if_due=False) is None
    due = replace(FEW, budget=LOW, turn_threshold_before_compress=100, protect_tokens=None)
    assert goals.question(path, due, if_due=True) is not None
    late = replace(due, budget=replace(LOW, act_tokens=90_000))
    assert goals.question(path, late, if_due=True) is None
    assert goals.question(path, late, if_due=False) is not None


# The user's policy


FILES = {
    "compact": (
        b'{"session":{"budget":{"actTokens":40000}}}',
        b'{"session":{"budget":{"actTokens":7,"actMessages":8}}}',
    ),
    "spread out": (
        b'{\n  "x": [1.0, 1e2],\n  "session": {\n    "budget": { "actMessages" : 25, "rule": "omp" }\n  }\n}\n\n',
        b'{\n  "x": [1.0, 1e2],\n  "session": {\n    "budget": { "actMessages" : 8, "rule": "omp","actTokens":7 }\n  }\n}\n\n',
    ),
    "no section": (
        b'{"session": {"enabled": true}}',
        b'{"session": {"enabled": true,"budget":{"actTokens":7,"actMessages":8}}}',
    ),
    "an empty one": (b'{"session": { } }', b'{"session": {"budget":{"actTokens":7,"actMessages":8} } }'),
}


@pytest.mark.parametrize(("before", "after"), FILES.values(), ids=list(FILES))
def test_every_other_byte_stays(tmp_path: Path, before: bytes, after: bytes) -> None:
    file, link = tmp_path / "config.json", tmp_path / "link.json"
    file.write_bytes(before)
    file.chmod(0o640)
    link.symlink_to(file)
    goals.set_keys(link, "budget", {"actTokens": 7, "actMessages": 8})
    assert file.read_bytes() == after
    assert file.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()


REFUSED = {"no JSON": b"{", "a list": b"[]", "no section": b"{}", "another type": b'{"session": 7}'}


@pytest.mark.parametrize("content", REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_policy_stays(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(
        SessionCompressError, match='Write \\{"compact": \\{"ask": false\\}\\} into its "session" by hand'
    ):
        goals.set_keys(file, "compact", {"ask": False})
    assert file.read_bytes() == content
