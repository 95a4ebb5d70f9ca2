"""Put originals back: exactly, line by line, or wherever one of our markers is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.core import VERSION, text
from sessioncompress.core.jsonl import pieces_of
from sessioncompress.core.text import as_written, counted, not_there, of_relatives, strangers, unreadable
from sessioncompress.errors import (
    NOT_CHANGED,
    Damaged,
    NotASession,
    Refused,
    SessionCompressError,
    Unreadable,
    UsageError,
)
from sessioncompress.operations.altered import altered
from sessioncompress.operations.partial_restore import PutBack, whole_lines
from sessioncompress.operations.show import original_of
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.reading import RewrittenLines, find
from sessioncompress.pipeline.relatives import (
    Relative,
    markers_of,
    refuse_if_marked,
    relatives_of,
    strangers_of,
    unknown_to_all,
)
from sessioncompress.pipeline.summary import Status
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.commit import Rewrite
from sessioncompress.store.damage import FORGET, SalvagingReader, put_back, too_short
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Beside, size_of, store_of
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import LineRecord, RunRecord, readable, sealed
from sessioncompress.store.recover import recover

_WAY_OUT = "'sessioncompress restore --from-markers' puts back all that can be."
_NOTHING_OF_OURS = "no marker of ours stands in it, and it has no store"
_ALREADY = "it has its original bytes already"
_ALREADY_BUT = "every line that its journal knows has its original bytes already"
_NONE_STORED = "no original is stored that could be put back"
_NO_WAY_OUT = "Nothing more can be put back from here: only a copy of the session can bring back the rest."


class RestoreStats(Struct, frozen=True, rename="camel"):
    """What a restore did to one session; sizes are bytes of the file."""

    path: str
    status: Status
    reason: str = ""
    size_before: int = 0
    size_after: int = 0
    lines_restored: int = 0


def restore_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    from_markers: bool = False,
    originals: Path | None = None,
    form: str | None = None,
) -> RestoreStats:
    """Give a session its original bytes back; lines appended since stay.

    Each rewritten line, and each copy of one, becomes its original; all other lines stay. In an older state of the
    session, the lines that it has come back. `reason` counts the copies and the missing lines. The session is refused
    if it cannot be exact: a rewritten line was altered since. `from_markers` puts back what is possible, also in a fork
    or a migrated file: rewritten lines as a whole, and elsewhere the value of each marker of ours. `originals` then
    names the session whose store to use. The store stays: `forget` deletes it. `form`, as in compress_session(), is
    used for reading markers. Raises SessionCompressError with the session unchanged.
    """
    path = Path(path)
    with open_session(path, writing=True) as session:
        beside = store_of(session.path, policy)
        journal = journals.load(beside.journal)
        recover(session, beside, journal.lengths, salvaging=from_markers)
        run = _Restore(session, beside, journal, policy, form)
        if not from_markers:
            return run.exactly()
        return run.from_markers(*_of_another(originals, policy)) if originals else run.by_markers()


class _Restore(NamedTuple):
    session: OpenSession
    beside: Beside
    journal: Journal
    policy: Policy
    form: str | None

    def exactly(self) -> RestoreStats:
        if not self.journal.runs:
            reading.refuse_unless_session(self.session, self.form)
            refuse_if_marked(self.session, self.beside, self.policy, self.form)
            return self._stats(Status.UNCHANGED, _NOTHING_OF_OURS)
        swaps, missing = find(self.session, self.journal)
        self._refuse_unless_exact(swaps, missing)
        in_merge = "git's conflict markers stand in it still" if reading.line_in_merge(self.session) else ""
        unknown, older = self._unknown(), _joined(not_there(len(missing)), in_merge)
        if not swaps:
            return self._stats(Status.UNCHANGED, _joined(_ALREADY_BUT if unknown else _ALREADY, older, unknown))
        with OriginalsReader(self.beside.originals) as originals:
            done = self._write(self._exact_lines(swaps, originals), len(swaps))
        is_one = counted(swaps.copies, "of them is a copy", "of them are copies")
        copies = f"{is_one} of a rewritten line" if swaps.copies else ""
        return replace(done, reason=_joined(copies, older, unknown))

    def _unknown(self) -> str:
        found = strangers_of(self.session, self.journal, self.form)
        left = unknown_to_all(self._relatives(), found) if found else []
        return _joined(of_relatives(len(found) - len(left)), strangers(len(left)))

    def _relatives(self) -> list[Relative]:
        return relatives_of(self.session, self.policy, self.form)

    def _refuse_unless_exact(self, swaps: RewrittenLines, missing: Sequence[LineRecord]) -> None:
        lost = sum(record.place is None for record in swaps.values())
        reasons = []
        if changed := altered(self.session, self.journal, swaps, missing, self.beside.originals, self.form):
            reasons.append(as_written(changed))
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

    def by_markers(self) -> RestoreStats:
        reading.refuse_unless_session(self.session, self.form)
        has_own = bool(self.journal.runs)
        failed: list[Damaged] = []
        done = _tried([lambda: self.from_markers(self.beside, self.journal)] if has_own else [], failed)
        found = strangers_of(self.session, self.journal, self.form)
        relatives: list[Relative] = []
        with _noting(failed):
            relatives = self._relatives() if markers_of(self.session, self.form).texts else []
        left = unknown_to_all(relatives, found)
        if not has_own and found and len(left) == len(found) and not failed:
            refuse_if_marked(self.session, self.beside, self.policy, self.form)
        others = _tried([partial(self._from_relative, each, alone=not has_own) for each in relatives], failed)
        if failed and not any(each.lines_restored for each in [*done, *others]):
            raise failed[0]
        notes = [f"{each.where}: {each.what}" for each in failed if each.where != str(self.beside.originals)]
        if has_own and any(each.lines_restored for each in others):
            # What the own store could not give back may have come from others: only now the rest is known.
            done = [replace(each, reason="") for each in done]
            notes.insert(0, self._now().what_is_left())
        done += others
        notes.append(strangers(len(left)))
        return _together(done, _joined(*notes)) if done else self._stats(Status.UNCHANGED, _NONE_STORED)

    def _now(self) -> _Restore:
        # Putting back from another store changes the journal.
        return self._replace(journal=journals.load(self.beside.journal))

    def _from_relative(self, relative: Relative, *, alone: bool) -> RestoreStats:
        done = self._now().from_markers(relative.beside, relative.journal, alone=alone)
        lines = counted(done.lines_restored, "line", "lines")
        return replace(done, reason=_joined(f"{lines} from the originals of {relative.session}", done.reason))

    def what_is_left(self) -> str:
        """Describe what of the session is not restored, by its own journal; empty if it is exact."""
        swaps, missing = find(self.session, self.journal)
        older = len(missing) if not self._is_altered(swaps, missing) else 0
        number = len(swaps) + len(missing) - older
        if not number:
            return not_there(older)
        damaged: set[int] = set()
        # The journal's damage was reported before; by now other stores have changed the session.
        with suppress(Damaged), SalvagingReader(self.beside.originals) as originals:
            form = reading.format_of(self.session, self.form)
            damaged = whole_lines(self.session, form, swaps, originals, self.beside.journal).unreadable
        lines = counted(number, "rewritten line", "rewritten lines")
        inexact = f"{lines} did not come back, or only in part: the session is not exact"
        return _joined(unreadable(damaged), inexact, not_there(older))

    def from_markers(self, store: Beside, journal: Journal, *, alone: bool = True) -> RestoreStats:
        """Put back what one store holds, the session's own or another's.

        Unless `alone`, the caller describes what of the session is not exact.
        """
        form = reading.format_of(self.session, self.form)
        if not journal.kept:
            return self._stats(Status.UNCHANGED, _NONE_STORED)
        own = store == self.beside
        if own and size_of(store.originals) is None:
            raise too_short(store.originals, 0, journal.store_size)
        swaps, missing = find(self.session, journal)
        older = len(missing) if own and not self._is_altered(swaps, missing) else 0
        with SalvagingReader(store.originals) as originals:
            whole = whole_lines(self.session, form, swaps, originals, store.journal)
            known = (swaps, [] if older else missing) if own else None
            putback = PutBack(form, journal, originals, store.journal, whole, known)
            lines = putback.lines(pieces_of(self.session.reader, self.session.size))
            done = self._write(lines, 0, putback, alone=alone)
        if putback.unreadable and done.status is Status.UNCHANGED:
            raise Damaged(
                f"nothing can be put back: {putback.unreadable}",
                where=store.originals,
                state=NOT_CHANGED,
                remedy=_last_resort(store, journal) if own else "Put a copy of this file back from a backup.",
            )
        return replace(done, reason=_joined(done.reason, not_there(older)))

    def _is_altered(self, found: RewrittenLines, missing: Sequence[LineRecord]) -> bool:
        try:
            return altered(self.session, self.journal, found, missing, self.beside.originals, self.form) > 0
        except Unreadable:
            return True

    def _write(
        self, lines: Iterator[bytes], changed: int, putback: PutBack | None = None, *, alone: bool = True
    ) -> RestoreStats:
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
            # Before the commit, after which the session is the restored one.
            left = [*putback.left, putback.inexact if alone else ""] if putback else []
            stats = self._stats(Status.RESTORED, "; ".join(filter(None, left)))
            committed = rewrite.commit(records if self.journal.runs else [])
            return replace(stats, size_after=committed.size, lines_restored=changed)

    def _record(self, size: int, lines: int) -> RunRecord:
        run = RunRecord(
            at=text.written_time(time.time()),
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
        return readable(run, self.beside.journal)

    def _stats(self, status: Status, reason: str) -> RestoreStats:
        size = self.session.size
        return RestoreStats(str(self.session.path), status, reason, size, size)


def _last_resort(store: Beside, journal: Journal) -> str:
    return f"{put_back(store.originals, journal.store_size)} Without one {FORGET}"


def _of_another(session: Path, policy: Policy) -> tuple[Beside, Journal]:
    """Load the store of another session, which itself may be gone. Raises UsageError if it has none."""
    store = store_of(session.absolute(), policy)
    journal = journals.load(store.journal)
    if not journal.runs:
        raise UsageError(
            f"{session}, whose originals are to be used, has no store: there is no journal {store.journal}",
            state=NOT_CHANGED,
            remedy="Name the session, or its old path if it was moved, and with --backup-dir the folder if it had one.",
        )
    return store, journal


def way_out(session: OpenSession, beside: Beside, journal: Journal, form: str | None) -> str:
    """Tell how to go on with a session that cannot be restored exactly: put back what is possible, or print it."""
    if not journal.kept:
        return _NO_WAY_OUT
    left = (
        f"'sessioncompress show REF {session.path}' prints an original that is kept; the references are each 'ref' in "
        f"{beside.journal}. Only a copy of the session can bring back the rest."
    )
    try:
        return _WAY_OUT if _can_put_back(session, beside, journal, form) else left
    except NotASession:
        return left
    except SessionCompressError:
        # That command will report what is wrong with the originals.
        return _WAY_OUT


def _can_put_back(session: OpenSession, beside: Beside, journal: Journal, form: str | None) -> bool:
    found, known = find(session, journal), reading.format_of(session, form)
    with SalvagingReader(beside.originals) as originals:
        whole = whole_lines(session, known, found[0], originals, beside.journal)
        putback = PutBack(known, journal, originals, beside.journal, whole, found)
        lines = putback.lines(pieces_of(session.reader, session.size))
        return any(putback.changed or putback.unreadable for _ in lines)


def _tried(stores: Iterable[Callable[[], RestoreStats]], failed: list[Damaged]) -> list[RestoreStats]:
    # A damaged store does not keep the others from giving back.
    done = []
    for give_back in stores:
        with _noting(failed):
            done.append(give_back())
    return done


@contextmanager
def _noting(failed: list[Damaged]) -> Iterator[None]:
    try:
        yield
    except Damaged as error:
        failed.append(error)


def _together(done: Sequence[RestoreStats], unknown: str) -> RestoreStats:
    restored = [each for each in done if each.lines_restored]
    if not restored:
        reason = done[0].reason
        return replace(done[0], reason=_joined(reason.replace(_ALREADY, _ALREADY_BUT) if unknown else reason, unknown))
    return replace(
        restored[-1],
        size_before=restored[0].size_before,
        lines_restored=sum(each.lines_restored for each in restored),
        reason=_joined(*(each.reason for each in restored), unknown),
    )


def _joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _nothing(putback: PutBack) -> str:
    if putback.is_own and not putback.inexact and not putback.left:
        return _ALREADY
    return "nothing stands there that can be put back" + (": the session is not exact" if putback.inexact else "")
