"""Times as agents write them."""

from __future__ import annotations

from typing import Any

import pytest

from sessioncompress.formats.base import moment

NO_TIME: list[Any] = [None, "", "yesterday", "2026-13-01", [], {}, -1, 1 << 54, 1.5, "0001-01-01"]


@pytest.mark.parametrize("value", NO_TIME, ids=repr)
def test_what_is_no_time_is_unknown(value: Any) -> None:
    assert moment(value) == 0


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (1_772_445_600_500, 1_772_445_600_500),
        ("2026-03-02T10:00:00.500Z", 1_772_445_600_500),
        ("2026-03-02T11:00:00.500+01:00", 1_772_445_600_500),
    ],
)
def test_a_time_is_in_milliseconds(value: Any, time: int) -> None:
    assert moment(value) == time
