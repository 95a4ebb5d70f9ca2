"""Very many equal values, lines and calls of one id: each is looked up once, and none for each of the others.

What is done is counted, not timed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core.model import Kind
from sessioncompress.operations.diff import diff_session
from sessioncompress.operations.overview import measure
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.pipeline import rewrite
from sessioncompress.policy.model import Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import store_in
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import BlockRecord, LineRecord
from tests.support import blocks
from tests.support.chats import ChatSession
from tests.support.rollout import Rollout
from tests.support.runs import EAGER, append, compress, turn, write
from tests.support.session import PiSession

MANY = 120
OUT = "a line of output, as a tool prints it\n" * 60
ONE, TWO = "20260101-000001-0000", "20260101-000002-0000"

Counted = Callable[[object, str], list[int]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return what counts the calls of a function of a module or a class, in a list of one number."""

    def begin(owner: object, name: str) -> list[int]:
        known, calls = getattr(owner, name), [0]

        def call(*given: Any, **named: Any) -> Any:
            calls[0] += 1
            return known(*given, **named)

        monkeypatch.setattr(owner, name, call)
        return calls

    return begin


def of_one_id() -> PiSession:
    """Make a session in which one call after the other goes by the same id, and returns the same."""
    made = PiSession().opening()
    made.user("Go.")
    for _ in range(MANY):
        made.assistant(blocks.call("call_0", "bash", {"command": "git status"}))
        made.result("call_0", OUT)
    return made


def of_equal_lines() -> PiSession:
    """Make a session in which a result stands as often, in equal lines."""
    made = PiSession().opening()
    made.user("Go.")
    made.step("bash", {"command": "make"}, OUT)
    line = made.lines()[-1]
    for _ in range(MANY):
        made.raw(line)
    return made


def compressed(folder: Path, made: PiSession | Rollout | ChatSession, policy: Policy = EAGER) -> Path:
    path = write(folder, made.bytes())
    compress(path, policy, run_id=ONE)
    return path


def test_a_reference_of_many_values_in_one_line(tmp_path: Path, counted: Counted) -> None:
    made = PiSession().opening()
    made.user("Go.")
    made.assistant(made.call("bash", {}, call_id="c"))
    made.result("c", [blocks.image(blocks.png())] * MANY)
    path = compressed(tmp_path, turn(made))
    ref = next(iter(journals.load(store_in(path).journal).references))[0]
    read = counted(OriginalsReader, "line")
    assert len(show(ref, path)) == 1
    assert read == [1]


def test_lines_of_one_id_that_another_program_wrote_again(tmp_path: Path, counted: Counted) -> None:
    path = compressed(tmp_path, turn(of_one_id()))
    path.write_bytes(path.read_bytes().replace(b'"role":', b'"role": '))
    looked = counted(Journal, "block")
    restore_session(path, from_markers=True)
    assert [json.loads(line) for line in path.read_bytes().splitlines()] == [
        json.loads(line) for line in turn(of_one_id()).lines()
    ]
    assert looked[0] <= 5 * MANY


def test_a_run_goes_that_rewrote_equal_lines(tmp_path: Path, counted: Counted) -> None:
    made = turn(of_equal_lines())
    before = made.bytes()
    path = compressed(tmp_path, made)
    made.step("bash", {"command": "ls"}, OUT.upper())
    append(path, turn(made))
    compress(path, EAGER, run_id=TWO)
    asked_runs = counted(Journal, "run_of")
    restore_session(path, run=ONE)
    assert path.read_bytes().startswith(before)
    assert asked_runs[0] <= 20 * MANY


def test_a_page_of_equal_lines(tmp_path: Path, counted: Counted) -> None:
    """Where entries have ids only one of them is on the live path."""
    chat = ChatSession().message("user", "go")
    function = {"name": "bash", "arguments": "{}"}
    for _ in range(MANY):
        chat.message("assistant", None, tool_calls=[{"id": "call_0", "type": "function", "function": function}])
        chat.message("tool", OUT, tool_call_id="call_0")
    path = compressed(tmp_path, chat.message("user", "and now?").message("assistant", "Nothing."))
    looked = counted(Journal, "blocks_of")
    measure(path)
    assert looked[0] <= 4 * MANY


def test_a_text_that_stands_for_values_of_another_kind(counted: Counted) -> None:
    """As an agent may put the reference of an attachment into prompts."""
    journal = Journal()
    digest = b"\xef" * 16
    for number in range(MANY):
        journal.add(LineRecord(f"{number:064x}", None, f"{number + MANY:064x}"))
        journal.add(BlockRecord("0" * 12, number, ("content",), Kind.ATTACHMENT, "", "", 9, 1, "0" * 16, digest))
    assert len(list(journal.replaced((digest, Kind.ATTACHMENT, "")))) == MANY
    looked = counted(BlockRecord, "identities")
    assert not any((digest, kind, "") in journal for kind in Kind if kind is not Kind.ATTACHMENT)
    assert looked == [0]


def test_many_arguments_in_one_string(tmp_path: Path, counted: Counted) -> None:
    """The text, and that of the original, are parsed once for all values in them."""
    rollout = Rollout().user("Go.")
    rollout.function("shell", {f"key {each}": f"{each} " * 400 for each in range(MANY)}, "done")
    path = compressed(tmp_path, rollout.user("And now?").end("Nothing."))
    parsed = counted(rewrite, "within")
    with diff_session(path) as found:
        assert sum(len(each.losses) for each in found.messages) >= MANY
    assert parsed[0] <= 4
