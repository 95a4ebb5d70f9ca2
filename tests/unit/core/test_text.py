"""What is printed of numbers reads alike everywhere."""

from __future__ import annotations

import pytest

from sessioncompress.core.text import kb

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
