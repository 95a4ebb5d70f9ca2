"""Columns of texts and digests: they hold what a list would."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from sessioncompress.columns import columns

VALUES: list[tuple[str, list[Any], Any]] = [
    ("T", ["a", "", "", "ü\n", "\ud800", "x" * 300], "new"),
    ("D", [b"d" * 16, b"", b"e" * 16], b"f" * 16),
    ("D", [b"d" * 16], b""),
    ("O", [None, "a", ("b",)], "new"),
    ("q", [-1, 2**40], 7),
]


@pytest.mark.parametrize(("kind", "values", "other"), VALUES, ids=[f"{kind}{len(each)}" for kind, each, _ in VALUES])
def test_a_column_is_as_a_list(kind: str, values: list[Any], other: Any) -> None:
    """What was added comes back, also after a change; a copy is apart."""
    (column,) = columns(kind)
    for value in values:
        column.append(value)
    assert (len(column), list(column)) == (len(values), values)
    second = copy(column)
    second[0] = other
    second.append(values[-1])
    assert list(column) == values
    assert list(second) == [other, *values[1:], values[-1]]
