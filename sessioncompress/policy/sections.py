"""The sections inside the policy: when a run acts, against which budget, and what pruning takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sessioncompress.policy import checks


class Rule(StrEnum):
    """What decides whether a session is due; each is named after the design that it comes from."""

    SIZE = "size"
    GENCODE = "gencode"
    OMP = "omp"
    EUNICE = "eunice"
    DELIBERATE = "deliberate"


class Placeholder(StrEnum):
    """What stands in the place of a pruned result: our marker, or what the agent itself writes where it has a word."""

    MARKER = "marker"
    NATIVE = "native"


class Limits(NamedTuple):
    """What a model holds and writes at most, in tokens; the pattern is a glob that its name matches."""

    pattern: str
    window: int
    output: int


MODEL_KEYS = ("pattern", "contextWindow", "outputLimit")
"""The keys of a model in `compression.json`, in the order of the fields."""

_A_MODEL = 'a list of {"pattern": text, "contextWindow": tokens, "outputLimit": tokens}'


def _models(value: Any) -> tuple[Limits, ...]:
    if not isinstance(value, (list, tuple)) or len(value) > checks.MOST_ENTRIES:
        raise ValueError(_A_MODEL)
    return tuple(map(_model, value))


def _model(value: Any) -> Limits:
    if isinstance(value, dict):
        value = tuple(value[key] for key in MODEL_KEYS) if value.keys() == set(MODEL_KEYS) else ()
    if not isinstance(value, tuple) or len(value) != len(MODEL_KEYS):
        raise ValueError(_A_MODEL)
    pattern, window, output = value
    if not checks.is_name(pattern) or not pattern:
        raise ValueError(_A_MODEL)
    try:
        limits = Limits(pattern, checks.count(window), checks.count(output))
    except ValueError as error:
        raise ValueError(f"{_A_MODEL}, and tokens {error}") from None
    if not (limits.window and limits.output):
        raise ValueError(_A_MODEL)
    return limits


PRUNE_CHECKS: checks.Checks = {
    "enabled": checks.flag,
    "prune_minimum": checks.count,
    "prune_protect": checks.count,
    "protect_tools": checks.names,
    "preserve_recent_messages": checks.count,
    "placeholder": checks.one_of(Placeholder),
}

BUDGET_CHECKS: checks.Checks = {
    "rule": checks.one_of(Rule),
    "reserved_output_tokens": checks.count,
    "reserve_percent": checks.percent,
    "reserve_tokens": checks.count,
    "threshold_percent": checks.percent_or_null,
    "threshold_tokens": checks.positive_or_null,
    "target_tokens": checks.count,
    "act_tokens": checks.count,
    "act_messages": checks.count,
    "act_seconds": checks.seconds,
    "safety_percent": checks.percent,
    "models": _models,
}


@dataclass(frozen=True, slots=True)
class Prune:
    """What pruning takes: whole tool results, oldest first. All numbers but the messages are tokens.

    A run with `enabled` that would not save the model `prune_minimum` in all writes nothing. The newest
    `prune_protect` of tool output stay, and all of the newest `preserve_recent_messages`. Raises UsageError.
    """

    enabled: bool = False
    prune_minimum: int = 20_000
    prune_protect: int = 40_000
    protect_tools: tuple[str, ...] = ("skill", "read")
    preserve_recent_messages: int = 10
    placeholder: Placeholder = Placeholder.MARKER

    def __post_init__(self) -> None:
        """Hold each value in the type of its field."""
        checks.hold(self, PRUNE_CHECKS)


@dataclass(frozen=True, slots=True)
class Budget:
    """When a session is due, by one of the rules; `rules.py` says which numbers each of them uses.

    All are tokens but percents of the context window, messages and seconds. `models` come before those shipped.
    Raises UsageError.
    """

    rule: Rule = Rule.SIZE
    reserved_output_tokens: int = 32_000
    reserve_percent: int = 15
    reserve_tokens: int = 16_384
    threshold_percent: int | None = None
    threshold_tokens: int | None = None
    target_tokens: int = 8_000
    act_tokens: int = 40_000
    act_messages: int = 25
    act_seconds: float = 300
    safety_percent: int = 50
    models: tuple[Limits, ...] = ()

    def __post_init__(self) -> None:
        """Hold each value in the type of its field."""
        checks.hold(self, BUDGET_CHECKS)
