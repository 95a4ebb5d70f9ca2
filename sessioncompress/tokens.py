"""Tokens, estimated: four characters each. Never mixed with the usage that an agent recorded."""

from __future__ import annotations

CHARACTERS_PER_TOKEN = 4


def estimate(characters: int) -> int:
    """Return the estimated tokens of so many characters, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)
