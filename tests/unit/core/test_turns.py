"""Where turns begin: at the user lines, at the prompts right before them, or at prompts alone."""

from __future__ import annotations

import pytest

from sessioncompress.core.lines import GrowingPath, Lines, turns_on
from sessioncompress.core.model import PLAIN, Facts, Line, Role

LINES = {
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
    """U is a user line, p a prompt."""
    assert turns_on(Lines(LINES[each] for each in session), range(len(session))) == turns


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
    lines = Lines(LINES[each] for each in session)
    growing = GrowingPath(lines)
    for number, each in enumerate(session):
        if each == "<":
            growing.take_back(1)
        growing.add(number)
    growing.take_back(1)
    assert "".join(session[number] for number in growing.path) == left


def test_only_the_lines_of_the_path_count() -> None:
    """Positions are those on the path."""
    assert turns_on(Lines(LINES[each] for each in "puapua"), [2, 3, 4, 5]) == [1]
