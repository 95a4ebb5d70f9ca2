"""Lines: a field of all of them, where turns begin among them, and which call a result answers."""

from __future__ import annotations

import pytest

from sessioncompress.core.lines import GrowingPath, Lines, callers, turns_on
from sessioncompress.core.model import PLAIN, Block, Call, Facts, Kind, Line, Purpose, Role
from tests.support.runs import line

BLOCK = Block(Kind.RESULT, ("message", "content", 0, "text"), 300, 300, "bash", "c1", b"d" * 16)
CALL = Call("c1|fc", "c1", "bash", Purpose.COMMAND, "a.py", "offset=1")
FIRST = Line(Role.ASSISTANT, 900, 2**64 - 1, "a", "", (), (CALL, CALL._replace(id="c2", name="c2")), "", 7, 9)
SECOND = Line(Role.RESULT, 700, 1, "b", "a", (BLOCK,), (), "c1|fc", 5, 5, Facts(failed=True))
THIRD = Line(Role.OTHER, 2**40, 2, "ü\ud800", "b", response="msg_1", time=2**41)
LINES = [FIRST, SECOND, THIRD]


def test_a_column_is_one_field_of_every_line() -> None:
    lines = Lines(LINES)
    assert list(lines.roles) == [Role.ASSISTANT, Role.RESULT, Role.OTHER]
    assert list(lines.ids) == ["a", "b", "ü\ud800"]
    assert list(lines.parents) == ["", "a", "b"]
    assert [facts.failed for facts in lines.facts] == [False, True, False]
    assert list(lines.responses) == ["", "", "msg_1"]
    assert list(lines.times) == [0, 0, 2**41]


def test_lines_that_our_parser_does_not_read_are_counted() -> None:
    """Opaque ones, and those that only their agent reads."""
    foreign = Line(Role.USER, 1, 1, facts=Facts(foreign=True))
    lines = Lines([*LINES, foreign, Line(Role.OPAQUE, 1, 1), Line(Role.BLANK, 1, 1)])
    assert len(lines.opaque()) == 2
    assert lines.opaque() == [len(LINES), len(LINES) + 1]


# Turns begin at the user lines, at the prompts right before them, or at prompts alone

KINDS = {
    "u": Line(Role.USER, 1, 1),
    "a": Line(Role.ASSISTANT, 1, 1),
    "p": Line(Role.OTHER, 1, 1, facts=Facts(prompt=True)),
    "t": Line(Role.OTHER, 1, 1, facts=Facts(task=True)),
    "o": Line(Role.OTHER, 1, 1, facts=PLAIN),
    "<": Line(Role.OTHER, 1, 1, facts=Facts(back=1)),
}


@pytest.mark.parametrize(
    ("session", "turns"),
    [
        ("", []),
        ("oa", []),
        ("uaua", [0, 2]),
        ("puapua", [0, 3]),
        ("oppuappua", [1, 5]),
        ("popua", [2]),
        ("uapa", [0]),
        ("pa", [0]),
        ("ppapaopp", [0, 3, 6]),
    ],
)
def test_where_turns_begin(session: str, turns: list[int]) -> None:
    assert turns_on(Lines(KINDS[each] for each in session), range(len(session))) == turns


@pytest.mark.parametrize(
    ("session", "left"),
    [
        ("tpuatpua", "tpua"),
        ("tpuapuatua", "tpuapua"),
        ("ttua", "t"),
        ("tuatatua", "tuata"),
        ("puapua", "pua"),
        ("papa", "pa"),
        ("uatuua", "ua"),
        ("oua", "o"),
        ("oa", ""),
        ("tuatua<tua", "tua<"),
        ("tuatua<<", ""),
        ("tu<pua", "<"),
        ("puapua<pupa", "pua<"),
    ],
)
def test_what_is_taken_back(session: str, left: str) -> None:
    """The last task in which a user line came, without tasks the last turn, without both all; `<` does so before."""
    lines = Lines(KINDS[each] for each in session)
    growing = GrowingPath(lines)
    for number, each in enumerate(session):
        if each == "<":
            growing.take_back(1)
        growing.add(number)
    growing.take_back(1)
    assert "".join(session[number] for number in growing.path) == left


def test_only_the_lines_of_the_path_count() -> None:
    assert turns_on(Lines(KINDS[each] for each in "puapua"), [2, 3, 4, 5]) == [1]


# A result belongs to the nearest call of its id before it


def paired(story: str) -> list[Line]:
    """Return lines from words: C1+2 an answer with the calls 1 and 2, R1 a result of 1, ?1 one that we cannot read."""
    return [_line(word) for word in story.split()]


def _line(word: str) -> Line:
    if word[0] == "C":
        return line(
            Role.ASSISTANT, calls=tuple(Call(name, name, "bash", Purpose.OTHER) for name in word[1:].split("+"))
        )
    return line(Role.OPAQUE if word[0] == "?" else Role.RESULT, answers=word[1:])


PAIRS: list[tuple[str, str, list[int]]] = [
    ("nothing", "", []),
    ("a pair", "C1 R1", [-1, 0]),
    ("no such call", "C1 R2 R", [-1, -1, -1]),
    ("a call that stands behind", "R1 C1", [-1, -1]),
    ("several of one message", "C1+2 R2 R1", [-1, 0, 0]),
    ("several results of one call", "C1 R1 C2 R1", [-1, 0, -1, 0]),
    ("an id that comes again", "C1 R1 C1 R1 C1+2 R2 R1", [-1, 0, -1, 2, -1, 4, 4]),
    ("a result that we cannot read", "C1 C1 ?1", [-1, -1, 1]),
]


@pytest.mark.parametrize(("story", "expected"), [case[1:] for case in PAIRS], ids=[case[0] for case in PAIRS])
def test_callers(story: str, expected: list[int]) -> None:
    """Each result's call, by the number of its line."""
    assert list(callers(Lines(paired(story)))) == expected
