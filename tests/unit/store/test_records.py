"""Records: every one that can be written is read as it was, with each field at its extremes; any other is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessioncompress.core.model import Kind
from sessioncompress.errors import FileFailed
from sessioncompress.store.originals import InFrame
from sessioncompress.store.records import (
    BlockRecord,
    CheckpointRecord,
    LineRecord,
    RunKind,
    RunRecord,
    decode,
    readable,
    reads_back,
)

MOST = (1 << 62) - 1
ID = "20260302-090000-0001"
COUNT = st.sampled_from([0, 1, 1 << 32, 1 << 53, MOST]) | st.integers(0, MOST)
TIME = st.sampled_from([0, 1, -1, 1 << 62, -(1 << 63), (1 << 63) - 1]) | st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(max_size=40) | st.sampled_from(["", "\x00", '"\\', "\u2028", "漢", "\U0010ffff", "a/b~c~1", "x" * 9000])


def digits(*lengths: int) -> st.SearchStrategy[str]:
    return st.sampled_from(lengths).flatmap(lambda each: st.text("0123456789abcdef", min_size=each, max_size=each))


SHA = digits(64)
PLACE = st.builds(InFrame, COUNT, COUNT, COUNT)
LINE = st.builds(LineRecord, SHA, st.none() | PLACE, SHA, st.just(False), st.just(-1)) | st.builds(
    LineRecord, SHA, st.none() | PLACE, SHA, st.just(True), st.just(-1) | COUNT
)
KEY = TEXT.filter(lambda key: not key.isdecimal())
"""A key of digits alone is read as an index; which of the two it is, the line says."""
PATH = st.lists(KEY | st.integers(0, 10**9 - 1), max_size=4).map(tuple)
FILE = st.just(("", "")) | st.tuples(TEXT.filter(bool), digits(40, 64))
BLOCK = st.builds(
    lambda file, digest, many, **fields: BlockRecord(
        file=file[0], git_blob=file[1], digest=digest, ref=digest[:many], **fields
    ),
    FILE,
    digits(16, 20),
    st.integers(12, 16),
    line=COUNT,
    path=PATH,
    kind=st.sampled_from(Kind),
    tool=TEXT,
    call=TEXT,
    bytes=COUNT,
    lines=COUNT,
    replacement=st.just(b"") | st.binary(min_size=16, max_size=16),
)
RUN = st.builds(
    dict,
    at=TEXT,
    version=TEXT,
    policy=st.dictionaries(TEXT, st.none() | st.booleans() | st.lists(TEXT, max_size=2), max_size=3),
    original_size=COUNT,
    compressed_size=COUNT,
    store_size=COUNT,
    boundary=COUNT,
    stats=st.dictionaries(st.sampled_from(["turns", "linesChanged", "unknownMarkersInCalls"]), COUNT),
    restored=st.booleans(),
    records=st.none() | st.tuples(COUNT, COUNT),
    originals_sha256=st.just("") | SHA,
    session_id=TEXT.filter(lambda each: len(each) <= 1024),
    modified=TIME,
    id=st.just(ID),
    command=st.sampled_from(RunKind).map(str),
).map(lambda fields: RunRecord(**fields))  # not by the class itself: what is not named stays as it is without


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(LINE | BLOCK | RUN)
def test_what_is_written_is_read(record: LineRecord | BlockRecord | RunRecord) -> None:
    """All fields of all records, and to the byte."""
    raw = record.encode()
    assert decode(raw) == record
    assert reads_back(raw) == (len(raw) <= 64 * 1024)


RECORD = RunRecord(
    "2026-03-02T09:00:00Z", "1.0.0", {}, 100, 50, 20, 3, {"turns": 2}, modified=1, id=ID, command="compress"
)
JOURNAL = Path("s.refs.jsonl")


@pytest.mark.parametrize("modified", [1 << 63, -(1 << 63) - 1, 10**30])
def test_a_time_beyond_64_bits_is_not_noted(modified: int) -> None:
    """A file system may give a file such a time; the next run then reads the session to know that nothing is due."""
    assert decode(RECORD._replace(modified=modified).encode()) == RECORD._replace(modified=0)


def test_an_id_that_no_agent_gives_is_not_noted() -> None:
    assert decode(RECORD._replace(session_id="x" * 1025).encode()) == RECORD


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 1.5, "1", True, None])
def test_a_time_that_is_none_is_damage(value: object) -> None:
    """A record that says so was not written by us."""
    with pytest.raises(ValueError, match="not a number"):
        decode(json.dumps(json.loads(RECORD.encode()) | {"modifiedNs": value}).encode() + b"\n")


BAD = [
    ("a long policy", {"policy": {"protectTools": ["x" * 999] * 70}}),
    ("a number that is none", {"original_size": -1}),
    ("more bytes than any file has", {"compressed_size": 1 << 62}),
    ("no digest", {"originals_sha256": "ab"}),
    ("records without number", {"records": (-1, 0)}),
    ("turns without number", {"stats": {"turns": -1}}),
    ("a boundary that is none", {"boundary": 1.5}),
]


@pytest.mark.parametrize("change", [case[1] for case in BAD], ids=[case[0] for case in BAD])
def test_a_run_that_could_not_be_read_is_refused(change: dict[str, Any]) -> None:
    assert readable(RECORD, JOURNAL) is RECORD
    with pytest.raises(FileFailed, match="could not be read back") as raised:
        readable(RECORD._replace(**change), JOURNAL)
    assert raised.value.where == str(JOURNAL)


def test_a_checkpoint_has_an_original_for_each_line() -> None:
    record = CheckpointRecord("gemini", "extractive", "tokens", ("ab" * 32,), (), (9, 1), originals=("cd" * 32,))
    assert decode(record.encode()) == record
    with pytest.raises(ValueError, match="not as many"):
        decode(record._replace(originals=("cd" * 32,) * 2).encode())


def test_a_checkpoint_says_how_its_summary_came_about() -> None:
    record = CheckpointRecord("pi", "endpoint", "tokens", ("ab" * 32,), (), (9, 1))
    full = record._replace(model="m", goal="given", trigger="manual", preserved='{"a":1}', summary="ef" * 32)
    assert decode(full.encode()) == full
    assert decode(record.encode()) == record
    assert not {"model", "goalMethod", "trigger", "preserveData", "summarySha256"} & json.loads(record.encode()).keys()


def test_a_block_that_could_not_be_read_is_noticed() -> None:
    block = BlockRecord("ab" * 6, 0, ("a",), Kind.RESULT, "bash", "", 1, 1, "ab" * 8)
    assert reads_back(block.encode())
    for bad in ({"tool": "x" * 70_000}, {"lines": -1}, {"ref": ""}, {"replacement": b"x"}, {"path": ("x" * 70_000,)}):
        assert not reads_back(block._replace(**bad).encode()), bad
