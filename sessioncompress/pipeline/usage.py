"""Token usage that agents recorded for their requests, and model limits by name pattern."""

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
"""Characters. No model name is that long."""

ANY = "*"
"""The pattern of the fallback row."""

# From the model lists of pi 0.74.2 and 0.87.1 and oh-my-pi 18.2.0, all from 2026, using the vendors' own API rows. If
# lists differ, take the smaller window: acting too early costs less than too late. (GPT-5.4 and later accept more than
# 272,000 tokens at a higher price, Claude Sonnet 4.5 more than 200,000 on request.) Open weights get the values that
# most hosts offer.
_ROWS = (
    # Claude Code's name for a model with the million-token window enabled.
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
"""Window, maximum output, and name patterns."""

SHIPPED: tuple[Limits, ...] = (
    *(Limits(pattern, window, output) for window, output, patterns in _ROWS for pattern in patterns.split()),
    Limits(ANY, 128_000, 16_384),
)
"""Known models; the first matching row counts."""


# Measured on recorded usage (9,600 steps of 186 sessions): growth in tokens against characters added
# (tests/properties/test_estimate.py). Most are near four: GPT-5 4.0 to 5.1, DeepSeek V4 3.8, Kimi K2 3.7.
_DENSE: tuple[tuple[float, str], ...] = (
    (2.4, "claude-opus-4[-.][78]* claude-opus-5* claude-sonnet-5* claude-fable-* claude-mythos-*"),
    (3.1, "claude-*"),
    (3.3, "gemini-*"),
)
"""Characters per token of code and tool output, for models that differ from four."""


def characters_per_token(model: str) -> float:
    """Return a model's characters per token; the name is matched as in limits_of()."""
    names = _names(model)
    found = (each for each, patterns in _DENSE if any(_fits(names, pattern) for pattern in patterns.split()))
    return next(found, CHARACTERS_PER_TOKEN)


def limits_of(model: str, own: Iterable[Limits] = ()) -> Limits:
    """Return the first matching row for a model, from the user's `own` rows or the shipped ones.

    The last shipped row matches any name. A pattern is a case-insensitive glob for the whole name, or for the part
    after a provider or region, as in `openrouter/anthropic/claude-opus-5` or `us.anthropic.claude-opus-4-6-v1:0`.
    """
    names = _names(model)
    return next(row for row in chain(own, SHIPPED) if _fits(names, row.pattern.lower()))


def _names(model: str) -> list[str]:
    """Return a model name and its suffixes after each slash, dot and colon."""
    model = model[:_LONGEST].lower()
    return [model, *(model[place + 1 :] for place, each in enumerate(model) if each in "/.:")]


def _fits(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def newest_answer(read: Survey) -> Answer:
    """Find the newest model and the newest usage on the live path.

    Usage recorded before a compaction doesn't describe the next request.
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
    """Return the model that a session names without recording a request, or empty."""
    return next((answer.model for answer in read.answers.values() if answer.model), "")


class Answers(Struct, frozen=True):
    """The answers on a session's live path in order, and how much the next request adds."""

    answers: tuple[Answer, ...]
    behind: int | None
    """Estimated tokens after the last answer with a usage.

    None if a compaction came later, or if no answer has a usage.
    """


class Made(NamedTuple):
    """An answer, the position of its first line on the live path, and the name that its lines share."""

    answer: Answer
    first: int
    name: str | int


def answers(read: Survey) -> Answers:
    """Return the answers of a session in order."""
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
    """Merge the lines that describe one request; the last line of a response with a new usage counts.

    A usage on a line that belongs to no response counts for the response before it.
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
    """Return the name shared by a response's lines, or the line number if it has one line; None for other lines."""
    return lines.responses[number] or (number if lines.roles[number] in (Role.ASSISTANT, Role.CHECKPOINT) else None)
