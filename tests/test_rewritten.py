"""Which lines are our rewritings: by the digest of the whole line, wherever it stands and however often."""

from __future__ import annotations

import io
from hashlib import sha256
from pathlib import Path

from sessioncompress.jsonl import pieces
from sessioncompress.rewritten import RewrittenLines, find
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import open_session
from sessioncompress.store.originals import Place
from sessioncompress.store.records import LineRecord

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


def test_what_stands_there_in_no_form_is_named_once(tmp_path: Path) -> None:
    """However often it was rewritten; as it was or as it was rewritten, it is there."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(OTHER + NEW)
    known = journal((OLD, NEW, None), (OTHER, b"not there\n", None), (LOST, b"a\n", None), (LOST, b"b\n", None))
    with open_session(path, writing=False) as session:
        found, missing = find(session, known)
        assert (list(found), [record.sha256 for record in missing]) == ([1], [sha256(LOST).hexdigest()])
        assert find(session, Journal())[1] == []
