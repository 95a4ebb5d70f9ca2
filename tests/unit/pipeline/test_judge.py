"""What a session stands at: recorded or estimated, since when, of which model; and nothing that a hostile journal says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from sessioncompress.core import text
from sessioncompress.core.model import Answer, Usage
from sessioncompress.formats import table
from sessioncompress.pipeline import budget
from sessioncompress.pipeline.reading import Known, RewrittenLines
from sessioncompress.pipeline.stats import BudgetStats
from sessioncompress.pipeline.usage import Answers
from sessioncompress.policy.model import BALANCED, Budget, Limits, Policy
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import store_in
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.records import RunRecord
from tests.support.build import PiSession
from tests.support.runs import survey_of

NOW = 1_790_000_000


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
    made, journal, path = session(), Journal(), Path("s.jsonl")
    journal.runs += [last] if last else []
    open_ = cast(OpenSession, SimpleNamespace(path=path))
    read, rewritten = survey_of(made), RewrittenLines(journal)
    known = Known(open_, store_in(path), journal, table.format_named("pi"), "", read, rewritten, True, Answer())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(budget, "answers", lambda _: Answers(found, behind))
        return budget.judged(known, policy, lambda: 7)


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
