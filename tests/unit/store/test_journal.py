"""The journal: what is written is read; a torn end is no record; a committed record that cannot be read is said so."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core.model import Kind
from sessioncompress.errors import Damaged, SessionCompressError
from sessioncompress.store.journal import Journal, load, read
from sessioncompress.store.layout import Lengths
from sessioncompress.store.records import BlockRecord, CheckpointRecord, LineRecord, decode
from tests.support.runs import blocks_of, lines_of
from tests.unit.store.tools import LINE, RUN, SHA

BLOCK = BlockRecord(
    ref="0123456789ab",
    line=7,
    path=("message", "content", 0, "text"),
    kind=Kind.RESULT,
    tool="read",
    call="call_1",
    bytes=99,
    lines=3,
    digest="0123456789abcdef0123",
    replacement=b"\xef" * 16,
    file="a.py",
    git_blob="12" * 20,
)


def parsed(data: bytes) -> Journal:
    return read(io.BytesIO(data), "s.refs.jsonl")


def test_what_is_written_is_read() -> None:
    """All fields of all records, and to which line a block belongs."""
    other = LineRecord("ef" * 32, None, "01" * 32)
    data = LINE.encode() + BLOCK.encode() + BLOCK.encode() + other.encode() + BLOCK.encode() + RUN.encode()
    journal = parsed(data)
    assert lines_of(journal) == [LINE, other]
    assert blocks_of(journal) == [(LINE, BLOCK), (LINE, BLOCK), (other, BLOCK)]
    assert journal.runs == [RUN]
    assert journal.lengths == Lengths(20, len(data))
    assert [journal.rewriting(bytes.fromhex(record.rewritten)) for record in (LINE, other)] == [0, 1]
    assert journal.rewriting(bytes.fromhex(SHA)) is None
    assert [journal.place(was, was) for was in (bytes.fromhex(record.sha256) for record in (LINE, other))] == [
        LINE.place,
        None,
    ]
    assert [list(journal.blocks_of(row)) for row in (0, 1)] == [[BLOCK, BLOCK], [BLOCK]]


NOTED = RUN._replace(modified=1_700_000_000_123_456_789)


def test_what_a_run_notes_for_the_next_is_read() -> None:
    assert parsed(NOTED.encode()).runs == [NOTED]


def test_what_an_earlier_version_noted_besides_is_passed_over() -> None:
    """The first runs noted in `prefix` what of a session was finished."""
    record = json.loads(NOTED.encode()) | {"journalStart": 12, "prefix": {"format": "pi", "bytes": -1}}
    assert parsed(json.dumps(record).encode() + b"\n").runs == [NOTED]


@pytest.mark.parametrize("odd", ["../../etc/passwd", "\x1b[2J", 7, None, ["20260101-000001-0000"], "20260101"])
@pytest.mark.parametrize("key", ["id", "command"])
def test_an_odd_name_is_no_record_of_ours(key: str, odd: object) -> None:
    """A stranger may have written it, and it is compared and printed."""
    with pytest.raises(Damaged, match="not a name of ours"):
        parsed(LINE.encode() + json.dumps({**json.loads(RUN.encode()), key: odd}).encode() + b"\n")


PATHS = [
    ("message", "content", 0, "text"),
    ("a", "", "b"),
    ("",),
    ("a/b", "c~d", "~1", "~0/"),
    ("007", "1" * 5000, "-1", "1e5", "0.5", "١٢", "²"),
    ("\u2028", "\n", '"', "\\", "漢", "\0"),
    (0, 12, 999_999_999),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: repr(path)[:30])
def test_any_path_is_read_as_it_was(path: tuple[str | int, ...]) -> None:
    """But a key that is written like an index may come back as one: the value says which."""
    record = BlockRecord("0123456789ab", 1, path, Kind.ARGUMENT, "", "", 9, 1, "0123456789abcdef0123")
    assert parsed(LINE.encode() + record.encode() + RUN.encode()).block(0)[1].path == path


def test_what_stands_behind_the_last_run_was_never_committed() -> None:
    """A crash came between; the next run cuts it off."""
    committed = LINE.encode() + RUN.encode()
    for torn in (
        LINE.encode(),
        LINE.encode() + BLOCK.encode(),
        RUN.encode()[:-1],
        b'{"type":"li',
        b"\0\0\0\0",
        b"\n",
        b"[1]\n",
    ):
        journal = parsed(committed + torn)
        assert lines_of(journal) == [LINE]
        assert blocks_of(journal) == []
        assert journal.lengths.journal == len(committed)
    assert lines_of(parsed(LINE.encode())) == []
    assert parsed(b"").runs == []


def test_a_torn_append_is_no_error_wherever_it_tore() -> None:
    first = LINE.encode() + BLOCK.encode() + RUN.encode()
    second = LineRecord("ef" * 32, None, "01" * 32).encode() + BLOCK.encode() + RUN.encode()
    for cut in range(1, len(second), 3):
        journal = parsed(first + second[:cut])
        assert (lines_of(journal), len(journal.runs), journal.size) == ([LINE], 1, len(first)), cut


def changed(record: bytes, **fields: Any) -> bytes:
    """Return a record with other fields; None takes one out."""
    made = {**json.loads(record), **fields}
    return (
        json.dumps({key: value for key, value in made.items() if value is not None}, separators=(",", ":")).encode()
        + b"\n"
    )


BAD: list[tuple[str, bytes]] = [
    ("no JSON", b"oops\n"),
    ("NUL, as a crash leaves it", b"\0" * 50 + b"\n"),
    ("a list", b"[]\n"),
    ("a number", b"7\n"),
    ("no type", b"{}\n"),
    ("an unknown type", changed(LINE.encode(), type="new")),
    ("a digest that is too short", changed(LINE.encode(), rewrittenSha256="ab")),
    ("a digest with a slash", changed(LINE.encode(), rewrittenSha256="../" + "ab" * 30 + "a")),
    ("a digest in capitals", changed(LINE.encode(), rewrittenSha256="AB" * 32)),
    ("a digest that is a number", changed(LINE.encode(), rewrittenSha256=7)),
    ("no original", changed(LINE.encode(), original=None)),
    ("an original that is a text", changed(LINE.encode(), original=SHA)),
    ("a frame below zero", changed(LINE.encode(), original={"sha256": SHA, "frame": -1, "offset": 0, "bytes": 1})),
    ("a frame without offset", changed(LINE.encode(), original={"sha256": SHA, "frame": 1})),
    ("a frame that is a text", changed(LINE.encode(), original={"sha256": SHA, "frame": "1", "offset": 0, "bytes": 1})),
    ("a frame that is true", changed(LINE.encode(), original={"sha256": SHA, "frame": True, "offset": 0, "bytes": 1})),
    (
        "a frame behind all",
        changed(LINE.encode(), original={"sha256": SHA, "frame": 2**64 - 1, "offset": 0, "bytes": 1}),
    ),
    ("a replacement of odd length", LINE.encode() + changed(BLOCK.encode(), replacement="abc")),
    ("a run whose turns are a text", changed(RUN.encode(), stats={"turns": "x"})),
    ("a run without sizes", changed(RUN.encode(), storeSize=None)),
    ("a run with a size below zero", changed(RUN.encode(), storeSize=-1)),
    ("a run whose policy is a number", changed(RUN.encode(), policy=7)),
    ("a run whose boundary is a text", changed(RUN.encode(), boundary="x")),
    ("a block of an unknown kind", LINE.encode() + changed(BLOCK.encode(), kind="new")),
    ("a block whose reference leads out", LINE.encode() + changed(BLOCK.encode(), ref="../../x")),
    ("a block whose replacement is no digest", LINE.encode() + changed(BLOCK.encode(), replacement="xyz")),
    ("a block without its line", BLOCK.encode()),
]


@pytest.mark.parametrize("record", [case[1] for case in BAD], ids=[case[0] for case in BAD])
def test_a_committed_record_that_cannot_be_read_is_damage(record: bytes) -> None:
    number = record.count(b"\n")
    with pytest.raises(Damaged) as caught:
        parsed(record + RUN.encode())
    assert caught.value.line == number
    assert "s.refs.jsonl" in str(caught.value)
    assert "not changed" in str(caught.value)
    with pytest.raises(Damaged):
        parsed(LINE.encode() + RUN.encode() + record + LINE.encode() + RUN.encode())


@pytest.mark.parametrize(
    "record",
    [case[1] for case in BAD if not case[0].startswith("a run")],
    ids=[case[0] for case in BAD if not case[0].startswith("a run")],
)
def test_the_same_record_behind_the_last_run_is_none(record: bytes) -> None:
    """A crash may leave anything there."""
    journal = parsed(LINE.encode() + RUN.encode() + record)
    assert lines_of(journal) == [LINE]


def test_a_record_that_is_gone_is_damage() -> None:
    """A run says how many it wrote; one of an older version does not."""
    run = RUN._replace(records=(2, 3))
    other = LineRecord("ef" * 32, None, "01" * 32)
    records = [LINE.encode(), BLOCK.encode(), BLOCK.encode(), other.encode(), BLOCK.encode()]
    first = b"".join(records) + run.encode()
    assert parsed(first).runs == [run]
    for gone in range(len(records)):
        left = b"".join(records[:gone] + records[gone + 1 :])
        with pytest.raises(Damaged, match=r"wrote 2 line and 3 block records|without its line"):
            parsed(first + left + run.encode())
    with pytest.raises(Damaged, match="0 and 0 are there"):
        parsed(run.encode())
    assert parsed(first + LINE.encode() + RUN.encode()).counts == (3, 3)


def test_a_journal_that_is_not_there_is_empty(tmp_path: Path) -> None:
    journal = load(tmp_path / "no" / "s.refs.jsonl")
    assert (journal.runs, journal.lengths) == ([], Lengths())


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(RUN.encode())
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(SessionCompressError):
        load(tmp_path / "link")


def naming(*again: tuple[int, int]) -> bytes:
    """Write the record of a run of the first form: it names rows of records that earlier runs had written."""
    record = json.loads(RUN._replace(store_size=0, id="").encode())
    return json.dumps(record | {"again": again}).encode() + b"\n"


def line(number: int) -> bytes:
    return LineRecord(f"{number:064x}", None, f"{number + (1 << 200):064x}").encode()


@pytest.mark.parametrize(
    ("runs", "makers"),
    [
        ([(2, []), (1, [])], [0, 0, 1]),
        ([(3, []), (1, [(0, 1), (2, 1)])], [1, 0, 1, 1]),
        ([(3, []), (0, [(0, 3)]), (0, [(1, 1)])], [1, 2, 1]),
        ([(3, []), (0, [(1, 1)]), (0, [(0, 3)])], [2, 2, 2]),
        ([(2, []), (2, [(1, 2)]), (0, [(2, 1), (0, 1)])], [2, 1, 2, 1]),
        # A stranger's: rows that are not there, none, and the same ones twice.
        ([(1, [(0, 99)]), (2, [(0, 0), (7, 1), (0, 1 << 60), (0, 1)])], [1, 1, 1]),
    ],
)
def test_a_row_is_of_the_newest_run_that_names_it(
    runs: list[tuple[int, list[tuple[int, int]]]], makers: list[int]
) -> None:
    """Runs of version 1.0 did not repeat what an earlier run had recorded."""
    data = b""
    for number, (lines, again) in enumerate(runs):
        data += b"".join(line(10 * number + each) for each in range(lines)) + naming(*again)
    journal = parsed(data)
    assert [journal.run_of(row) for row in range(journal.counts[0])] == makers
    assert all(map(journal.stands, range(journal.counts[0])))


def test_the_time_grows_with_the_rows_that_runs_name() -> None:
    """A stranger's runs may all name all rows, in any number of ranges."""

    def spent(number: int) -> float:
        ranges = [(each % 2, number) for each in range(number // 50)]
        data = b"".join(map(line, range(number))) + naming() + naming(*ranges) * 50
        journal = parsed(data)
        begun = time.process_time()
        assert {journal.run_of(row) for row in range(number)} == {50}
        return time.process_time() - begun

    assert spent(16_000) < max(spent(2_000), 0.005) * 20


def of_checkpoints(number: int) -> bytes:
    run = RUN._replace(store_size=0, id="").encode()
    made = (CheckpointRecord("pi", "extractive", "tokens", (f"{each:064x}",), (), (9, 5)) for each in range(number))
    return b"".join(record.encode() + run for record in made)


@pytest.mark.usefixtures("collected")
def test_the_time_grows_with_the_checkpoints() -> None:
    """Eight times as many, far less than sixty-four times the time; a stranger's journal may have any number."""

    def spent(number: int) -> float:
        data = of_checkpoints(number)
        begun = time.process_time()
        assert len(parsed(data).runs) == number
        return time.process_time() - begun

    assert spent(6_000) < max(spent(750), 0.005) * 20


def test_a_dropped_record_that_is_gone_is_noticed() -> None:
    """Whoever seals the journal anew: without it a restore would take out the summary, and bring back nothing."""
    checkpoint = CheckpointRecord("pi", "extractive", "tokens", ("ab" * 32,), (), (9, 5), drops=1)
    journal, record = Journal(), decode(checkpoint.encode())
    assert isinstance(record, CheckpointRecord)
    with pytest.raises(ValueError, match="it dropped 1 parts of the session, but 0 are there"):
        journal.add(record)
