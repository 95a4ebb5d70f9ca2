"""The index of a preview: names that nothing else holds, each once, in its newest result, within one budget."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sessioncompress.compressors import names
from sessioncompress.compressors.names import LOOKED_AT, NOTHING, PreviewNames, Visible, ends_of
from sessioncompress.core.marker import INDEX, has_index
from sessioncompress.policy.model import BALANCED, PRESETS, Policy

ROOMY = replace(BALANCED, preview_share=0.5)
"""So much that no name is left out for want of room."""
GAUGES = "def read_gauge(quay):\n    return (tideLevel(quay), [quay]);\n"
FILLER = "x = [(), (), ()];\n" * 12
"""Symbols without a name: what they fill is no prose."""


def indexes(*results: str, policy: Policy = ROOMY, kept: Sequence[str] = ()) -> list[Visible]:
    """Return what is shown of results, the newest first."""
    names = PreviewNames(policy)
    for text in kept:
        names.keep(text.encode(errors="replace"))
    for text in results:
        names.add(text)
    return names.choose()


def line_of(text: str, policy: Policy = ROOMY, kept: Sequence[str] = ()) -> str:
    return indexes(text, policy=policy, kept=kept)[0].line()


def pieces(line: str) -> list[str]:
    return line.removeprefix(INDEX).split(" | ") if line else []


def numbered(form: str) -> str:
    return "".join(form.format(number) for number in range(1_001, 1_010))


NOT_SHOWN: list[tuple[str, str, Sequence[str]]] = [
    ("the versions in a diff", "x;\nindex 6c8ccbdb..abe00a77 100644\n(y);\n" * 9, ("6c8ccbdb", "abe00a77", "100644")),
    ("plain words", "the Tide rises (here); [and] falls;\n" * 9, ("tide", "Tide", "rises")),
    ("short names", "a1 = b_2; c3 = (d4);\n" * 9, ("a1", "b_2", "c3")),
    ("a name above 48 bytes", f"call(x_{'y' * 47}); (x_{'z' * 46});\n" * 9, ("yyyy",)),
    ("the gutter of cat -n", numbered("  {}\tint alpha = call(beta_x);\n"), ("1001", "1005", "1009")),
    ("the gutter of a bar", numbered("{}|int alpha = call(beta_x);\n"), ("1001", "1005", "1009")),
    ("the gutter of an arrow", numbered("{}\u2192int alpha = call(beta_x);\n"), ("1001", "1005", "1009")),
    ("the gutter of grep", numbered("src/a.py:{}:int alpha = call(beta_x);\n"), ("1001", "1005", "1009")),
    ("the gutter of grep beside a hit", numbered("src/a.py-{}-int alpha = call(beta_x);\n"), ("1001", "1005", "1009")),
    ("numbers that go up", "".join(f"click(ref=e{each}, quay);\n" for each in range(225, 255)), ("e228", "e240")),
    ("files whose numbers go up", "".join(f"see(img_{each}.png);\n" for each in range(225, 255)), ("img_228",)),
    ("tests that passed", "".join(f"test tide::low_{each} ... ok\n" for each in "abcdef") + GAUGES, ("low_a", "low_b")),
    ("tests with a check mark", "".join(f"  \u2713 low_{each} (2 ms)\n" for each in "abcdef") + GAUGES, ("low_a",)),
    ("colors", "\x1b[31m\x1b[1;38;5;204mread_gauge\x1b[0m(quay);\n" * 9, ("31m", "204m", "[0m", "1;38", "\x1b")),
    ("numbers in JSON", '{"id": 4711471, "sha": "abcdef012345", "fullName": "left_pad"}' * 9, ("4711471", "abcdef")),
    ("numbers in a list of JSON", ' [{"id": 4711471, "fullName": "left_pad"}]' * 9, ("4711471",)),
    ("a folder of git", ".git/objects/pack_one.idx;\nsrc/kept_one.py;\n" * 9, ("pack_one",)),
    ("packages of node", "(a/node_modules/left_pad/pad_it.js);\nkept_one();\n" * 9, ("left_pad", "pad_it")),
    ("a virtual environment", ".venv/lib/some_thing.py;\nkept_one();\n" * 9, ("some_thing",)),
    ("compiled files", "src/__pycache__/some_thing.pyc;\nkept_one();\n" * 9, ("some_thing",)),
    ("packages of Python", "lib/site-packages/some_thing.py;\nkept_one();\n" * 9, ("some_thing",)),
    ("base64", f"read_gauge({'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0' * 40});\n[];\n", ("QUJD",)),
]

SHOWN: list[tuple[str, str, Sequence[str]]] = [
    ("a name with its neighbors", GAUGES + FILLER, ["def read_gauge(quay", "return (tideLevel(quay"]),
    ("the parts of a dotted word", f"(self.read_gauge.level);\n{FILLER}", ["self.read_gauge.level"]),
    ("one letter before an underscore", f"(n_jobs);\n{FILLER}", ["n_jobs"]),
    ("one letter before a capital", f"(mContext);\n{FILLER}", ["mContext"]),
    ("one letter before a digit", f"(b64decode);\n{FILLER}", ["b64decode"]),
    ("camel case", f"(readGauge);\n{FILLER}", ["readGauge"]),
    ("an acronym before a word", f"(HTTPServer);\n{FILLER}", ["HTTPServer"]),
    ("a digit", f"(utf8);\n{FILLER}", ["utf8"]),
    ("a name of 48 bytes", f"(x_{'y' * 46});\n{FILLER}", ["x_" + "y" * 46]),
    ("a number", f"took 48213 ms;\n{FILLER}", ["took 48213 ms"]),
    ("a hash", f"(abcdef0123);\n{FILLER}", ["abcdef0123"]),
    ("a name that is colored", f"\x1b[31mread_gauge\x1b[0m(quay);\n{FILLER}", ["read_gauge(quay"]),
    ("a neighbor is a whole word", f"{'x' * 30} = read_gauge({'y' * 40});\n{FILLER}", ["read_gauge"]),
    ("a neighbor stands in the line", f"above\n(read_gauge)\nbelow;\n{FILLER}", ["read_gauge"]),
    ("a neighbor is in the same statement", f"one; read_gauge; two;\n{FILLER}", ["read_gauge"]),
    ("a neighbor is not behind a block", f"one) (read_gauge) }} two;\n{FILLER}", ["read_gauge"]),
    ("a file", f"(tide.py);\n{FILLER}", ["tide.py"]),
    ("a file with its folder", f"(src/quay/tide.py);\n{FILLER}", ["quay/tide.py"]),
    ("a folder once", f"src/quay/one.py\nsrc/quay/two.py\n{FILLER}", ["quay/two.py one.py"]),
    ("JSON's names", '{"id": 4711471, "fullName": "left_pad"}' * 9, ['fullName": "left_pad']),
    (
        "escaped line ends",
        '{"out": "def read_gauge(quay):\\n  tideLevel()\\n"}' * 4,
        ["def read_gauge(quay", "tideLevel"],
    ),
    ("a path of Windows", f"C:\\new\\test\\read_gauge.py;\n{FILLER}", ["test\\read_gauge.py"]),
    ("a name beside CJK", f"漢字 read_gauge 漢字 (潮);\n{FILLER}", ["read_gauge"]),
    ("a name beside an emoji", f"👩‍👩‍👧 read_gauge 👩‍👩‍👧;\n{FILLER}", ["read_gauge"]),
    ("a name beside half of an emoji", f"\ud800 read_gauge \udc00;\n{FILLER}", ["read_gauge"]),
    ("prose has names too", "The tide rose and nobody said why. " * 30 + "(read_gauge)", ["why. (read_gauge"]),
    ("what stands beside a folder of packages", "node_modules/left_pad\nsrc/kept_one.py\n" * 9, ["src/kept_one.py"]),
    ("one name again and again", "(read_gauge);\n" * 90, ["read_gauge"]),
    ("a word of its own before a part of another", f"xread_gauge; (read_gauge);\n{FILLER}", ["xread_gauge read_gauge"]),
    (
        "a path of Windows in JSON",
        r'{"out": "C:\\nightly_2\\test_two.py;\nC:\\nightly_2\\test_two.py;\n"}' * 9,
        ["nightly_2\\test_two.py"],
    ),
    ("LaTeX on one line", rf"$\nabla_x + (\theta_1)$ {FILLER}".replace("\n", " "), ["theta_1)$ x", "nabla_x"]),
    ("words that the cursor parts", f"done_12\x1b[2K\x1b[1Gdone_13;\n{FILLER}", ["done_12 done_13"]),
    ("a file's name before a part of another's", f"a-tide.ts\ntide.ts\n{FILLER}", ["a-tide.ts tide.ts"]),
]


@pytest.mark.parametrize(("text", "absent"), [case[1:] for case in NOT_SHOWN], ids=[case[0] for case in NOT_SHOWN])
def test_not_shown(text: str, absent: Sequence[str]) -> None:
    """What is no name, or nobody's own, is in no index, however much room there is."""
    line = line_of(text)
    assert [each for each in absent if each in line] == []


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in SHOWN], ids=[case[0] for case in SHOWN])
def test_shown(text: str, expected: Sequence[str]) -> None:
    """With the word before it and the word behind it, to the letter."""
    shown = pieces(line_of(text))
    assert [each for each in expected if each not in shown] == []


INDEXES: list[tuple[str, str, str]] = [
    ("nothing is shown", "", "call read_gauge(x | open tide_level | quay_depth tide_rise"),
    ("plain words are", "open call", "call read_gauge(x | open tide_level | quay_depth tide_rise"),
    ("a name that has neighbors is", "read_gauge", "call read_gauge(x | open tide_level | quay_depth tide_rise"),
    ("a name is in another", "my_quay_depth", "call read_gauge(x | open tide_level | quay_depth tide_rise"),
    ("a piece is", "y = call read_gauge(x)", "open tide_level | quay_depth tide_rise"),
    ("a name alone is", "(quay_depth)", "call read_gauge(x | open tide_level | tide_rise"),
    ("all alone are", "quay_depth tide_rise \ud800", "call read_gauge(x | open tide_level"),
]


@pytest.mark.parametrize(("shown", "expected"), [case[1:] for case in INDEXES], ids=[case[0] for case in INDEXES])
def test_what_the_rest_of_a_preview_shows_is_not_repeated(shown: str, expected: str) -> None:
    """Neither a piece as a whole nor a name alone."""
    index = Visible(["call read_gauge(x", "open tide_level"], ["quay_depth", "tide_rise"], 0, first=True)
    assert index.line(shown) == INDEX + expected


@pytest.mark.parametrize("behind", range(6))
def test_what_is_looked_at_ends_between_words(behind: int) -> None:
    """In the head and in the tail: a part of a word is another name."""
    rest = "; " * LOOKED_AT
    head = rest[: LOOKED_AT // 4 * 3 - 6 - behind] + "tide_level_seen;"
    tail = "; seen_quay_depth" + rest[: LOOKED_AT // 4 - 6 - behind]
    assert line_of(head + rest + tail) == ""


def test_more_names_than_a_budget_takes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst of them: here ten stay as the twenty-first comes, and three come after it."""
    monkeypatch.setattr(names, "_MOST_FOUND", 10)
    texts = [f"{FILLER}(tide_{'x' * number}_{number});\n" * 9 for number in range(25, 1, -1)]
    found = [each.line() for each in indexes(*texts, policy=ROOMY)]
    assert [bool(line) for line in found] == [False] * 11 + [True] * 13


def test_without_a_name_left_there_is_no_line() -> None:
    assert Visible(["call read_gauge(x"], ["quay_depth"], 0, first=True).line("call read_gauge(x, quay_depth)") == ""
    assert NOTHING.line() == ""


def test_names_alone_stand_last() -> None:
    """Separated by spaces."""
    text = "".join(f"value = other(tide_{word});\n" for word in "abcdefghijklmnopqrstuvwxyz") + FILLER * 9
    *_, last = pieces(line_of(text, replace(ROOMY, preview_share=0.15)))
    assert " " in last
    assert all(each.startswith("tide_") for each in last.split(" "))


KNOWN: list[tuple[str, str, bool]] = [
    ("the name", "we call read_gauge here", True),
    ("in a line of JSON", '{"text":"one\\nread_gauge\\ntwo"}', True),
    ("behind a tab in a line of JSON", '{"text":"one\\n\\tread_gauge\\ttwo"}', True),
    ("in quotes in a line of JSON", '{"text":"\\"read_gauge\\""}', True),
    ("in a dotted word", "self.read_gauge.level", True),
    ("in a path", "src/read_gauge/level", True),
    ("in an index of ours", "in it: def read_gauge(quay | src/a.py", True),
    ("in a longer name", "read_gauges", False),
    ("in other case", "Read_Gauge", False),
    ("not at all", "the tide", False),
]


@pytest.mark.parametrize(("kept", "known"), [case[1:] for case in KNOWN], ids=[case[0] for case in KNOWN])
def test_what_stays_anyway_is_not_shown(kept: str, known: bool) -> None:
    assert ("read_gauge" in line_of(f"(read_gauge);\n{FILLER}", kept=[kept])) is not known


SAID = "The tide rose in the morning and nobody at the quay said why. "
BINARY = "\x00\x01read_gauge\x02" * 90
TEXTS: list[tuple[str, str, bool, bool]] = [
    ("code", GAUGES * 9, False, False),
    ("a listing", "src/quay/one.py\nsrc/quay/two.py\n" * 30, False, False),
    ("prose", SAID * 30, True, False),
    ("prose of one line with a few symbols", SAID * 30 + "(a) [b]", True, False),
    ("no word", FILLER * 3, False, True),
    ("only words that are no names", "(the) [tide] {rises};\n" * 30, False, True),
    ("binary", BINARY, False, False),
]


@pytest.mark.parametrize(("text", "ends", "first"), [case[1:] for case in TEXTS], ids=[case[0] for case in TEXTS])
def test_what_is_shown_beside_the_names(text: str, ends: bool, first: bool) -> None:
    """Of prose its ends; of what has no name its first line; of binary nothing."""
    found = indexes(text)[0]
    assert bool(found.ends) is ends
    assert found.first is (first or not (found.line() or text == BINARY))


def test_binary_has_no_names() -> None:
    assert indexes(BINARY) == [Visible([], [], 0, first=False)]


WORDS = ["".join(each) for each in itertools.product("abcdefghijklmnopqrst", repeat=2)]
MANY = "".join(f"value_{word} = call(other_{word});\n" for word in WORDS[:300])


@pytest.mark.parametrize("share", [0, 0.01, 0.02, 0.05, 0.08, 0.1, 0.5, 1])
def test_all_indexes_together_stay_within_the_share(share: float) -> None:
    """Of all results, those included that have no name of their own."""
    results = [MANY.replace("_", f"_{number}_") for number in range(6)] + [FILLER * 9] * 4
    lines = [each.line() for each in indexes(*results, policy=replace(BALANCED, preview_share=share))]
    taken, size = sum(map(len, lines)), sum(map(len, results))
    assert taken <= share * size
    if 0.02 <= share <= 0.08:
        assert taken > share * size * 0.8


@pytest.mark.parametrize("most", [0, 1, 9, 40, 160, 640, 2_000])
def test_no_index_is_longer_than_the_most(most: int) -> None:
    found = indexes(MANY, FILLER * 90, policy=replace(ROOMY, preview_max_bytes=most))
    assert len(found[0].line()) <= most
    if most >= 40:
        assert len(found[0].line()) > most // 2


@pytest.mark.parametrize("text", ["(read_gauge);", GAUGES, GAUGES * 2, MANY[:400]])
def test_no_index_is_longer_than_half_of_its_result(text: str) -> None:
    """A preview is shorter than what it stands for."""
    found = indexes(text, FILLER * 90, policy=replace(BALANCED, preview_share=1, preview_max_bytes=100_000))
    assert len(found[0].line()) <= len(text) // 2 + 1


def test_without_a_share_there_is_no_index() -> None:
    assert [each.line() for each in indexes(MANY, MANY, policy=PRESETS["archive"])] == ["", ""]
    assert line_of(MANY, replace(BALANCED, preview_share=0)) == ""


def test_without_results_there_is_nothing_to_choose() -> None:
    """As in a run that replaces only arguments."""
    assert indexes() == []


@pytest.mark.parametrize(
    ("size", "share", "most", "expected"),
    [
        (0, 0.08, 2_000, 160),
        (1_000, 0.08, 2_000, 160),
        (6_000, 0.08, 2_000, 320),
        (90_000, 0.08, 2_000, 666),
        (6_000, 0.05, 100, 33),
        (6_000, 0.08, 0, 0),
    ],
)
def test_head_and_tail_of_prose(size: int, share: float, most: int, expected: int) -> None:
    """Two thirds of its share, 160 bytes at least, a third of the most at most."""
    assert ends_of(size, replace(BALANCED, preview_share=share, preview_max_bytes=most)) == expected


_WORDS = st.sampled_from(
    [
        *(
            *("read_gauge", "tideLevel", "src/a.py", "quay/two.ts", "C:\\new\\b.go", "48213", "abcdef0123"),
            *("a.b.c_d", "word"),
        ),
        *("漢字", "👩\u200d👩", "\ud800", "\x1b[31m", "\x00\x01", '\\"', "\\n", '{"', '"', "\\", "node_modules/x_y"),
        *("[[sessioncompress: 5 bytes]]", "in it: a | b", "12|", "12\u2192", "x" * 60, "-", "_", "__", ".", ".."),
        *("\n", "\r\n", " ", "\t", "; ", "(", ") "),
    ]
)
_TEXTS = st.lists(_WORDS, max_size=60).map("".join) | st.text(max_size=300) | st.text("ab1_.-/\\ \n\"';(", max_size=200)
_POLICIES = st.builds(
    lambda share, most: replace(BALANCED, preview_share=share, preview_max_bytes=most),
    st.sampled_from([0, 0.01, 0.08, 0.5, 1]),
    st.sampled_from([0, 1, 30, 300, 4_000]),
)


@settings(deadline=None, max_examples=200)
@example(["read_gauge" * 6 + "src/a.py"], [], replace(BALANCED, preview_max_bytes=30))
@given(st.lists(_TEXTS, max_size=6), st.lists(_TEXTS, max_size=3), _POLICIES)
def test_any_texts(results: list[str], kept: list[str], policy: Policy) -> None:
    """No exception, one index for each result, each one line of text, and all within the budget."""
    found = indexes(*results, policy=policy, kept=kept)
    assert len(found) == len(results)
    for text, index in zip(results, found, strict=True):
        assert not index.line() or has_index(f"a\n{index.line()}")
        assert "\n" not in index.line()
        assert len(index.line().encode()) <= min(
            policy.preview_max_bytes, (len(text.encode(errors="replace")) + 2) // 2
        )
    assert sum(len(each.line().encode()) for each in found) <= policy.preview_share * sum(map(len, results))
