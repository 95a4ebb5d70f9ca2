"""Tokens, estimated: four characters each, or as many as a model's have. Never mixed with what an agent recorded."""

from __future__ import annotations

from math import ceil

CHARACTERS_PER_TOKEN = 4


def estimate(characters: int, each: float = CHARACTERS_PER_TOKEN) -> int:
    """Return the estimated tokens of so many characters, rounded up; a token has so many of them `each`."""
    return ceil(characters / each)
