"""How messages say a number of things."""

from __future__ import annotations


def counted(number: int, one: str, several: str) -> str:
    """Return the number with the word for as many."""
    return f"{number:,} {one if number == 1 else several}"
