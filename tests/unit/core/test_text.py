"""What is printed of numbers and times reads alike everywhere; what comes from outside never reaches a terminal raw."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessioncompress.core.text import kb, printable, printable_json, reasons_lines, said_time, smaller, written_time
from sessioncompress.store import late_links

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


TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\u202e\u2066\x7f\x9b\u2028\U000e0001\n\\"))


@given(TEXTS)
def test_text(text: str) -> None:
    assert printable(text).isprintable()


@given(TEXTS)
def test_json(text: str) -> None:
    """The same, line by line, and it parses to the same text."""
    document = printable_json(json.dumps({"path": text}, ensure_ascii=False, indent=2))
    assert all(line.isprintable() for line in document.split("\n"))
    assert json.loads(document) == {"path": text}


def test_json_escapes() -> None:
    """As JSON writes them, also behind the first plane; what prints stays readable."""
    assert printable_json('"é漢 \u202e\U000e0001"') == '"é漢 \\u202e\\udb40\\udc01"'


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
    assert said_time(text) is None


@pytest.mark.parametrize(("clock", "since"), [(1e30, 10**18 - 1), (-1e9, 0), (1.9, 1)])
def test_a_late_link_bears_a_time_that_is_found_again(
    monkeypatch: pytest.MonkeyPatch, clock: float, since: int
) -> None:
    """Its name has room for eighteen digits, and no sign."""
    monkeypatch.setattr(time, "time", lambda: clock)
    assert late_links.now() == since
