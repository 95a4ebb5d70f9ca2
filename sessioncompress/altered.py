"""Lines that were rewritten and have changed since: what tells damage from an older state of a session."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from sessioncompress import files
from sessioncompress.documents import pieces_of
from sessioncompress.entries import identity
from sessioncompress.errors import NotASession
from sessioncompress.formats.base import Entry, Format
from sessioncompress.formats.lenient import entry_of
from sessioncompress.jsonl import Piece, is_readable
from sessioncompress.model import Line
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord
from sessioncompress.survey import parse


def altered(
    session: OpenSession, journal: Journal, missing: Sequence[LineRecord], originals: Path, form: str | None = None
) -> int:
    """Count the lines of a session that were rewritten and have been changed or cut off since.

    `missing` are the originals that stand there in no known form. All others are known by their SHA-256. Where none
    is altered the session is an older state of itself, or lines were deleted: then the others can be restored exactly.
    In a file that shows no session, or one of another id, all that is missing counts. Raises Unreadable where a
    missing original cannot be read, which alone could tell.
    """
    if not missing:
        return 0
    try:
        known = files.format_of(session, form)
    except NotASession:
        return len(missing)
    name = known.named(files.head_in(session))
    if name.id and journal.session_ids and name.id not in journal.session_ids:
        return len(missing)
    lost = _Lost(known, journal, missing, originals)
    return sum(map(lost.stands_in, pieces_of(session.reader, session.size)))


class _Lost:
    """The missing originals, by the entries and the replacements in which they may stand altered."""

    def __init__(self, form: Format, journal: Journal, missing: Sequence[LineRecord], originals: Path) -> None:
        self._form = form
        self._journal = journal
        self._digests = {record.sha256 for record in missing}
        self._entries: set[str | int] = set()
        self._heads: set[bytes] = set()
        kept = [(record.place, record.sha256) for record in missing if record.place]
        if kept:
            with closing(OriginalsReader(originals)) as reader:
                for place, digest in sorted(kept):
                    raw = reader.line(place, digest)
                    self._heads.add(_head(raw))
                    if (entry := _entry(raw)) is not None:
                        self._entries.add(_name(self._line(raw, entry), entry))

    def stands_in(self, piece: Piece) -> bool:
        """Say whether a line is what became of one of them."""
        _, raw, whole = piece
        if not whole or not raw.strip() or self._knows(raw):
            return False
        entry = _entry(raw)
        if entry is None:
            # Tools print what no parser reads: of such a line only its head tells, and nothing where it was cut off.
            return not raw.endswith(b"\n") or _head(raw) in self._heads
        line = self._line(raw, entry)
        return _name(line, entry) in self._entries or self._is_replacement(line)

    def _knows(self, raw: bytes) -> bool:
        """Say whether the journal knows a line, or a message that stood in a line of its own before."""
        forms = (raw,) if raw.endswith(b"\n") else (raw, raw + b"\n")
        digests = [sha256(each).digest() for each in forms]
        return any(self._journal.rewriting(each) is not None or self._journal.originals(each) for each in digests)

    def _is_replacement(self, line: Line) -> bool:
        """Say whether a text in a line is, to the digest, what stands for a missing original."""
        keys = [(block.digest, block.kind, block.call) for block in line.blocks if block.marked]
        owners = (self._journal.block(row)[0] for key in keys for row in self._journal.replaced(key))
        return any(owner.sha256 in self._digests for owner in owners)

    def _line(self, raw: bytes, entry: Entry) -> Line:
        return self._form.reader().line(raw, entry)


def _entry(raw: bytes) -> Entry | None:
    """Return what is read of a line, also where only its agent reads all of it: a message of a document has no LF."""
    return parse(raw) or (entry_of(raw) if is_readable(raw) else None)


def _name(line: Line, entry: Entry) -> str | int:
    """Return what an entry goes by: its id, or where it has none all that no rewriting changes."""
    return line.id or identity(entry)


def _head(raw: bytes) -> bytes:
    """Return what stands before the first object in a line: its type, and an id or a time."""
    return raw[: raw.find(b"{", 1)]
