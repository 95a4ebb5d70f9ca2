"""Which lines are our rewritings: by the digest of the whole line, wherever it stands and however often."""

from __future__ import annotations

import io
from hashlib import sha256
from pathlib import Path

from sessioncompress.core.jsonl import pieces
from sessioncompress.pipeline.reading import RewrittenLines, find
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import open_session
from sessioncompress.store.originals import Place
from sessioncompress.store.records import Command, LineRecord, RunRecord

OLD, NEW, OTHER, LOST = b"old\n", b"new\n", b"other\n", b"lost\n"


def digest(line: bytes) -> str:
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


def looked_for(path: Path, data: bytes, known: Journal) -> tuple[list[int], list[str]]:
    """Return which lines are found, and of what original lines are missing."""
    path.write_bytes(data)
    with open_session(path, writing=False) as session:
        found, missing, _ = find(session, known)
    return list(found), [record.sha256 for record in missing]


RUN = RunRecord("2026-03-02T09:00:00Z", "1.0.0", {}, 9, 9, 0, 0, {}, command=Command.COMPRESS)


def test_of_what_was_taken_back_nothing_is_missed(tmp_path: Path) -> None:
    """Whoever changed such a line since changed what the agent wrote."""
    known = journal((OLD, NEW, None), (LOST, b"b\n", None))
    known.end_run(RUN)
    known.end_run(RUN._replace(restored=True, command=Command.RESTORE))
    known.add(LineRecord(digest(OTHER), None, digest(b"not there\n")))
    known.end_run(RUN)
    path = tmp_path / "session.jsonl"
    assert looked_for(path, OLD + OTHER, known) == ([], [])
    assert looked_for(path, OLD, known) == ([], [digest(OTHER)])


def test_a_line_that_two_edits_changed_is_of_what_the_agent_wrote(tmp_path: Path) -> None:
    """Whichever of them stands there. A record that names a later one leads nowhere."""
    known = Journal()
    for was, now in ((OLD, OTHER), (OTHER, NEW), (LOST, b"a\n"), (b"c\n", b"d\n"), (b"b\n", b"c\n")):
        known.add(LineRecord(digest(was), Place(0, 0, len(was)), digest(now), edit=True))
    known.end_run(RUN._replace(store_size=0, records=(5, 0)))
    assert [watched(each, known)[0].sha256 for each in (OTHER, NEW)] == [digest(OLD)] * 2
    assert watched(b"d\n", known)[0].sha256 == digest(b"c\n")
    assert looked_for(tmp_path / "session.jsonl", NEW + b"a\nd\n", known) == ([0, 1, 2], [digest(b"b\n")])
