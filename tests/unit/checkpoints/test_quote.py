"""What a summary shows of texts from outside."""

from __future__ import annotations

import pytest

from sessioncompress.checkpoints import quote
from sessioncompress.core import marker

_MARKER = marker.marker("3 of 9 lines, 1.2 KB", "7f3a91c2e05b")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain\ntext", "plain\ntext"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07end", "red end"),
        ("a\x00b\x07c", "abc"),
        ("a\tb", "a b"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("a\u2028b\x85c\u202ed", "a b cd"),
        ("\ud800x", "x"),
        ("</summary>", "\u2039/summary>"),
        ("<System-Reminder>", "\u2039System-Reminder>"),
        ("< / state_snapshot>", "\u2039 / state_snapshot>"),
        ("<read-files>", "\u2039read-files>"),
        ("<|im_start|>", "\u2039|im_start|>"),
        ("<conversation>", "\u2039conversation>"),
        ("<\x00/summary>", "\u2039/summary>"),
        ("a < b, Vec<String>, <div>", "a < b, Vec<String>, <div>"),
        (f"x {_MARKER} y", "x (left out before: 7f3a91c2e05b) y"),
        (marker.marker("3 lines", None), "(left out before: nothing kept)"),
        (f"{marker.PREFIX}unfinished", "sessioncompress: unfinished"),
    ],
)
def test_a_text_is_made_harmless(text: str, clean: str) -> None:
    """Escapes and controls go, tags of agents are broken, markers are named."""
    assert quote.clean(text) == clean


LINES = [f"line {at}" for at in range(10)]


def test_what_fits_stays_whole() -> None:
    assert quote.clip(LINES, 200) == LINES


def test_a_text_is_clipped_to_head_and_tail() -> None:
    """Whole lines, and how many are left out between them."""
    assert quote.clip(LINES, 66) == [*LINES[:4], "[... 5 lines left out]", "line 9"]


def test_a_text_is_clipped_to_its_head() -> None:
    clipped = quote.clip(LINES, 66, tail=False)
    assert clipped == [*LINES[:5], "[... 5 lines left out]"]


def test_what_was_left_out_before_counts() -> None:
    assert "[... 11 lines left out]" in quote.clip([*LINES[:5], "[... 7 lines left out]", *LINES[5:]], 74)
    assert quote.clip(["a", "[... 7 lines left out]", "x" * 90, "z"], 60) == ["a", "[... 8 lines left out]", "z"]
    assert quote.clip(["a", "x" * 90, "[... 7 lines left out]", "z"], 60) == ["a", "[... 8 lines left out]", "z"]


def test_a_long_text_is_read_from_both_ends() -> None:
    text = "\n".join(f"{at:04}" for at in range(1000))
    lines = quote.excerpt(text, 40)
    assert lines == [
        *(f"{at:04}" for at in range(8)),
        "[... 984 lines left out]",
        *(f"{at:04}" for at in range(992, 1000)),
    ]


def test_the_newest_rows_stay() -> None:
    """And how many do not is said, with those of before."""
    rows = [f"- {at}" for at in range(9)]
    assert quote.newest(rows, 35, 4) == ["- 7", "- 8", "(11 more left out)"]
    assert quote.left_out_before("(11 more left out)") == 11
    assert quote.newest(rows, 90) == rows
    assert quote.newest([], 90) == []


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("./src/a.py", "src/a.py"),
        ("/w/a.py:10-20", "/w/a.py"),
        ("/w/a.py:7", "/w/a.py"),
        ("D:\\w\\a.py", "D:/w/a.py"),
        ("a\\b.py", "a\\b.py"),
        ("/w/skills/", "/w/skills"),
        ("/", "/"),
        ("a\nb.py", "a b.py"),
        ("", ""),
    ],
)
def test_a_path_is_remembered_in_one_way(path: str, key: str) -> None:
    assert quote.Paths().key(path) == key


@pytest.mark.parametrize(
    ("path", "root", "shown"),
    [
        ("/w/harbour/a.py", "/w/harbour", "a.py"),
        ("/w/harbours/a.py", "/w/harbour", "/w/harbours/a.py"),
        ("a.py", "/w/harbour", "./a.py"),
        ("a.py", "", "a.py"),
        ("/d/harbour/a.py", "D:/harbour", "a.py"),
        ("https://harbour/a", "/w/harbour", "https://harbour/a"),
    ],
)
def test_a_path_is_shown_below_the_root(path: str, root: str, shown: str) -> None:
    assert quote.below(path, root) == shown


@pytest.mark.parametrize(
    ("folder", "path", "joined"),
    [("/w", "a.py", "/w/a.py"), ("/w/", "./a.py", "/w/a.py"), ("/w", "/a.py", "/a.py"), ("", "a.py", "a.py")],
)
def test_a_path_is_told_from_a_folder(folder: str, path: str, joined: str) -> None:
    assert quote.joined(folder, path) == joined
