"""The order of the work: what changed longest ago first, and no large file alone at the end."""

from __future__ import annotations

import pytest

from sessioncompress.operations.schedule import Schedule, Sized

CASES: list[tuple[str, list[tuple[int, int]], int, list[int]]] = [
    ("nothing", [], 2, []),
    ("by age", [(10, 3), (10, 1), (10, 2), (10, 4)], 1, [1, 2, 0, 3]),
    ("of one age in the order given", [(10, 1), (10, 1), (10, 1)], 1, [0, 1, 2]),
    ("by age in two processes", [(10, 4), (10, 1), (10, 3), (10, 2)], 2, [1, 3, 2, 0]),
    ("one process is never idle", [(1, 1), (1, 2), (90, 3)], 1, [0, 1, 2]),
    ("a file as large as all others", [(10, 1), (10, 2), (10, 3), (30, 9)], 2, [3, 0, 1, 2]),
    ("one that is so when some are done", [(10, 1), (10, 2), (10, 3), (10, 4), (20, 9)], 2, [0, 1, 4, 2, 3]),
    ("a large one that is old", [(90, 1), (10, 2), (10, 3)], 2, [0, 1, 2]),
    ("more processes than files", [(10, 2), (10, 1)], 8, [1, 0]),
    ("empty files", [(0, 2), (0, 1)], 2, [1, 0]),
]


@pytest.mark.parametrize(("files", "processes", "order"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_order(files: list[tuple[int, int]], processes: int, order: list[int]) -> None:
    """Each file once."""
    assert list(Schedule([Sized(*each) for each in files], processes)) == order
