"""Put originals back: exactly, line by line, or wherever one of our markers is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress import errors
from sessioncompress.core import VERSION, text
from sessioncompress.core.jsonl import document_of, parse, parse_any, pieces_of
from sessioncompress.core.marker import PREFIX_BYTES
from sessioncompress.core.model import JsonPath, Kind, Line
from sessioncompress.core.splice import CannotSplice, splice
from sessioncompress.core.text import counted, not_there, strangers, unreadable
from sessioncompress.formats.base import Entry, Format
from sessioncompress.operations.altered import altered
from sessioncompress.operations.checkpoints import (
    Checkpoints,
    not_as_written,
    out_of_document,
    refuse_if_compacted,
    refuse_if_rewritten,
    with_removed,
)
from sessioncompress.operations.show import of_another, original_of, recorded
from sessioncompress.operations.unwinding import Unwound
from sessioncompress.pipeline import reading, relatives
from sessioncompress.pipeline.summary import Status
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import damage
from sessioncompress.store import journal as journals
from sessioncompress.store.commit import Rewrite
from sessioncompress.store.layout import Store, size_of, store_of
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import BlockRecord, CheckpointRecord, LineRecord, RunRecord, readable, sealed
from sessioncompress.store.recover import recover

_ALREADY = "it has its original bytes already"
_ALREADY_BUT = "every line that its journal knows has its original bytes already"
_NONE_STORED = "no original is stored that could be put back"


class RestoreStats(Struct, frozen=True, rename="camel"):
    """What a restore did to one session; sizes are bytes of the file."""

    path: str
    status: Status
    reason: str = ""
    size_before: int = 0
    size_after: int = 0
    lines_restored: int = 0
    checkpoints_removed: int = 0

    @property
    def is_restored(self) -> bool:
        """Whether the session was changed."""
        return self.lines_restored > 0 or self.checkpoints_removed > 0


def restore_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    from_markers: bool = False,
    originals: Path | None = None,
    keep_checkpoints: bool = False,
    form: str | None = None,
) -> RestoreStats:
    """Give a session its original bytes back; lines appended since stay.

    Checkpoints of ours are taken out, unless `keep_checkpoints`; an entry that hangs on one is hung on its parent.

    Each rewritten line, and each copy of one, becomes its original; all other lines stay. In an older state of the
    session, the lines that it has come back. `reason` counts the copies and the missing lines. The session is refused
    if it cannot be exact: a rewritten line was altered since. `from_markers` puts back what is possible, also in a fork
    or a migrated file: rewritten lines as a whole, and elsewhere the value of each marker of ours. `originals` then
    names the session whose store to use, which itself may be gone. The store stays: `forget` deletes it. `form`, as in
    compress_session(), is used for reading markers. Raises SessionCompressError with the session unchanged.
    """
    with open_session(Path(path), writing=True) as session:
        store = store_of(session.path, policy)
        journal = journals.load(store.journal)
        recover(session, store, journal.lengths, salvaging=from_markers)
        run = _Restore(session, store, journal, policy, form)
        if not from_markers:
            return run.exactly(keep_checkpoints=keep_checkpoints)
        if originals is None:
            return run.by_markers()
        other = store_of(originals.absolute(), policy)
        known = journals.load(other.journal)
        if not known.runs:
            raise errors.UsageError(
                f"{originals}, whose originals are to be used, has no store: there is no journal {other.journal}",
                state=errors.NOT_CHANGED,
                remedy="Name the session, or its old path if it was moved, and with --backup-dir the folder if it had "
                "one.",
            )
        return run.from_store(other, known)


class _Restore(NamedTuple):
    session: OpenSession
    store: Store
    journal: journals.Journal
    policy: Policy
    form: str | None

    def exactly(self, *, keep_checkpoints: bool) -> RestoreStats:
        session, store, journal = self.session, self.store, self.journal
        if not journal.runs:
            reading.refuse_unless_session(session, self.form)
            relatives.refuse_if_marked(session, store, self.policy, self.form)
            refuse_if_compacted(session, store, self.form)
            return self._stats(Status.UNCHANGED, "no marker of ours stands in it, and it has no store")
        if not keep_checkpoints and (done := self._out_of_document()) is not None:
            rest = self._now().exactly(keep_checkpoints=True)
            return replace(
                rest,
                status=Status.RESTORED,
                reason=rest.reason if rest.is_restored else "",
                size_before=done.size_before,
                checkpoints_removed=done.checkpoints_removed,
            )
        found, missing = reading.find(session, journal)
        missing = with_removed(session, journal, store.originals, found, missing)
        unwound = None if keep_checkpoints else self._unwound()
        swaps = found if unwound is None else unwound.rewritten()
        reasons = []
        if changed := altered(session, journal, found, missing, store.originals, self.form):
            reasons.append(text.as_written(changed))
        if lost := sum(record.place is None for record in swaps.values()):
            has = counted(lost, "line has", "lines have")
            reasons.append(f"{has} no original, compressed without keeping originals (keepBackup: false)")
        if reasons:
            raise errors.Refused(
                "it cannot be restored exactly: " + "; ".join(reasons),
                where=session.path,
                state=errors.NOT_CHANGED,
                remedy=way_out(session, store, journal, self.form),
            )
        marked = relatives.strangers_of(session, journal, self.form)
        left = (
            relatives.unknown_to_all(relatives.relatives_of(session, self.policy, self.form), marked) if marked else []
        )
        unknown = _joined(text.of_relatives(len(marked) - len(left)), strangers(len(left)))
        in_merge = "git's conflict markers stand in it still" if reading.line_in_merge(session) else ""
        checkpoints: Checkpoints | Unwound | None = unwound
        if not keep_checkpoints and unwound is None and journal.checkpoints:
            checkpoints = Checkpoints(session, journal, reading.format_of(session, self.form))
        gone = not_as_written(checkpoints.altered) if checkpoints else ""
        if checkpoints and checkpoints.copied:
            gone = (
                "the agent has copied the summary into a line of its own, which stays: the model may go on reading it"
            )
        older = _joined(not_there(len(missing)), in_merge, gone)
        if not swaps and not (checkpoints and checkpoints.taken):
            return self._stats(Status.UNCHANGED, _joined(_ALREADY_BUT if unknown or gone else _ALREADY, older, unknown))
        with OriginalsReader(store.originals) if swaps else nullcontext() as originals:

            def line(number: int, raw: bytes) -> bytes:
                if originals is not None and number in swaps:
                    raw = original_of(raw, swaps[number], originals, store.journal)
                return raw if checkpoints is None else checkpoints.rehung(raw)

            pieces = pieces_of(session.reader, session.size) if checkpoints is None else checkpoints.pieces()
            ended = tuple if checkpoints is None else checkpoints.ended
            done = self._write((line(number, raw) for number, raw, _ in pieces), len(swaps), ended=ended)
        is_one = counted(swaps.copies, "of them is a copy", "of them are copies")
        copies = f"{is_one} of a rewritten line" if swaps.copies else ""
        done = replace(done, reason=_joined(copies, older, unknown))
        if swaps and checkpoints is not None and checkpoints.altered:
            # One line may hold many messages. Where some were rewritten it is as it was written only now.
            rest = self._now().exactly(keep_checkpoints=False)
            if rest.checkpoints_removed:
                removed = done.checkpoints_removed + rest.checkpoints_removed
                done = replace(
                    rest, size_before=done.size_before, lines_restored=len(swaps), checkpoints_removed=removed
                )
                done = replace(done, reason=_joined(copies, rest.reason))
        return done

    def _unwound(self) -> Unwound | None:
        """Find the checkpoints of a session that lines left for one; None where none did. Raises Damaged."""
        if not any(each.dropped for each in self.journal.checkpoints):
            return None
        form = reading.format_of(self.session, self.form)
        unwound = Unwound(self.session, self.journal, self.store.originals, form)
        unwound.refuse_if_stuck()
        return unwound

    def _out_of_document(self) -> RestoreStats | None:
        """Take the checkpoints out of a session that is one document; None where it is none, or holds none of them.

        That is a run of its own: which of its messages are rewritten ones shows only then.
        """
        if not any(each.removed for each in self.journal.checkpoints):
            return None
        if (document := document_of(self.session.reader, self.session.size)) is None:
            return None
        new, ended = out_of_document(document.raw, self.journal, self.store.originals)
        refuse_if_rewritten(self.session, self.journal, self.store.originals, new, ended)
        return self._write(iter([new]), 0, ended=lambda: ended) if ended else None

    def by_markers(self) -> RestoreStats:
        """Put back what the session's own store holds, then what those of its relatives do.

        A damaged store does not keep the others from giving back.
        """
        session, form = self.session, self.form
        reading.refuse_unless_session(session, form)
        has_own = bool(self.journal.runs)
        failed: list[errors.Damaged] = []
        done: list[RestoreStats] = []
        if has_own:
            with _noting(failed):
                done.append(self.from_store(self.store, self.journal))
        marked = relatives.strangers_of(session, self.journal, form)
        family: list[relatives.Relative] = []
        with _noting(failed):
            family = (
                relatives.relatives_of(session, self.policy, form) if relatives.markers_of(session, form).texts else []
            )
        left = relatives.unknown_to_all(family, marked)
        if not has_own and marked and len(left) == len(marked) and not failed:
            relatives.refuse_if_marked(session, self.store, self.policy, form)
        others: list[RestoreStats] = []
        for relative in family:
            with _noting(failed):
                each = self._now().from_store(relative.store, relative.journal, alone=not has_own)
                lines = counted(each.lines_restored, "line", "lines")
                reason = _joined(f"{lines} from the originals of {relative.session}", each.reason)
                others.append(replace(each, reason=reason))
        if failed and not any(each.lines_restored for each in [*done, *others]):
            raise failed[0]
        notes = [f"{each.where}: {each.what}" for each in failed if each.where != str(self.store.originals)]
        if has_own and any(each.lines_restored for each in others):
            # What the own store could not give back may have come from others: only now the rest is known.
            done = [replace(each, reason="") for each in done]
            notes.insert(0, self._now().what_is_left())
        done += others
        unknown = _joined(*notes, strangers(len(left)))
        restored = [each for each in done if each.lines_restored]
        if restored:
            return replace(
                restored[-1],
                size_before=restored[0].size_before,
                lines_restored=sum(each.lines_restored for each in restored),
                reason=_joined(*(each.reason for each in restored), unknown),
            )
        if not done:
            return self._stats(Status.UNCHANGED, _NONE_STORED)
        reason = done[0].reason.replace(_ALREADY, _ALREADY_BUT) if unknown else done[0].reason
        return replace(done[0], reason=_joined(reason, unknown))

    def _now(self) -> _Restore:
        # Putting back from another store changes the journal.
        return self._replace(journal=journals.load(self.store.journal))

    def what_is_left(self) -> str:
        """Describe what of the session is not restored, by its own journal; empty if it is exact."""
        swaps, missing = reading.find(self.session, self.journal)
        older = len(missing) if not self._is_altered(swaps, missing) else 0
        number = len(swaps) + len(missing) - older
        if not number:
            return not_there(older)
        damaged: set[int] = set()
        # The journal's damage was reported before; by now other stores have changed the session.
        with suppress(errors.Damaged), damage.SalvagingReader(self.store.originals) as originals:
            form = reading.format_of(self.session, self.form)
            _, damaged = _whole_lines(self.session, form, swaps, originals, self.store.journal)
        lines = counted(number, "rewritten line", "rewritten lines")
        inexact = f"{lines} did not come back, or only in part: the session is not exact"
        return _joined(unreadable(damaged), inexact, not_there(older))

    def from_store(self, store: Store, journal: journals.Journal, *, alone: bool = True) -> RestoreStats:
        """Put back what one store holds, the session's own or another's, wherever a marker stands.

        Unless `alone`, the caller describes what of the session is not exact.
        """
        form = reading.format_of(self.session, self.form)
        if not journal.kept:
            return self._stats(Status.UNCHANGED, _NONE_STORED)
        own = store == self.store
        if own and size_of(store.originals) is None:
            raise damage.too_short(store.originals, 0, journal.store_size)
        swaps, missing = reading.find(self.session, journal)
        older = len(missing) if own and not self._is_altered(swaps, missing) else 0
        with damage.SalvagingReader(store.originals) as originals:
            lost = [] if older else missing
            putback = _PutBack(self.session, form, journal, originals, store.journal, swaps, lost if own else None)
            done = self._write(putback.lines(), 0, putback, alone=alone)
        if putback.unreadable and done.status is Status.UNCHANGED:
            remedy = "Put a copy of this file back from a backup."
            if own:
                remedy = f"{damage.put_back(store.originals, journal.store_size)} Without one {damage.FORGET}"
            what = f"nothing can be put back: {unreadable(putback.unreadable)}"
            raise errors.Damaged(what, where=store.originals, state=errors.NOT_CHANGED, remedy=remedy)
        return replace(done, reason=_joined(done.reason, not_there(older)))

    def _is_altered(self, found: reading.RewrittenLines, missing: Sequence[LineRecord]) -> bool:
        try:
            return altered(self.session, self.journal, found, missing, self.store.originals, self.form) > 0
        except errors.Unreadable:
            return True

    def _write(
        self,
        lines: Iterator[bytes],
        changed: int,
        putback: _PutBack | None = None,
        *,
        ended: Callable[[], Sequence[CheckpointRecord]] = tuple,
        alone: bool = True,
    ) -> RestoreStats:
        session, journal = self.session, self.journal
        commit_originals = self.policy.commit_originals
        with Rewrite(session, self.store, journal.lengths, commit_originals=commit_originals) as rewrite:
            for line in lines:
                rewrite.write(line)
            forms, left = [], []
            if putback is not None:
                changed, left = putback.changed, putback.left()
                # Before the commit, after which the session is the restored one.
                inexact = putback.inexact()
                if not changed:
                    nothing = "nothing stands there that can be put back"
                    nothing += ": the session is not exact" if inexact else ""
                    is_exact = putback.is_own and not inexact and not left
                    return self._stats(Status.UNCHANGED, "; ".join([_ALREADY if is_exact else nothing, *left]))
                left.append(inexact if alone else "")
                forms = putback.forms(journal)
            size = rewrite.finish().size
            run = RunRecord(
                at=text.written_time(time.time()),
                version=VERSION,
                policy={},
                original_size=session.size,
                compressed_size=size,
                store_size=journal.store_size,
                boundary=0,
                stats={},
                restored=True,
                records=(len(forms), 0),
                session_id=journal.session_id,
            )
            taken = ended()
            written = chain(map(LineRecord.encode, forms), map(CheckpointRecord.encode, taken))
            records = sealed(written, readable(run, self.store.journal))
            stats = self._stats(Status.RESTORED, _joined(*left))
            committed = rewrite.commit(records if journal.runs else [])
            removed = len(taken)
            return replace(stats, size_after=committed.size, lines_restored=changed, checkpoints_removed=removed)

    def _stats(self, status: Status, reason: str) -> RestoreStats:
        size = self.session.size
        return RestoreStats(str(self.session.path), status, reason, size, size)


@contextmanager
def _noting(failed: list[errors.Damaged]) -> Iterator[None]:
    try:
        yield
    except errors.Damaged as error:
        failed.append(error)


def _joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def way_out(session: OpenSession, store: Store, journal: journals.Journal, form: str | None) -> str:
    """Tell how to go on with a session that cannot be restored exactly: put back what is possible, or print it."""
    if not journal.kept:
        return "Nothing more can be put back from here: only a copy of the session can bring back the rest."
    try:
        found, known = reading.find(session, journal), reading.format_of(session, form)
        with damage.SalvagingReader(store.originals) as originals:
            putback = _PutBack(session, known, journal, originals, store.journal, *found)
            can = any(putback.changed or putback.unreadable for _ in putback.lines())
    except errors.NotASession:
        can = False
    except errors.SessionCompressError:
        # That command will report what is wrong with the originals.
        can = True
    if can:
        return "'sessioncompress restore --from-markers' puts back all that can be."
    return (
        f"'sessioncompress show REF {session.path}' prints an original that is kept; the references are each 'ref' in "
        f"{store.journal}. Only a copy of the session can bring back the rest."
    )


def _whole_lines(
    session: OpenSession, form: Format, swaps: Mapping[int, LineRecord], originals: OriginalsReader, journal: Path
) -> tuple[dict[int, LineRecord], set[int]]:
    """Find the rewritten lines that can become their originals, and the numbers of those whose cannot be read.

    A call's id that was cut in the call and its result comes back in all lines that name it, or in none. Raises Damaged
    if an original is of another entry.
    """

    def ids(raw: bytes) -> list[str]:
        line = reading.read_line(raw, form.reader())
        return [*(call.id for call in line.calls), line.answers]

    kept = {number: record for number, record in swaps.items() if record.place}
    damaged: set[int] = set()
    cut: dict[int, set[str]] = {}
    for number, raw, whole in pieces_of(session.reader, session.size):
        record = kept.get(number) if whole else None
        if record is None:
            continue
        try:
            original = original_of(raw, record, originals, journal)
        except errors.Unreadable:
            damaged.add(number)
            del kept[number]
            continue
        now, then = ids(raw), ids(original)
        if len(now) != len(then):
            raise of_another(journal)
        if changed := {one for one, other in zip(now, then, strict=True) if one != other}:
            cut[number] = changed
    named = set[str]().union(*cut.values())
    stuck: set[str] = set()
    for number, raw, whole in pieces_of(session.reader, session.size) if cut else ():
        if whole and number not in kept:
            stuck.update(named.intersection(ids(raw)))
    while parted := [number for number, changed in cut.items() if changed & stuck]:
        for number in parted:
            stuck |= cut.pop(number)
            del kept[number]
    return kept, damaged


class _PutBack:
    """Restores rewritten lines as a whole where it can, and in others each value whose replacement is one of ours.

    `swaps` are the session's rewritten lines, by the `journal`, which is at `where`; `missing` are its missing lines,
    None if the journal is another session's. `unreadable` are the numbers of lines whose originals cannot be read.
    """

    def __init__(
        self,
        session: OpenSession,
        form: Format,
        journal: journals.Journal,
        originals: OriginalsReader,
        where: Path,
        swaps: Mapping[int, LineRecord],
        missing: Sequence[LineRecord] | None,
    ) -> None:
        self._session = session
        self._form = form
        self._journal = journal
        self._originals = originals
        self._where = where
        self._whole, self.unreadable = _whole_lines(session, form, swaps, originals, where)
        self.is_own = missing is not None
        self._rewritten = swaps if self.is_own else {}
        self._missing = len(missing or ())
        self._in_part = 0
        self._forms: dict[str, LineRecord | None] = {}
        # Many markers may stand for values of one line.
        self._original = lru_cache(maxsize=2)(self._read)
        self.changed = 0
        self._unclear = 0

    def lines(self) -> Iterator[bytes]:
        """Yield every line of the session, with what can be put back."""
        for number, raw, whole in pieces_of(self._session.reader, self._session.size):
            record = self._whole.get(number)
            if record and record.place:
                self.changed += 1
                yield self._originals.line(record.place, record.sha256)
                continue
            new = self._line(number, raw) if whole and PREFIX_BYTES in raw else raw
            if new is not raw:
                digest = sha256(new)
                record = self._rewritten.get(number)
                if record and record.place:
                    now = record._replace(rewritten=digest.hexdigest())
                    is_one = self._forms.setdefault(now.rewritten, now) == now
                    self._forms[now.rewritten] = now if is_one else None
                self._in_part += not self._journal.originals(digest.digest())
            yield new

    def forms(self, taken: journals.Journal) -> list[LineRecord]:
        """Return records of the lines that were restored in part, except those that could be taken for another's."""
        known = (record for record in self._forms.values() if record)
        return [record for record in known if taken.rewriting(bytes.fromhex(record.rewritten)) is None]

    def left(self) -> list[str]:
        """Describe what stays: lines with unreadable originals, and markers that may be of several originals."""
        left = [unreadable(self.unreadable)] if self.unreadable else []
        if self._unclear:
            stay = counted(self._unclear, "marker that could stand", "markers that could stand")
            left.append(f"{stay} for more than one original {'stays' if self._unclear == 1 else 'stay'}")
        return left

    def inexact(self) -> str:
        """Describe the rewritten lines that did not come back, or only in part; empty if all did."""
        known = len(self._rewritten) + self._missing
        gone = max(known - self.changed, 0)
        parts = [f"{gone:,} did not come back"] if gone else []
        parts += [f"{self._in_part:,} came back in part"] if self._in_part else []
        if not parts:
            return ""
        never = sum(record.place is None for record in self._rewritten.values())
        why = [f"of {never:,} no original was kept"] if never else []
        if self._in_part or gone > never + len(self.unreadable):
            why.append("thinking and mirrors leave no marker")
        of = f"of {known:,} rewritten lines " if known else ""
        return of + " and ".join(parts) + (f" ({'; '.join(why)})" if why else "") + ": the session is not exact"

    def _line(self, number: int, raw: bytes) -> bytes:
        entry = parse(raw)
        if entry is None:
            return raw
        values: dict[JsonPath, object] = {}
        line = self._form.reader().line(raw, entry)
        for block in line.blocks:
            rows = self._journal.replaced((block.digest, block.kind, block.call)) if block.marked else ()
            found = self._originals_of(number, line, map(self._journal.block, rows)) if rows else []
            self._unclear += len(found) > 1
            if len(found) == 1:
                ((kind, value),) = found
                # An image's marker is the text of the part that stands in its place: the whole part goes back.
                values[block.path[:-1] if kind is Kind.IMAGE else block.path] = value
        if not values:
            return raw
        try:
            new, _ = splice(raw, entry, values)
        except CannotSplice:
            return raw
        self.changed += 1
        return new

    def _originals_of(
        self, number: int, of: Line, found: Iterable[tuple[LineRecord, BlockRecord]]
    ) -> list[tuple[Kind, object]]:
        """Return the values that a replacement may stand for; none if one of them cannot be read."""
        values: list[tuple[Kind, object]] = []
        known, unknown = set(), set()
        for line, block in found:
            if line.place is None:
                continue
            try:
                original, original_id = self._original(line)
            except errors.Unreadable:
                unknown.add(block.xxh3)
                continue
            # A later call of the same id may have printed its marker. Forks and migrations keep the ids of entries;
            # before a migration there may have been none.
            if original is not None and (not of.id or original_id in ("", of.id, of.facts.copy_of or of.id)):
                value = block.kind, recorded(original, block, self._where)
                known.add(block.xxh3)
                values += [value] if value not in values else []
        if unknown <= known:
            return values
        self.unreadable.add(number)
        return []

    def _read(self, line: LineRecord) -> tuple[Entry | None, str]:
        assert line.place is not None
        raw = self._originals.line(line.place, line.sha256)
        return parse_any(raw), reading.read_line(raw, self._form.reader()).id
