"""Times as they are written: any second that a clock or a file may say, in a form that is read again."""

from __future__ import annotations

import time

import pytest

from sessioncompress.core.text import said_time, written_time
from sessioncompress.store import late_links

WRITTEN = [
    (0, "1970-01-01T00:00:00Z"),
    (1_772_442_000.9, "2026-03-02T09:00:00Z"),
    (-1, "1969-12-31T23:59:59Z"),
    (-0.5, "1969-12-31T23:59:59Z"),
    (-62_135_596_800, "0001-01-01T00:00:00Z"),
    (-1e18, "0001-01-01T00:00:00Z"),
    (-float("inf"), "0001-01-01T00:00:00Z"),
    (253_402_300_799.5, "9999-12-31T23:59:59Z"),
    (1e18, "9999-12-31T23:59:59Z"),
    (float("inf"), "9999-12-31T23:59:59Z"),
]


@pytest.mark.parametrize(("seconds", "text"), WRITTEN)
def test_any_time_is_written_and_read(seconds: float, text: str) -> None:
    """Years that nothing reads become the first or the last that are."""
    assert written_time(seconds) == text
    said = said_time(text)
    assert said is not None
    assert written_time(said) == text


@pytest.mark.parametrize("text", ["", "never", "10000-01-01T00:00:00Z", "2026-03-02", "2026-03-02T09:00:00Z" * 2])
def test_what_is_no_time(text: str) -> None:
    """It says nothing."""
    assert said_time(text) is None


@pytest.mark.parametrize(("clock", "since"), [(1e30, 10**18 - 1), (-1e9, 0), (1.9, 1)])
def test_a_late_link_bears_a_time_that_is_found_again(
    monkeypatch: pytest.MonkeyPatch, clock: float, since: int
) -> None:
    """Its name has room for eighteen digits, and no sign."""
    monkeypatch.setattr(time, "time", lambda: clock)
    assert late_links.now() == since
