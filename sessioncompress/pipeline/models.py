"""How much the models of a family hold, by patterns for their names."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import chain

from sessioncompress.core.text import CHARACTERS_PER_TOKEN
from sessioncompress.policy.model import Limits

_LONGEST = 200
"""Characters. No model has a name as long."""

ANY = "*"
"""The pattern of the row for a model that no other row knows."""

# From the model lists that came with pi 0.74.2 and 0.87.1 and with oh-my-pi 18.2.0, all of the year 2026: there the
# rows of the vendor's own API. Where the lists differ the smaller window stands (GPT-5.4 and later take more than
# 272,000 tokens at a higher price, Claude Sonnet 4.5 more than 200,000 when asked to): who is told too early loses
# less. Weights that anybody may serve have what most do.
SHIPPED: tuple[Limits, ...] = (
    # So Claude Code names a model whose window of a million tokens is asked for.
    Limits("claude-*[[]1m]", 1_000_000, 64_000),
    Limits("claude-opus-4[-.][678]*", 1_000_000, 128_000),
    Limits("claude-sonnet-4[-.]6*", 1_000_000, 64_000),
    Limits("claude-opus-5*", 1_000_000, 128_000),
    Limits("claude-sonnet-5*", 1_000_000, 128_000),
    Limits("claude-fable-*", 1_000_000, 128_000),
    Limits("claude-mythos-*", 1_000_000, 128_000),
    Limits("claude-opus-4[-.]5*", 200_000, 64_000),
    Limits("claude-opus-4*", 200_000, 32_000),
    Limits("claude-3[-.]5*", 200_000, 8_192),
    Limits("claude-3[-.]7*", 200_000, 64_000),
    Limits("claude-3-*", 200_000, 4_096),
    Limits("claude-*", 200_000, 64_000),
    Limits("gpt-6*", 272_000, 128_000),
    Limits("gpt-5*-codex-spark*", 128_000, 32_000),
    Limits("gpt-5*-codex*", 272_000, 128_000),
    Limits("gpt-5*-chat*", 128_000, 16_384),
    Limits("gpt-5.[4-9]-mini*", 400_000, 128_000),
    Limits("gpt-5.[4-9]-nano*", 400_000, 128_000),
    Limits("gpt-5.[4-9]-pro*", 1_050_000, 128_000),
    Limits("gpt-5.[4-9]*", 272_000, 128_000),
    Limits("gpt-5*", 400_000, 128_000),
    Limits("gpt-4.1*", 1_047_576, 32_768),
    Limits("gpt-4o*", 128_000, 16_384),
    Limits("gpt-4-turbo*", 128_000, 4_096),
    Limits("gpt-4*", 8_192, 8_192),
    Limits("gpt-3.5*", 16_385, 4_096),
    Limits("gpt-oss*", 131_072, 32_768),
    Limits("codex-mini*", 200_000, 100_000),
    Limits("o[134]", 200_000, 100_000),
    Limits("o[134]-*", 200_000, 100_000),
    Limits("gemini-1.5*", 1_000_000, 8_192),
    Limits("gemini-2.0*", 1_048_576, 8_192),
    Limits("gemini-live-*", 128_000, 8_000),
    Limits("gemini-*", 1_048_576, 65_536),
    Limits("gemma-4*", 256_000, 8_192),
    Limits("gemma-*", 131_072, 8_192),
    Limits("deepseek-v4*", 1_000_000, 384_000),
    Limits("deepseek-flash*", 1_000_000, 384_000),
    Limits("deepseek-*", 128_000, 8_192),
    Limits("qwen3-coder-plus*", 1_000_000, 65_536),
    Limits("qwen3-coder-flash*", 1_000_000, 65_536),
    Limits("qwen3.[5-8]-flash*", 1_000_000, 64_000),
    Limits("qwen3.[67]-plus*", 1_000_000, 64_000),
    Limits("qwen3.[78]-max*", 1_000_000, 65_536),
    Limits("qwen3[-.]*[0-9]b*", 131_072, 8_192),
    Limits("qwen3*", 262_144, 32_768),
    Limits("qwen*", 131_072, 8_192),
    Limits("kimi-k3*", 1_000_000, 131_072),
    Limits("kimi-k2-0711*", 131_072, 16_384),
    Limits("kimi-k2", 131_072, 16_384),
    Limits("kimi-k2-instruct", 131_072, 16_384),
    Limits("kimi-*", 262_144, 32_768),
    Limits("glm-5[.p-][23]*", 1_000_000, 131_072),
    Limits("glm-5*", 200_000, 131_072),
    Limits("glm-4[.p][67]v*", 128_000, 32_768),
    Limits("glm-4[.p]7-flash*", 200_000, 131_072),
    Limits("glm-4[.p][67]*", 204_800, 131_072),
    Limits("glm-4[.p]5v*", 64_000, 16_384),
    Limits("glm-*", 131_072, 98_304),
    Limits("grok-4[-.]1-fast*", 2_000_000, 30_000),
    Limits("grok-4-fast*", 2_000_000, 30_000),
    Limits("grok-4.20*", 1_000_000, 30_000),
    Limits("grok-4.3*", 1_000_000, 30_000),
    Limits("grok-4.[5-9]*", 500_000, 500_000),
    Limits("grok-4*", 256_000, 64_000),
    Limits("grok-code*", 256_000, 10_000),
    Limits("grok-build*", 256_000, 256_000),
    Limits("grok-*", 131_072, 8_192),
    Limits("devstral-*-2505", 128_000, 128_000),
    Limits("devstral-*-2507", 128_000, 128_000),
    Limits("*devstral-*", 256_000, 256_000),
    Limits("codestral-*", 256_000, 4_096),
    Limits("mistral-large-2411", 131_072, 16_384),
    Limits("mistral-medium-2505", 131_072, 131_072),
    Limits("mistral-small-2506", 128_000, 16_384),
    Limits("mistral-nemo*", 128_000, 128_000),
    Limits("mistral-*", 256_000, 256_000),
    Limits("m*stral-*", 128_000, 16_384),
    Limits("minimax-m3*", 1_000_000, 128_000),
    Limits("minimax-m1*", 1_000_000, 40_000),
    Limits("minimax-*", 204_800, 131_072),
    Limits("llama-3*", 128_000, 8_192),
    Limits("llama-4*", 128_000, 8_192),
    Limits("llama*", 128_000, 4_096),
    Limits(ANY, 128_000, 16_384),
)
"""What is known of models, the first row that matches counts."""


# Measured on recorded usage, 9,600 steps of 186 sessions: how much each grew, against the characters that came between
# (tests/test_estimate.py). Four, as most have: GPT-5 4.0 to 5.1, DeepSeek V4 3.8, Kimi K2 3.7.
_DENSE: tuple[tuple[str, float], ...] = (
    ("claude-opus-4[-.][78]*", 2.4),
    ("claude-opus-5*", 2.4),
    ("claude-sonnet-5*", 2.4),
    ("claude-fable-*", 2.4),
    ("claude-mythos-*", 2.4),
    ("claude-*", 3.1),
    ("gemini-*", 3.3),
)
"""The characters that a token of a model has, in code and what tools print, where they are not four."""


def characters_per_token(model: str) -> float:
    """Return how many characters a token of a model has; its name is read as in limits_of()."""
    names = _names(model[:_LONGEST].lower())
    found = (each for pattern, each in _DENSE if any(fnmatchcase(name, pattern) for name in names))
    return next(found, CHARACTERS_PER_TOKEN)


def limits_of(model: str, own: Iterable[Limits] = ()) -> Limits:
    """Return the first row for a model's name, of a user's `own` rows or of the shipped ones; the last row is for any.

    A pattern is a glob for the whole name in any case, or for what stands in it behind a provider or a region, as in
    `openrouter/anthropic/claude-opus-5` or `us.anthropic.claude-opus-4-6-v1:0`.
    """
    names = _names(model[:_LONGEST].lower())
    return next(row for row in chain(own, SHIPPED) if any(fnmatchcase(name, row.pattern.lower()) for name in names))


def _names(model: str) -> list[str]:
    """Return the name, and what stands in it behind each slash, dot and colon."""
    return [model, *(model[place + 1 :] for place, each in enumerate(model) if each in "/.:")]
