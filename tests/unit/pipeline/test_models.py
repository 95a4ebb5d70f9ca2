"""The limits of models are found by their names, however a provider writes them."""

from __future__ import annotations

import pytest

from sessioncompress.pipeline.usage import ANY, SHIPPED, characters_per_token, limits_of
from sessioncompress.policy.model import Limits

PATTERNS = [row.pattern for row in SHIPPED]

UNKNOWN = [
    "",
    "*",
    "tidewatch-1",
    "my-claude",
    "not-gpt-5",
    "foo3",
    "o3x",
    "x" * 100_000,
    "/" * 300 + "gpt-5",
    "//..::",
    "[",
]

KNOWN = [
    ("claude-opus-5", 1_000_000, 128_000),
    ("Claude-Opus-5", 1_000_000, 128_000),
    ("claude-fable-5", 1_000_000, 128_000),
    ("claude-opus-4-6", 1_000_000, 128_000),
    ("claude-opus-4.6", 1_000_000, 128_000),
    ("claude-opus-4-8", 1_000_000, 128_000),
    ("us.anthropic.claude-opus-4-6-v1:0", 1_000_000, 128_000),
    ("claude-sonnet-4-6", 1_000_000, 64_000),
    ("claude-sonnet-4-5-20250929", 200_000, 64_000),
    ("claude-sonnet-4-5-20250929[1m]", 1_000_000, 64_000),
    ("anthropic/claude-sonnet-4-20250514", 200_000, 64_000),
    ("claude-opus-4-20250514", 200_000, 32_000),
    ("claude-opus-4-5-20251101", 200_000, 64_000),
    ("eu.anthropic.claude-opus-4-1-20250805-v1:0", 200_000, 32_000),
    ("claude-haiku-4-5-20251001", 200_000, 64_000),
    ("claude-3-5-sonnet-20241022", 200_000, 8_192),
    ("claude-3.7-sonnet", 200_000, 64_000),
    ("claude-3-opus-20240229", 200_000, 4_096),
    ("gpt-6-sol", 272_000, 128_000),
    ("gpt-5", 400_000, 128_000),
    ("gpt-5-mini", 400_000, 128_000),
    ("openai/gpt-5.2", 400_000, 128_000),
    ("gpt-5-chat-latest", 128_000, 16_384),
    ("gpt-5.3-codex", 272_000, 128_000),
    ("gpt-5.3-codex-spark", 128_000, 32_000),
    ("gpt-5.4", 272_000, 128_000),
    ("gpt-5.4-mini", 400_000, 128_000),
    ("gpt-5.5-pro", 1_050_000, 128_000),
    ("gpt-5.6-sol", 272_000, 128_000),
    ("gpt-4.1-mini", 1_047_576, 32_768),
    ("gpt-4o-2024-08-06", 128_000, 16_384),
    ("gpt-4-turbo-preview", 128_000, 4_096),
    ("gpt-4", 8_192, 8_192),
    ("openai/gpt-oss-120b", 131_072, 32_768),
    ("o3", 200_000, 100_000),
    ("openai/o4-mini", 200_000, 100_000),
    ("o1-pro", 200_000, 100_000),
    ("gemini-3.1-pro-preview", 1_048_576, 65_536),
    ("models/gemini-2.5-flash", 1_048_576, 65_536),
    ("gemini-1.5-pro", 1_000_000, 8_192),
    ("deepseek-v4-flash-free", 1_000_000, 384_000),
    ("deepseek-chat", 128_000, 8_192),
    ("hf:deepseek-ai/DeepSeek-V3.2", 128_000, 8_192),
    ("qwen3-coder-plus", 1_000_000, 65_536),
    ("qwen/qwen3-coder", 262_144, 32_768),
    ("qwen3-coder:30b", 131_072, 8_192),
    ("qwen3-32b", 131_072, 8_192),
    ("qwen2.5-coder-32b-instruct", 131_072, 8_192),
    ("moonshotai/kimi-k2-instruct", 131_072, 16_384),
    ("kimi-k2-0905-preview", 262_144, 32_768),
    ("kimi-k2.5", 262_144, 32_768),
    ("kimi-k3", 1_000_000, 131_072),
    ("z-ai/glm-4.6", 204_800, 131_072),
    ("accounts/fireworks/models/glm-4p7", 204_800, 131_072),
    ("glm-4.5-air", 131_072, 98_304),
    ("glm-5", 200_000, 131_072),
    ("glm-5.2", 1_000_000, 131_072),
    ("x-ai/grok-4-fast", 2_000_000, 30_000),
    ("grok-4", 256_000, 64_000),
    ("grok-4.5", 500_000, 500_000),
    ("grok-code-fast-1", 256_000, 10_000),
    ("grok-3-mini", 131_072, 8_192),
    ("devstral-small-2507", 128_000, 128_000),
    ("labs-devstral-small-2512", 256_000, 256_000),
    ("mistral-large-latest", 256_000, 256_000),
    ("magistral-medium-latest", 128_000, 16_384),
    ("codestral-latest", 256_000, 4_096),
    ("MiniMax-M2.5", 204_800, 131_072),
    ("minimax/minimax-m3", 1_000_000, 128_000),
    ("llama-3.3-70b-versatile", 128_000, 8_192),
    ("meta-llama/llama-4-maverick", 128_000, 8_192),
    ("llama3.1:8b", 128_000, 4_096),
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_model_that_no_row_knows_has_the_last_row(name: str) -> None:
    assert limits_of(name) == SHIPPED[-1]
    assert SHIPPED[-1].pattern == ANY


@pytest.mark.parametrize(("name", "window", "output"), KNOWN)
def test_a_model_is_known_by_its_family(name: str, window: int, output: int) -> None:
    found = limits_of(name)
    assert (found.window, found.output) == (window, output)


def test_a_users_rows_come_first_and_the_first_that_matches_counts() -> None:
    own = (Limits("Claude-Opus-*", 500_000, 1_000), Limits("claude-*", 7, 7), Limits("tide*", 9, 9))
    assert limits_of("anthropic/claude-opus-5", own) == own[0]
    assert limits_of("claude-haiku-4-5", own) == own[1]
    assert limits_of("local/tidewatch-1", own) == own[2]
    assert limits_of("gpt-5", own).window == 400_000


def test_every_row_is_needed() -> None:
    """No row stands behind one that takes all that it would; each is the answer to some name."""
    reached = {limits_of(name).pattern for name in [*(name for name, *_ in KNOWN), *map(_example, PATTERNS)]}
    assert set(PATTERNS) <= reached


def _example(pattern: str) -> str:
    name = pattern.replace("[[]", "\0").replace("*", "x0")
    while "[" in name:
        before, _, rest = name.partition("[")
        name = before + rest[0] + rest.partition("]")[2]
    return name.replace("\0", "[")


def test_every_limit_can_be() -> None:
    for row in SHIPPED:
        assert 0 < row.output <= row.window
        assert row.pattern == row.pattern.lower()


@pytest.mark.parametrize("name", [*UNKNOWN, "gpt-5.5", "deepseek-v4-flash", "moonshotai/kimi-k2-instruct", "glm-5"])
def test_most_models_have_four_characters_a_token(name: str) -> None:
    assert characters_per_token(name) == 4


@pytest.mark.parametrize(
    ("name", "each"),
    [
        ("claude-opus-5", 2.4),
        ("claude-sonnet-5", 2.4),
        ("claude-fable-5", 2.4),
        ("us.anthropic.claude-opus-4-7-v1:0", 2.4),
        ("claude-opus-4-6", 3.1),
        ("claude-sonnet-4-5-20250929", 3.1),
        ("claude-haiku-4-5", 3.1),
        ("google/gemini-3-flash-preview", 3.3),
    ],
)
def test_some_models_have_fewer(name: str, each: float) -> None:
    assert characters_per_token(name) == each
