"""Redundancy: what the live path says again is named only; what only seems to be said again is not."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from sessioncompress.compressors import redundancy
from sessioncompress.core import marker
from tests.support import texts
from tests.support.build import PiSession, Use, text
from tests.support.chats import GenCodeSession
from tests.support.runs import after, old, result_texts, view_of

A, B, C = (texts.python_source(random.Random(number), 30) for number in range(3))
Scene = Callable[[], bytes]
Step = tuple[str, dict[str, object], str]


def session(build: Callable[[PiSession], object]) -> bytes:
    made = PiSession()
    made.user("Go.")
    build(made)
    return old(made)


def reads(*steps: Step) -> Scene:
    return lambda: session(lambda made: [made.step(*step) for step in steps])


def other_branch() -> bytes:
    """Return a session whose later read is on a branch that was left."""
    made = PiSession()
    made.user("Go.")
    made.step("read", {"path": "a"}, A)
    here = made.leaf
    made.step("read", {"path": "a"}, A)
    made.branch(here)
    return old(made)


def failed_read() -> bytes:
    """Return a session in which the later read of a file failed."""

    def build(made: PiSession) -> None:
        made.step("read", {"path": "a"}, A)
        made.step("read", {"path": "a"}, "no such file", error=True)

    return session(build)


def failed_write() -> bytes:
    """Return a session in which the later write of a file failed."""

    def build(made: PiSession) -> None:
        made.step("read", {"path": "a"}, A)
        made.step("write", {"path": "a", "content": B}, "disk full", error=True)

    return session(build)


def unanswered_write() -> bytes:
    """Return a session in which the later write of a file was never answered."""

    def build(made: PiSession) -> None:
        made.step("read", {"path": "a"}, A)
        made.assistant(made.call("write", {"path": "a", "content": "x"}))

    return session(build)


def one_part_repeated() -> bytes:
    """Return a session in which the next text repeats one of two parts of a result."""

    def build(made: PiSession) -> None:
        made.step("bash", {"command": "x"}, [text(A), text(B)])
        made.assistant("It says: " + B)

    return session(build)


def quoted_elsewhere() -> bytes:
    """Return a session in which a text that was left behind repeats the result."""
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "x"}, A)
    here = made.leaf
    made.assistant("It says: " + A)
    made.branch(here)
    made.assistant("Done.")
    return old(made)


def same_ids(*steps: tuple[str, str, str]) -> Scene:
    """Return a scene of steps of tool, path and result, whose calls all have one id."""

    def build(made: PiSession) -> None:
        for tool, path, result in steps:
            made.parallel([Use(tool, {"path": path}, result, call_id="call_0")])

    return lambda: session(build)


NOT_AGAIN: list[tuple[str, Scene, int]] = [
    ("different results", reads(("bash", {"command": "x"}, A), ("bash", {"command": "x"}, B)), 0),
    ("the later of two equal", reads(("bash", {"command": "x"}, A), ("bash", {"command": "x"}, A)), 1),
    ("reads of other files", reads(("read", {"path": "a"}, A), ("read", {"path": "b"}, B)), 0),
    ("reads of other parts", reads(("read", {"path": "a"}, A), ("read", {"path": "a", "offset": 9}, B)), 0),
    ("a read after the write", reads(("write", {"path": "a", "content": "x"}, "ok"), ("read", {"path": "a"}, A)), 1),
    ("an edit behind it", reads(("read", {"path": "a"}, A), ("edit", {"path": "a", "edits": []}, "ok")), 0),
    ("a command behind it", reads(("read", {"path": "a"}, A), ("bash", {"path": "a"}, B)), 0),
    ("a tool we do not know", reads(("fetch", {"path": "a"}, A), ("fetch", {"path": "a"}, B)), 0),
    ("a read without a path", reads(("read", {}, A), ("read", {}, B)), 0),
    ("a read whose path is no text", reads(("read", {"path": 7}, A), ("read", {"path": 7}, B)), 0),
    ("the later read is on another branch", other_branch, 0),
    ("the later read failed", failed_read, 0),
    ("the later write failed", failed_write, 0),
    ("the later write was not answered", unanswered_write, 0),
    ("only another part of it is repeated", one_part_repeated, 0),
    ("repeated on another branch", quoted_elsewhere, 0),
    ("reads of other files under one id", same_ids(("read", "a", A), ("read", "b", B)), 0),
]


@pytest.mark.parametrize(("scene", "which"), [case[1:] for case in NOT_AGAIN], ids=[case[0] for case in NOT_AGAIN])
def test_what_is_not_said_again_is_previewed(scene: Scene, which: int) -> None:
    new = result_texts(after(scene()))[which]
    assert not marker.is_one(new)
    assert len(new) > 200


AGAIN: list[tuple[str, Scene, str]] = [
    (
        "the same result again",
        reads(("bash", {"command": "x"}, A), ("bash", {"command": "y"}, A)),
        "same text as a later bash result",
    ),
    (
        "from another tool",
        reads(("bash", {"command": "x"}, A), ("read", {"path": "a.py"}, A)),
        "same text as a later read result of a.py",
    ),
    (
        "another read",
        reads(("read", {"path": "a"}, A), ("read", {"path": "a"}, B)),
        "older content of a, read again later",
    ),
    (
        "another read of the same part",
        reads(("read", {"path": "a", "offset": 1, "limit": 9}, A), ("read", {"path": "a", "limit": 9, "offset": 1}, B)),
        "older content of a, read again later",
    ),
    (
        "a write",
        reads(("read", {"path": "a"}, A), ("write", {"path": "a", "content": "x"}, "ok")),
        "older content of a, written later",
    ),
    (
        "a path in another key",
        reads(("read", {"file_path": "a"}, A), ("read", {"path": "a"}, B)),
        "older content of a, read again later",
    ),
    (
        "another read under one id",
        same_ids(("read", "a", A), ("read", "a", B), ("bash", "c", C)),
        "older content of a, read again later",
    ),
    (
        "the same result of a file under one id",
        same_ids(("read", "a", A), ("read", "b", A), ("read", "c", B)),
        "same text as a later read result of b",
    ),
    (
        "the text that follows",
        lambda: session(lambda made: (made.step("bash", {"command": "x"}, A), made.assistant("It says:\n" + A))),
        "repeated in the text that follows",
    ),
]


@pytest.mark.parametrize(("scene", "note"), [case[1:] for case in AGAIN], ids=[case[0] for case in AGAIN])
def test_what_is_said_again_is_named_only(scene: Scene, note: str) -> None:
    """The marker says what repeats it, and names the original all the same."""
    new = result_texts(after(scene()))[0]
    assert marker.is_one(new)
    assert f", {note}, kept on disk: sessioncompress show " in new
    assert marker.references(new)


BASH: Step = ("bash", {"command": "x"}, A)
READ: Step = ("read", {"path": "a"}, A)


def test_without_another_copy_a_result_keeps_its_preview() -> None:
    """It is the newest that a reader finds."""
    first, second, *_ = result_texts(after(reads(BASH, READ, ("write", {"path": "a", "content": "x"}, "ok"))()))
    assert not marker.is_one(first)
    assert ", older content of a, written later, " in second


def test_many_results_in_one_message_are_named_in_one_pass() -> None:
    """Each copy is looked for by where it is, not among all that stand beside it."""
    made = GenCodeSession().message("user", "Go.")
    for _ in range(2):
        outputs = [f"{number} {A}"[:1500] for number in range(3000)]
        made.message("user", [{"type": "tool_result", "toolUseId": "c", "content": each} for each in outputs])
    view = view_of(made.message("user", "And?").message("user", "So?").bytes(None))
    begun = time.process_time()
    assert len(list(redundancy.propose(view))) == 3000
    assert time.process_time() - begun < 3
