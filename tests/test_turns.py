"""Where turns begin: at the user lines, at the prompts right before them, or at prompts alone."""

from __future__ import annotations

import pytest

from sessioncompress.lines import Lines
from sessioncompress.model import PLAIN, Facts, Line, Role
from sessioncompress.turns import tasks_on, turns_on

LINES = {
    "u": Line(Role.USER, 1, 1),
    "a": Line(Role.ASSISTANT, 1, 1),
    "p": Line(Role.OTHER, 1, 1, facts=Facts(prompt=True)),
    "t": Line(Role.OTHER, 1, 1, facts=Facts(task=True)),
    "o": Line(Role.OTHER, 1, 1, facts=PLAIN),
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
    ("session", "tasks"),
    [
        ("tpuatpua", [0, 4]),
        ("tpuapuatua", [0, 7]),
        ("ttua", [1]),
        ("tuatatua", [0, 5]),
        ("puapua", [0, 3]),
        ("uatuua", [2]),
    ],
)
def test_where_tasks_begin(session: str, tasks: list[int]) -> None:
    """At each t; one without a user line does not count, and what stands before the first is no task."""
    assert tasks_on(Lines(LINES[each] for each in session), range(len(session))) == tasks


def test_only_the_lines_of_the_path_count() -> None:
    """Positions are those on the path."""
    assert turns_on(Lines(LINES[each] for each in "puapua"), [2, 3, 4, 5]) == [1]
