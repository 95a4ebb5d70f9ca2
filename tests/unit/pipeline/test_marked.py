"""Markers that a session's own journal does not know: told by verify and restore, and no reason to fail."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from sessioncompress.core import marker
from sessioncompress.core.splice import within
from sessioncompress.errors import NotASession
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from tests.support import texts
from tests.support.build import PiSession, image
from tests.support.runs import FIXTURES, GREEDY, append, compress, entries, fixture, result_texts, turn, write

UNKNOWN = "7f3a91c2e05b"
QUOTE = f"[[sessioncompress: 398 of 404 lines, 18.6 KB, kept on disk: sessioncompress show {UNKNOWN}]]"


def log(name: str) -> str:
    return texts.log_lines(random.Random(name), 90)


def grown(*names: str) -> PiSession:
    """Return a session with a step for each name."""
    made = PiSession()
    made.user("Go.", [image("A" * 6000)])
    for name in names:
        made.step("bash", {"command": f"cat {name}"}, log(name))
        turn(made, 2)
    return made


def test_what_a_tool_printed_is_not_told(tmp_path: Path) -> None:
    """A marker among other lines, our own markers, and what stood there before the first run: all of it is content."""
    made = grown("a")
    made.step("bash", {"command": "cat README.md"}, f"# The marker\n\n{QUOTE}\n\nIt has one grammar.\n" + log("readme"))
    path = write(tmp_path, turn(made, 2))
    compress(path)
    whole = next(text for text in result_texts(entries(path.read_bytes())) if marker.references(text))
    made.step("bash", {"command": "jq . session.jsonl"}, whole)
    made.step("bash", {"command": "head -3 README.md"}, f"# The marker\n\n{QUOTE}")
    append(path, made)
    assert verify_session(path).unknown_markers == 0
    assert restore_session(path).reason == ""
    assert path.read_bytes() == made.bytes()
    assert restore_session(path).reason == "no line in it is rewritten"


def test_the_whole_text_of_another_session_is_told_and_stops_nothing(tmp_path: Path) -> None:
    """It looks as the session of another side does: only the user knows."""
    made = grown("a")
    path = write(tmp_path, turn(made, 2))
    compress(path)
    made.step("bash", {"command": "jq . other.jsonl"}, f"1\n2\n3\n{QUOTE}\n4\n5\n6")
    append(path, made)
    assert verify_session(path).unknown_markers == 1
    assert restore_session(path).reason.startswith("1 marker stays")
    assert path.read_bytes() == made.bytes()


@pytest.mark.parametrize("name", sorted(each.name for each in FIXTURES.glob("*.jsonl") if "-" in each.name))
def test_every_text_that_we_write_adds_up(tmp_path: Path, name: str) -> None:
    """So that none of another session is passed over; and all of it has the form."""
    path = write(tmp_path, fixture(name))
    with suppress(NotASession):
        compress_session(path, GREEDY)
    written = strings(entries(path.read_bytes()))
    assert all(text.count(marker.PREFIX) == len(marker.whole_in(text)) for text in written)
    for text in filter(marker.references, written):
        if marker.stands_in(text, in_arguments=marker.ARGUMENT_END in text):
            assert marker.adds_up(text), text


def strings(value: object) -> list[str]:
    """Return all texts in a value, those inside of one that holds JSON instead of it."""
    if isinstance(value, str):
        held = within(value)
        return [value] if held is None else strings(held)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in strings(each)]


NUMBERS = [
    ("all of it is left out", "[[sessioncompress: 3 lines, 1.0 KB]]", True),
    ("and something stands around it", "1\n2\n3\n[[sessioncompress: 3 lines, 1.0 KB]]", False),
    ("a picture", "[[sessioncompress: image/png, 3.6 KB]]", True),
    ("six lines of 404 stand", f"1\n2\n3\n{QUOTE}\n4\n5\n6", True),
    ("two of them cut in part", "\n".join([*"1234", QUOTE, *"5678"]), True),
    ("one too many", "\n".join([*"1234", QUOTE, *"56789"]), False),
    ("one too few", f"1\n2\n{QUOTE}\n4\n5\n6", False),
    ("two gaps", f"1\n{QUOTE.replace('398', '200')}\n2\n{QUOTE.replace('398', '200')}\n3\n4\n", True),
]


@pytest.mark.parametrize(("text", "adds_up"), [case[1:] for case in NUMBERS], ids=[case[0] for case in NUMBERS])
def test_the_lines_around_a_marker_are_as_many_as_it_says(text: str, adds_up: bool) -> None:
    """Where it is quoted among other text they are not."""
    assert marker.adds_up(text) is adds_up
