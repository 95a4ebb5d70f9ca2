"""Outlines: the first line that says something, the last one, both or the marker alone; and where a line may be cut."""

from __future__ import annotations

import pytest

from sessioncompress.compressors.preview import Part, Wording, between_words, lines_of, outline

REF = "0123456789ab"
WAY = f", kept on disk: sessioncompress show {REF}]]"
BODY = "x = [];\n" * 100
TEXT = f"def rise_of_tide(quay):\n{BODY}the end\n"
FIRST, LAST = "def rise_of_tide(quay):\n", "the end\n"


def outlined(text: str, *, first: bool = True, last: bool = True, failed: bool = False) -> str:
    keep = lines_of(text, flagged=True) if failed else None
    return outline(text, Wording(REF), Part((0, len(text))), first=first, last=last, keep=keep)


def left_out(what: str) -> str:
    return f"[[sessioncompress: {what}{WAY}"


SAME: list[tuple[str, str]] = [
    ("nothing", ""),
    ("a short text", "short"),
    ("two lines", FIRST + LAST),
    ("only line ends between", FIRST + "\n" * 900 + LAST),
]

CASES: list[tuple[str, str, bool, bool, str]] = [
    ("both", TEXT, True, True, f"{FIRST}{left_out('100 of 102 lines, 800 bytes')}\n{LAST}"),
    ("the first line", TEXT, True, False, f"{FIRST}{left_out('101 of 102 lines, 808 bytes')}\n"),
    ("the last line", TEXT, False, True, f"{left_out('101 of 102 lines, 824 bytes')}\n{LAST}"),
    ("neither", TEXT, False, False, f"{left_out('102 lines, 832 bytes')}\n"),
    (
        "lines above the first that says something stay with it",
        f"{{\n[\n]\n{TEXT}",
        True,
        False,
        f"{{\n[\n]\n{FIRST}{left_out('101 of 105 lines, 808 bytes')}\n",
    ),
    (
        "five such lines are no beginning",
        f"{{\n[\n]\n(\n)\n{TEXT}",
        True,
        False,
        f"{left_out('107 lines, 842 bytes')}\n",
    ),
    (
        "a first line far from the beginning",
        f"{'-' * 1_001}\n{TEXT}",
        True,
        False,
        f"{left_out('103 lines, 1.8 KB')}\n",
    ),
    (
        "empty lines at the end stay",
        f"{TEXT}\n\n",
        False,
        True,
        f"{left_out('101 of 104 lines, 824 bytes')}\n{LAST}\n\n",
    ),
    (
        "a long first line ends with a word",
        f"{'reading ' * 60}\n{BODY}",
        True,
        False,
        f"{'reading ' * 10}\n{left_out('101 lines, 1.2 KB')}\n",
    ),
    (
        "a long last line begins with a word",
        f"{BODY}{'reading ' * 60}",
        False,
        True,
        f"{left_out('101 lines, 1.2 KB')}\n{'reading ' * 10}",
    ),
]


@pytest.mark.parametrize("text", [case[1] for case in SAME], ids=[case[0] for case in SAME])
def test_left_alone(text: str) -> None:
    """No marker where nothing would be left out."""
    assert outlined(text) == text


@pytest.mark.parametrize(
    ("text", "first", "last", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_outline(text: str, first: bool, last: bool, expected: str) -> None:
    assert outlined(text, first=first, last=last) == expected


STAYS: list[tuple[str, str, int, int]] = [
    ("one long word", "x" * 200, 100, -1),
    ("one long word, from the end", "x" * 200, 100, 1),
    ("no place within 40 characters", "a " + "x" * 100, 60, -1),
    ("no place within 40 characters, from the end", "x" * 100 + " a", 40, 1),
    ("between lines", "one\ntwo", 4, -1),
    ("behind a space", "one two", 4, 1),
    ("behind a comma", "one,two", 4, -1),
    ("only the beginning is a better place", "reading", 3, -1),
    ("only the end is a better place", "reading", 3, 1),
]

MOVES: list[tuple[str, str, str, str]] = [
    ("a word", "the rea~ding now", "the ", "now"),
    ("a path", "read src/quay/ti~de.py now", "read ", "now"),
    ("a path of Windows", "read C:\\src\\ti~de.py now", "read ", "now"),
    ("a URL", "see https://a.b/c?d=e~f#g now", "see ", "now"),
    ("a quoted string", 'say "the ti~de is high" now', "say ", "now"),
    ("a long quoted string keeps its words", f'say "{"tide " * 30}ris~ing {"tide " * 30}" now', "tide ", "tide "),
    ("a list of files", "one.py;two.py;thr~ee.py;four.py", "two.py;", "four.py"),
    ("columns", "one\ttwo\tthr~ee\tfour", "two\t", "four"),
]


@pytest.mark.parametrize(("text", "at", "step"), [case[1:] for case in STAYS], ids=[case[0] for case in STAYS])
def test_a_cut_stays(text: str, at: int, step: int) -> None:
    """It is at a good place, or none is near."""
    assert between_words(text, at, step) == at


@pytest.mark.parametrize(("text", "before", "behind"), [case[1:] for case in MOVES], ids=[case[0] for case in MOVES])
def test_a_cut_moves_out(text: str, before: str, behind: str) -> None:
    """Of what a reader could not tell from a whole one: a head gets shorter, and so does a tail."""
    at = text.index("~")
    text = text.replace("~", "")
    head, tail = text[: between_words(text, at, -1)], text[between_words(text, at, 1) :]
    assert head.endswith(before)
    assert tail.startswith(behind)
    assert len(head) < at < len(text) - len(tail)
