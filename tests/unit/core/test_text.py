"""What is printed of numbers reads alike everywhere."""

from __future__ import annotations

import pytest

from sessioncompress.core.text import kb, reasons_lines, smaller

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30

SIZES = [
    (0, "0 KB"),
    (500, "0 KB"),
    (1_230 * KB, "1,230 KB"),
    (10_000 * KB - 513, "9,999 KB"),
    (10_000 * KB, "9.8 MB"),
    (1_500 * MB, "1,500.0 MB"),
    (10_000 * MB, "9.8 GB"),
    (99_999 * GB, "99,999.0 GB"),
    (-5 * KB, "-5 KB"),
    (-20 * MB, "-20.0 MB"),
]


@pytest.mark.parametrize(("size", "said"), SIZES)
def test_sizes(size: int, said: str) -> None:
    """In the unit that leaves few digits."""
    assert kb(size) == said


def test_sizes_beside_each_other_have_one_unit() -> None:
    """If the smaller one is at least 1 in it."""
    large = 28 << 20
    assert [kb(size, large) for size in (7 << 20, 1 << 20, 1023 << 10)] == ["7.0 MB", "1.0 MB", "1,023 KB"]
    assert kb(large, 7 << 20) == "28.0 MB"


def test_a_number_ends_before_what_ends_the_sentence() -> None:
    """A point behind it without a digit is no part of it."""
    assert reasons_lines([("skipped", "of 1. x"), ("skipped", "of 2. x")]) == ["2 skipped: of 1 to 2. x"]


def test_a_small_reduction_is_not_zero() -> None:
    assert smaller(1000, 999) == "less than 1 % smaller"
    assert smaller(1000, 640) == "36 % smaller"
