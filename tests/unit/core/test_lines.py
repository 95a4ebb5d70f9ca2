"""Lines: what went in comes out, by number and in columns."""

from __future__ import annotations

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Block, Call, Facts, Kind, Line, Purpose, Role

BLOCK = Block(Kind.RESULT, ("message", "content", 0, "text"), 300, 300, "bash", "c1", b"d" * 16)
CALL = Call("c1|fc", "c1", "bash", Purpose.COMMAND, "a.py", "offset=1")
FIRST = Line(Role.ASSISTANT, 900, 2**64 - 1, "a", "", (), (CALL, CALL._replace(id="c2", name="c2")), "", 7, 9)
SECOND = Line(Role.RESULT, 700, 1, "b", "a", (BLOCK,), (), "c1|fc", 5, 5, Facts(failed=True))
THIRD = Line(Role.OTHER, 2**40, 2, "ü\ud800", "b", response="msg_1", time=2**41)
LINES = [FIRST, SECOND, THIRD]


def test_what_went_in_comes_out() -> None:
    """Every line, by its number, from the end, and in a slice."""
    lines = Lines(LINES)
    assert list(lines) == LINES
    assert lines[-1] == THIRD
    assert lines[1:] == LINES[1:]
    assert len(lines) == 3


def test_a_column_is_one_field_of_every_line() -> None:
    """In the order of the lines."""
    lines = Lines(LINES)
    assert list(lines.roles) == [Role.ASSISTANT, Role.RESULT, Role.OTHER]
    assert list(lines.ids) == ["a", "b", "ü\ud800"]
    assert list(lines.parents) == ["", "a", "b"]
    assert [facts.failed for facts in lines.facts] == [False, True, False]
    assert list(lines.responses) == ["", "", "msg_1"]
    assert list(lines.times) == [0, 0, 2**41]


def test_lines_do_not_follow_what_they_were_made_of() -> None:
    """A run changes its own list of them."""
    made_of = list(LINES)
    lines = Lines(made_of)
    made_of[1] = THIRD
    assert list(lines) == LINES


def test_lines_that_our_parser_does_not_read_are_counted() -> None:
    """Opaque ones, and those that only their agent reads."""
    foreign = Line(Role.USER, 1, 1, facts=Facts(foreign=True))
    lines = Lines([*LINES, foreign, Line(Role.OPAQUE, 1, 1), Line(Role.BLANK, 1, 1)])
    assert lines.not_understood() == 2
    assert lines.opaque() == [len(LINES), len(LINES) + 1]
