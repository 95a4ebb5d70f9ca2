"""Columns of texts and digests: they hold what a list would."""

from __future__ import annotations

from typing import Any

import pytest

from sessioncompress.core.lines import DigestIndex, Digests, Index, columns

VALUES: list[tuple[str, list[Any]]] = [
    ("T", ["a", "", "", "ü\n", "\ud800", "x" * 300]),
    ("D", [b"d" * 16, b"", b"e" * 16]),
    ("D", [b"d" * 16]),
    ("W", [b"d" * 32, b"", b"e" * 32]),
    ("O", [None, "a", ("b",)]),
    ("q", [-1, 2**40]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[f"{kind}{len(each)}" for kind, each in VALUES])
def test_a_column_is_as_a_list(kind: str, values: list[Any]) -> None:
    """What was added comes back."""
    (column,) = columns(kind)
    for value in values:
        column.append(value)
    assert (len(column), list(column)) == (len(values), values)
    assert [column[index] for index in range(len(values))] == values


def test_an_index_finds_every_row_of_a_digest() -> None:
    """In their order; where only the first bytes agree it is another digest."""
    digests = Digests(16)
    values = [b"b" * 16, b"a" * 16, b"b" * 16, b"b" * 15 + b"c", b"", b"a" * 15 + b"b"]
    for value in values:
        digests.append(value)
    index = DigestIndex(digests)
    for value in [*values, b"c" * 16, b"a" * 8 + b"z" * 8]:
        assert index.rows(value) == [row for row, each in enumerate(values) if each == value]
    assert DigestIndex(Digests(16)).rows(b"a" * 16) == []


def test_an_index_of_numbers() -> None:
    """Knows which there are, and where."""
    numbers = [7, 2**64 - 1, 0, 7, 5, 7]
    index = Index(numbers)
    assert len(index) == len(numbers)
    assert [number in index for number in (7, 6, 2**64 - 1, 0, 8)] == [True, False, True, True, False]
    assert list(index.rows(7)) == [0, 3, 5]


def test_the_newest_rows_come_first() -> None:
    """Of a number, and of a digest."""
    index = Index([7, 3, 7, 7])
    assert list(index.newest(7)) == [3, 2, 0]
    assert list(index.newest(5)) == []
    digests = Digests(16)
    for each in (b"a" * 16, b"b" * 16, b"a" * 16):
        digests.append(each)
    assert list(DigestIndex(digests).newest(b"a" * 16)) == [2, 0]
