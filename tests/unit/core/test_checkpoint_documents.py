"""A checkpoint into a document: messages come and go, every other byte stays, and it can be taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessioncompress.core.checkpoint import Addition, Checkpoint
from sessioncompress.core.documents import document_with, edited, edits_of, still_there, taking_back
from sessioncompress.core.jsonl import Document, cut
from sessioncompress.core.splice import Added, CannotSplice

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
    assert document_with(found, checkpoint) == made
    back = taking_back(raw, edits)
    assert edited(made, back) == raw
    assert still_there(made, made, back)


@pytest.mark.parametrize(
    ("checkpoint", "was", "now", "there"),
    [
        (Checkpoint(added(2), frozenset({0, 1})), b'{"n":10}', b'{"n":99}', False),
        (Checkpoint(added(2), frozenset({0, 1})), b"]}", b',{"n":3}]}', True),
    ],
)
def test_what_changed_since_is_seen(checkpoint: Checkpoint, was: bytes, now: bytes, there: bool) -> None:
    made = document_with(document(COMPACT), checkpoint)
    back = taking_back(COMPACT, edits_of(document(COMPACT), checkpoint))
    changed = made.replace(was, now)
    assert still_there(changed, made, back) is there
    if there:
        assert json.loads(edited(changed, back))["messages"] == [{"n": n} for n in range(4)]


@pytest.mark.parametrize("path", [("none",), ("meta", "none"), ("meta", "by", "x"), ("more", 7)])
def test_a_value_that_is_not_there_cannot_be_set(path: Any) -> None:
    with pytest.raises(CannotSplice):
        document_with(document(PRETTY), Checkpoint((), frozenset(), {path: 1}))
