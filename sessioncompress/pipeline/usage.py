"""What an agent recorded of its requests to models, and how much each model holds, by patterns for its name."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import chain
from typing import NamedTuple

from msgspec import Struct

from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.model import Answer, Role
from sessioncompress.core.text import CHARACTERS_PER_TOKEN, estimate
from sessioncompress.policy.model import Limits

_LONGEST = 200
"""Characters. No model has a name as long."""

ANY = "*"
"""The pattern of the row for a model that no other row knows."""

# From the model lists that came with pi 0.74.2 and 0.87.1 and with oh-my-pi 18.2.0, all of the year 2026: there the
# rows of the vendor's own API. Where the lists differ the smaller window stands (GPT-5.4 and later take more than
# 272,000 tokens at a higher price, Claude Sonnet 4.5 more than 200,000 when asked to): who is told too early loses
# less. Weights that anybody may serve have what most do.
_ROWS = (
    # So Claude Code names a model whose window of a million tokens is asked for.
    (1_000_000, 64_000, "claude-*[[]1m] claude-sonnet-4[-.]6*"),
    (1_000_000, 128_000, "claude-opus-4[-.][678]* claude-opus-5* claude-sonnet-5* claude-fable-* claude-mythos-*"),
    (200_000, 64_000, "claude-opus-4[-.]5*"),
    (200_000, 32_000, "claude-opus-4*"),
    (200_000, 8_192, "claude-3[-.]5*"),
    (200_000, 64_000, "claude-3[-.]7*"),
    (200_000, 4_096, "claude-3-*"),
    (200_000, 64_000, "claude-*"),
    (272_000, 128_000, "gpt-6*"),
    (128_000, 32_000, "gpt-5*-codex-spark*"),
    (272_000, 128_000, "gpt-5*-codex*"),
    (128_000, 16_384, "gpt-5*-chat*"),
    (400_000, 128_000, "gpt-5.[4-9]-mini* gpt-5.[4-9]-nano*"),
    (1_050_000, 128_000, "gpt-5.[4-9]-pro*"),
    (272_000, 128_000, "gpt-5.[4-9]*"),
    (400_000, 128_000, "gpt-5*"),
    (1_047_576, 32_768, "gpt-4.1*"),
    (128_000, 16_384, "gpt-4o*"),
    (128_000, 4_096, "gpt-4-turbo*"),
    (8_192, 8_192, "gpt-4*"),
    (16_385, 4_096, "gpt-3.5*"),
    (131_072, 32_768, "gpt-oss*"),
    (200_000, 100_000, "codex-mini* o[134] o[134]-*"),
    (1_000_000, 8_192, "gemini-1.5*"),
    (1_048_576, 8_192, "gemini-2.0*"),
    (128_000, 8_000, "gemini-live-*"),
    (1_048_576, 65_536, "gemini-*"),
    (256_000, 8_192, "gemma-4*"),
    (131_072, 8_192, "gemma-*"),
    (1_000_000, 384_000, "deepseek-v4* deepseek-flash*"),
    (128_000, 8_192, "deepseek-*"),
    (1_000_000, 65_536, "qwen3-coder-plus* qwen3-coder-flash*"),
    (1_000_000, 64_000, "qwen3.[5-8]-flash* qwen3.[67]-plus*"),
    (1_000_000, 65_536, "qwen3.[78]-max*"),
    (131_072, 8_192, "qwen3[-.]*[0-9]b*"),
    (262_144, 32_768, "qwen3*"),
    (131_072, 8_192, "qwen*"),
    (1_000_000, 131_072, "kimi-k3*"),
    (131_072, 16_384, "kimi-k2-0711* kimi-k2 kimi-k2-instruct"),
    (262_144, 32_768, "kimi-*"),
    (1_000_000, 131_072, "glm-5[.p-][23]*"),
    (200_000, 131_072, "glm-5*"),
    (128_000, 32_768, "glm-4[.p][67]v*"),
    (200_000, 131_072, "glm-4[.p]7-flash*"),
    (204_800, 131_072, "glm-4[.p][67]*"),
    (64_000, 16_384, "glm-4[.p]5v*"),
    (131_072, 98_304, "glm-*"),
    (2_000_000, 30_000, "grok-4[-.]1-fast* grok-4-fast*"),
    (1_000_000, 30_000, "grok-4.20* grok-4.3*"),
    (500_000, 500_000, "grok-4.[5-9]*"),
    (256_000, 64_000, "grok-4*"),
    (256_000, 10_000, "grok-code*"),
    (256_000, 256_000, "grok-build*"),
    (131_072, 8_192, "grok-*"),
    (128_000, 128_000, "devstral-*-2505 devstral-*-2507"),
    (256_000, 256_000, "*devstral-*"),
    (256_000, 4_096, "codestral-*"),
    (131_072, 16_384, "mistral-large-2411"),
    (131_072, 131_072, "mistral-medium-2505"),
    (128_000, 16_384, "mistral-small-2506"),
    (128_000, 128_000, "mistral-nemo*"),
    (256_000, 256_000, "mistral-*"),
    (128_000, 16_384, "m*stral-*"),
    (1_000_000, 128_000, "minimax-m3*"),
    (1_000_000, 40_000, "minimax-m1*"),
    (204_800, 131_072, "minimax-*"),
    (128_000, 8_192, "llama-3* llama-4*"),
    (128_000, 4_096, "llama*"),
)
"""Windows, longest outputs, and the patterns of the models that have them."""

SHIPPED: tuple[Limits, ...] = (
    *(Limits(pattern, window, output) for window, output, patterns in _ROWS for pattern in patterns.split()),
    Limits(ANY, 128_000, 16_384),
)
"""What is known of models, the first row that matches counts."""


# Measured on recorded usage, 9,600 steps of 186 sessions: how much each grew, against the characters that came between
# (tests/properties/test_estimate.py). Four, as most have: GPT-5 4.0 to 5.1, DeepSeek V4 3.8, Kimi K2 3.7.
_DENSE: tuple[tuple[float, str], ...] = (
    (2.4, "claude-opus-4[-.][78]* claude-opus-5* claude-sonnet-5* claude-fable-* claude-mythos-*"),
    (3.1, "claude-*"),
    (3.3, "gemini-*"),
)
"""The characters that a token of a model has, in code and what tools print, where they are not four."""


def characters_per_token(model: str) -> float:
    """The characters that a token of a model has; its name is read as in limits_of()."""
    names = _names(model)
    found = (each for each, patterns in _DENSE if any(_fits(names, pattern) for pattern in patterns.split()))
    return next(found, CHARACTERS_PER_TOKEN)


def limits_of(model: str, own: Iterable[Limits] = ()) -> Limits:
    """Look up the first row for a model's name, of a user's `own` rows or of the shipped ones; the last row is for any.

    A pattern is a glob for the whole name in any case, or for what stands in it behind a provider or a region, as in
    `openrouter/anthropic/claude-opus-5` or `us.anthropic.claude-opus-4-6-v1:0`.
    """
    names = _names(model)
    return next(row for row in chain(own, SHIPPED) if _fits(names, row.pattern.lower()))


def _names(model: str) -> list[str]:
    """Split off the name what stands behind each slash, dot and colon."""
    model = model[:_LONGEST].lower()
    return [model, *(model[place + 1 :] for place, each in enumerate(model) if each in "/.:")]


def _fits(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def newest_answer(read: Survey) -> Answer:
    """Find the newest model and the newest usage on the live path.

    What was recorded before a compaction is no usage of what the next request holds.
    """
    model, usage, at = "", None, 0
    may_count = True
    for number in reversed(read.shape.live):
        may_count = may_count and read.lines.roles[number] is not Role.CHECKPOINT
        answer = read.answers.get(number)
        if answer is None:
            continue
        model = model or answer.model
        if may_count and usage is None and answer.usage:
            usage, at = answer.usage, answer.at
        if model and (usage or not may_count):
            break
    return Answer(model=model or _named(read), usage=usage, at=at)


def _named(read: Survey) -> str:
    """Find the model that a session names although it records no request; empty where it names none."""
    return next((answer.model for answer in read.answers.values() if answer.model), "")


class Answers(Struct, frozen=True):
    """The answers on a session's live path in order, and what the next request adds to what was sent and came back.

    `behind` estimates, in tokens, what stands behind the last answer that has a usage, for its context to grow by. It
    is None where a compaction stands between, or nothing to count from.
    """

    answers: tuple[Answer, ...]
    behind: int | None


class Made(NamedTuple):
    """An answer, where on the live path the first of its lines stands, and what those lines go by."""

    answer: Answer
    first: int
    name: str | int


def answers(read: Survey) -> Answers:
    """Order the answers of a session."""
    found = made(read)
    if not found and (name := _named(read)):
        return Answers((Answer(model=name),), None)
    behind = None
    newest = next((each for each in reversed(found) if each.answer.usage), None)
    if newest is not None:
        since = [(read.lines[number], _name(read.lines, number)) for number in read.shape.live[newest.first :]]
        if not any(line.role is Role.CHECKPOINT for line, _ in since):
            rest = sum(line.reads for line, name in since if name != newest.name)
            behind = estimate(rest, characters_per_token(newest.answer.model))
    return Answers(tuple(each.answer for each in found), behind)


def made(read: Survey) -> list[Made]:
    """Put together what several lines say of one request: of the lines of a response the last with a usage counts.

    What is no line of a response but counts one is of the last response before it.
    """
    lines = read.lines
    found: dict[str | int, Made] = {}
    firsts: dict[str | int, int] = {}
    model, window = "", 0
    last: str | int | None = None
    for position, number in enumerate(read.shape.live):
        own = _name(lines, number)
        if own is not None:
            last = own
            firsts.setdefault(own, position)
        answer = read.answers.get(number)
        if answer is None:
            continue
        model, window = answer.model or model, answer.window or window
        if own is None and answer.usage is None and not answer.error:
            continue
        said = own if own is not None or answer.error else last
        name = number if said is None else said
        before = found.get(name)
        if before is None or (answer.usage and answer.usage != before.answer.usage):
            known = answer._replace(line=number, model=model, window=window)
            found[name] = Made(known, firsts.setdefault(name, position), name)
    return sorted(found.values(), key=lambda each: each.first)


def _name(lines: Lines, number: int) -> str | int | None:
    """What the lines of a response go by: its name, or the number of its only line; None for any other line."""
    return lines.responses[number] or (number if lines.roles[number] in (Role.ASSISTANT, Role.CHECKPOINT) else None)
