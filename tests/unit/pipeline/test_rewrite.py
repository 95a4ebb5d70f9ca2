"""One line and its changes: what does not become smaller is not written, what cannot be made is said."""

from __future__ import annotations

import io
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from sessioncompress.compressors import View
from sessioncompress.core.jsonl import pieces
from sessioncompress.core.model import Block, Change, JsonPath, Kind, Treatment
from sessioncompress.core.splice import REMOVED, CannotSplice
from sessioncompress.pipeline.reading import RewrittenLines, find
from sessioncompress.pipeline.rewrite import MustStay, rewrite, value_at
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import open_session
from sessioncompress.store.originals import InFrame
from sessioncompress.store.records import LineRecord, RunKind, RunRecord
from tests.support.build import PiSession
from tests.support.runs import old, split, view_of

LONG = "".join(f"line {number} of the output\n" for number in range(200))


def result(text: str) -> tuple[bytes, dict[str, Any], View, Block]:
    """Return the line of one old result, parsed, its view and its block."""
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "make"}, text)
    data = old(made)
    view = view_of(data)
    return split(data)[3], orjson.loads(split(data)[3]), view, view.lines[3].blocks[0]


def no_reference(content: bytes) -> None:
    """Keep nothing."""


def test_a_line_that_would_not_become_smaller_is_left() -> None:
    """A preview of a text that is hardly over the limit can be as long as the text."""
    for size in (300, 400):
        raw, entry, view, block = result("x" * 300)
        change = Change(3, block.path, Treatment.SET, 0, value="y" * size)
        assert rewrite(raw, entry, [change], view, no_reference) is None


def test_a_line_that_a_restore_would_take_for_another_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written whose original would be refused."""
    raw, entry, view, block = result(LONG)
    monkeypatch.setattr("sessioncompress.pipeline.rewrite.is_of_one", lambda new, was: new == was)
    with pytest.raises(CannotSplice):
        rewrite(raw, entry, [Change(3, block.path, Treatment.REFERENCE, 1, block)], view, no_reference)


def test_a_replacement_that_would_grow_is_dropped_alone() -> None:
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "make"}, [{"type": "text", "text": LONG}, {"type": "text", "text": "short"}])
    data = old(made)
    view = view_of(data)
    block = view.lines[3].blocks[0]
    second = Block(Kind.RESULT, ("message", "content", 1, "text"), 7, 7, "bash", block.call)
    changes = [Change(3, each.path, Treatment.REFERENCE, 1, each) for each in (block, second)]
    new = rewrite(split(data)[3], orjson.loads(split(data)[3]), changes, view, no_reference)
    assert new is not None
    assert [each.path for each in new.replacements] == [block.path]
    assert new.entry["message"]["content"][1]["text"] == "short"


def test_what_is_written_parses_to_the_entry_given() -> None:
    """Everything but the named value is as it was."""
    raw, entry, view, block = result(LONG)
    new = rewrite(raw, entry, [Change(3, block.path, Treatment.REFERENCE, 1, block)], view, lambda _: "0" * 12)
    assert new is not None
    assert orjson.loads(new.raw) == new.entry
    before = orjson.loads(raw)
    before["message"]["content"][0]["text"] = new.entry["message"]["content"][0]["text"]
    assert new.entry == before
    assert new.replacements[0].content == LONG.encode()


def test_set_and_remove_are_made_as_told() -> None:
    made = PiSession()
    made.user("Go.")
    made.step("bash", {"command": "make"}, [], details={"a": 1})
    made.raw(made.take_last().replace(b'"toolCallId":"', b'"toolCallId":"call_1|'))
    data = old(made)
    raw = split(data)[3]
    changes = [
        Change(3, ("message", "toolCallId"), Treatment.SET, 1, value="call_1"),
        Change(3, ("message", "details"), Treatment.REMOVE, 1),
    ]
    new = rewrite(raw, orjson.loads(raw), changes, view_of(data), no_reference)
    assert new is not None
    assert new.entry["message"]["toolCallId"] == "call_1"
    assert "details" not in new.entry["message"]
    assert [each.value for each in new.replacements] == ["call_1", REMOVED]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("id",), "x"),
        (("message", "toolCallId"), "x"),
        (("message", "toolName"), None),
        (("message", "content"), "x"),
        (("message", "content", 0), None),
        (("message", "content", 0, "type"), "x"),
    ],
    ids=str,
)
def test_what_the_format_does_not_name_stays(path: JsonPath, value: str | None) -> None:
    """Whoever proposes the change: it is an error in this program, not a reason to leave the line alone."""
    raw, entry, view, _ = result(LONG)
    change = Change(3, path, Treatment.REMOVE if value is None else Treatment.SET, 1, value=value)
    with pytest.raises(MustStay):
        rewrite(raw, entry, [change], view, no_reference)


@pytest.mark.parametrize(
    "path",
    [
        ("message", "no"),
        ("message", "content", 7),
        ("message", "content", "text"),
        ("type", "x"),
        ("message", "isError", 0),
    ],
    ids=str,
)
def test_a_path_that_leads_nowhere_cannot_be_spliced(path: JsonPath) -> None:
    """The line is not what was surveyed."""
    raw, entry, view, _ = result(LONG)
    with pytest.raises(CannotSplice):
        rewrite(raw, entry, [Change(3, path, Treatment.SET, 1, value="x")], view, no_reference)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), {"a": {"0": "x", "01": "y"}, "b": ["z"]}),
        (("a", "0"), "x"),
        (("a", 0), "x"),
        (("a", "01"), "y"),
        (("b", 0), "z"),
    ],
    ids=str,
)
def test_a_value_is_found_by_its_path(path: JsonPath, expected: Any) -> None:
    """A journal's path does not say whether a step of digits is a key."""
    assert value_at({"a": {"0": "x", "01": "y"}, "b": ["z"]}, path) == expected


# Rewritten lines

OLD, NEW, OTHER, LOST = b"old\n", b"new\n", b"other\n", b"lost\n"


def digest(line: bytes) -> str:
    return sha256(line).hexdigest()


def journal(*pairs: tuple[bytes, bytes, InFrame | None]) -> Journal:
    made = Journal()
    for original, rewritten, place in pairs:
        made.add(LineRecord(digest(original), place, digest(rewritten)))
    return made


def watched(data: bytes, known: Journal) -> RewrittenLines:
    """Return what is found while a session is read; every piece passes."""
    found = RewrittenLines(known)
    assert b"".join(raw for _, raw, _ in found.watch(pieces(io.BytesIO(data), len(data)))) == data
    return found


def looked_for(path: Path, data: bytes, known: Journal) -> tuple[list[int], list[str]]:
    """Return which lines are found, and of what original lines are missing."""
    path.write_bytes(data)
    with open_session(path, writing=False) as session:
        found, missing, _ = find(session, known)
    return list(found), [record.sha256 for record in missing]


RUN = RunRecord("2026-03-02T09:00:00Z", "1.0.0", {}, 9, 9, 0, 0, {}, command=RunKind.COMPRESS)


def test_of_what_was_taken_back_nothing_is_missed(tmp_path: Path) -> None:
    """Whoever changed such a line since changed what the agent wrote."""
    known = journal((OLD, NEW, None), (LOST, b"b\n", None))
    known.end_run(RUN)
    known.end_run(RUN._replace(restored=True, command=RunKind.RESTORE))
    known.add(LineRecord(digest(OTHER), None, digest(b"not there\n")))
    known.end_run(RUN)
    path = tmp_path / "session.jsonl"
    assert looked_for(path, OLD + OTHER, known) == ([], [])
    assert looked_for(path, OLD, known) == ([], [digest(OTHER)])


def test_a_line_that_two_edits_changed_is_of_what_the_agent_wrote(tmp_path: Path) -> None:
    """Whichever of them stands there. A record that names a later one leads nowhere."""
    known = Journal()
    for was, now in ((OLD, OTHER), (OTHER, NEW), (LOST, b"a\n"), (b"c\n", b"d\n"), (b"b\n", b"c\n")):
        known.add(LineRecord(digest(was), InFrame(0, 0, len(was)), digest(now), edit=True))
    known.end_run(RUN._replace(store_size=0, records=(5, 0)))
    assert [watched(each, known)[0].sha256 for each in (OTHER, NEW)] == [digest(OLD)] * 2
    assert watched(b"d\n", known)[0].sha256 == digest(b"c\n")
    assert looked_for(tmp_path / "session.jsonl", NEW + b"a\nd\n", known) == ([0, 1, 2], [digest(b"b\n")])
