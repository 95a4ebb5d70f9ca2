"""What names are looked for in: what stays is known, results give their names the newest first, dead ones give none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from sessioncompress.compressors.names import PreviewNames
from sessioncompress.core import marker
from sessioncompress.core.marker import INDEX
from sessioncompress.pipeline import rewrite
from tests.support.build import ClaudeSession, PiSession, Use, text
from tests.support.claude import answer, use
from tests.support.rollout import Rollout
from tests.support.runs import compress, compress_again, entries, old, result_texts, write


def output(word: str, lines: int = 60) -> str:
    return "".join(f"value = call({word}_{number});\n" for number in range(100, 100 + lines))


FILLER = "x = [()];\n" * 120
"""What has no name, and is no prose."""


class Spy(PreviewNames):
    kept = b""
    added: tuple[str, ...] = ()

    def keep(self, data: bytes) -> None:
        Spy.kept += data
        super().keep(data)

    def add(self, text: str) -> None:
        Spy.added += (text,)
        super().add(text)


@contextmanager
def spying() -> Iterator[type[Spy]]:
    """Note what the names of a run are looked for in."""
    Spy.kept, Spy.added = b"", ()
    with mock.patch.object(rewrite, "PreviewNames", Spy):
        yield Spy


def session() -> PiSession:
    """Return a session with something of each kind of line."""
    made = PiSession(header={"title": "in_header"})
    made.user("Do it by_user.")
    made.step("bash", {"command": "in_argument"}, output("oldest"), text="said by_answer")
    made.step("bash", {"command": "short"}, "in_short_result")
    made.step("write", {"path": "a", "content": output("in_long_argument")}, "ok")
    made.step("bash", {"command": "b"}, output("newest"))
    made.user("And now by_later_user?")
    made.step("bash", {"command": "c"}, "in_protected " + output("protected"))
    return made


KNOWN: list[tuple[str, bool]] = [
    ("by_user", True),
    ("by_answer", True),
    ("in_argument", True),
    ("in_short_result", True),
    ("by_later_user", True),
    ("in_protected", True),
    ("in_header", False),
    ("in_long_argument_150", False),
    ("oldest_", False),
    ("newest_", False),
]


@pytest.mark.parametrize(("name", "known"), KNOWN, ids=[name for name, _ in KNOWN])
def test_what_stays_is_known(tmp_path: Path, name: str, known: bool) -> None:
    """What a model reads of lines that do not change; what changes may lose it."""
    with spying() as spy:
        compress(write(tmp_path, session()))
    assert (name.encode() in spy.kept) is known


def test_what_a_screen_copy_goes_beside_is_known(tmp_path: Path) -> None:
    """A model reads all of a line that only loses the copy of a result for the screen."""
    made = ClaudeSession()
    made.user("Go.")
    made.step("Bash", {"command": "a"}, output("oldest"))
    made.user("And now?")
    recent = "in_protected " + output("protected")
    made.step("Read", {"file_path": "/tmp/a.py"}, recent, {"type": "text", "file": {"content": recent}})
    path = write(tmp_path, made.bytes())
    with spying() as spy:
        compress(path)
    assert entries(path.read_bytes())[-1] != entries(made.bytes())[-1]
    assert b"in_protected" in spy.kept


def test_what_an_agent_writes_above_a_result_has_no_names(tmp_path: Path) -> None:
    """Codex's numbers for an output, such as its length in tokens."""
    made = Rollout()
    made.user("Go.")
    made.run("make", output("tide", 300))
    made.end("Done.")
    made.user("And now?")
    made.end("Done.")
    with spying() as spy:
        compress(write(tmp_path, made.bytes()))
    assert spy.added == (output("tide", 300),)


def test_what_failed_stays_before_names(tmp_path: Path) -> None:
    """Where a preview has no place for both."""
    made = PiSession()
    made.user("Go.")
    each = "=== RUN TestTide{0}\n    tide_{0}.go:12: got level_{0} where other_level_{0} stood\n--- FAIL: TestTide{0} (0.00s)\n"
    letters = [f"{first}{second}" for first in "abcde" for second in "vwxyz"]
    made.step("bash", {"command": "go test"}, "".join(map(each.format, letters)) + "FAIL\n", error=True)
    for number in range(8):
        made.step("bash", {"command": f"{number}"}, f"{FILLER * 20}({number});\n")
    path = write(tmp_path, old(made))
    compress(path)
    assert "\n--- FAIL: Test" in result_texts(entries(path.read_bytes()))[0]


def test_results_come_the_newest_first(tmp_path: Path) -> None:
    """Whole, and each once; parts of one result in their order."""
    made = PiSession()
    made.user("Go.")
    words = ("first", "second", "third")
    for word in words:
        made.step("bash", {"command": word}, output(word))
    with spying() as spy:
        compress(write(tmp_path, old(made)))
    assert list(spy.added) == [output(word) for word in reversed(words)]


def forked() -> bytes:
    """Return a session whose first result stands before a checkpoint."""
    made = PiSession()
    made.user("Go by_dead_user.")
    made.step("bash", {"command": "a"}, output("dead"))
    keep = made.user("Go on.")
    made.compaction("All is well.", keep)
    made.step("bash", {"command": "b"}, output("alive"))
    return old(made)


def test_dead_history_is_left_out(tmp_path: Path) -> None:
    """It gives no names and holds none: no model reads it."""
    with spying() as spy:
        compress(path := write(tmp_path, forked()))
    assert spy.added == (output("alive"),)
    assert b"by_dead_user" not in spy.kept
    assert result_texts(entries(path.read_bytes()))[0].startswith(marker.PREFIX)


WORDS = ("one", "two", "six")


def named(word: str) -> str:
    return output(word, 4) + FILLER


def parallel() -> bytes:
    """Return a session with several calls in one message."""
    made = PiSession()
    made.user("Go.")
    made.parallel([Use("bash", {"command": word}, named(word)) for word in WORDS])
    return old(made)


def texts_of_one() -> bytes:
    """Return a session with several texts in one result."""
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "a"}, [text(named(word)) for word in WORDS])
    return old(made)


def in_one_line() -> bytes:
    """Return a session with several results in one line."""
    made = ClaudeSession()
    made.user("Go.")
    made.respond(*(use(word, "Bash", {"command": word}) for word in WORDS))
    made.user([answer(word, named(word)) for word in WORDS])
    return made.turn().bytes()


PARTS: list[tuple[str, Callable[[], bytes]]] = [
    ("parallel calls", parallel),
    ("several texts in one result", texts_of_one),
    ("several results in one line", in_one_line),
]


@pytest.mark.parametrize("build", [case[1] for case in PARTS], ids=[case[0] for case in PARTS])
def test_each_text_has_its_own_index(tmp_path: Path, build: Callable[[], bytes]) -> None:
    path = write(tmp_path, build())
    compress(path)
    indexes = [each.partition('"')[0] for each in path.read_text().split(f"\\n{INDEX}")[1:]]
    assert [[word in index for word in WORDS] for index in indexes] == [
        [word == other for word in WORDS] for other in WORDS
    ]
    compress_again(path)
