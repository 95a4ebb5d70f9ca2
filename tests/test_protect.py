"""Protection: the recent context stays whole, by turns or by tokens, and a call never parts from its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sessioncompress.lines import Lines
from sessioncompress.model import Call, Line, Purpose, Role, Shape, Standing
from sessioncompress.policy import BALANCED, Policy, ProtectMode
from sessioncompress.protect import boundary, latest_thinking, standings
from tests.runs import line

OR, TURNS, AND = ProtectMode.TURNS_OR_TOKENS, ProtectMode.TURNS, ProtectMode.TURNS_AND_TOKENS


def path(story: str) -> list[Line]:
    """Return lines from words: U a prompt, A an answer, C7 an answer with call 7, R7:40 its result of 40 characters.

    R7+8 is one line with two results, H a header, O anything else, T an answer with thinking; what stands behind @ is
    the response that an answer's line is a part of.
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
    if kind == "T":
        return line(Role.ASSISTANT, thinks=True, response=response)
    return line(
        {"U": Role.USER, "A": Role.ASSISTANT, "H": Role.HEADER, "O": Role.OTHER}[kind], io=io, response=response
    )


def shape(lines: Sequence[Line], *off: int, dead: Sequence[int] = ()) -> Shape:
    """Return the shape in which all lines but these are on the live path."""
    return Shape(tuple(number for number in range(len(lines)) if number not in off), frozenset(dead))


BOUNDARIES: list[tuple[str, str, ProtectMode, int, int, int]] = [
    ("no line at all", "", OR, 4, 100, 0),
    ("the last turn", "U A U A", OR, 1, 0, 2),
    ("the last two turns", "U A U A U A", OR, 2, 0, 2),
    ("what stands between turns belongs to the one before", "U A O U A O", OR, 1, 0, 3),
    ("no turn by number", "U A U A", TURNS, 0, 100, 4),
    ("no turn by number, tokens ignored", "U C1:9 R1:9", OR, 0, 100, 3),
    ("as many turns as wanted: by turns all is protected", "U A U A", TURNS, 2, 0, 0),
    ("fewer turns than wanted: by turns all is protected", "U A", TURNS, 4, 0, 0),
    ("fewer turns than wanted: the newest tokens", "U C1:40 R1:400 C2:40 R2:400 A", OR, 4, 100, 5),
    ("a step that just fits is protected", "U C1:40 R1:400 C2:40 R2:360 A", OR, 4, 100, 3),
    ("one character more is not", "U C1:40 R1:400 C2:40 R2:361 A", OR, 4, 100, 5),
    ("the newest step always, however large", "U C1:40 R1:400 C2:40 R2:90000", OR, 4, 100, 3),
    ("the newest step with all its results", "U C1:1 R1:1 C2+3:40 R2:9000 R3:9000", OR, 4, 0, 3),
    ("a whole step or nothing of it", "U C1:0 R1:0 C2+3:0 R2:300 R3:300 A", OR, 4, 100, 6),
    ("a prompt behind the newest step is protected with it", "U C1:1 R1:900 U", OR, 4, 0, 1),
    ("a first prompt without an answer yet", "H U", OR, 4, 100, 0),
    ("turns and tokens: the tokens inside the turns", "U A U C1:40 R1:400 C2:4 R2:4", AND, 1, 10, 5),
    ("turns and tokens: never beyond the turns", "U C1:4 R1:4 U A", AND, 1, 10_000, 3),
    ("turns and tokens: few turns", "U C1:40 R1:400 C2:4 R2:4", AND, 4, 10, 3),
    ("a result's call comes with it", "U C1 U R1 U A", TURNS, 2, 0, 1),
    ("and what that call's line holds", "U C0 U C1+2 R1 U R2 A", TURNS, 1, 0, 3),
    ("calls chain back", "U C1 C2 R1 U R2 A", TURNS, 1, 0, 1),
    ("an id that comes again: a result's own call", "U C1 R1 U C1 R1 U C1 R1", TURNS, 1, 0, 6),
    ("and the nearest before it", "U C1 R1 C1 U R1", TURNS, 1, 0, 3),
    ("a result without any call moves nothing", "U A U R9 A", TURNS, 1, 0, 2),
    ("a line with two results: both calls", "U C1 C2 U R2+1 U A", TURNS, 2, 0, 1),
    ("a step in several lines is whole", "U A C1:9 R1:9 T@m A@m C2:4@m R2:4", OR, 4, 0, 4),
    ("with results between them", "U A C1:9 R1:9 T@m C2:4@m R2:4 C3:4@m R3:4", OR, 4, 0, 4),
    ("the next response is another step", "U T@m A@m T@n C2:4@n R2:4", OR, 4, 0, 3),
]


@pytest.mark.parametrize(
    ("story", "mode", "turns", "tokens", "expected"),
    [case[1:] for case in BOUNDARIES],
    ids=[case[0] for case in BOUNDARIES],
)
def test_the_boundary(story: str, mode: ProtectMode, turns: int, tokens: int, expected: int) -> None:
    """From which line on all is protected."""
    policy = replace(BALANCED, protect_mode=mode, turn_threshold_before_compress=turns, protect_tokens=tokens)
    lines = path(story)
    assert boundary(Lines(lines), shape(lines), policy) == expected


def test_lines_off_the_live_path_are_old_never_dead() -> None:
    """The user can go back to them; they count neither as turns nor as tokens."""
    lines = path("U A U A U A")
    found = standings(Lines(lines), shape(lines, 4, 5, dead=[0]), one_turn())
    assert found == (Standing.DEAD, Standing.OLD, Standing.PROTECTED, Standing.PROTECTED, Standing.OLD, Standing.OLD)


def test_an_entry_of_which_nothing_is_known_leaves_nothing_old() -> None:
    """It may be a turn, a branch or a checkpoint; a line that is no entry may not."""
    lines = [*path("U A U A"), line(Role.OPAQUE, sealed=True)]
    assert set(standings(Lines(lines), shape(lines), one_turn())) == {Standing.PROTECTED}
    lines[-1] = line(Role.OPAQUE)
    assert Standing.OLD in standings(Lines(lines), shape(lines), one_turn())


def test_what_is_protected_is_not_dead() -> None:
    """A checkpoint just made leaves the last turns before it, which no model sees any more, as they are."""
    lines = path("U A U A O")
    found = standings(Lines(lines), shape(lines, dead=[0, 1, 2, 3]), one_turn())
    assert found == (Standing.DEAD, Standing.DEAD, Standing.PROTECTED, Standing.PROTECTED, Standing.PROTECTED)


def test_the_latest_thinking_is_the_last_on_the_live_path() -> None:
    """One on another branch is another branch's."""
    lines = path("U T U T A T")
    assert latest_thinking(Lines(lines), shape(lines)) == {5}
    assert latest_thinking(Lines(lines), shape(lines, 5)) == {3}
    assert latest_thinking(Lines(lines), shape(lines, 1, 3, 5)) == set()


def test_the_latest_thinking_is_that_of_a_whole_message() -> None:
    """Which may be several lines."""
    lines = path("U T@m A@m U T@n A@n T@n A")
    assert latest_thinking(Lines(lines), shape(lines)) == {4, 5, 6}


def one_turn() -> Policy:
    """Return a policy that protects the last turn."""
    return replace(BALANCED, turn_threshold_before_compress=1)
