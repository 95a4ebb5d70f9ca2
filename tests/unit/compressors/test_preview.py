"""Previews: whole lines of head and tail around the marker, a line of its own; dots show where a line had to be cut."""

from __future__ import annotations

import pytest

from sessioncompress.compressors.preview import Wording, bare, differing, preview, reference

REF = "0123456789ab"
WORDING = Wording(REF)
WAY = f", kept on disk: sessioncompress show {REF}]]"
TEN = "".join(f"{number:03d} line\n" for number in range(100))

SAME: list[tuple[str, str]] = [
    ("nothing", ""),
    ("all fits", "a\nb\n"),
    ("one line that fits", "abc"),
    ("only line ends are left out", "head\n" + "\n" * 900 + "tail"),
    ("less than a marker is left out", "aaaa\nbbbb\ncccc" * 4),
    ("only spaces are left out", "head\n" + "   \n" * 900 + "tail"),
]

CASES: list[tuple[str, str, int, str]] = [
    (
        "head and tail",
        TEN,
        40,
        "000 line\n001 line\n[[sessioncompress: 96 of 100 lines, 864 bytes" + WAY + "\n098 line\n099 line\n",
    ),
    (
        "no LF at the end",
        TEN[:-1],
        40,
        "000 line\n001 line\n[[sessioncompress: 96 of 100 lines, 864 bytes" + WAY + "\n098 line\n099 line",
    ),
    ("one long line", "x" * 1000, 100, "x" * 60 + "[[sessioncompress: 900 bytes" + WAY + "x" * 40),
    (
        "a long first line",
        "x" * 1000 + "\nb\nc\n",
        100,
        "x" * 96 + "[[sessioncompress: 1 of 3 lines, 905 bytes" + WAY + "\nb\nc\n",
    ),
    (
        "a long last line",
        "a\nb\n" + "x" * 1000,
        100,
        "a\nb\n[[sessioncompress: 1 of 3 lines, 904 bytes" + WAY + "x" * 96,
    ),
    (
        "two long lines",
        "x" * 1000 + "\n" + "y" * 1000 + "\n",
        100,
        "x" * 60 + "\n[[sessioncompress: 2 lines, 1.9 KB" + WAY + "\n" + "y" * 39 + "\n",
    ),
    (
        "a long line between",
        "a\n" + "x" * 1000 + "\nb\n",
        100,
        "a\n[[sessioncompress: 1 of 3 lines, 1001 bytes" + WAY + "\nb\n",
    ),
    (
        "a last line too long for its share",
        TEN + "y" * 60 + "\n",
        100,
        TEN[:99] + "[[sessioncompress: 90 of 101 lines, 862 bytes" + WAY + "\n",
    ),
    (
        "a first line too long for its share, which leaves some room",
        "y" * 70 + "\n" + TEN,
        100,
        "y" * 70 + "\n[[sessioncompress: 97 of 101 lines, 873 bytes" + WAY + "\n" + TEN[-27:],
    ),
    (
        "a first line that leaves too little room",
        "y" * 80 + "\n" + TEN,
        100,
        "[[sessioncompress: 90 of 101 lines, 882 bytes" + WAY + "\n" + TEN[-99:],
    ),
    (
        "a first line that fits into what the tail leaves",
        "y" * 70 + "\n" + "x" * 1000 + "\nb\n",
        100,
        "y" * 70 + "\n[[sessioncompress: 1 of 3 lines, 1001 bytes" + WAY + "\nb\n",
    ),
    ("no budget", TEN, 0, "[[sessioncompress: 100 lines, 900 bytes" + WAY + "\n"),
    ("a character is never cut", "漢" * 400, 100, "漢" * 20 + "[[sessioncompress: 1.1 KB" + WAY + "漢" * 13),
    (
        "CRLF",
        "a\r\n" * 100,
        15,
        "a\r\n" * 3 + "[[sessioncompress: 95 of 100 lines, 285 bytes" + WAY + "\n" + "a\r\n" * 2,
    ),
    (
        "a head and a tail that meet",
        "aaaa\n" + "b" * 60 + "\ncccc\n",
        10,
        "aaaa\n[[sessioncompress: 1 of 3 lines, 61 bytes" + WAY + "\ncccc\n",
    ),
]


@pytest.mark.parametrize("text", [case[1] for case in SAME], ids=[case[0] for case in SAME])
def test_a_text_of_which_nothing_would_be_left_out_is_the_same(text: str) -> None:
    """No marker without anything to stand for."""
    assert preview(text, 40, WORDING) == text


@pytest.mark.parametrize(("text", "budget", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_head_and_tail(text: str, budget: int, expected: str) -> None:
    assert preview(text, budget, WORDING) == expected


@pytest.mark.parametrize("budget", range(0, 200, 7))
@pytest.mark.parametrize(
    "text", [TEN, "x" * 999, "漢字\n" * 99, "a\n\nb" * 99, "\n".join("y" * n for n in range(60))], ids=range(5)
)
def test_what_is_kept_is_within_the_budget(text: str, budget: int) -> None:
    head, _, rest = preview(text, budget, WORDING).partition("[[sessioncompress")
    tail = rest.partition("]]")[2]
    assert text.startswith(head)
    assert text.endswith(tail.removeprefix("\n"))
    assert len(head.encode()) + len(tail.encode()) <= budget + 2


BODY = [f"    step_{number}(quay)" for number in range(12)]
BEFORE = "\n".join(["def rise(quay):", *BODY, "    return 1", *BODY, "", "def fall(quay):"])
AFTER = BEFORE.replace("    return 1", "    return quay.level\n    # the level, not 1")

DIFFERENCES: list[tuple[str, str, str, int, str]] = [
    ("the changed line", BEFORE, AFTER, 99, "    step_11(quay)\n    return 1\n    step_0(quay)\n"),
    (
        "the new lines",
        AFTER,
        BEFORE,
        99,
        "    step_11(quay)\n    return quay.level\n    # the level, not 1\n    step_0(quay)\n",
    ),
    ("no room for a line beside it", BEFORE, AFTER, 40, "    return 1\n"),
    ("an insertion has two lines beside it", "a\nb\nc\nd\n", "a\nb\nx\nc\nd\n", 99, "b\nc\n"),
    ("an insertion that does not fit", "a\nb\nc\nd\n", "a\nb\nx\nc\nd\n", 0, "b\nc\n"),
    ("an end that was added", "a\nb\nc\n", "a\nb\n", 99, "b\nc\n"),
    ("a beginning that was added", "x\na\nb\n", "a\nb\n", 99, "x\na\n"),
    ("an end without LF", "a\nb\nc", "a\nb\nd", 99, "b\nc"),
    ("a beginning that was taken out", "a\nb\n", "x\na\nb\n", 0, "a\n"),
    ("lines that overlap", "a\na\na\n", "a\na\n", 99, "a\na\n"),
    ("only LF is new", "a\nb", "a\nb\n", 99, "b"),
    ("nothing in common", "a\nb\n", "c\nd\n", 99, "a\nb\n"),
    ("nothing differs", "a\nb\n", "a\nb\n", 99, "a\nb\n"),
    ("against nothing", "a\nb\n", "", 99, "a\nb\n"),
]


@pytest.mark.parametrize(
    ("text", "other", "budget", "expected"), [case[1:] for case in DIFFERENCES], ids=[case[0] for case in DIFFERENCES]
)
def test_what_differs(text: str, other: str, budget: int, expected: str) -> None:
    """With at most one line beside it on each side."""
    bare, wide = differing(text, other)
    start, end = wide if bare[0] >= bare[1] or wide[1] - wide[0] <= budget else bare
    assert text[start:end] == expected


def test_the_bare_marker_says_all() -> None:
    """Lines, size, what it repeats, where it is."""
    assert reference("a\nb\nc\n", WORDING) == "[[sessioncompress: 3 lines, 6 bytes" + WAY
    assert reference("a line\n", WORDING) == "[[sessioncompress: 7 bytes" + WAY
    assert reference("a\n\n", WORDING) == "[[sessioncompress: 2 lines, 3 bytes" + WAY
    assert reference("a\nb\nc", WORDING) == "[[sessioncompress: 3 lines, 5 bytes" + WAY
    assert reference("漢" * 9, Wording(None)) == "[[sessioncompress: 27 bytes]]"
    assert reference("a\nb", WORDING, "same text as x") == "[[sessioncompress: 2 lines, 3 bytes, same text as x" + WAY


def test_a_shrunk_preview_says_what_the_original_was() -> None:
    assert bare(404, 18_600, Wording(REF)) == "[[sessioncompress: 404 lines, 18.2 KB" + WAY
    assert bare(1, 5, Wording(REF), "n") == "[[sessioncompress: 5 bytes, n" + WAY
