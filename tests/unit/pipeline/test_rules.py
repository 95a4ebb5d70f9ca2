"""Each rule by its definition, every boundary on both sides."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sessioncompress.pipeline.budget import Situation, decide, decide_on_compacting, did_not_fit, usable
from sessioncompress.pipeline.stats import Action
from sessioncompress.policy.model import BALANCED, PRESETS, Budget, Limits, Policy, Prune, Rule

WINDOW = Limits("m", 200_000, 64_000)
KB = 1024
NONE, COMPRESS, PRUNE, COMPACT = Action


def not_asked() -> int:
    """Fail: the rule has no need to know what pruning would save."""
    raise AssertionError


def situation(**changes: Any) -> Situation:
    """Return a session that is small, young, and in order."""
    base = Situation(
        size=1,
        turns=1,
        tokens=1,
        model=WINDOW,
        messages=2,
        since_turns=None,
        since_messages=None,
        since_seconds=None,
        settled="",
        error="",
        pruning_saves=not_asked,
    )
    return replace(base, **changes)


def saves(tokens: int) -> Callable[[], int]:
    return lambda: tokens


def by(rule: Rule, prune: Prune | None = None, **values: Any) -> Policy:
    return replace(BALANCED, budget=Budget(rule=rule, **values), prune=prune or BALANCED.prune)


SIZE = BALANCED
EVERY = replace(BALANCED, every_turns=3)
GENCODE = by(Rule.GENCODE)
OMP = by(Rule.OMP)
EUNICE = by(Rule.EUNICE)
DELIBERATE = by(Rule.DELIBERATE)
TOO_LONG = "400 prompt is too long: 213462 tokens > 200000 maximum"
ACTING = {"tokens": 40_000, "messages": 25}

CASES: dict[str, list[tuple[Policy, dict[str, Any], Action]]] = {
    "size": [
        (SIZE, {}, NONE),
        (SIZE, {"size": 100 * KB - 1}, NONE),
        (SIZE, {"size": 100 * KB}, COMPRESS),
        (SIZE, {"size": 100 * KB, "settled": "nothing new"}, NONE),
        (SIZE, {"tokens": 10**6, "messages": 10**4, "turns": 10**3, "error": TOO_LONG}, NONE),
        (EVERY, {"turns": 2}, NONE),
        (EVERY, {"turns": 3}, COMPRESS),
        (EVERY, {"turns": 9, "since_turns": 2}, NONE),
        (EVERY, {"turns": 9, "since_turns": 3}, COMPRESS),
        (EVERY, {"turns": 0, "size": 100 * KB}, COMPRESS),
    ],
    "gencode": [
        (GENCODE, {"size": 10**9}, NONE),
        (GENCODE, {"tokens": 168_000}, NONE),
        (GENCODE, {"tokens": 168_001}, PRUNE),
        (GENCODE, {"tokens": 195_904, "model": Limits("m", 200_000, 4_096)}, NONE),
        (GENCODE, {"tokens": 195_905, "model": Limits("m", 200_000, 4_096)}, PRUNE),
        (GENCODE, {"tokens": 168_001, "model": Limits("m", 200_000, 32_000)}, PRUNE),
        (GENCODE, {"tokens": 20_000, "model": Limits("m", 20_000, 2_000)}, COMPACT),
        (GENCODE, {"tokens": 20_001, "model": Limits("m", 20_000, 2_000)}, PRUNE),
        (by(Rule.GENCODE, Prune(prune_minimum=170_000)), {"tokens": 170_000}, COMPACT),
        (by(Rule.GENCODE, Prune(prune_minimum=170_000)), {"tokens": 170_001}, PRUNE),
        (by(Rule.GENCODE, reserved_output_tokens=10_000), {"tokens": 190_000}, NONE),
        (by(Rule.GENCODE, reserved_output_tokens=10_000), {"tokens": 190_001}, PRUNE),
    ],
    "omp": [
        (OMP, {"size": 10**9}, NONE),
        (OMP, {"tokens": 170_000}, NONE),
        (OMP, {"tokens": 170_001, "pruning_saves": saves(1)}, PRUNE),
        (OMP, {"tokens": 170_001, "pruning_saves": saves(0)}, COMPACT),
        (OMP, {"tokens": 190_000, "pruning_saves": saves(20_000)}, PRUNE),
        (OMP, {"tokens": 190_000, "pruning_saves": saves(19_999)}, COMPACT),
        (OMP, {"tokens": 83_616, "model": Limits("m", 100_000, 8_000)}, NONE),
        (OMP, {"tokens": 83_617, "model": Limits("m", 100_000, 8_000), "pruning_saves": saves(9)}, PRUNE),
        (OMP, {"tokens": 6_800, "model": Limits("small", 8_000, 1_000)}, NONE),
        (OMP, {"tokens": 6_801, "model": Limits("small", 8_000, 1_000), "pruning_saves": saves(9)}, PRUNE),
        (by(Rule.OMP, threshold_percent=50), {"tokens": 100_000}, NONE),
        (by(Rule.OMP, threshold_percent=50), {"tokens": 100_001, "pruning_saves": saves(9)}, PRUNE),
        (by(Rule.OMP, threshold_tokens=5_000, threshold_percent=50), {"tokens": 5_000}, NONE),
        (by(Rule.OMP, threshold_tokens=5_000), {"tokens": 5_001, "pruning_saves": saves(9)}, PRUNE),
        (by(Rule.OMP, threshold_tokens=10**9), {"tokens": 200_000}, NONE),
        (by(Rule.OMP, threshold_tokens=10**9), {"tokens": 200_001, "pruning_saves": saves(1)}, PRUNE),
    ],
    "eunice": [
        (EUNICE, {"tokens": 10**9, "size": 10**9}, NONE),
        (EUNICE, {"error": "overloaded_error"}, NONE),
        (EUNICE, {"error": "429 rate limit reached, try again in 9 s"}, NONE),
        (EUNICE, {"error": TOO_LONG, "tokens": 10_000, "pruning_saves": saves(2_001)}, PRUNE),
        (EUNICE, {"error": TOO_LONG, "tokens": 10_000, "pruning_saves": saves(2_000)}, COMPACT),
        (by(Rule.EUNICE, target_tokens=9), {"error": TOO_LONG, "tokens": 8, "pruning_saves": saves(0)}, PRUNE),
        (by(Rule.EUNICE, target_tokens=8), {"error": TOO_LONG, "tokens": 8, "pruning_saves": saves(0)}, COMPACT),
        (EUNICE, {"error": TOO_LONG, "tokens": 5, "pruning_saves": saves(9)}, PRUNE),
    ],
    "deliberate": [
        (DELIBERATE, {"size": 10**9, "messages": 99, "error": TOO_LONG}, NONE),
        (DELIBERATE, {**ACTING, "tokens": 39_999}, NONE),
        (DELIBERATE, {**ACTING, "messages": 24}, NONE),
        (DELIBERATE, ACTING, COMPRESS),
        (DELIBERATE, {**ACTING, "messages": 99, "since_messages": 24, "since_seconds": 300}, NONE),
        (DELIBERATE, {**ACTING, "messages": 99, "since_messages": 25, "since_seconds": 299.9}, NONE),
        (DELIBERATE, {**ACTING, "messages": 99, "since_messages": 25, "since_seconds": 300}, COMPRESS),
        (DELIBERATE, {"tokens": 99_999, "messages": 1}, NONE),
        (DELIBERATE, {"tokens": 100_000, "messages": 1, "since_messages": 0, "since_seconds": 0}, COMPRESS),
        (DELIBERATE, {"tokens": 100_000, "settled": "nothing new", "since_messages": 0, "since_seconds": 0}, COMPACT),
        (by(Rule.DELIBERATE, safety_percent=95), {"tokens": 189_999, "messages": 1}, NONE),
        (by(Rule.DELIBERATE, act_tokens=10_000, act_messages=5), {"tokens": 10_000, "messages": 5}, COMPRESS),
        (by(Rule.DELIBERATE, act_seconds=60), {**ACTING, "since_messages": 25, "since_seconds": 60}, COMPRESS),
    ],
}


@pytest.mark.parametrize(
    ("rule", "policy", "changes", "action"), [(name, *case) for name, cases in CASES.items() for case in cases]
)
def test_each_rule_decides_by_its_definition(
    rule: str, policy: Policy, changes: dict[str, Any], action: Action
) -> None:
    """It says why in one sentence with the numbers it went by."""
    found, reason = decide(situation(**changes), policy)
    assert (policy.budget.rule.value, found) == (rule, action), reason
    assert reason
    assert not reason.endswith(".")
    assert "\n" not in reason


def test_every_rule_has_its_table() -> None:
    assert set(CASES) == {rule.value for rule in Rule}
    assert {action for cases in CASES.values() for *_, action in cases} == set(Action)


USABLE = [
    (Rule.SIZE, 200_000),
    (Rule.GENCODE, 168_000),
    (Rule.OMP, 170_000),
    (Rule.EUNICE, 200_000),
    (Rule.DELIBERATE, 100_000),
]


@pytest.mark.parametrize(("rule", "tokens"), USABLE)
def test_what_of_the_window_is_usable(rule: Rule, tokens: int) -> None:
    assert usable(WINDOW, Budget(rule=rule)) == tokens


def test_a_window_as_small_as_its_reserve_is_never_below_nothing() -> None:
    """Odd numbers of a user's own model make no negative budget."""
    assert usable(Limits("m", 1_000, 5_000), Budget(rule=Rule.GENCODE)) == 0
    assert usable(Limits("m", 1, 1), Budget(rule=Rule.OMP)) == 1


FITS = [
    "",
    "overloaded_error",
    "Connection error.",
    "429 rate limit reached: too many tokens per minute",
    "ThrottlingException: Too many tokens, please wait before trying again.",
    "Too Many Requests",
    "insufficient quota",
    "Request was aborted",
]
DID_NOT_FIT = [
    TOO_LONG,
    "RESOURCE_EXHAUSTED",
    "RESOURCE_EXHAUSTED: rate limit of input tokens",
    "429 You exceeded your current quota",
    "quota exceeded (status 429)",
    "This model's maximum context length is 131072 tokens.",
    "context_length_exceeded",
    "Your input exceeds the context window of this model",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
    "maximum prompt length is 131072 but the request contains 537812 tokens",
    "Please reduce the length of the messages or completion",
    "413 request_too_large",
    "prompt token count of 9 exceeds the limit of 8",
    "input is too long for requested model",
    "exceeded model token limit: 9",
    "the request exceeds the available context size",
]


@pytest.mark.parametrize("error", FITS)
def test_other_failures_are_not_about_the_context(error: str) -> None:
    """Neither is a limit of requests that counts in tokens."""
    assert not did_not_fit(error)


@pytest.mark.parametrize("error", DID_NOT_FIT)
def test_failures_for_the_context_as_the_vendors_word_them(error: str) -> None:
    """The three of the rule's own design, and those of others."""
    assert did_not_fit(error)


@pytest.mark.parametrize("error", ["quota " + "x" * 20_000, "429 " + "y " * 10_000], ids=["quota", "429"])
def test_a_failure_of_any_length_is_read_in_one_pass(error: str) -> None:
    """An agent notes what a server answered, and that may be a whole page."""
    begun = time.process_time()
    assert not did_not_fit(error)
    assert time.process_time() - begun < 1


def test_presets_prune_more_or_less() -> None:
    """The numbers of the design that the presets are named after."""
    pruned = {name: (preset.prune.prune_minimum, preset.prune.prune_protect) for name, preset in PRESETS.items()}
    assert pruned["low-cost"] == (10_000, 20_000)
    assert pruned["balanced"] == (20_000, 40_000)
    assert pruned["high-quality"] == (30_000, 60_000)
    assert not any(preset.prune.enabled for preset in PRESETS.values())


# Whether a summary is due

COMPACTING: list[tuple[Policy, dict[str, Any], Action]] = [
    (GENCODE, {"tokens": 168_000}, NONE),
    (GENCODE, {"tokens": 168_001, "pruning_saves": saves(0)}, COMPACT),
    (GENCODE, {"tokens": 200_000, "pruning_saves": saves(31_999)}, COMPACT),
    (GENCODE, {"tokens": 200_000, "pruning_saves": saves(32_000)}, PRUNE),
    (GENCODE, {"tokens": 200_000, "pruning_saves": saves(300_000)}, PRUNE),
    (OMP, {"tokens": 170_000}, NONE),
    (OMP, {"tokens": 180_000, "pruning_saves": saves(10_000)}, PRUNE),
    (OMP, {"tokens": 180_000, "pruning_saves": saves(9_999)}, COMPACT),
    (OMP, {"error": TOO_LONG}, COMPACT),
    (OMP, {"error": "overloaded"}, NONE),
    (OMP, {"cut_short": True}, COMPACT),
    (OMP, {"tokens": 180_000, "cut_short": True, "pruning_saves": saves(10_000)}, PRUNE),
    (GENCODE, {"error": TOO_LONG, "cut_short": True}, NONE),
    (EUNICE, {"tokens": 180_000}, NONE),
    (EUNICE, {"tokens": 9_000, "error": TOO_LONG, "pruning_saves": saves(1_001)}, PRUNE),
    (EUNICE, {"tokens": 9_000, "error": TOO_LONG, "pruning_saves": saves(1_000)}, COMPACT),
    (DELIBERATE, {"tokens": 39_999, "messages": 25}, NONE),
    (DELIBERATE, {**ACTING, "pruning_saves": saves(1)}, COMPRESS),
    (DELIBERATE, {**ACTING, "pruning_saves": saves(0)}, COMPACT),
    (DELIBERATE, {**ACTING, "settled": "nothing new"}, COMPACT),
    (DELIBERATE, {**ACTING, "messages": 24}, NONE),
    (DELIBERATE, {"tokens": 100_000, "pruning_saves": saves(0)}, COMPACT),
    (DELIBERATE, {"tokens": 100_000, "pruning_saves": saves(1)}, COMPRESS),
    (DELIBERATE, {"tokens": 100_000, "messages": 25, "pruning_saves": saves(60_000)}, COMPACT),
    (DELIBERATE, {"tokens": 100_000, "messages": 25, "pruning_saves": saves(60_001)}, COMPRESS),
]


@pytest.mark.parametrize(("policy", "changes", "expected"), COMPACTING)
def test_a_summary_is_due_where_a_run_of_compress_is_not_enough(
    policy: Policy, changes: dict[str, Any], expected: Action
) -> None:
    """What such a run leaves goes by the same rule."""
    action, reason = decide_on_compacting(situation(**changes), policy)
    assert action is expected
    assert reason
