"""Recorded usage is in one form for all vendors, and what cannot be usage is none."""

from __future__ import annotations

from typing import Any

import pytest

from sessioncompress.core.model import Usage, beside, tokens, within

NONSENSE = [True, False, -1, 0.5, -2.0, float("nan"), float("inf"), 1e300, 10**12, 1 << 70, "12", "", [], [1], {}, b"1"]

NO_USAGE: list[tuple[Any, ...]] = [
    (None, None),
    (0, 0),
    (0, 100),
    (0.0, 0),
    (0, 0, 0, 0, 0),
    (None, 100, None, None, 50),
]


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_what_is_no_number_of_tokens_is_none(value: Any) -> None:
    assert tokens(value) is None
    for place in range(5):
        given: list[Any] = [1000, 10, 10, 10, 10]
        given[place] = value
        assert beside(*given) is None
        assert within(*given) is None


@pytest.mark.parametrize("given", NO_USAGE)
def test_a_request_that_sent_nothing_has_no_usage(given: tuple[Any, ...]) -> None:
    assert beside(*given) is None
    assert within(*given) is None


@pytest.mark.parametrize(("read", "wrote"), [(101, 0), (0, 101), (60, 60)])
def test_a_part_cannot_be_more_than_the_whole(read: int, wrote: int) -> None:
    assert within(100, 10, read, wrote) is None


@pytest.mark.parametrize(("value", "number"), [(None, 0), (0, 0), (7, 7), (7.0, 7), (1_000_000_000, 1_000_000_000)])
def test_a_number_of_tokens(value: Any, number: int) -> None:
    assert tokens(value) == number
    assert isinstance(tokens(value), int)


def test_caches_are_counted_beside_what_was_sent() -> None:
    usage = beside(3, 50, 900, 100, 20)
    assert usage == Usage(3, 50, 900, 100, 20)
    assert usage
    assert (usage.prompt, usage.context) == (1003, 1053)


def test_caches_are_counted_as_parts_of_what_was_sent() -> None:
    """As OpenAI and Google do: the same request has the same usage."""
    usage = within(1003, 50, 900, 100, 20)
    assert usage == beside(3, 50, 900, 100, 20)
    assert within(900, 1, 900) == Usage(0, 1, 900)
