"""Put the originals back: exactly, line by line, or wherever a marker of ours stands."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from sessioncompress import files
from sessioncompress.entries import original_of
from sessioncompress.errors import NOT_CHANGED, NotASession, Refused
from sessioncompress.formats.base import Entry, Format
from sessioncompress.jsonl import pieces
from sessioncompress.marker import PREFIX_BYTES, references
from sessioncompress.model import Kind
from sessioncompress.model import Path as ValuePath
from sessioncompress.policy import BALANCED, Policy
from sessioncompress.recorded import recorded
from sessioncompress.rewrite import value_at
from sessioncompress.rewritten import RewrittenLines, find
from sessioncompress.splice import CannotSplice, splice
from sessioncompress.stats import RestoreStats, Status
from sessioncompress.store import journal as journals
from sessioncompress.store.beside import Beside
from sessioncompress.store.commit import Rewrite
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import BlockRecord, LineRecord, RunRecord
from sessioncompress.store.recover import recover
from sessioncompress.survey import parse
from sessioncompress.version import VERSION
from sessioncompress.whole import whole_lines

WAY_OUT = "'sessioncompress restore --from-markers' puts back all that can be."


def restore_session(
    path: Path | str, policy: Policy = BALANCED, *, from_markers: bool = False, originals: Path | None = None
) -> RestoreStats:
    """Give a session its original bytes back; lines appended since stay.

    Refuses when it cannot be exact: each line that stands there as it was rewritten becomes its original, and so does
    a copy of such a line, which `reason` counts; every other line stays. With `from_markers` it puts back what can
    be, also in a fork or a migrated file: a line that stands there as it was rewritten whole, elsewhere a value
    wherever a marker of ours stands; `originals` then names the session whose store holds them. What lies beside
    stays: `forget` deletes it. Raises SessionCompressError with the session unchanged.
    """
    path = Path(path)
    with open_session(path, writing=True) as session:
        beside = files.beside_of(session.path, policy)
        journal = journals.load(beside.journal)
        recover(session, beside, journal.lengths)
        run = _Restore(session, beside, journal, policy)
        if from_markers:
            store = files.beside_of(originals.absolute(), policy) if originals else beside
            return run.from_markers(store, journals.load(store.journal) if originals else journal)
        return run.exactly()


@dataclass(frozen=True, slots=True)
class _Restore:
    session: OpenSession
    beside: Beside
    journal: Journal
    policy: Policy

    def exactly(self) -> RestoreStats:
        swaps, missing = find(self.session, self.journal)
        self._refuse_unless_exact(swaps, missing)
        if not swaps and self.journal.runs:
            return self._stats(Status.UNCHANGED, "it has its original bytes already")
        if not swaps:
            refuse_if_marked(self.session, self.beside)
            return self._stats(Status.UNCHANGED, "it was never compressed")
        with OriginalsReader(self.beside.originals) as originals:
            done = self._write(self._exact_lines(swaps, originals), len(swaps))
        is_one = _counted(swaps.copies, "of them is a copy", "of them are copies")
        return replace(done, reason=f"{is_one} of a rewritten line") if swaps.copies else done

    def _refuse_unless_exact(self, swaps: RewrittenLines, missing: int) -> None:
        lost = sum(record.place is None for record in swaps.values())
        reasons = []
        if missing:
            reasons.append(
                f"{_counted(missing, 'rewritten line is', 'rewritten lines are')} no longer there as written"
            )
        if lost:
            has = _counted(lost, "line has", "lines have")
            reasons.append(f"{has} no original, compressed without keeping originals (keepBackup: false)")
        if reasons:
            raise Refused(
                "it cannot be restored exactly: " + "; ".join(reasons),
                where=self.session.path,
                state=NOT_CHANGED,
                remedy=WAY_OUT if self.journal.kept else "Only a copy of the session can bring it back.",
            )

    def _exact_lines(self, swaps: Mapping[int, LineRecord], originals: OriginalsReader) -> Iterator[bytes]:
        with self.session.reader() as file:
            for number, raw, _ in pieces(file, self.session.size):
                record = swaps.get(number)
                yield original_of(raw, record, originals, self.beside.journal) if record else raw

    def from_markers(self, store: Beside, journal: Journal) -> RestoreStats:
        form = files.format_of(self.session)
        if not journal.kept:
            return self._stats(Status.UNCHANGED, "no original is stored that could be put back")
        with OriginalsReader(store.originals) as originals, self.session.reader() as file:
            swaps = find(self.session, journal)[0]
            whole = whole_lines(self.session, form, swaps, originals, store.journal)
            swapper = _Swapper(form, journal, originals, store.journal, whole, swaps if store == self.beside else {})
            return self._write(swapper.lines(pieces(file, self.session.size)), 0, swapper)

    def _write(self, lines: Iterator[bytes], changed: int, swapper: _Swapper | None = None) -> RestoreStats:
        with Rewrite(
            self.session, self.beside, self.journal.lengths, commit_originals=self.policy.commit_originals
        ) as rewrite:
            for line in lines:
                rewrite.write(line)
            if swapper is not None:
                changed = swapper.changed
                if not changed:
                    reason = "nothing stands there that can be put back" + swapper.left()
                    return self._stats(Status.UNCHANGED, reason)
            finished = rewrite.finish()
            forms = swapper.forms(self.journal) if swapper else []
            records = [*map(LineRecord.encode, forms), self._record(finished.size, len(forms))]
            committed = rewrite.commit(records if self.journal.runs else [])
            stats = self._stats(Status.RESTORED, swapper.left().removeprefix("; ") if swapper else "")
            return replace(stats, size_after=committed.size, lines_restored=changed)

    def _record(self, size: int, lines: int) -> bytes:
        return RunRecord(
            at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            version=VERSION,
            policy={},
            original_size=self.session.size,
            compressed_size=size,
            store_size=self.journal.store_size,
            boundary=0,
            stats={},
            restored=True,
            records=(lines, 0),
        ).encode()

    def _stats(self, status: Status, reason: str) -> RestoreStats:
        size = self.session.size
        return RestoreStats(str(self.session.path), status, reason, size, size)


def refuse_if_marked(session: OpenSession, beside: Beside) -> None:
    """Raise Refused where a session without a journal has markers: it was moved or copied without what they name."""
    markers = count_markers(session)
    if markers:
        raise Refused(
            f"{_counted(markers, 'marker stands', 'markers stand')} in it, but no journal lies beside it under "
            "its name",
            where=session.path,
            state=NOT_CHANGED,
            remedy="If it was moved or renamed, name its old path, or if it is a copy the other session: "
            f"'restore --from-markers --originals OTHER'. Or put its two files here as {beside.journal} and "
            f"{beside.originals.name}, or name their folder with --backup-dir.",
        )


def count_markers(session: OpenSession) -> int:
    """Return in how many places of a session a marker stands as we write it: one in a text, and it names an original.

    A text that quotes one looks the same; more than one in a text is a quote for certain. 0 for what is no session.
    """
    try:
        reader = files.format_of(session).reader()
    except NotASession:
        return 0
    with session.reader() as file:
        marked = (raw for _, raw, whole in pieces(file, session.size) if whole and PREFIX_BYTES in raw)
        read = ((raw, entry) for raw in marked if (entry := parse(raw)) is not None)
        texts = (value_at(entry, it.path) for raw, entry in read for it in reader.line(raw, entry).blocks if it.marked)
        return sum(len(references(text)) == 1 for text in texts)


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


class _Swapper:
    """Puts the `whole` lines back, in others values where a text is, to the digest, a replacement of ours."""

    def __init__(
        self,
        form: Format,
        journal: Journal,
        originals: OriginalsReader,
        where: Path,
        whole: Mapping[int, LineRecord],
        rewritten: Mapping[int, LineRecord],
    ) -> None:
        self._form = form
        self._journal = journal
        self._originals = originals
        self._where = where
        self._whole = whole
        self._rewritten = rewritten
        self._forms: dict[str, LineRecord | None] = {}
        self.changed = 0
        self.unclear = 0

    def lines(self, stream: Iterator[tuple[int, bytes, bool]]) -> Iterator[bytes]:
        """Yield every line, changed where something of it can be put back."""
        for number, raw, whole in stream:
            record = self._whole.get(number)
            if record and record.place:
                self.changed += 1
                yield self._originals.line(record.place, record.sha256)
            else:
                new = self._line(raw) if whole and PREFIX_BYTES in raw else raw
                record = self._rewritten.get(number)
                if record and record.place and new is not raw:
                    self._note(record._replace(rewritten=sha256(new).hexdigest()))
                yield new

    def forms(self, taken: Journal) -> list[LineRecord]:
        """Return records of the lines that are now neither whole nor as they were rewritten; each has its original.

        Not of a line that could be taken for that of another original.
        """
        known = (record for record in self._forms.values() if record)
        return [record for record in known if taken.rewriting(bytes.fromhex(record.rewritten)) is None]

    def _note(self, record: LineRecord) -> None:
        is_one = self._forms.setdefault(record.rewritten, record) == record
        self._forms[record.rewritten] = record if is_one else None

    def left(self) -> str:
        """Say how many markers were left because more than one original may be theirs."""
        if not self.unclear:
            return ""
        stay = _counted(self.unclear, "marker that could stand", "markers that could stand")
        return f"; {stay} for more than one original {'stays' if self.unclear == 1 else 'stay'}"

    def _line(self, raw: bytes) -> bytes:
        entry = parse(raw)
        if entry is None:
            return raw
        values: dict[ValuePath, object] = {}
        line = self._form.reader().line(raw, entry)
        for block in line.blocks:
            found = self._journal.replaced((block.digest, block.kind, block.call)) if block.marked else ()
            if found:
                values |= self._value(line.id, block.path, map(self._journal.block, found))
        if not values:
            return raw
        try:
            new, _ = splice(raw, entry, values)
        except CannotSplice:
            return raw
        self.changed += 1
        return new

    def _value(
        self, entry_id: str, path: ValuePath, found: Iterable[tuple[LineRecord, BlockRecord]]
    ) -> dict[ValuePath, object]:
        contents: list[object] = []
        kind = Kind.RESULT
        for line, block in found:
            if line.place is None:
                continue
            raw = self._originals.line(line.place, line.sha256)
            original = parse(raw)
            if original is None or not self._is_of(entry_id, raw, original):
                continue
            kind = block.kind
            value = recorded(original, block, self._where)
            if value not in contents:
                contents.append(value)
        if len(contents) != 1:
            self.unclear += len(contents) > 1
            return {}
        # An image's marker is the text of the part that stands in its place: the whole part goes back.
        return {path[:-1] if kind is Kind.IMAGE else path: contents[0]}

    def _is_of(self, entry_id: str, raw: bytes, original: Entry) -> bool:
        """Say whether the original is that of an entry: a later call of the same id may have printed its marker.

        Forks and migrations keep the ids of entries; before a migration there may have been none.
        """
        return self._form.reader().line(raw, original).id in ("", entry_id) or not entry_id
