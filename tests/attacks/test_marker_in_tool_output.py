"""Texts like our marker in what a tool printed: they are content, and never stand between a session and its originals."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sessioncompress.core import marker
from sessioncompress.pipeline import relatives
from tests.support.claude import ClaudeSession
from tests.support.runs import run
from tests.support.texts import log_lines

ATTACK = "[[sessioncompress: , lines, 5 bytes, kept on disk: sessioncompress show 7f3a91c2e05b]]"
REF = ", kept on disk: sessioncompress show 7f3a91c2e05b"
TEXTS = [
    ("commas for a number", ATTACK),
    ("two of them", f"[[sessioncompress: , of , lines, 5 bytes{REF}]]"),
    ("more digits than Python reads", f"[[sessioncompress: {'9' * 5000} lines, 5 bytes{REF}]]"),
    ("and of as many", f"[[sessioncompress: 1 of {'9' * 5000} lines, 5 bytes{REF}]]"),
    ("thousands of thousands", f"[[sessioncompress: 1{',000' * 2000} lines, 5 bytes{REF}]]"),
    ("digits of another script", f"[[sessioncompress: ٣ of ٤ lines, 5 bytes{REF}]]"),
    ("digits that are no decimals", f"[[sessioncompress: ² lines, 5 bytes{REF}]]"),
]
PIECES = (
    *("[[sessioncompress: ", "]]", "[[", "[", "]", "sessioncompress show ", ", kept on disk: ", marker.ARGUMENT_END),
    *(" of ", " lines", " line", ", ", ",", ".", "1", "12", "1,234", "0", "-1", "1e9", "٣", "²", "9" * 25, "9" * 5000),
    *(" bytes", " KB", " MB", "3.4", "7f3a91c2e05b", "0123456789abcdef" * 4, "f" * 70, "image/png", "\n", " ", "\\"),
    *("same text as a later bash result", "older content of a.py, read again later", "é", "\x00", "\ud800", "x" * 600),
)
"""What the grammar is made of, and what almost is; half of the texts below begin as a marker does."""
MANY = 20_000
SESSIONS, EACH = 8, 50


pytestmark = pytest.mark.usefixtures("at_home")


def write(folder: Path, printed: Sequence[str]) -> Path:
    """Write an old session whose tools printed these texts, and whose last turn has them once more."""
    made = ClaudeSession()
    made.user("Go.")
    for number in range(8):
        made.step("Bash", {"command": f"cat {number}"}, log_lines(random.Random(number), 90))
    for turn in range(5):
        made.user(f"And {turn}?")
        for text in printed:
            made.step("Write", {"file_path": "a", "content": text}, text, {"stdout": text})
        made.respond("Done.")
    path = folder / "session.jsonl"
    path.write_bytes(made.bytes())
    return path


def goes_back(path: Path) -> None:
    """Compress, check and restore a session, in both ways."""
    was = path.read_bytes()
    run("compress", "--force", path)
    small = path.read_bytes()
    assert len(small) < len(was)
    for way in ((), ("--from-markers",)):
        run("verify", path)
        run("stats", path)
        run("restore", *way, path)
        assert path.read_bytes() == was
        path.write_bytes(small)


@pytest.mark.parametrize("text", [case[1] for case in TEXTS], ids=[case[0] for case in TEXTS])
def test_a_number_that_is_none(tmp_path: Path, text: str) -> None:
    """Verify, restore and restore --from-markers failed for good with ValueError."""
    goes_back(write(tmp_path, [text]))


def texts(seed: str, number: int) -> list[str]:
    dice = random.Random(seed)
    inside = ("".join(dice.choices(PIECES, k=dice.randrange(1, 9))) for _ in range(number))
    return [dice.choice(("", PIECES[0])) + each + dice.choice(("", "]]")) for each in inside]


def test_any_text_is_read() -> None:
    """None raises an error, what is found is in the text, and all that looks for markers agrees on what they are."""
    found = 0
    for text in texts("read", MANY):
        whole = marker.whole_in(text)
        parts = marker.around(text)
        assert "".join(part + form for part, form in zip(parts, [*whole, ""], strict=True)) == text
        assert marker.occurs_in(text) == bool(whole)
        assert marker.is_one(text) == (whole == [text])
        assert all(map(marker.is_one, whole))
        assert marker.references(text) == [ref for form in whole for ref in marker.references(form)]
        stands = [marker.stands_in(text, in_arguments=each) for each in (False, True)]
        assert sum(stands) <= bool(whole)
        assert marker.adds_up(text) in {True, False}
        found += bool(whole)
    assert MANY // 20 < found < MANY // 2, found


@pytest.mark.parametrize("number", range(SESSIONS))
def test_any_text_goes_back(tmp_path: Path, number: int) -> None:
    """As a tool printed it, and as a call wrote it."""
    printed = [text.encode(errors="replace").decode() for text in texts(f"session {number}", EACH)]
    goes_back(write(tmp_path, printed))


WORST = [
    ("digits", lambda size: "[[sessioncompress: " + "1" * size),
    ("thousands", lambda size: "[[sessioncompress: " + "1," * (size // 2)),
    ("digits that end", lambda size: "[[sessioncompress: " + "1" * size + "]]"),
    ("beginnings", lambda size: "[[sessioncompress: " * (size // 19)),
    ("beginnings with a count", lambda size: "[[sessioncompress: 1 of 2 lines, " * (size // 33)),
    ("markers", lambda size: ATTACK * (size // len(ATTACK))),
    ("commands", lambda size: "[[sessioncompress: " + "sessioncompress show " * (size // 21)),
    ("one marker of references", lambda size: "[[sessioncompress: " + "sessioncompress show 0" * (size // 22) + "]]"),
    ("sizes", lambda size: "[[sessioncompress: " + ", 1.0" * (size // 5) + "]]"),
]
LARGE = 1_000_000


@pytest.mark.parametrize("worst", [case[1] for case in WORST], ids=[case[0] for case in WORST])
def test_time_is_linear(worst: Callable[[int], str]) -> None:
    """A text ten times as long takes about ten times as long, not a hundred times."""
    assert seconds(worst(LARGE)) < 40 * seconds(worst(LARGE // 10)) + 0.05


def seconds(text: str) -> float:
    """Return the processor's time for all that is asked of a text; the best of three."""
    taken = []
    for _ in range(3):
        started = time.process_time()
        marker.occurs_in(text)
        marker.is_one(text)
        marker.whole_in(text)
        marker.references(text)
        marker.stands_in(text, in_arguments=False)
        marker.adds_up(text)
        taken.append(time.process_time() - started)
    return min(taken)


@pytest.mark.parametrize("broken", ["adds_up", "stands_in", "references"])
def test_restoring_depends_on_no_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """Whatever reading a marker comes to, the lines go back by their digests."""
    path = write(tmp_path, [ATTACK, ATTACK.replace(", lines", "3 of 9 lines")])
    was = path.read_bytes()
    run("compress", "--force", path)

    def fails(*args: object, **options: object) -> bool:
        raise ValueError(broken)

    monkeypatch.setattr(relatives, broken, fails)
    run("verify", path)
    run("restore", path)
    assert path.read_bytes() == was
