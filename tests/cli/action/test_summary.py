"""The page of a job: which rows it has, and that a name cannot draw on it."""

from __future__ import annotations

from msgspec.structs import replace
from summary import MOST_ROWS, summary

from sessioncompress.pipeline.stats import CompressionStats, Status
from tests.cli.action.test_step import DONE

KB = 1024


def rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("| <")]


def test_only_what_changed_or_failed_has_a_row() -> None:
    quiet = [CompressionStats(f"{status}.jsonl", status=status) for status in (Status.UNCHANGED, Status.SKIPPED)]
    page = summary([DONE, *quiet, CompressionStats("f.jsonl", status=Status.FAILED, reason="no")], 300 * KB, 200 * KB)
    assert rows(page) == [
        "| <code>sessions/a.jsonl</code> | 195 KB | 49 KB | 75 % smaller | 59 KB | compressed |",
        "| <code>f.jsonl</code> | | | | | failed: no |",
    ]
    assert "1 compressed, 1 unchanged, 1 skipped, 1 failed. With their stores: 300 KB -> 200 KB.\n" in page


def test_without_sessions_there_is_no_table() -> None:
    assert summary([], 0, 0) == "### Sessions\n\nNo sessions. With their stores: 0 KB -> 0 KB.\n\n"


def test_a_long_table_ends() -> None:
    """A page of over 1 MiB would not be shown at all, with the longest paths that there are."""
    many = [replace(DONE, path=f"{number:04}" + "*" * 600) for number in range(MOST_ROWS + 7)]
    page = summary(many, 1, 1)
    assert len(rows(page)) == MOST_ROWS
    assert "207 compressed (7 of them not listed)." in page
    assert len(page.encode()) < 1 << 20


def test_names_and_reasons_draw_nothing() -> None:
    """No character that means something to Markdown, HTML or a terminal is left as it is."""
    hostile = "a|b<img src=x>`*_[y](z)\\&\n\x1b[31m.jsonl"
    page = summary([CompressionStats(hostile, status=Status.REFUSED, reason=hostile)], 1, 1)
    (row,) = rows(page)
    assert row.count("|") == 7
    inside = row.replace("<code>", "").replace("</code>", "")
    assert not set("<>`*_[]\\\x1b") & set(inside)
    assert "&#124;" in inside
