"""What a user pasted into a request."""

from __future__ import annotations

import pytest

from sessioncompress.checkpoints.pasted import is_words, own, pasted

SCREEN = [
    "pi v0.67.68 | Mon Apr 20 2026 | 14:30:05",
    "  escape interrupt",
    "\u2500" * 40,
    "You must press ctrl+o for help.",
    "$0.000 (sub) 0.0%/1.0M",
    "user@host dir % make",
]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Mend the tide gauge, please.", True),
        ("- src/gauge.py", True),
        ("2) x", True),
        ("never change the files in src/berth/tide-gauge.py", True),
        ("way too", False),
        ("    return tide_gauge.value_at(7)", False),
        ("{", False),
        ("const a = b of the;", False),
        ("user@host dir % make it now", False),
        ("    at Object.render (/x/index.ts:48:13)", False),
        ("pi v0.67.68 | Mon Apr 20 2026 | 14:30:05", False),
        ("", False),
        ("x" * 1_000_000, False),
    ],
)
def test_sentences_and_items_are_words(line: str, words: bool) -> None:
    """Not what a machine wrote."""
    assert is_words(line) is words


def test_a_long_run_of_other_lines_was_pasted() -> None:
    """With the sentences in it, but never the first and the last line; a short run was not."""
    request = ["Look at this:", *SCREEN, "It must not wrap the lines."]
    assert list(pasted(request)) == [range(1, 7)]
    assert own(request) == [request[0], request[-1]]
    assert list(pasted(["Look at this:", *SCREEN[:3], "Then mend it."])) == []
    assert list(pasted(SCREEN * 2)) == [range(1, 11)]
    assert list(pasted([])) == []


def test_code_between_fences_was_pasted() -> None:
    """Whatever it holds."""
    assert list(pasted(["See:", "```", "a line of words", "and one more here", "```", "Mend it for me."])) == [
        range(1, 5)
    ]
