"""What a session stands at: recorded or estimated, since when, of which model; and nothing that a hostile journal says."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.core import text
from sessioncompress.core.model import Answer, Usage
from sessioncompress.pipeline.budget import judged
from sessioncompress.pipeline.summary import LINES, MESSAGES, TURNS, BudgetStats
from sessioncompress.pipeline.usage import Answers, answers
from sessioncompress.policy.model import BALANCED, Budget, Limits, Policy, Rule
from sessioncompress.store.records import RunRecord
from tests.support.build import PiSession
from tests.support.runs import survey_of

NOW = 1_790_000_000
OMP = replace(BALANCED, budget=Budget(rule=Rule.OMP))


def run(at: float, **stats: Any) -> RunRecord:
    return RunRecord(text.written_time(at), "0.3.0", {}, 1, 1, 1, 0, stats)


def session() -> PiSession:
    """Return three messages in two turns, of which a model reads 4,000 characters and more."""
    made = PiSession()
    made.user("x" * 4000)
    made.assistant("Yes.")
    made.user("And?")
    return made


def judge(
    found: tuple[Answer, ...], last: RunRecord | None = None, policy: Policy = BALANCED, behind: int | None = 0
) -> BudgetStats:
    """Judge a small session with other answers than its own."""
    read = survey_of(session())
    return judged(read, Answers(found, behind), last, policy, lambda: 7, path="s.jsonl", form="pi")


ANSWER = Answer(1, "claude-opus-4-5", Usage(100, 5, 30, 10), at=NOW * 1000)
FAILED = Answer(2, "", None, "prompt is too long", at=NOW * 1000)

TOKENS: list[tuple[str, tuple[Answer, ...], RunRecord | None, tuple[int, int | None, bool]]] = [
    ("nothing recorded", (), None, (1002, None, False)),
    ("only a failure", (FAILED,), None, (1002, None, False)),
    ("recorded", (ANSWER,), None, (145, 145, False)),
    ("the newest that is valid", (ANSWER, ANSWER._replace(usage=Usage(9, 1)), FAILED), None, (10, 10, False)),
    ("since the last run", (ANSWER,), run(NOW - 1), (145, 145, False)),
    ("before the last run", (ANSWER,), run(NOW + 1), (1002, 145, True)),
    ("in the second of the last run", (ANSWER,), run(NOW), (1002, 145, True)),
    ("before a restore", (ANSWER,), run(NOW + 1)._replace(restored=True), (145, 145, False)),
    ("nobody knows when, no run", (ANSWER._replace(at=0),), None, (145, 145, False)),
    ("nobody knows when", (ANSWER._replace(at=0),), run(NOW - 1), (1002, 145, True)),
    ("a run of no time", (ANSWER,), run(NOW)._replace(at="yesterday"), (1002, 145, True)),
]


@pytest.mark.parametrize(("found", "last", "expected"), [case[1:] for case in TOKENS], ids=[case[0] for case in TOKENS])
def test_what_was_recorded_counts_unless_a_run_came_since(
    found: tuple[Answer, ...], last: RunRecord | None, expected: tuple[int, int | None, bool]
) -> None:
    """The newest valid one; else the estimate, and that what was recorded is stale is said."""
    stats = judge(tuple(each._replace(model="") for each in found), last)
    assert (stats.tokens, stats.tokens_recorded, stats.recorded_is_stale) == expected
    assert stats.tokens_estimated == 1002


def test_what_came_behind_the_newest_answer_counts_too() -> None:
    """A long result that nobody answered is in the next request; behind a compaction nothing recorded counts."""
    stats = judge((ANSWER,), behind=50_000)
    assert (stats.tokens, stats.tokens_recorded, stats.recorded_is_stale) == (50_145, 145, False)
    stats = judge((ANSWER._replace(model=""),), behind=None)
    assert (stats.tokens, stats.tokens_recorded, stats.recorded_is_stale) == (1002, 145, True)


OWN = Limits("claude-*", 9_000, 800)
LIMITS: list[tuple[str, tuple[Answer, ...], Policy, tuple[int, int, str]]] = [
    ("nobody", (), BALANCED, (128_000, 16_384, "fallback")),
    ("a model that nobody knows", (ANSWER._replace(model="tide-1"),), BALANCED, (128_000, 16_384, "fallback")),
    ("our table", (ANSWER,), BALANCED, (200_000, 64_000, "table")),
    ("the newest model", (ANSWER, Answer(3, "gpt-4o")), BALANCED, (128_000, 16_384, "table")),
    ("the session", (ANSWER._replace(window=5_000),), BALANCED, (5_000, 5_000, "session")),
    (
        "the policy",
        (ANSWER._replace(window=5_000),),
        replace(BALANCED, budget=Budget(models=(OWN,))),
        (9_000, 800, "policy"),
    ),
]


@pytest.mark.parametrize(
    ("found", "policy", "expected"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS]
)
def test_who_knows_the_window(found: tuple[Answer, ...], policy: Policy, expected: tuple[int, int, str]) -> None:
    """The policy before the session, the session before our table."""
    stats = judge(found, None, policy)
    assert (stats.context_window, stats.output_limit, stats.limits_from) == expected


SINCE: list[tuple[str, RunRecord | None, tuple[int | None, bool]]] = [
    ("no run", None, (None, False)),
    ("a restore", run(NOW, lines=2)._replace(restored=True), (None, False)),
    ("two lines before", run(NOW, lines=2), (2, True)),
    ("nothing since", run(NOW, lines=4), (0, True)),
    ("nothing noted", run(NOW), (3, True)),
    ("no number noted", run(NOW, lines="2", messages=[], turns=None), (3, True)),
    ("more than there are", run(NOW, lines=10**30, messages=-5, turns=10**30), (0, True)),
]


@pytest.mark.parametrize(("last", "expected"), [case[1:] for case in SINCE], ids=[case[0] for case in SINCE])
def test_what_came_since_the_last_run(last: RunRecord | None, expected: tuple[int | None, bool]) -> None:
    """By what that run noted, whatever a journal holds."""
    stats = judge((), last)
    assert stats.messages == 3
    assert (stats.messages_since, stats.seconds_since is not None) == expected
    if stats.seconds_since is not None:
        assert stats.seconds_since >= 0


def test_a_failure_counts_until_a_run() -> None:
    """That run has changed what the next request holds."""
    policy = replace(BALANCED, budget=Budget(rule=Rule.EUNICE))
    assert judge((ANSWER, FAILED), None, policy).decision == "prune"
    assert judge((ANSWER, FAILED), run(NOW + 1), policy).decision == "none"
    assert judge((FAILED, ANSWER), None, policy).decision == "none"


def test_pruning_is_asked_for_what_it_saves() -> None:
    """Where a rule goes by what would be left."""
    full = (ANSWER._replace(usage=Usage(170_001, 0)),)
    assert (
        judge(full, None, OMP).reason
        == "170,001 tokens in use are over the threshold of 170,000; pruning leaves about 169,994"
    )


def test_estimates_are_in_tokens_of_the_model() -> None:
    """Some hold fewer characters than four; what pruning saves is given in the same ones."""
    assert judge((ANSWER._replace(usage=None),)).tokens == 1293  # 4,007 characters, 3.1 a token
    dense = (ANSWER._replace(model="claude-opus-5", usage=Usage(900_000, 0)),)
    assert judge(dense, None, OMP).reason.endswith(" and about 899,993 would be left after pruning")


def test_turns_count_from_the_last_run() -> None:
    """A run notes those that there were."""
    policy = replace(BALANCED, every_turns=1)
    assert judge((), run(time.time(), **{TURNS: 2, LINES: 4, MESSAGES: 3}), policy).decision == "none"
    assert judge((), run(time.time(), **{TURNS: 1}), policy).decision == "compress"


def test_its_own_answers_are_those_of_a_session() -> None:
    """From its bytes to the tokens of its newest request."""
    read = survey_of(session().bytes())
    stats = judged(read, answers(read), None, BALANCED, lambda: 0, path="s", form="pi")
    assert stats.tokens_recorded is not None
    assert stats.tokens == stats.tokens_recorded + 2  # "And?"
    assert stats.model == "claude-opus-4-5"
    assert stats.utilisation == stats.tokens / 200_000
