"""The seal of a run: no flipped bit of it is missed, and it tells what git put together from damage."""

from __future__ import annotations

import io
from hashlib import sha256
from pathlib import Path

import pytest

from sessioncompress.errors import Damaged
from sessioncompress.operations.verify import verify_session
from sessioncompress.store.journal import read
from sessioncompress.store.layout import store_in
from sessioncompress.store.records import LineRecord, RunRecord, sealed
from tests.faults.scenes import SCENES, SIZES
from tests.support.runs import compress

_KEY = b',"sha256":"'


def test_a_flip_in_the_key_of_a_seal_is_found(tmp_path: Path) -> None:
    """The run then seems to have no seal, but it counts its records, and every run that does has one."""
    path = SCENES[1].prepare(tmp_path, SIZES[0])
    compress(path)
    journal = store_in(path).journal
    right = journal.read_bytes()
    begins = right.rindex(_KEY)
    for position in range(begins, begins + len(_KEY)):
        for bit in range(8):
            flipped = bytes([right[position] ^ 1 << bit])
            journal.write_bytes(right[:position] + flipped + right[position + 1 :])
            with pytest.raises(Damaged):
                verify_session(path)
    journal.write_bytes(right)
    verify_session(path)


def record(name: str) -> bytes:
    return LineRecord(sha256(name.encode()).hexdigest(), None, sha256(f"new {name}".encode()).hexdigest()).encode()


def sealed_run(*names: str) -> bytes:
    run = RunRecord("2026", "1.0", {}, 100, 50, 0, 0, {}, records=(len(names), 0), command="compress")
    return list(sealed(map(record, names), run, Path("s.history"), 0))[-1]


def journal_of(*parts: str) -> bytes:
    """Return a journal: a word is a line record, words in parentheses the record of the run that wrote them."""
    return b"".join(sealed_run(*part[1:-1].split()) if part[0] == "(" else record(part) for part in parts)


UNIONS = [
    ("one more behind", ["a", "b", "(a b)", "c", "(a b c)"]),
    ("nothing more behind", ["a", "b", "c", "(a b c)", "(a b)"]),
    ("behind a common run", ["a", "(a)", "b", "c", "(b c)", "d", "(b d)"]),
    ("behind two runs of the other side", ["a", "b", "(a b)", "c", "(c)", "d", "(a d)"]),
    ("a line that both rewrote differently", ["a", "b", "x", "c", "(a b c)", "d", "(a x c d)"]),
    ("the same behind a common run", ["a", "(a)", "b", "x", "y", "c", "(b x c)", "(b y c)"]),
]
DAMAGED = [
    ("a record is gone", ["a", "(a)", "c", "(b c)"]),
    ("one is too many", ["a", "(a)", "x", "y", "c", "(b c)"]),
    ("another one stands there before", ["a", "x", "(a x)", "c", "(b c)"]),
    ("the record of a run is gone", ["a", "b", "c", "(c)"]),
    ("the record of a run is gone, and one of its own", ["a", "b", "d", "(c d)"]),
]


@pytest.mark.parametrize("parts", [case[1] for case in UNIONS], ids=[case[0] for case in UNIONS])
def test_two_sides_in_one_journal_are_refused(parts: list[str]) -> None:
    """Wherever git let stand what each of them wrote: a run's record counts the others of its run."""
    with pytest.raises(Damaged):
        read(io.BytesIO(journal_of(*parts)), "s.refs.jsonl")


@pytest.mark.parametrize("parts", [case[1] for case in DAMAGED], ids=[case[0] for case in DAMAGED])
def test_what_no_seal_vouches_for_is_damage(parts: list[str]) -> None:
    """However many records there are too few, or too many."""
    with pytest.raises(Damaged):
        read(io.BytesIO(journal_of(*parts)), "s.refs.jsonl")
