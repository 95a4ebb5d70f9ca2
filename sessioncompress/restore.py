"""Put the originals back: exactly, line by line, or wherever a marker of ours stands."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sessioncompress import files
from sessioncompress.documents import pieces_of
from sessioncompress.entries import original_of
from sessioncompress.errors import NOT_CHANGED, Damaged, NotASession, Refused, SessionCompressError, UsageError
from sessioncompress.formats.base import Format
from sessioncompress.marked import refuse_if_marked, strangers_of
from sessioncompress.places import beside_of
from sessioncompress.policy import BALANCED, Policy
from sessioncompress.putback import PutBack
from sessioncompress.rewritten import RewrittenLines, find
from sessioncompress.stats import RestoreStats, Status
from sessioncompress.store import journal as journals
from sessioncompress.store import times
from sessioncompress.store.beside import Beside
from sessioncompress.store.commit import Rewrite
from sessioncompress.store.journal import Journal
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord, RunRecord
from sessioncompress.store.recover import recover
from sessioncompress.store.salvage import SalvagingReader
from sessioncompress.store.seal import sealed
from sessioncompress.version import VERSION
from sessioncompress.whole import whole_lines
from sessioncompress.words import counted, strangers

_WAY_OUT = "'sessioncompress restore --from-markers' puts back all that can be."
_ALREADY = "it has its original bytes already"
_ALREADY_BUT = "every line that its journal knows has its original bytes already"
_NO_WAY_OUT = "Nothing more can be put back from here: only a copy of the session can bring back the rest."


def restore_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    from_markers: bool = False,
    originals: Path | None = None,
    form: str | None = None,
) -> RestoreStats:
    """Give a session its original bytes back; lines appended since stay.

    Refuses when it cannot be exact: each line that stands there as it was rewritten becomes its original, and so does
    a copy of such a line, which `reason` counts; every other line stays. With `from_markers` it puts back what can
    be, also in a fork or a migrated file: a line that stands there as it was rewritten whole, elsewhere a value
    wherever a marker of ours stands; `originals` then names the session whose store holds them. What lies beside
    stays: `forget` deletes it. `form` is as for compress_session(), and counts where markers are looked at. Raises
    SessionCompressError with the session unchanged.
    """
    path = Path(path)
    with open_session(path, writing=True) as session:
        beside = beside_of(session.path, policy)
        journal = journals.load(beside.journal)
        recover(session, beside, journal.lengths)
        run = _Restore(session, beside, journal, policy, form)
        if from_markers:
            return run.from_markers(*(_of_another(originals, policy) if originals else (beside, journal)))
        return run.exactly()


@dataclass(frozen=True, slots=True)
class _Restore:
    session: OpenSession
    beside: Beside
    journal: Journal
    policy: Policy
    form: str | None

    def exactly(self) -> RestoreStats:
        swaps, missing = find(self.session, self.journal)
        self._refuse_unless_exact(swaps, missing)
        unknown = self._unknown()
        if not swaps and self.journal.runs:
            return self._stats(Status.UNCHANGED, _joined(_ALREADY_BUT if unknown else _ALREADY, unknown))
        if not swaps:
            refuse_if_marked(self.session, self.beside, self.form)
            return self._stats(Status.UNCHANGED, "it was never compressed")
        with OriginalsReader(self.beside.originals) as originals:
            done = self._write(self._exact_lines(swaps, originals), len(swaps))
        is_one = counted(swaps.copies, "of them is a copy", "of them are copies")
        copies = f"{is_one} of a rewritten line" if swaps.copies else ""
        return replace(done, reason=_joined(copies, unknown))

    def _unknown(self) -> str:
        return strangers(strangers_of(self.session, self.journal, self.form)) if self.journal.runs else ""

    def _refuse_unless_exact(self, swaps: RewrittenLines, missing: int) -> None:
        lost = sum(record.place is None for record in swaps.values())
        reasons = []
        if missing:
            reasons.append(f"{counted(missing, 'rewritten line is', 'rewritten lines are')} no longer there as written")
        if lost:
            has = counted(lost, "line has", "lines have")
            reasons.append(f"{has} no original, compressed without keeping originals (keepBackup: false)")
        if reasons:
            raise Refused(
                "it cannot be restored exactly: " + "; ".join(reasons),
                where=self.session.path,
                state=NOT_CHANGED,
                remedy=way_out(self.session, self.beside, self.journal, self.form),
            )

    def _exact_lines(self, swaps: Mapping[int, LineRecord], originals: OriginalsReader) -> Iterator[bytes]:
        for number, raw, _ in pieces_of(self.session.reader, self.session.size):
            record = swaps.get(number)
            yield original_of(raw, record, originals, self.beside.journal) if record else raw

    def from_markers(self, store: Beside, journal: Journal) -> RestoreStats:
        form = files.format_of(self.session, self.form)
        if not journal.kept:
            if not journal.runs:
                refuse_if_marked(self.session, self.beside, self.form)
            return self._stats(Status.UNCHANGED, "no original is stored that could be put back")
        with SalvagingReader(store.originals) as originals:
            putback = _putback(self.session, form, journal, originals, store, own=store == self.beside)
            unknown = self._unknown() if putback.is_own else ""
            done = self._write(putback.lines(pieces_of(self.session.reader, self.session.size)), 0, putback)
        if putback.unreadable and done.status is Status.UNCHANGED:
            raise Damaged(
                f"nothing can be put back: {putback.unreadable}",
                where=store.originals,
                state=NOT_CHANGED,
                remedy="Put a copy of this file back from a backup.",
            )
        if not unknown:
            return done
        return replace(done, reason=_joined(done.reason.replace(_ALREADY, _ALREADY_BUT), unknown))

    def _write(self, lines: Iterator[bytes], changed: int, putback: PutBack | None = None) -> RestoreStats:
        commit_originals = self.policy.commit_originals
        with Rewrite(self.session, self.beside, self.journal.lengths, commit_originals=commit_originals) as rewrite:
            for line in lines:
                rewrite.write(line)
            if putback is not None:
                changed = putback.changed
                if not changed:
                    return self._stats(Status.UNCHANGED, "; ".join([_nothing(putback), *putback.left]))
            finished = rewrite.finish()
            forms = putback.forms(self.journal) if putback else []
            records = sealed(map(LineRecord.encode, forms), self._record(finished.size, len(forms)))
            # Asked before the commit: the session is the restored one from then on.
            left = [*putback.left, putback.inexact] if putback else []
            stats = self._stats(Status.RESTORED, "; ".join(filter(None, left)))
            committed = rewrite.commit(records if self.journal.runs else [])
            return replace(stats, size_after=committed.size, lines_restored=changed)

    def _record(self, size: int, lines: int) -> RunRecord:
        return RunRecord(
            at=times.written(time.time()),
            version=VERSION,
            policy={},
            original_size=self.session.size,
            compressed_size=size,
            store_size=self.journal.store_size,
            boundary=0,
            stats={},
            restored=True,
            records=(lines, 0),
            session_id=self.journal.session_id,
        )

    def _stats(self, status: Status, reason: str) -> RestoreStats:
        size = self.session.size
        return RestoreStats(str(self.session.path), status, reason, size, size)


def _of_another(session: Path, policy: Policy) -> tuple[Beside, Journal]:
    """Return what lies beside another session, which itself may be gone. Raises UsageError where nothing does."""
    store = beside_of(session.absolute(), policy)
    journal = journals.load(store.journal)
    if not journal.runs:
        raise UsageError(
            f"nothing lies beside {session} whose originals are to be used: there is no journal {store.journal}",
            state=NOT_CHANGED,
            remedy="Name the session, or its old path if it was moved, and with --backup-dir the folder if it had one.",
        )
    return store, journal


def way_out(session: OpenSession, beside: Beside, journal: Journal, form: str | None) -> str:
    """Say what to do with a session that cannot be restored exactly: whether there is anything to be put back."""
    try:
        return _WAY_OUT if _can_put_back(session, beside, journal, form) else _NO_WAY_OUT
    except NotASession:
        return _NO_WAY_OUT
    except SessionCompressError:
        # What is wrong with the originals is told by that command.
        return _WAY_OUT


def _can_put_back(session: OpenSession, beside: Beside, journal: Journal, form: str | None) -> bool:
    if not journal.kept:
        return False
    with SalvagingReader(beside.originals) as originals:
        putback = _putback(session, files.format_of(session, form), journal, originals, beside, own=True)
        lines = putback.lines(pieces_of(session.reader, session.size))
        return any(putback.changed or putback.unreadable for _ in lines)


def _putback(
    session: OpenSession, form: Format, journal: Journal, originals: OriginalsReader, store: Beside, *, own: bool
) -> PutBack:
    found = find(session, journal)
    whole = whole_lines(session, form, found[0], originals, store.journal)
    return PutBack(form, journal, originals, store.journal, whole, found if own else None)


def _joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _nothing(putback: PutBack) -> str:
    if putback.is_own and not putback.inexact and not putback.left:
        return _ALREADY
    return "nothing stands there that can be put back" + (": the session is not exact" if putback.inexact else "")
