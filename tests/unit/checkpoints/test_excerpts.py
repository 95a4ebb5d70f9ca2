"""Lines that were written and read."""

from __future__ import annotations

from sessioncompress.checkpoints import excerpts

_CODE = "import os\n\ndef late_reading(tide_gauge):\n    return tide_gauge.value_at(7)\n\nx = 1\n"


def test_lines_with_names_stand_below_their_file() -> None:
    """In their order; plain ones are left out."""
    assert excerpts.lines([("/w/a.py", _CODE)], "", "/w", 500) == [
        "- a.py:\n  > def late_reading(tide_gauge):\n  > return tide_gauge.value_at(7)"
    ]


def test_definitions_come_first() -> None:
    """Where not all fits."""
    assert excerpts.lines([("", _CODE)], "", "", 60) == ["- in commands:\n  > def late_reading(tide_gauge):"]


def test_what_stands_elsewhere_is_not_said_again() -> None:
    """By its names."""
    assert excerpts.lines([("a.py", _CODE)], "late_reading tide_gauge value_at", "", 500) == []


def test_numbers_of_lines_and_signs_of_patches_go() -> None:
    """They are no part of the text."""
    read, patch = "   12\tdef late_reading():", "@@ tide_gauge_one\n-old_tide_gauge = 1\n+new_tide_gauge = 2"
    assert excerpts.lines([("a.py", read)], "", "", 500) == ["- a.py:\n  > def late_reading():"]
    assert excerpts.lines([("a.py", patch)], "", "", 500) == ["- a.py:\n  > new_tide_gauge = 2"]


def test_the_newest_texts_are_held() -> None:
    """And no more than fit."""
    held = excerpts.Excerpts()
    for at in range(100):
        held.wrote(f"{at}.py", f"{at}" * 20_000)
        held.read(f"{at % 50}.py", f"{at}" * 20_000)
    for texts in (list(held.written()), list(held.readings())):
        assert sum(len(text) for _, text in texts) <= 320 * 1024
        assert texts[-1][0] in ("99.py", "49.py")


def test_lines_of_an_earlier_summary_are_carried() -> None:
    """Of the newest files as many as fit, and together with new ones of the same file."""
    rows = ["- a.py:\n  > one\n  > two", "- b.py:\n  > three\n  > four"]
    assert excerpts.carry(rows, 25) == ["- b.py:\n  > three"]
    assert excerpts.carry(rows, 99) == rows
    assert excerpts.together([*rows, "- a.py:\n  > five"]) == [f"{rows[0]}\n  > five", rows[1]]
