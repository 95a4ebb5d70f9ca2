"""Which lines are our rewritings: by the digest of the whole line, wherever it stands and however often."""

from __future__ import annotations

import io
from hashlib import sha256
from pathlib import Path

import pytest

from sessioncompress.core.jsonl import pieces
from sessioncompress.core.model import Kind
from sessioncompress.pipeline.reading import RewrittenLines, find
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import open_session
from sessioncompress.store.originals import Place
from sessioncompress.store.records import BlockRecord, Command, LineRecord, RunRecord

OLD, NEW, OTHER, LOST = b"old\n", b"new\n", b"other\n", b"lost\n"


def digest(line: bytes) -> str:
    """Return the SHA-256 of a line."""
    return sha256(line).hexdigest()


def journal(*pairs: tuple[bytes, bytes, Place | None]) -> Journal:
    """Return a journal of originals, their rewritings and places."""
    made = Journal()
    for original, rewritten, place in pairs:
        made.add(LineRecord(digest(original), place, digest(rewritten)))
    return made


def watched(data: bytes, known: Journal) -> RewrittenLines:
    """Return what is found while a session is read; every piece passes."""
    found = RewrittenLines(known)
    assert b"".join(raw for _, raw, _ in found.watch(pieces(io.BytesIO(data), len(data)))) == data
    return found


def test_a_rewritten_line_is_found_by_its_number() -> None:
    """And nothing else is."""
    found = watched(OTHER + NEW + OLD + NEW, journal((OLD, NEW, Place(0, 0, 4))))
    assert list(found) == [1, 3]
    assert len(found) == 2
    assert 1 in found
    assert not {0, 2, 4, 99, "1"} & {number for number in (0, 2, 4, 99) if number in found}
    assert found[1] == found[3] == LineRecord(digest(OLD), Place(0, 0, 4), digest(NEW))
    assert found.get(0) is None
    assert found.copies == 1
    assert not watched(OTHER, Journal())


def test_the_newest_record_counts_with_the_place_of_any() -> None:
    """A run that kept no originals may come before or behind one that did."""
    place = Place(0, 0, 4)
    for pairs in (((OLD, NEW, place), (OLD, NEW, None)), ((OLD, NEW, None), (OLD, OTHER, place))):
        assert watched(NEW, journal(*pairs))[0].place == place
    assert watched(NEW + NEW, journal((OLD, NEW, place), (OLD, NEW, None))).copies == 0


def numbered(*lines: tuple[int, bytes, Place | None]) -> Journal:
    """Return a journal of lines that were the same, by their numbers, with what they were rewritten to."""
    made = Journal()
    for number, rewritten, place in lines:
        made.add(LineRecord(digest(OLD), place, digest(rewritten)))
        made.add(
            BlockRecord("7f3a91c2e05b", number, ("content",), Kind.RESULT, "bash", "call_0", 4, 1, "7f3a91c2e05b0000")
        )
    return made


def looked_for(path: Path, data: bytes, known: Journal) -> tuple[list[int], list[str], set[str]]:
    """Return which lines are found, of what original lines are missing, and of what fewer stand there rewritten."""
    path.write_bytes(data)
    with open_session(path, writing=False) as session:
        found, missing = find(session, known)
    return list(found), [record.sha256 for record in missing], set(found.fewer)


def test_what_stands_there_in_no_form_is_named_once(tmp_path: Path) -> None:
    """However often it was rewritten; as it was or as it was rewritten, it is there."""
    path = tmp_path / "session.jsonl"
    known = journal((OLD, NEW, None), (OTHER, b"not there\n", None), (LOST, b"a\n", None), (LOST, b"b\n", None))
    assert looked_for(path, OTHER + NEW, known) == ([1], [digest(LOST)], {digest(LOST), digest(OTHER)})
    assert looked_for(path, OTHER + NEW, Journal()) == ([], [], set())


KEPT = Place(0, 0, 4)
TWO = numbered((3, NEW, KEPT), (6, NEW, KEPT))
EQUAL = [
    ("all of them", TWO, NEW + NEW, 0, False),
    ("one is gone", TWO, NEW, 1, True),
    ("both are", TWO, LOST, 2, True),
    ("put back", TWO, OLD + OLD, 0, True),
    ("one as it was", TWO, NEW + OLD, 0, True),
    ("and one more", TWO, NEW * 3, 0, False),
    ("in another form each", numbered((3, NEW, KEPT), (6, OTHER, KEPT)), NEW, 1, True),
    ("one that was rewritten twice", numbered((3, NEW, KEPT), (3, OTHER, KEPT)), OTHER, 0, False),
    ("first no original was kept", numbered((3, NEW, None), (3, NEW, KEPT)), NEW, 0, False),
]


@pytest.mark.parametrize(("known", "data", "missing", "fewer"), [case[1:] for case in EQUAL], ids=[c[0] for c in EQUAL])
def test_of_equal_lines_each_is_missing_that_is_not_there(
    tmp_path: Path, known: Journal, data: bytes, missing: int, fewer: bool
) -> None:
    """There are as many as have a number of their own."""
    found = looked_for(tmp_path / "session.jsonl", data, known)
    assert found[1:] == ([digest(OLD)] * missing, {digest(OLD)} if fewer else set())


def test_of_what_was_taken_back_no_line_is_to_be_rewritten(tmp_path: Path) -> None:
    """Unless one stands there as that run wrote it."""
    run = RunRecord("2026-03-02T09:00:00Z", "1.0.0", {}, 9, 9, 0, 0, {}, command=Command.COMPRESS)
    known = journal((OLD, NEW, None), (LOST, b"b\n", None))
    known.end_run(run)
    known.end_run(run._replace(restored=True, command=Command.RESTORE))
    known.add(LineRecord(digest(OTHER), None, digest(b"not there\n")))
    known.end_run(run)
    path = tmp_path / "session.jsonl"
    assert looked_for(path, OLD + OTHER, known) == ([], [digest(LOST)], {digest(OTHER)})
    assert looked_for(path, NEW + OTHER, known) == ([0], [digest(LOST)], {digest(LOST), digest(OTHER)})
