"""Lines in columns: what went in comes out, a copy is apart, and a line put elsewhere leaves the others as they were."""

from __future__ import annotations

import pytest

from sessioncompress.lines import NO_LINE, Lines
from sessioncompress.model import Block, Call, Facts, Kind, Line, Purpose, Role


def block(size: int = 300, digest: bytes = b"d" * 16, *, marked: bool = False) -> Block:
    """Return the block of a result."""
    return Block(Kind.RESULT, ("message", "content", 0, "text"), size, size, "bash", "c1", digest, marked)


CALL = Call("c1|fc", "c1", "bash", Purpose.COMMAND, "a.py", "offset=1")
FIRST = Line(Role.ASSISTANT, 900, 2**64 - 1, "a", "", (), (CALL, CALL._replace(id="c2", name="c2")), "", 7, 9)
SECOND = Line(Role.RESULT, 700, 1, "b", "a", (block(), block(500, b"")), (), "c1|fc", 5, 5, Facts(failed=True))
THIRD = Line(Role.OTHER, 2**40, 2, "ü\ud800", "b", response="msg_1", time=2**41)
LINES = [FIRST, SECOND, THIRD]


def test_what_went_in_comes_out() -> None:
    """Every field of every line, by its number, from the end, and in a slice."""
    lines = Lines(LINES)
    assert list(lines) == LINES
    assert lines[-1] == THIRD
    assert lines[1:] == LINES[1:]
    assert (list(lines.block_lines), list(lines.call_lines)) == ([1, 1], [0, 0])
    assert list(lines.ids) == ["a", "b", "ü\ud800"]


NEW = [
    ("fewer blocks", 1, SECOND._replace(size=90, blocks=(block(90, marked=True),))),
    ("more blocks", 1, SECOND._replace(blocks=(block(1), block(2), block(3)))),
    ("no blocks", 1, SECOND._replace(blocks=())),
    ("blocks where there were none", 2, THIRD._replace(blocks=(block(),))),
    ("other calls", 0, FIRST._replace(calls=(CALL._replace(id="c1"),))),
    ("more calls", 0, FIRST._replace(calls=(CALL, CALL, CALL))),
    ("another id", 1, SECOND._replace(id="other", parent="elsewhere")),
    ("other facts", 0, FIRST._replace(facts=Facts(sealed=True))),
]


@pytest.mark.parametrize(("number", "new"), [case[1:] for case in NEW], ids=[case[0] for case in NEW])
def test_a_line_in_the_place_of_another(number: int, new: Line) -> None:
    """The copy has it, the lines it was copied from do not, and no other line changes."""
    before = Lines(LINES)
    after = before.copy()
    after.put(number, new)
    assert list(before) == LINES
    assert list(after) == [new if each == number else line for each, line in enumerate(LINES)]
    of_lines = [index for index, line in enumerate(after.block_lines) if line != NO_LINE]
    assert sorted(of_lines) == sorted(index for each in range(3) for index in after.block_span(each))
    assert all(after.block_lines[index] == each for each in range(3) for index in after.block_span(each))
    assert all(after.call_lines[index] == each for each in range(3) for index in after.call_span(each))


def test_a_copy_of_a_copy_is_apart_too() -> None:
    """Columns are shared until they change."""
    first = Lines(LINES)
    second = first.copy()
    second.put(1, SECOND._replace(blocks=(block(1), block(2), block(3))))
    third = second.copy()
    third.put(1, SECOND._replace(size=1, blocks=()))
    second.append(THIRD)
    assert list(first) == LINES
    assert second[1].blocks == (block(1), block(2), block(3))
    assert third[1].blocks == ()
    assert (len(first), len(second), len(third)) == (3, 4, 3)


def test_lines_that_our_parser_does_not_read_are_counted() -> None:
    """Opaque ones, and those that only their agent reads."""
    foreign = Line(Role.USER, 1, 1, facts=Facts(foreign=True))
    assert Lines([*LINES, foreign, Line(Role.OPAQUE, 1, 1), Line(Role.BLANK, 1, 1)]).not_understood() == 2
