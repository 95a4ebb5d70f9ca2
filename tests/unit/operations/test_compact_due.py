"""Compacting by a budget's rule: once where a summary is due, never where clearing is enough, and told in the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.sessions import budget_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Budget, Compact, Policy, Prune, Rule
from tests.support.build import PiSession, dice
from tests.support.long import FEW, LINES, pi
from tests.support.runs import fixture, snapshot, write
from tests.support.texts import log_lines

TOO_LONG = "400 prompt is too long: 213462 tokens > 200000 maximum"
PRUNING = Prune(prune_minimum=100, prune_protect=1_000, preserve_recent_messages=2)
"""Prunes the sessions of these tests, which hold little."""


def by(rule: Rule, prune: Prune | None = None, **numbers: Any) -> Policy:
    return replace(FEW, budget=Budget(rule=rule, **numbers), prune=prune or FEW.prune)


PROTECTING = {"turn_threshold_before_compress": 100, "protect_tokens": None}
"""With these a run of compress takes nothing, so that only a summary helps."""
OMP = replace(by(Rule.OMP, threshold_tokens=10_000), **PROTECTING)


def over(path: Path) -> Policy:
    limit = budget_session(path, FEW).tokens * 2 // 3
    return replace(OMP, budget=Budget(rule=Rule.OMP, threshold_tokens=limit))


def failing(turns: int = 8) -> PiSession:
    """Return a session whose newest request did not fit."""
    made = PiSession().opening()
    for turn in range(turns):
        made.user(f"Part {turn}.")
        made.step("bash", {"command": f"cat service-{turn}.log"}, log_lines(dice("due", turn), 60))
        made.assistant(f"Gauge {turn} failed.")
    made.user("And the last one?")
    made.assistant(stop="error", errorMessage=TOO_LONG)
    return made


def go_on(path: Path, name: str) -> None:
    """Add another turn, as the agent does behind what stands there last."""
    more = LINES[name](9)[len(LINES[name](8)) :]
    before = path.read_bytes()
    if name == "pi":
        first, _, rest = more.partition(b"\n")
        last = json.loads(before.splitlines()[-1])["id"]
        more = json.dumps({**json.loads(first), "parentId": last}).encode() + b"\n" + rest
    path.write_bytes(before + more)


# Whether a summary is due


FORMS = ("claude-tools.jsonl", "codex-older.jsonl", "gemini.jsonl", "omp.jsonl", "openclaw.jsonl", "pi-gemini.jsonl")


@pytest.mark.parametrize("name", FORMS)
def test_what_other_agents_recorded_is_stale_too(name: str, tmp_path: Path) -> None:
    """By the time of the run where the checkpoint stands before what is kept, or else by its place."""
    path = write(tmp_path, fixture(name), name)
    stands = budget_session(path, FEW)
    keeps = Compact(keep_tokens=300, min_dead_tokens=100, min_saved_tokens=100)
    limit = stands.tokens_estimated // 2
    policy = replace(FEW, compact=keeps, budget=Budget(rule=Rule.OMP, threshold_tokens=limit))
    assert compact_session(path, policy).status is Status.COMPACTED
    after = budget_session(path, policy)
    assert (after.decision, after.tokens) == ("none", after.tokens_estimated), after
    assert after.recorded_is_stale is (after.tokens_recorded is not None)


@pytest.mark.parametrize("name", LINES)
def test_what_comes_since_is_counted_from_the_checkpoint(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, LINES[name](8))
    each = budget_session(path, FEW).messages // 8
    assert compact_session(path, FEW).messages_since is None
    go_on(path, name)
    assert budget_session(path, FEW).messages_since == each
    stats = compact_session(path, FEW, dry_run=True)
    assert stats.messages_since == each
    assert stats.tokens_since is not None
    assert 1_000 < stats.tokens_since < 3_000


ENOUGH = [by(Rule.OMP, PRUNING, threshold_tokens=10_000), by(Rule.EUNICE, PRUNING)]


@pytest.mark.parametrize("policy", ENOUGH, ids=["omp", "eunice"])
def test_where_pruning_is_enough_it_comes_first(policy: Policy, tmp_path: Path) -> None:
    """Then `compress` does it, as its rule tells it to, and no summary is due behind that."""
    path = write(tmp_path, failing())
    there = snapshot(path)
    stats = compact_session(path, policy, if_due=True)
    assert stats.status is Status.SKIPPED
    assert stats.reason.endswith(f" (rule {policy.budget.rule}): compress is enough")
    assert "pruning leaves about" in stats.reason
    assert snapshot(path) == there
    cleared = compress_session(path, policy)
    assert cleared.status is Status.COMPRESSED
    assert compact_session(path, policy, if_due=True).reason.endswith(f"(rule {policy.budget.rule})")


TRIGGERS = [
    ({"stop": "error", "errorMessage": TOO_LONG}, "the newest answer failed because the context was too long"),
    ({"stop": "length"}, "the newest answer was cut off at its length limit"),
]


@pytest.mark.parametrize(("last", "reason"), TRIGGERS)
def test_omp_sums_up_what_its_agent_does(last: dict[str, str], reason: str, tmp_path: Path) -> None:
    """Below its threshold too, once; `budget` and `compress` go by the threshold alone."""
    made = PiSession().raw(pi()).branch(json.loads(pi().splitlines()[-1])["id"])
    made.assistant("And", **last)
    path = write(tmp_path, b"".join(made.lines()[1:]))
    policy = by(Rule.OMP)
    assert budget_session(path, policy).decision == "none"
    done = compact_session(path, policy, if_due=True)
    assert (done.status, done.trigger) == (Status.COMPACTED, reason)
    assert compact_session(path, policy, if_due=True).status is Status.SKIPPED


def test_a_run_without_pruning_may_be_enough_too(tmp_path: Path) -> None:
    """Where the rule's pruning would save too little, `compress` does what it does without."""
    policy = replace(by(Rule.OMP, threshold_tokens=10_000), min_saved_kb=0)
    path = write(tmp_path, pi())
    assert compact_session(path, policy, if_due=True).reason.endswith("compress is enough")
    assert compress_session(path, policy).status is Status.COMPRESSED


def test_eunice_sums_up_where_pruning_leaves_too_much(tmp_path: Path) -> None:
    """And is content with that, though the failure still stands there."""
    policy = replace(by(Rule.EUNICE, target_tokens=1_000), **PROTECTING)
    path = write(tmp_path, failing())
    stats = compact_session(path, policy, if_due=True)
    assert stats.status is Status.COMPACTED
    assert "not under targetTokens 1,000" in stats.trigger
    assert budget_session(path, policy).decision == "none"


@pytest.mark.parametrize(("protected", "status"), [(4, Status.SKIPPED), (100, Status.COMPACTED)])
def test_gencode_sums_up_only_where_pruning_is_not_enough(protected: int, status: Status, tmp_path: Path) -> None:
    """Its own decision is `prune` in both cases; what is protected no run takes."""
    small = ({"pattern": "*", "contextWindow": 12_000, "outputLimit": 2_000},)
    policy = by(Rule.GENCODE, PRUNING, models=small)
    policy = replace(policy, turn_threshold_before_compress=protected, protect_tokens=None)
    path = write(tmp_path, pi())
    assert budget_session(path, policy).decision == "prune"
    stats = compact_session(path, policy, if_due=True)
    assert stats.status is status
    assert "; compress leaves about " in (stats.reason or stats.trigger)


def test_deliberate_sums_up_where_compress_finds_nothing(tmp_path: Path) -> None:
    """At the safety valve the budget says so too: the window is half full, whatever a run could take."""
    small = ({"pattern": "*", "contextWindow": 20_000, "outputLimit": 2_000},)
    policy = replace(by(Rule.DELIBERATE, models=small), **PROTECTING)
    path = write(tmp_path, pi())
    found = budget_session(path, policy)
    assert found.decision == "compact"
    assert "at least 50 % of the window, but compress would change nothing: nothing worth removing" in found.reason
    assert budget_session(path, replace(policy, idle_seconds=1e10)).decision == "none"
    logging = replace(policy, log_file=str(tmp_path / "log"))
    assert compact_session(path, logging, if_due=True).status is Status.COMPACTED
    assert compact_session(path, logging, if_due=True).status is Status.SKIPPED
    assert [each["safetyValve"] for each in logged(tmp_path / "log")] == [True, False]


# Behind a checkpoint


@pytest.mark.parametrize("name", LINES)
def test_what_a_checkpoint_stands_for_is_compressed_though_nothing_else_is_due(name: str, tmp_path: Path) -> None:
    policy = replace(by(Rule.OMP, threshold_tokens=10_000), min_saved_kb=0)
    path = write(tmp_path, LINES[name](8))
    assert compact_session(path, policy).status is Status.COMPACTED
    assert compress_session(path, policy).status is Status.COMPRESSED
    assert budget_session(path, policy).decision == "none"
    assert compact_session(path, policy, if_due=True).status is Status.SKIPPED
    assert not compress_session(path, policy).is_smaller


# The log


def logged(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_bytes().splitlines()]
