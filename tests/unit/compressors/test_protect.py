"""Protection: the recent context stays whole, by turns or by tokens, and a call never parts from its result."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sessioncompress.compressors.base import Ours, View, standings
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.model import Call, Line, Protection, Purpose, Role, Shape
from sessioncompress.formats.table import format_named
from sessioncompress.policy.model import BALANCED, Policy
from tests.support.runs import line


def path(story: str) -> list[Line]:
    """Return lines from words: U a prompt, A an answer, C7 an answer with call 7, R7:40 its result of 40 characters.

    R7+8 is one line with two results, N7:40 a note that is read as a call with its result, H a header, O anything else,
    T an answer with thinking; what stands behind @ is the response that an answer's line is a part of.
    """
    return [_line(word) for word in story.split()]


def _line(word: str) -> Line:
    word, _, response = word.partition("@")
    kind, _, size = word.partition(":")
    io = int(size or 0)
    if kind[0] == "C":
        made = tuple(Call(name, name, "bash", Purpose.COMMAND) for name in kind[1:].split("+"))
        return line(Role.ASSISTANT, calls=made, io=io, response=response)
    if kind[0] == "R":
        one, *others = kind[1:].split("+")
        return line(Role.RESULT, several=(one, *others), io=io) if others else line(Role.RESULT, answers=one, io=io)
    if kind[0] == "N":
        name = kind[1:]
        return line(Role.OTHER, calls=(Call(name, name, "bash", Purpose.COMMAND),), answers=name, io=io)
    if kind == "T":
        return line(Role.ASSISTANT, thinks=True, response=response)
    return line(
        {"U": Role.USER, "A": Role.ASSISTANT, "H": Role.HEADER, "O": Role.OTHER}[kind], io=io, response=response
    )


def shape(lines: Sequence[Line], *off: int, dead: Sequence[int] = ()) -> Shape:
    """Return the shape in which all lines but these are on the live path."""
    return Shape(tuple(number for number in range(len(lines)) if number not in off), frozenset(dead))


BOUNDARIES: list[tuple[str, str, int, int | None, int]] = [
    ("no line at all", "", 4, 100, 0),
    ("the last turn", "U A U A", 1, None, 2),
    ("the last two turns", "U A U A U A", 2, None, 2),
    ("what stands between turns belongs to the one before", "U A O U A O", 1, None, 3),
    ("no turn", "U A U A", 0, None, 4),
    ("no turn, however many tokens", "U C1:9 R1:9", 0, 100, 3),
    ("as many turns as wanted", "U A U A", 2, None, 0),
    ("fewer turns than wanted", "U A", 4, None, 0),
    ("fewer turns than wanted: the newest tokens", "U C1:40 R1:400 C2:40 R2:400 A", 4, 100, 3),
    ("a step that just fits is protected", "U C1:40 R1:400 C2:40 R2:356 C3:2 R3:2 A", 4, 100, 3),
    ("one character more is not", "U C1:40 R1:400 C2:40 R2:357 C3:2 R3:2 A", 4, 100, 5),
    ("the newest step always, however large", "U C1:40 R1:400 C2:40 R2:90000", 4, 100, 3),
    ("also where an answer follows it", "U C1:40 R1:400 C2+3:40 R2:90000 R3:90000 A A", 4, 100, 3),
    ("also where what is no call follows it", "U C1:40 R1:400 C2:40 R2:90000 A U O:9 A", 4, 100, 3),
    ("also where a note does that is read as one", "U C1:40 R1:400 C2:40 R2:90000 A N9:9 U A", 4, 100, 3),
    ("but not where no token is asked for", "U C1:40 R1:400 C2:40 R2:90000 A", 4, 0, 5),
    ("the newest step with all its results", "U C1:1 R1:1 C2+3:40 R2:9000 R3:9000", 4, 0, 3),
    ("a whole step or nothing of it", "U C1:0 R1:0 C2+3:0 R2:300 R3:300 C4:2 R4:2 A", 4, 100, 6),
    ("a prompt behind the newest step is protected with it", "U C1:1 R1:900 U", 4, 0, 0),
    ("a first prompt without an answer yet", "H U", 4, 100, 0),
    ("fewer turns and tokens than wanted: all", "H U C1:40 R1:40 U A", 4, 100, 0),
    ("a prompt between two steps goes with the newer one", "U C1:40 R1:400 O U O C2:40 R2:360 A", 4, 100, 3),
    ("a result that is none to the plan belongs to its step", "U C1:40 R1:400 O:9 U C2:9 R2:9 A", 4, 5, 4),
    ("the tokens inside the turns", "U A U C1:40 R1:400 C2:4 R2:4", 1, 10, 5),
    ("never beyond the turns", "U C1:4 R1:4 U A", 1, 10_000, 3),
    ("few turns, and few tokens", "U C1:40 R1:400 C2:4 R2:4", 4, 10, 3),
    ("a result's call comes with it", "U C1 U R1 U A", 2, None, 1),
    ("and what that call's line holds", "U C0 U C1+2 R1 U R2 A", 1, None, 3),
    ("calls chain back", "U C1 C2 R1 U R2 A", 1, None, 1),
    ("an id that comes again: a result's own call", "U C1 R1 U C1 R1 U C1 R1", 1, None, 6),
    ("and the nearest before it", "U C1 R1 C1 U R1", 1, None, 3),
    ("a result without any call moves nothing", "U A U R9 A", 1, None, 2),
    ("a line with two results: both calls", "U C1 C2 U R2+1 U A", 2, None, 1),
    ("a step in several lines is whole", "U A C1:9 R1:9 T@m A@m C2:4@m R2:4", 4, 0, 4),
    ("with results between them", "U A C1:9 R1:9 T@m C2:4@m R2:4 C3:4@m R3:4", 4, 0, 4),
    ("the next response is another step", "U T@m A@m T@n C2:4@n R2:4", 4, 0, 3),
]


@pytest.mark.parametrize(
    ("story", "turns", "tokens", "expected"), [case[1:] for case in BOUNDARIES], ids=[case[0] for case in BOUNDARIES]
)
def test_the_boundary(story: str, turns: int, tokens: int | None, expected: int) -> None:
    """From which line on all is protected."""
    assert _boundary(path(story), turns, tokens) == expected


def _boundary(lines: Sequence[Line], turns: int, tokens: int | None) -> int:
    policy = replace(BALANCED, turn_threshold_before_compress=turns, protect_tokens=tokens)
    found = standings(Lines(lines), shape(lines), policy)
    return len(found) - found.count(Protection.PROTECTED)


_WORDS = (
    *("U", "A", "H", "O", "T", "T@m", "A@m", "C1:9", "C2:400", "C1+2:40", "C3:4@m", "R1:9", "R2:400", "R1+3:4", "R3"),
)
_TURNS = st.integers(0, 5)
_TOKENS = st.none() | st.integers(0, 300)


def test_at_rest_the_answer_is_the_newest_step() -> None:
    """Nobody goes on from the results before it."""
    lines = path("U C1:40 R1:90000 A")
    found = standings(Lines(lines), shape(lines), replace(BALANCED, protect_tokens=100, at_rest=True))
    assert [each is Protection.PROTECTED for each in found] == [False, False, False, True]


@given(st.lists(st.sampled_from(_WORDS), max_size=30), st.tuples(_TURNS, _TURNS), st.tuples(_TOKENS, _TOKENS))
def test_more_never_keeps_less(words: list[str], turns: tuple[int, int], tokens: tuple[int | None, int | None]) -> None:
    """More turns, more tokens, or both, protect all that fewer do; no cap is more than any."""
    lines = path(" ".join(words))
    fewer, more = sorted(tokens, key=lambda each: inf if each is None else each)
    assert _boundary(lines, max(turns), more) <= _boundary(lines, min(turns), fewer)


def test_lines_off_the_live_path_are_old_never_dead() -> None:
    """The user can go back to them; they count neither as turns nor as tokens."""
    lines = path("U A U A U A")
    found = standings(Lines(lines), shape(lines, 4, 5, dead=[0]), one_turn())
    assert found == (
        Protection.DEAD,
        Protection.OLD,
        Protection.PROTECTED,
        Protection.PROTECTED,
        Protection.OLD,
        Protection.OLD,
    )


@pytest.mark.parametrize(("parent", "protected"), [("gone", [3, 4, 5, 6, 7]), ("", [7]), ("b", [1, 2, 7])])
def test_before_a_missing_parent_is_recent(parent: str, protected: list[int]) -> None:
    """The agent goes on from the line that names it, and protected alone that would be next to nothing.

    A root of its own is a new beginning, and of a branch that was left the user knows.
    """
    lines = path("H U A U C1 R1 A U")
    lines[1], lines[2], lines[7] = (
        lines[at]._replace(id=name, parent=of) for at, name, of in ((1, "a", ""), (2, "b", "a"), (7, "c", parent))
    )
    live = [1, 2, 7] if parent == "b" else [7]
    found = standings(Lines(lines), Shape(live, frozenset()), replace(one_turn(), turn_threshold_before_compress=2))
    assert [number for number, each in enumerate(found) if each is Protection.PROTECTED] == protected


def test_an_entry_of_which_nothing_is_known_leaves_nothing_old() -> None:
    """It may be a turn, a branch or a checkpoint; a line that is no entry may not."""
    lines = [*path("U A U A"), line(Role.OPAQUE, sealed=True)]
    assert set(standings(Lines(lines), shape(lines), one_turn())) == {Protection.PROTECTED}
    lines[-1] = line(Role.OPAQUE)
    assert Protection.OLD in standings(Lines(lines), shape(lines), one_turn())


def test_what_is_protected_is_not_dead() -> None:
    """A checkpoint just made leaves the last turns before it, which no model sees any more, as they are."""
    lines = path("U A U A O")
    found = standings(Lines(lines), shape(lines, dead=[0, 1, 2, 3]), one_turn())
    assert found == (Protection.DEAD, Protection.DEAD, Protection.PROTECTED, Protection.PROTECTED, Protection.PROTECTED)


def _latest_thinking(lines: Sequence[Line], found: Shape) -> frozenset[int]:
    return View(Survey(Lines(lines), found, 0), BALANCED, format_named("pi"), Ours()).latest_thinking


def test_the_latest_thinking_is_the_last_on_the_live_path() -> None:
    """One on another branch is another branch's."""
    lines = path("U T U T A T")
    assert _latest_thinking(lines, shape(lines)) == {5}
    assert _latest_thinking(lines, shape(lines, 5)) == {3}
    assert _latest_thinking(lines, shape(lines, 1, 3, 5)) == set()


def test_the_latest_thinking_is_that_of_a_whole_message() -> None:
    lines = path("U T@m A@m U T@n A@n T@n A")
    assert _latest_thinking(lines, shape(lines)) == {4, 5, 6}


def one_turn() -> Policy:
    return replace(BALANCED, turn_threshold_before_compress=1)
