"""The survey: one reading that knows every line, and leaves alone what it does not understand."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from sessioncompress.core.jsonl import parse, pieces
from sessioncompress.core.lines import Survey
from sessioncompress.core.model import Kind, Line, Role
from sessioncompress.formats import values
from sessioncompress.formats.pi import Pi
from sessioncompress.pipeline.reading import survey
from tests.support.build import PiSession, ResponsesSession
from tests.support.runs import survey_of

LONG = "a line of output\n" * 100

OPAQUE: list[tuple[str, bytes]] = [
    ("no JSON", b"{oops\n"),
    ("a torn line", b'{"type":"message","id":"0bad\n'),
    ("trailing words", b"{} words\n"),
    ("a list", b"[1,2]\n"),
    ("a text", b'"text"\n'),
    ("a number", b"1\n"),
    ("null", b"null\n"),
    ("NaN", b'{"a":NaN}\n'),
    ("a number beyond floats", b'{"a":1e400}\n'),
    ("no UTF-8", b'{"a":"\xff"}\n'),
    ("a lone surrogate", b'{"a":"\\ud83d"}\n'),
    ("a control character", b'{"a":"\x01"}\n'),
    ("too deep", b'{"a":' + b"[" * 1100 + b"]" * 1100 + b"}\n"),
    ("a byte order mark", b"\xef\xbb\xbf{}\n"),
    ("NUL, as a crash leaves it", b"\0\0\0\0\n"),
]


def understood(line: Line) -> bool:
    return line.role is not Role.OPAQUE and not line.facts.foreign


def unplaced(line: Line) -> bool:
    """Not even the place of the entry is known."""
    return line.role is Role.OPAQUE and line.facts.sealed


BLANK = [("LF", b"\n"), ("CRLF", b"\r\n"), ("spaces", b"  \t \n"), ("spaces at the end", b"  ")]


def read(data: bytes, cap: int = 1 << 20) -> Survey:
    return survey(pieces(io.BytesIO(data), len(data), cap), Pi())


@pytest.mark.parametrize("raw", [case[1] for case in OPAQUE], ids=[case[0] for case in OPAQUE])
def test_a_line_that_is_not_understood_is_only_copied(raw: bytes) -> None:
    """It is counted, and nothing of it is ever replaced."""
    found = read(raw)
    assert [understood(line) for line in found.lines] == [False]
    assert found.lines[0].size == len(raw)
    assert found.lines[0].blocks == ()
    assert found.lines[0].facts.ties == ()
    assert parse(raw) is None


@pytest.mark.parametrize("raw", [case[1] for case in BLANK], ids=[case[0] for case in BLANK])
def test_a_blank_line_is_blank(raw: bytes) -> None:
    assert [line.role for line in read(raw).lines] == [Role.BLANK]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_million_blank_lines_take_the_memory_of_one(end: bytes) -> None:
    """An agent that died while it wrote may leave any number."""
    found = read(end * 1000).lines
    assert len(found) == 1000
    assert len({id(line) for line in found}) == 1


def test_an_empty_file_has_no_line() -> None:
    found = read(b"")
    assert (len(found.lines), list(found.shape.live), found.size) == (0, [], 0)


def test_a_line_over_the_cap_is_not_understood() -> None:
    """It is read in pieces, hashed whole, and the lines behind it keep their numbers."""
    made = PiSession()
    made.user("Go.")
    made.step("read", {"path": "a"}, LONG * 3)
    made.assistant("Done.")
    whole = read(made.bytes())
    cut = read(made.bytes(), cap=2000)
    assert [understood(line) for line in cut.lines] == [True, True, True, False, True]
    assert [(line.size, line.digest) for line in cut.lines] == [(line.size, line.digest) for line in whole.lines]
    assert cut.size == whole.size


def behind() -> PiSession:
    """Return a session with an extension's entry, whose id stands behind its data."""
    made = PiSession()
    made.user("Go.")
    made.entry("custom", customType="state", data={"id": made.ids[0], "parentId": "no", "state": LONG})
    made.assistant("Done.")
    return made


def pair() -> PiSession:
    """Return a session with a long call and a long result."""
    made = ResponsesSession()
    made.user("Go.")
    made.step("write", {"path": "a", "content": LONG}, LONG, thinking=LONG, details={"diff": LONG})
    made.assistant("Done.")
    return made


@pytest.mark.parametrize("scene", [behind, pair])
def test_of_a_line_over_the_cap_its_ties_are_known(
    monkeypatch: pytest.MonkeyPatch, scene: Callable[[], PiSession]
) -> None:
    """Its place and its pair, wherever in the line they stand and whichever pieces it comes in; it is never changed."""
    monkeypatch.setattr(values, "_LONGEST_STRING", 120)
    data = scene().bytes()
    whole = read(data)
    for cap in (*range(300, 900, 7), 1300):
        cut = read(data, cap)
        assert [ties(line) for line in cut.lines] == [ties(line) for line in whole.lines]
        assert cut.shape.live == whole.shape.live
        long = [line for line in cut.lines if not understood(line)]
        assert long
        assert all(line.facts.sealed and not line.facts.ties and not line.blocks for line in long)


def ties(line: Line) -> tuple[object, ...]:
    """Return what hangs a line together with others."""
    calls = [(call.id, call.tool, call.file) for call in line.calls]
    return (
        line.role,
        line.id,
        line.parent,
        calls,
        line.answers,
        line.facts.thinks,
        line.facts.failed,
        line.size,
        line.digest,
    )


def test_of_a_line_over_the_cap_with_too_much_structure_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an entry all the same, whatever its place."""
    monkeypatch.setattr(values, "_LONGEST_SKELETON", 0)
    found = read(behind().bytes(), cap=600)
    assert [unplaced(line) for line in found.lines] == [False, False, True, False]


def test_a_line_over_the_cap_that_is_no_json_is_no_entry() -> None:
    """Its agent does not read it either."""
    made = PiSession()
    made.user("Go.")
    made.raw(b'{"id":"a' + b"x" * 900 + b"\n")
    found = read(made.bytes(), cap=600)
    assert found.lines[2].role is Role.OPAQUE
    assert not unplaced(found.lines[2])


def test_a_last_line_without_lf_is_known_but_never_changed() -> None:
    """It may still be being written: its place in the tree counts, its blocks do not."""
    made = ResponsesSession()
    made.user("Go.")
    made.step("read", {"path": "a"}, LONG, details={"more": LONG}, thinking="Let me see.")
    torn = survey_of(made.bytes().rstrip(b"\n"))
    assert torn.lines[3].role is Role.RESULT
    assert torn.lines[3].blocks == ()
    assert torn.lines[3].facts.ties == ()
    assert torn.lines[3].facts.sealed
    assert torn.lines[3].answers == torn.lines[2].calls[0].id
    assert torn.lines[:3] == survey_of(made).lines[:3]
    assert torn.shape == survey_of(made).shape
    assert {block.kind for block in survey_of(made).lines[3].blocks} == {Kind.RESULT, Kind.MIRROR}
