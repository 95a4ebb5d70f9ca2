"""The marker: one grammar, ASCII, on one line, that no outside name can leave and no content can be."""

from __future__ import annotations

import ast
from importlib import import_module
from inspect import getsource
from pkgutil import iter_modules

import pytest

from sessioncompress import compressors
from sessioncompress.core import marker

REF = "7f3a91c2e05b"
WHOLE = f"[[sessioncompress: 398 of 404 lines, 18.6 KB, kept on disk: sessioncompress show {REF}]]"

NO_MARKERS = [
    ("nothing", ""),
    ("the prefix alone", "[[sessioncompress: "),
    ("no end", "[[sessioncompress: 3 lines"),
    ("one bracket", "[sessioncompress: 3 lines]"),
    ("an end on the next line", "[[sessioncompress: 3 lines\n]]"),
    ("another prefix", "[[sessioncompress 3 lines]]"),
    ("capitals", "[[SessionCompress: 3 lines]]"),
    ("a bracket inside", "[[sessioncompress: a[0] ]]"),
    ("the grammar in code", 'f"[[sessioncompress: " + what'),
    ("nothing in it", "[[sessioncompress: ]]"),
    ("no ASCII", "[[sessioncompress: 3 lines…]]"),
    ("a control character", "[[sessioncompress: 3\tlines]]"),
    ("a backslash", "[[sessioncompress: a\\\\b]]"),
    ("longer than any of ours", f"[[sessioncompress: {'x' * 513}]]"),
]

COPIES = [
    ("nothing", "", False),
    ("one word", "in it: decode", False),
    ("inside a line", "what is in it: a | b | c", False),
    ("over two lines", "in it: a\n | b", False),
    ("an index", "in it: def decode(raw | src/a.py", True),
    ("behind other lines", "x = 1\nin it: a | b | c\ny = 2", True),
]

NAMES = [
    ("a path stays", "src/a b.py", "src/a b.py"),
    ("brackets", "a[0]]].py", "a?0???.py"),
    ("line ends and escapes", "a\n\r\t\x1b[31m", "a?????31m"),
    ("a backslash", "a\\b", "a/b"),
    ("other scripts", "naïve/漢.py", "na?ve/?.py"),
    ("as long as may be", "x" * 80, "x" * 80),
    ("too long keeps its end", "x" * 60 + "y" * 30, "..." + "x" * 47 + "y" * 30),
    ("nothing", "", ""),
]

AMOUNTS = [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KB"), (19_046, "18.6 KB"), (1024 * 1024, "1.0 MB")]

LEFT_OUT = [
    ("one line has no count", (1, 1, 900), "900 bytes"),
    ("a part of one line neither", (1, 1, 2048), "2.0 KB"),
    ("a part", (398, 404, 19_046), "398 of 404 lines, 18.6 KB"),
    ("all", (404, 404, 19_046), "404 lines, 18.6 KB"),
    ("thousands", (12_345, 67_890, 9), "12,345 of 67,890 lines, 9 bytes"),
]


LONG = "x" * 200
FILE = marker.name(f"/{LONG}/{LONG}.py")
TOOL = marker.name(LONG)
MOST = (1 << 62) - 1
"""More lines or bytes no record of the journal counts."""
NAMED_IN_NOTES = {
    "{tool}": ("bash", "tool", TOOL),
    "{what}": ("result", "attachment"),
    "{of}": ("", f" of {FILE}"),
    "{file}": (FILE,),
}
COMPRESSORS = [import_module(f"{compressors.__name__}.{each.name}") for each in iter_modules(compressors.__path__)]


def worded(note: str) -> list[str]:
    found = [note]
    for place, names in NAMED_IN_NOTES.items():
        found = [each.replace(place, name) for each in found for name in names]
    return list(dict.fromkeys(found))


NOTES = ["", *(each for module in COMPRESSORS for note in getattr(module, "NOTES", ()) for each in worded(note))]
COUNTS = [(1, 1, 1), (1, 3, 1023), (3, 3, 1024), (999, 1_000, 1024 * 1024 - 1), (123_456, 1_234_567, MOST), (MOST,) * 3]
WHATS = [
    *(f"{marker.left_out(*counts)}, {note}".removesuffix(", ") for counts in COUNTS for note in NOTES),
    *(f"{marker.name(media)}, {marker.amount(size)}" for media in ("image/png", "image", LONG) for size in (0, MOST)),
]
"""All that compressors say of what they leave out: of texts, of texts that stand elsewhere, and of pictures."""


def test_every_note_is_tested() -> None:
    """A compressor that gives its changes notes lists them, without names that are not known here."""
    for module in COMPRESSORS:
        nodes = ast.walk(ast.parse(getsource(module)))
        gives = any(isinstance(node, ast.Call) and "note" in {each.arg for each in node.keywords} for node in nodes)
        assert gives == hasattr(module, "NOTES"), module.__name__
    assert len(NOTES) > 4
    assert not [each for each in NOTES if "{" in each]


@pytest.mark.parametrize("in_arguments", [False, True])
@pytest.mark.parametrize("ref", [None, REF, "0123456789abcdef", "f" * 64])
def test_what_we_write_has_the_form(ref: str | None, in_arguments: bool) -> None:
    """Of any size, with the longest names and references."""
    for what in WHATS:
        made = marker.marker(what, ref, in_arguments=in_arguments)
        assert marker.is_one(made), made
        assert marker.whole_in(f"a\n{made}\nb") == [made]
        assert marker.references(made) == [ref] * bool(ref)
        assert marker.stands_in(made, in_arguments=in_arguments)


@pytest.mark.parametrize("lines", [1, 999, 1_000, 1_234_567, MOST])
def test_any_count_is_read(lines: int) -> None:
    """As it is written, with commas between its thousands."""
    assert marker.adds_up(marker.marker(marker.left_out(lines, lines, 9), REF))
    assert not marker.adds_up(marker.marker(marker.left_out(lines, lines + 9, 9), REF))


INDEX = "in it: def rise(quay | src/a.py b.py"
ADDS: list[tuple[str, int, str, bool]] = [
    ("a line is missing", 5, "", False),
    ("all lines", 6, "", True),
    ("two lines cut", 8, "", True),
    ("a line too many", 9, "", False),
    ("all lines and an index", 6, INDEX, True),
    ("two lines cut and an index", 8, INDEX, True),
    ("a line too many and an index", 9, INDEX, False),
    ("the last line of the text looks like an index", 5, INDEX, True),
    ("a line is missing beside such a one", 4, INDEX, False),
    ("an index that ends with LF is a line", 8, INDEX + "\n", False),
    ("an index that is not the last line is one", 8, INDEX + "\n-", False),
]


@pytest.mark.parametrize(("lines", "index", "fits"), [case[1:] for case in ADDS], ids=[case[0] for case in ADDS])
def test_an_index_is_no_line(lines: int, index: str, fits: bool) -> None:
    """Of the six that stand around a marker which says that three of nine are gone."""
    made = marker.marker("3 of 9 lines, 99 bytes", REF)
    assert marker.adds_up("\n".join(["line"] * (lines - 1) + [made, "line", *([index] if index else [])])) is fits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        (INDEX, True),
        (f"a\n{INDEX}", True),
        (f"a\n {INDEX}", False),
        (f"{INDEX}\n", False),
        (f"{INDEX}\na", False),
        ("a\nin it:", False),
        ("a\nIn it: b", False),
        (f"a\u2028{INDEX}", False),
        (f"a\r{INDEX}", False),
    ],
    ids=repr,
)
def test_an_index_is_the_last_line(text: str, expected: bool) -> None:
    assert marker.has_index(text) is expected


@pytest.mark.parametrize("written", [",", ", of ,", "9" * 400, "1,2", "1,0000", "-1", "1" + ",000" * 7])
def test_what_is_no_count_is_not_read(written: str) -> None:
    """It is text like any other, whoever wrote it into what looks like a marker: no lines are missing there."""
    assert marker.adds_up(f"[[sessioncompress: {written} lines, 5 bytes]]")


@pytest.mark.parametrize("text", [case[1] for case in NO_MARKERS], ids=[case[0] for case in NO_MARKERS])
def test_what_has_not_the_whole_form_is_no_marker(text: str) -> None:
    assert not marker.occurs_in(text)
    assert not marker.is_one(text)
    assert marker.references(text) == []


def test_a_marker_says_how_much_and_names_the_command() -> None:
    """The form that the README shows, to the letter."""
    assert marker.marker(marker.left_out(398, 404, 19_046), REF) == WHOLE


def test_without_an_original_no_way_back_is_named() -> None:
    """A marker never names a way back that did not exist when it was written."""
    made = marker.marker("3 lines", None)
    assert made == "[[sessioncompress: 3 lines]]"
    assert marker.references(made) == []


def test_in_arguments_it_says_that_the_tool_received_all() -> None:
    """Models copy what their own old calls hold."""
    made = marker.marker("3 lines", REF, in_arguments=True)
    assert made.endswith("; the tool received all of it; do not copy this line]]")
    assert marker.references(made) == [REF]
    assert marker.marker("3 lines", None, in_arguments=True).endswith(
        "3 lines; the tool received all of it; do not copy this line]]"
    )


@pytest.mark.parametrize("around", ["{}", "x {} y", "a\n{}\nb", "[{}]", "[[{}]]"])
def test_a_marker_is_found_in_a_text(around: str) -> None:
    text = around.format(WHOLE)
    assert marker.occurs_in(text)
    assert marker.references(text) == [REF]
    assert marker.is_one(text) == (around == "{}")


def test_references_keep_their_order() -> None:
    """Also of several markers on one line, and longer ones."""
    longer = "0123456789abcdef"
    text = marker.marker("a", longer) + marker.marker("b", None) + "\n" + marker.marker("c", REF)
    assert marker.references(text) == [longer, REF]


NAMED = marker.marker("3 of 9 lines, 99 bytes", REF)
NAMELESS = marker.marker("3 of 9 lines, 99 bytes", None)
IN_CALL = marker.marker("812 bytes", None, in_arguments=True)
STANDS: list[tuple[str, str, bool, bool]] = [
    ("named", f"a\n{NAMED}\nb", False, True),
    ("nameless", f"a\n{NAMELESS}\nb", False, True),
    ("an image", marker.marker("image/png, 4.5 KB", None), False, True),
    ("a repetition", marker.marker("39 lines, 925 bytes, same text as a later bash result", None), False, True),
    ("in a call", IN_CALL, True, True),
    ("two cuts of one text", f"{NAMED}\nerror\n{NAMELESS}", False, True),
    ("two cuts of one line", f"{IN_CALL} error {marker.marker('4.0 MB', None)}", True, True),
    ("no marker", "[[sessioncompress]]", False, False),
    ("of two texts", f"{NAMELESS}\n{marker.marker('3 of 8 lines, 99 bytes', None)}", False, False),
    ("one after the other", f"{NAMELESS}\n{NAMELESS}", False, False),
    ("two originals", f"{NAMED}\n{NAMED}", False, False),
    ("the way back last", f"{NAMELESS}\n{NAMED}", False, False),
    ("of a call, in a result", IN_CALL, False, False),
    ("of a result, in a call", NAMED, True, False),
    ("no size", marker.marker("3 lines", REF), False, False),
]


@pytest.mark.parametrize(("text", "in_arguments", "stands"), [it[1:] for it in STANDS], ids=[it[0] for it in STANDS])
def test_a_marker_stands_in_a_text_as_we_write_it(text: str, in_arguments: bool, stands: bool) -> None:
    """With an original or without; a quote may look the same, but markers of several texts are one for certain."""
    assert marker.stands_in(text, in_arguments=in_arguments) is stands


def test_a_reference_outside_a_marker_is_none() -> None:
    assert marker.references(f"run sessioncompress show {REF}") == []


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in NAMES], ids=[case[0] for case in NAMES])
def test_a_name_cannot_leave_the_marker(text: str, expected: str) -> None:
    """Tools and files are named by others."""
    assert marker.name(text) == expected
    assert marker.is_one(marker.marker(f"older content of {marker.name(text)}", REF))


@pytest.mark.parametrize(("size", "expected"), AMOUNTS)
def test_amounts(size: int, expected: str) -> None:
    assert marker.amount(size) == expected


@pytest.mark.parametrize(("counts", "expected"), [case[1:] for case in LEFT_OUT], ids=[case[0] for case in LEFT_OUT])
def test_how_much_was_left_out(counts: tuple[int, int, int], expected: str) -> None:
    assert marker.left_out(*counts) == expected


def test_a_marker_is_ascii_and_one_line() -> None:
    """No terminal, no tokenizer and no JSON writer changes it."""
    assert WHOLE.isascii()
    assert WHOLE.isprintable()


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("src/a.py", "src/a.py"),
        ("work\\src\\a.go", "work/src/a.go"),
        ("/home/" + "deep/" * 20 + "a.py", ".../" + "deep/" * 14 + "a.py"),
        ("x" * 100, "..." + "x" * 77),
    ],
    ids=["short", "Windows", "long", "no path"],
)
def test_a_path_stays_one_that_can_be_read(path: str, shown: str) -> None:
    """With slashes, and without the beginning where it is too long."""
    assert marker.name(path) == shown


@pytest.mark.parametrize(("text", "expected"), [each[1:] for each in COPIES], ids=[each[0] for each in COPIES])
def test_what_looks_like_a_copied_index(text: str, expected: bool) -> None:
    """A line of its own with two pieces at least."""
    assert marker.copies_index(text) is expected
