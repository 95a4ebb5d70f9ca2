"""Put originals back, exactly and line by line: all of them, or what one run took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sessioncompress import errors
from sessioncompress.core import text
from sessioncompress.core.jsonl import cut, document_of, pieces_of
from sessioncompress.core.text import counted, not_there, strangers
from sessioncompress.operations.checkpoints import (
    before_checkpoints,
    not_as_written,
    out_of_document,
    refuse_if_compacted,
    refuse_if_rewritten,
    with_removed,
)
from sessioncompress.operations.put_back import ByMarkers, whole_lines
from sessioncompress.operations.restoring import (
    ALREADY,
    ALREADY_BUT,
    WHOLE,
    RestoreStats,
    Restoring,
    joined,
    left_by,
    since_runs,
    was_changed,
)
from sessioncompress.operations.show import of_another, original_of
from sessioncompress.operations.unwinding import Unwound
from sessioncompress.pipeline import reading, relatives
from sessioncompress.pipeline.summary import Status
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import store_of
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import CheckpointRecord, Command, LineRecord
from sessioncompress.store.recover import check, recover


def restore_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    from_markers: bool = False,
    originals: Path | None = None,
    keep_checkpoints: bool = False,
    run: str = "",
    dry_run: bool = False,
    form: str | None = None,
) -> RestoreStats:
    """Give a session its original bytes back; lines appended since stay.

    Our checkpoints are removed, unless `keep_checkpoints`; an entry whose parent is one gets that one's parent.

    Each rewritten line that stands as a run left it, and each copy of one, becomes its original; all other lines stay.
    `changed` names those that another program changed since: then, and where a line has no original, `exact` is false,
    and the runs stay in place. In an older state of the session, the lines that it has come back; `reason` counts those
    that it lacks.

    `run` is the name of a run, and undoes only what that run did: always if it is the newest. If later runs rewrote the
    same lines, the whole session is restored, and `reason` says so.

    `from_markers` puts back what is possible, also in a fork or a migrated file: rewritten lines as a whole, and
    elsewhere the value of each marker of ours. `originals` then names the session whose store to use, which itself may
    be gone. The store stays: `forget` deletes it. With `dry_run`, which goes without `from_markers`, only find out what
    that would do. `form`, as in compress_session(), is used for reading markers. Raises SessionCompressError with the
    session unchanged.
    """
    with reading.opened(Path(path), writing=not dry_run) as session:
        store = store_of(session.path, policy)
        journal = journals.load(store.journal)
        (check if dry_run else recover)(session, store, journal.lengths, salvaging=from_markers)
        if not from_markers:
            command = Command.RESTORE_LINES if keep_checkpoints else Command.RESTORE_RUN if run else Command.RESTORE
            how: dict[str, Any] = {"command": command, "run": run, "dry_run": dry_run}
            return _Exactly(session, store, journal, policy, form, **how).restore()
        markers = ByMarkers(session, store, journal, policy, form, command=Command.RESTORE_MARKERS)
        if originals is None:
            return markers.by_markers()
        other = store_of(originals.absolute(), policy)
        known = journals.load(other.journal)
        if not known.runs:
            raise errors.UsageError(
                f"{originals}, named by --originals, has no store: there is no journal {other.journal}",
                state=errors.NOT_CHANGED,
                remedy="Name the session, or its old path if it was moved. If it had a backup folder, name that with "
                "--backup-dir.",
            )
        return markers.from_store(other, known)


def put_back_since(path: Path, policy: Policy) -> str:
    """Word that a session is as a run left it that was undone since; nothing where it is not.

    Raises SessionCompressError.
    """
    with open_session(path, writing=False) as session:
        journal = journals.load(store_of(session.path, policy).journal)
        run = left_by(session, journal)
        if run is None or run.command.startswith(Command.RESTORE) or journal.standing.named(run.name):
            return ""
        return f"it is as run {run.name} left it, which was undone since: somebody put it back"


class _Undo:
    """Gives back lines as they were before some runs, by their numbers in the journal; None: before all."""

    def __init__(
        self, journal: Journal, runs: frozenset[int] | None, originals: OriginalsReader | None, where: Path
    ) -> None:
        self._journal, self._runs, self._originals, self._where = journal, runs, originals, where
        self._others = frozenset(journal.standing.numbers) - (runs or frozenset())
        self._known: dict[int, LineRecord | None] = {}

    def before(self, raw: bytes, row: int) -> bytes | None:
        """Return the rewritten line of a record as it was before; None where that is not known."""
        if row not in self._known:
            # Many lines may be identical: look their record up once.
            self._known[row] = self._journal.placed(row) if self._runs is None else self._stood(row, self._runs)
        record = self._known[row]
        if record is None or record.rewritten == record.sha256:
            return None if record is None else raw
        if record.place is None or self._originals is None:
            return None
        return original_of(raw, record, self._originals, self._where)

    def _stood(self, row: int, runs: frozenset[int]) -> LineRecord | None:
        """Find what stood in a line before some runs; None where that is not known. One that stays became itself."""
        journal = self._journal
        original, stands = journal.original_of(row), bytes.fromhex(journal.line(row).rewritten)
        makers = {journal.run_of(each) for each in journal.originals(original)}
        was, last = stands, journal.counts[0]
        while True:
            rows = [each for each in journal.rewritings(was) if each < last]
            mine = [each for each in rows if journal.run_of(each) in runs]
            # A run may have made earlier records its own; what it wrote itself says what stood there.
            mine = [each for each in mine if journal.written_by(each) in runs] or mine
            if not mine:
                break
            record, last = journal.line(mine[-1]), mine[-1]
            if (
                # Identical lines can't be attributed to one run.
                any(journal.run_of(each) in self._others for each in rows)
                or len({journal.line(each).sha256 for each in mine}) > 1
                # The first stores do not have what an earlier run had left.
                or not (record.edit or makers.isdisjoint(self._others))
            ):
                return None
            was = bytes.fromhex(record.sha256)
        if was == stands and not self._stays(row, runs):
            return None
        return LineRecord(was.hex(), journal.place(original, was), stands.hex())

    def _stays(self, row: int, runs: frozenset[int]) -> bool:
        """Return true if none of these runs contributed to a line that others rewrote."""
        journal, last = self._journal, self._journal.counts[0]
        was = bytes.fromhex(journal.line(row).rewritten)
        while rows := [each for each in journal.rewritings(was) if each < last]:
            if any(journal.run_of(each) in runs for each in rows):
                # A later run rewrote it again.
                return False
            last = rows[-1]
            if not (record := journal.line(last)).edit:
                # In the first stores what came before is known by the original alone; and they recorded nothing again
                # behind a restore.
                makers = {journal.run_of(each) for each in journal.originals(journal.original_of(row))}
                return makers.isdisjoint(runs) and not makers.isdisjoint(self._others)
            was = bytes.fromhex(record.sha256)
        return True


def _stands_alone(session: OpenSession, journal: Journal, runs: frozenset[int], originals: Path) -> bool:
    """Tell whether a session as it was before some runs is known to the byte, while what other runs did stays.

    A checkpoint goes alone only while no other run came behind it, and no lines come back from under another one.
    """
    others = frozenset(journal.standing.numbers) - runs
    newer = frozenset(number for number in others if number > min(runs))
    if newer and journal.checkpoints_of(runs):
        return False
    if any(each.dropped or each.removed for each in journal.checkpoints_of(newer)):
        return False
    pieces = before_checkpoints(session, journal, originals) or pieces_of(session.reader, session.size)
    # A store of checkpoints alone, or of runs that kept no originals, has no such file.
    with OriginalsReader(originals) if journal.store_size else nullcontext() as reader:
        undo = _Undo(journal, runs, reader, originals)
        for _, raw, whole in pieces:
            row = reading.row_of(raw, sha256(raw).digest(), journal) if whole else None
            if row is not None and undo.before(raw, row) is None:
                return False
    return True


class _Exactly(Restoring):
    """A restore to the byte: of all that runs did to a session, or of what one of them did."""

    only: frozenset[int] | None = None
    """The runs to take back, by their numbers in the journal; None: all."""

    def restore(self) -> RestoreStats:
        """Take back the run that was asked for, or all."""
        session, journal = self.session, self.journal
        if not journal.runs:
            reading.refuse_unless_session(session, self.form)
            relatives.refuse_if_marked(session, self.store, self.policy, self.form)
            refuse_if_compacted(session, self.store, self.form)
            return self.stats(Status.UNCHANGED, "it is not compressed: it has no markers and no store")
        whole = ""
        if self.run:
            wanted = journal.standing.named(self.run)
            if not wanted:
                known = any(each.name == self.run for each in journal.runs)
                why = "was undone already" if known else "did not change it"
                return self.stats(Status.UNCHANGED, f"the run {self.run} {why}")
            if _stands_alone(session, journal, wanted, self.store.originals):
                self.only = wanted
            else:
                self.command = Command.RESTORE
                if len(wanted) < len(journal.standing.numbers):
                    whole = f"{WHOLE}: later ones rewrote the same lines, or what was there between two is not kept"
        takes = self.command is not Command.RESTORE_LINES
        taking = [] if not takes else journal.checkpoints
        if self.only is not None:
            taking = journal.checkpoints_of(self.only)
        if (done := self._out_of_document(taking)) is not None:
            if self.dry_run:
                return replace(done, reason=whole)
            self.journal = journals.load(self.store.journal)
            rest = self._lines([])
            return replace(
                rest,
                status=Status.RESTORED,
                reason=joined(whole, rest.reason if rest.is_restored else ""),
                size_before=done.size_before,
                checkpoints_removed=done.checkpoints_removed,
            )
        done = self._lines(taking)
        return replace(done, reason=joined(whole, done.reason)) if done.is_restored else done

    @property
    def _undoes(self) -> Sequence[str] | None:
        return None if self.only is None else (self.run,)

    def _lines(self, taking: Sequence[CheckpointRecord]) -> RestoreStats:
        """Put the rewritten lines back, and take out checkpoints. Raises Refused."""
        session, store, journal = self.session, self.store, self.journal
        found, missing = reading.find(session, journal)
        missing = with_removed(session, journal, store.originals, missing)
        since = since_runs(session, journal, missing, store.originals, self.form)
        checkpoints = self._unwound(taking)
        pieces = partial(pieces_of, session.reader, session.size) if checkpoints is None else checkpoints.pieces
        # What stands in a checkpoint goes with it.
        swaps = found if checkpoints is None else checkpoints.rewritten()
        swaps.keep(self._takes)
        parted = 0
        lost = 0 if journal.keeps_all else sum(record.place is None for record in swaps.values())
        if since.changed or lost:
            # What belongs together comes back together: a call's id, in the call and in its result.
            with OriginalsReader(store.originals) if journal.store_size else nullcontext() as originals:
                form = reading.format_of(session, self.form)
                kept, _ = whole_lines(pieces, form, swaps, originals, store.journal) if originals else ({}, set())
            parted = len(swaps) - lost - len(kept)
            swaps.rows = {number: row for number, row in swaps.rows.items() if number in kept}
        has = counted(lost, "line has", "lines have")
        without = f"{has} no original: compressed without keeping originals (keepBackup: false)" if lost else ""
        way = "'restore --from-markers' puts back what markers in it stand for" if since.changed else ""
        gone = not_as_written(checkpoints.altered) if checkpoints else ""
        stay = counted(parted, "line stays with them", "lines stay with them")
        parted_ids = f"{stay}: a run cut the ids of calls in both" if parted else ""
        inexact = joined(since.told, way, parted_ids, without, gone)
        if inexact:
            # The runs stay in place, for what could not be taken back of them.
            self.command = Command.RESTORE_MARKERS
        standing = relatives.not_in_place(session, journal, self.form)
        marked = relatives.unknown_to(journal, standing)
        left = (
            relatives.unknown_to_all(relatives.relatives_of(session, self.policy, self.form), marked) if marked else []
        )
        copies = text.staying(sum(each.key in journal for each in standing), "that the agent copied")
        of_relatives = text.staying(len(marked) - len(left), "whose originals are in a relative's store")
        unknown = joined(copies, of_relatives, strangers(len(left)))
        in_merge = "it still has git's conflict markers" if reading.line_in_merge(session) else ""
        if checkpoints and checkpoints.copied and not gone:
            gone = "the agent copied the summary into a line of its own, which stays: the model may still read it"
        changed = "" if inexact or since.gone else was_changed(session, since)
        older = joined(inexact, not_there(since.gone), changed, in_merge, "" if gone in inexact else gone)
        if not swaps and not (checkpoints and checkpoints.taken):
            none = "nothing more can be restored" if inexact else ALREADY_BUT if unknown or gone else ALREADY
            if self.only is not None:
                none = f"nothing that the run {self.run} did is left in it"
            stats = self.stats(Status.UNCHANGED, joined(none, older, unknown))
            return replace(stats, changed=since.changed, exact=not inexact)
        with OriginalsReader(store.originals) if swaps else nullcontext() as originals:
            undo = originals and _Undo(journal, self.only, originals, store.journal)
            with self.rewriting() as sink:
                for number, raw, _ in pieces():
                    sink.write(self._before(undo, raw, swaps.rows[number]) if undo and number in swaps else raw)
                ended = checkpoints.ended() if checkpoints else ()
                done = self.commit(sink, len(swaps), undoes=self._undoes, taken=ended)
        return replace(done, reason=joined(older, unknown), changed=since.changed, exact=not inexact)

    def _unwound(self, taking: Sequence[CheckpointRecord]) -> Unwound | None:
        """Find the checkpoints in a session of lines; None where none are to go. Raises Damaged."""
        if not (of_lines := [each for each in taking if not each.removed]):
            return None
        form = reading.format_of(self.session, self.form)
        unwound = Unwound(self.session, self.journal, self.store.originals, form, of_lines)
        unwound.refuse_if_stuck()
        return unwound

    def _out_of_document(self, taking: Sequence[CheckpointRecord]) -> RestoreStats | None:
        """Take the checkpoints out of a session that is one document; None where it is none, or holds none of them.

        That is a run of its own: which of its messages are rewritten ones shows only then.
        """
        if not any(each.removed for each in taking):
            return None
        session, originals = self.session, self.store.originals
        if (document := document_of(session.reader, session.size)) is None:
            return None
        new, ended = out_of_document(document.raw, taking, originals)
        refuse_if_rewritten(session, taking, originals, new, ended)
        if not ended:
            return None
        if self.dry_run:
            return self._rehearsed(new, len(ended))
        with self.rewriting() as sink:
            sink.write(new)
            # Where messages are to go back, too, the run is taken back when these are.
            alone = next(self._rewritten(new), None) is None
            return self.commit(sink, 0, undoes=self._undoes if alone else (), taken=ended)

    def _before(self, undo: _Undo, raw: bytes, row: int) -> bytes:
        if (before := undo.before(raw, row)) is None:
            raise of_another(self.store.journal)
        return before

    def _takes(self, row: int) -> bool:
        return self.only is None or self.journal.run_of(row) in self.only

    def _rewritten(self, document: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the messages of a document that go back, each with the row of its record."""
        known = cut(document)
        for _, raw, _ in known.pieces() if known is not None else ():
            row = reading.row_of(raw, sha256(raw).digest(), self.journal)
            if row is not None and self._takes(row):
                yield raw, row

    def _rehearsed(self, document: bytes, removed: int) -> RestoreStats:
        """Tell what a document without its checkpoints would become, with the messages that would go back."""
        size, lines = len(document), 0
        with OriginalsReader(self.store.originals) as originals:
            undo = _Undo(self.journal, self.only, originals, self.store.journal)
            for raw, row in self._rewritten(document):
                size += len(self._before(undo, raw, row)) - len(raw)
                lines += 1
        stats = self.stats(Status.WOULD_RESTORE, "")
        return replace(stats, size_after=size, lines_restored=lines, checkpoints_removed=removed)
