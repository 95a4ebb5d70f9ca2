"""A checkpoint into a document: messages come and go, every other byte stays, and it can be taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.checkpoint import Addition, Checkpoint
from sessioncompress.core.documents import edits_of, undo_of, undoing, undone
from sessioncompress.core.jsonl import Document, cut
from sessioncompress.core.model import JsonPath
from sessioncompress.core.splice import Added, CannotSplice, edited

PRETTY = b"""{
  "meta": {"count": 3.0, "by": "x"},
  "messages": [
    {"n": 0,  "t": "a, b]"},
    {
      "n": 1
    },
    {"n": 2}
  ],
  "more": [ 1 ]
}
"""
COMPACT = b'{"messages":[{"n":0},{"n":1},{"n":2}]}'
LIST = b'[ {"n":0} , {"n":1} ,\r\n {"n":2} ]'
ONE = b'{"messages":[\n  {"n":2}\n]}'


def document(raw: bytes) -> Document:
    found = cut(raw)
    assert found is not None
    return found


def added(*before: int) -> tuple[Addition, ...]:
    return tuple(Addition(each, b'{"n":%d}' % (10 + number)) for number, each in enumerate(before))


@pytest.mark.parametrize(
    ("raw", "checkpoint", "made"),
    [
        (COMPACT, Checkpoint(added(2), frozenset({0, 1})), b'{"messages":[{"n":10},{"n":2}]}'),
        (COMPACT, Checkpoint(added(0, 0), frozenset({0, 1})), b'{"messages":[{"n":10},{"n":11},{"n":2}]}'),
        (COMPACT, Checkpoint(added(1), frozenset({1})), b'{"messages":[{"n":0},{"n":10},{"n":2}]}'),
        (COMPACT, Checkpoint(added(1), frozenset({0})), b'{"messages":[{"n":10},{"n":1},{"n":2}]}'),
        (COMPACT, Checkpoint(added(3, 3)), b'{"messages":[{"n":0},{"n":1},{"n":2},{"n":10},{"n":11}]}'),
        (COMPACT, Checkpoint(added(1)), b'{"messages":[{"n":0},{"n":10},{"n":1},{"n":2}]}'),
        (COMPACT, Checkpoint(added(3, 3), frozenset({1, 2})), b'{"messages":[{"n":0},{"n":10},{"n":11}]}'),
        (COMPACT, Checkpoint(added(2, 3), frozenset({2})), b'{"messages":[{"n":0},{"n":1},{"n":10},{"n":11}]}'),
        (COMPACT, Checkpoint(()), COMPACT),
        (LIST, Checkpoint(added(2), frozenset({0, 1})), b'[ {"n":10} , {"n":2} ]'),
        (ONE, Checkpoint(added(1)), b'{"messages":[\n  {"n":2},\n  {"n":10}\n]}'),
        (PRETTY, Checkpoint(added(2), frozenset({1}), {("meta", "count"): 4, ("meta", "new"): Added([1])}),
         PRETTY.replace(b'{\n      "n": 1\n    }', b'{"n":10}').replace(b'3.0, "by": "x"', b'4, "by": "x","new":[1]')),
        (PRETTY, Checkpoint(added(3), frozenset(), {("more",): [2]}),
         PRETTY.replace(b'{"n": 2}', b'{"n": 2},\n    {"n":10}').replace(b"[ 1 ]", b"[2]")),
    ],
)  # fmt: skip
def test_a_checkpoint_is_written_and_taken_back(raw: bytes, checkpoint: Checkpoint, made: bytes) -> None:
    found = document(raw)
    edits = edits_of(found, checkpoint)
    assert edited(found.raw, edits_of(found, checkpoint)) == made
    undo = undoing(found, edits)
    assert undo_of(undo.encode()) == undo
    assert undone(made, undo) == raw


LONG = Addition(2, b'{"n":10,"t":"%s"}' % (b"x" * 80))


@pytest.mark.parametrize(
    ("checkpoint", "was", "now", "left"),
    [
        # Left alone: what was made is no longer there.
        (Checkpoint(added(2), frozenset({0, 1})), b'{"n":10}', b'{"n":99}', None),
        # What came before it or behind it stays.
        (Checkpoint(added(2), frozenset({0, 1})), b"]}", b',{"n":3}]}', [{"n": n} for n in range(4)]),
        (Checkpoint(added(3)), b'{"n":0}', b'{"n":"zero"}', [{"n": "zero"}, {"n": 1}, {"n": 2}]),
        (Checkpoint((LONG,)), b'"n":', b'"m":', None),
        # What is short may stand anywhere by chance, and what appears twice is not known from its copy.
        (Checkpoint(added(1)), b'{"n":0},{"n":10},{"n":1}', b'{"n":"zero"},{"n":10},{"n":"one"}', None),
        (
            Checkpoint((LONG,)),
            b'{"n":1},' + LONG.line,
            b'{"n":"one"},' + LONG.line + b"," + LONG.line + b',{"n":3}',
            None,
        ),
        (Checkpoint((LONG,)), b'{"n":0},{"n":1}', b'{"n":"zero"},{"n":1}', [{"n": "zero"}, {"n": 1}, {"n": 2}]),
    ],
)
def test_what_changed_since_stays(checkpoint: Checkpoint, was: bytes, now: bytes, left: Any) -> None:
    found = document(COMPACT)
    changed = edited(found.raw, edits_of(found, checkpoint)).replace(was, now)
    back = undone(changed, undoing(found, edits_of(found, checkpoint)))
    assert (None if back is None else json.loads(back)["messages"]) == left


def test_a_checkpoint_comes_out_of_what_its_agent_wrote_since() -> None:
    """Agents write the whole document again: it is laid out as they do, and the values they keep up to date stay."""
    session = {"meta": {"count": 3, "notes": []}, "messages": [{"n": 0, "t": "a"}, {"n": 1}, {"n": 2}], "sums": [{}]}
    raw = json.dumps(session, indent=2).encode()
    around: dict[JsonPath, Any] = {
        ("meta", "count"): 2,
        ("sums",): [{}, {"of": [0, 1]}],
        ("all",): Added(3),
        ("more",): Added({"a": [1]}),
    }
    checkpoint = Checkpoint((Addition(2, LONG.line),), frozenset({0, 1}), around)
    found = document(raw)
    edits = edits_of(found, checkpoint)
    made = edited(raw, edits)
    written = json.loads(made)
    assert json.dumps(written, indent=2).encode() == made
    written["messages"].append({"n": 3})
    written["meta"]["count"] = 3
    since = json.dumps(written, indent=2).encode()
    back = undone(since, undo_of(undoing(found, edits).encode()))
    assert back is not None
    assert json.loads(back) == {**session, "messages": [*session["messages"], {"n": 3}]}
    assert undone(since.replace(b"xxx", b"yyy"), undoing(found, edits)) is None


@pytest.mark.parametrize("path", [("none",), ("meta", "none"), ("meta", "by", "x"), ("more", 7)])
def test_a_value_that_is_not_there_cannot_be_set(path: Any) -> None:
    with pytest.raises(CannotSplice):
        edited(document(PRETTY).raw, edits_of(document(PRETTY), Checkpoint((), frozenset(), {path: 1})))
