"""Pairs: a result belongs to the nearest call of its id before it."""

from __future__ import annotations

import pytest

from sessioncompress.core.lines import Lines, callers
from sessioncompress.core.model import Call, Line, Purpose, Role
from tests.support.runs import line


def lines(story: str) -> list[Line]:
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
    assert list(callers(Lines(lines(story)))) == expected
