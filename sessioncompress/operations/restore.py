"""Restore originals: undo all runs over a session or one of them, exactly, or to the extent that markers allow."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.core import VERSION, text
from sessioncompress.core.checkpoint import Say
from sessioncompress.core.jsonl import parse_any, pieces_of
from sessioncompress.core.marker import HEAD
from sessioncompress.core.model import Role
from sessioncompress.core.text import counted, joined
from sessioncompress.errors import Damaged, Refused, SessionCompressError, Unreadable, UsageError
from sessioncompress.formats.base import Format
from sessioncompress.operations import reasons
from sessioncompress.operations.checkpoints import (
    WithoutCheckpoints,
    before_all,
    has_unknown_summary,
    refuse_if_compacted,
    refuse_if_dropped_elsewhere,
)
from sessioncompress.operations.matching import has_words, lacks, original_of
from sessioncompress.operations.verify import ChangedLine, Since, check_others, since_runs, told_of
from sessioncompress.pipeline import reading, relatives
from sessioncompress.pipeline.discover import is_database
from sessioncompress.pipeline.reading import RewrittenLines, Stored, left_by
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import journal as journals
from sessioncompress.store.commit import sink_for
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import OtherStores, all_stores, backups_of, lines_of, store_of
from sessioncompress.store.lock import OpenSession, open_session
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import CheckpointRecord, LineRecord, RunKind, RunRecord, readable, sealed

if TYPE_CHECKING:
    from sessioncompress.operations.markers import Restored

_MOST_NAMED = 1_000
"""Maximum number of runs named in a restore's record."""


class RestoreStats(Struct, frozen=True, rename="camel"):
    """The result of a restore, or with `dry_run` the expected one. Sizes are bytes of the file and of its store.

    `run` is set if only that run was to be undone. `changed` are rewritten lines that another program changed, which
    stay unchanged. `exact` is false if rewritten lines remain that aren't their originals, or may: markers remain, and
    another store of the session is damaged. `made_elsewhere` is set if the store wasn't made by this user on this
    machine.
    """

    path: str
    status: Status
    reason: str = ""
    run: str = ""
    size_before: int = 0
    size_after: int = 0
    lines_restored: int = 0
    checkpoints_removed: int = 0
    store_size: int = 0
    changed: tuple[ChangedLine, ...] = ()
    exact: bool = True
    made_elsewhere: bool = False

    @property
    def is_restored(self) -> bool:
        """True if the session was changed, or would be with `dry_run`."""
        return self.lines_restored > 0 or self.checkpoints_removed > 0


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
    """Restore a session's original bytes; lines appended since stay.

    Our checkpoints are removed unless `keep_checkpoints`; an entry whose parent is a checkpoint gets that one's parent.

    Each rewritten line in the form that a run left, and each copy of one, becomes its original; all other lines stay.
    `changed` lists those that another program changed. In that case, and if a line has no original, `exact` is false
    and the runs stay in place. In an older state of the session, the lines that it has are restored; `reason` counts
    the missing ones.

    `run` is the id of a run, and undoes only that run. This always works for the newest run. If later runs rewrote the
    same lines, raises Refused, which names them; if no run of that id changed the session, UsageError.

    `from_markers` restores what is possible, also in a fork or a migrated file: rewritten lines as a whole, and
    elsewhere the value of each of our markers. `originals` then names the session whose store to use; that session may
    be missing. The store stays; `forget` deletes it. With `dry_run`, which excludes `from_markers`, only report the
    effect. `form`, as in compress_session(), is used to read markers. Raises SessionCompressError with the session
    unchanged.
    """
    with reading.opened_with_store(path, policy, writing=not dry_run, salvaging=from_markers, form=form) as stored:
        if from_markers:
            return _FromMarkers(stored, policy, command=RunKind.RESTORE_MARKERS).restore(originals)
        if run and not _has_run(stored.journal, run):
            what = f"it was not changed by a run {run}{'' if stored.journal.runs else '; it has no store'}"
            raise UsageError(what, where=path, remedy="'sessioncompress history' lists the runs.")
        command = RunKind.RESTORE_LINES if keep_checkpoints else RunKind.RESTORE_RUN if run else RunKind.RESTORE
        return _Exactly(stored, policy, command=command, run=run, dry_run=dry_run).restore()


def undo_run(path: Path, policy: Policy, *, run: str, dry_run: bool = False, form: str | None = None) -> RestoreStats:
    """Undo a run in one of several sessions, like restore_session(). If it didn't change this one, `reason` tells."""
    with reading.opened_with_store(path, policy, writing=not dry_run, form=form) as stored:
        return _Exactly(stored, policy, command=RunKind.RESTORE_RUN, run=run, dry_run=dry_run).restore()


def _has_run(journal: Journal, run: str) -> bool:
    """True if a run of this id changed the session, also if it was undone since."""
    return any(each.id == run for number, each in enumerate(journal.runs) if number not in journal.standing.dead)


def put_back_since(path: Path, policy: Policy) -> str:
    """Return a message if a session matches the result of a run that was undone since, else empty.

    Raises SessionCompressError.
    """
    with open_session(path, writing=False) as session:
        return _put_back(session, journals.load(store_of(session.path, policy).journal))


def _put_back(session: OpenSession, journal: Journal) -> str:
    left = left_by(session, journal)
    if left < 0 or journal.runs[left].is_restore or left in journal.standing:
        return ""
    run = journal.runs[left]
    return f"it is as run {run.id} left it, though that run was undone: somebody put it back"


def _told_of_broken(journal: Journal) -> str:
    return "its journal was changed after a run wrote it: 'verify' says where" if journal.broken else ""


class Restoring:
    """One restore of an open session. `command` is recorded; `run` is set if only one run is to be undone."""

    def __init__(
        self,
        stored: Stored,
        policy: Policy,
        *,
        command: RunKind = RunKind.RESTORE,
        run: str = "",
        dry_run: bool = False,
    ) -> None:
        self.stored, self.policy = stored, policy
        self.session, self.store, self.journal = stored.session, stored.store, stored.journal
        self.command, self.run, self.dry_run = command, run, dry_run

    @cached_property
    def others(self) -> OtherStores:
        """The session's other stores."""
        return OtherStores(self.session.path, self.store, backups_of(self.session.path, self.policy))

    def noting(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield lines that are written, for what other stores know of them."""
        for line in lines:
            self.others.note(line)
            yield line

    def unknown_to_others(self, marked: Sequence[relatives.Stranger]) -> tuple[list[relatives.Stranger], list[Damaged]]:
        """Keep the markers that no other store knows; if some stay, return the errors of damaged ones: they may."""
        found, wrong = check_others(self.session.path, self.store, self.others.all) if marked else ([], [])
        left = relatives.unknown_to(marked, *found)
        return left, wrong if left else []

    def write(
        self,
        lines: Iterable[bytes],
        changed: int,
        reason: str = "",
        *,
        undoes: Sequence[str] | None,
        forms: Sequence[LineRecord] = (),
        before: WithoutCheckpoints | None = None,
    ) -> RestoreStats:
        """Replace the session with the restored one. `undoes` are the undone runs; None means all."""
        stats = self.stats(Status.WOULD_RESTORE if self.dry_run else Status.RESTORED, reason)
        # Call it after the lines were read: only then are the entries with a new parent known.
        ended = list[CheckpointRecord] if before is None else before.ended
        lengths, journal = self.journal.lengths, self.store.journal
        with sink_for(self.session, self.store, lengths, dry_run=self.dry_run) as sink:
            for line in lines:
                sink.write(line)
            finished, taken = sink.finish(), ended()
            run = RunRecord(
                at=text.written_time(time.time()),
                version=VERSION,
                policy={},
                original_size=self.session.size,
                compressed_size=finished.size,
                store_size=self.journal.store_size,
                boundary=0,
                stats={},
                restored=True,
                records=(len(forms), 0),
                session_id=self.journal.session_id,
                digest=finished.digest,
                command=self.command,
                undoes=None if undoes is None else tuple(undoes),
            )
            written = [*map(LineRecord.encode, forms), *map(CheckpointRecord.encode, taken)]
            records = sealed(written, readable(run, journal), journal, lengths.journal)
            size = sink.commit(records if self.journal.runs else [])
        store = self.store.size
        return replace(stats, size_after=size, lines_restored=changed, checkpoints_removed=len(taken), store_size=store)

    def stats(self, status: Status, reason: str) -> RestoreStats:
        """Return statistics of the session before any change."""
        size, store = self.session.size, self.store.size
        path, elsewhere = str(self.session.path), not self.journal.is_ours
        return RestoreStats(path, status, reason, self.run, size, size, store_size=store, made_elsewhere=elsewhere)


class _Exactly(Restoring):
    """An exact restore: of everything that runs did to a session, or of one run."""

    def restore(self) -> RestoreStats:
        """Undo the requested run, or all."""
        session, journal, originals = self.session, self.journal, self.store.originals
        if not journal.runs:
            return self._never_compressed()
        runs = journal.standing.named(self.run) if self.run else None
        if runs is not None and not runs:
            return self._without_the_run()
        taking: Sequence[CheckpointRecord] = journal.checkpoints if runs is None else journal.checkpoints_of(runs)
        if self.command is RunKind.RESTORE_LINES:
            taking = ()
        form = reading.format_of(session) if any(not each.removed for each in taking) else None
        since = since_runs(self.stored)
        before = WithoutCheckpoints(session, journal, originals, form, taking)
        refuse_if_dropped_elsewhere(self.stored, self.others.stores, before.taken)
        # Lines of a checkpoint are removed with it.
        found = RewrittenLines(journal, before.pieces()) if before.taken else since.rewritten
        swaps = found if runs is None else self._of_runs(runs, found, since)
        lost = sum(record.place is None for record in swaps.values())
        parted = 0
        if since.changed or lost:
            # Restore related lines together: a call's id in the call and in its result.
            from sessioncompress.operations.markers import whole_lines

            number = len(swaps) - lost
            with OriginalsReader(originals) as reader:
                known_form = reading.format_of(session)
                swaps, _ = whole_lines(before.pieces, known_form, swaps, reader, journal, self.store.journal)
            parted = number - len(swaps)
        has = counted(lost, "line has", "lines have")
        stay = counted(parted, "more line stays", "more lines stay")
        inexact = joined(
            _told_of_broken(journal),
            told_of(since.changed),
            f"{stay} compressed, since calls tie them to those" if parted else "",
            f"{has} no original: compressed without keeping originals (keepBackup: false)" if lost else "",
            before.told,
        )
        if inexact:
            # The runs stay in place, because part of their work could not be undone.
            self.command = RunKind.RESTORE_MARKERS
        changed = reasons.CHANGED_SINCE if since.was_changed and not (inexact or since.gone) else ""
        in_merge = "it still has git's conflict markers" if reading.line_in_merge(session) else ""
        unknown = has_unknown_summary(session, journal)
        summary = "it has a summary that compact wrote, which its store does not know: that stays" if unknown else ""
        copied = "" if before.altered else before.copied
        markers, may_lack = self._markers(since)
        said = joined(inexact, reasons.not_there(since.gone), changed, in_merge, copied, summary, markers)
        if not swaps and not before.taken:
            known = self.others.known(before.pieces()) if runs is None else {}
            none = reasons.ALREADY_BUT if markers or copied or any(known.values()) else reasons.ALREADY
            none = "nothing more can be restored" if inexact else none
            none = none if runs is None else f"nothing that the run {self.run} did is left in it"
            if any(known.values()):
                # No marker names what a summary of another store removed, so only that store helps.
                refuse_if_compacted(self.stored, reasons.elsewhere(known, way=""))
            done = self.stats(Status.UNCHANGED, none)
        else:
            self._refuse_if_less(before)
            undoes = self._undoes(runs, found, is_exact=not inexact)
            lines = self.noting(self._lines(before, swaps))
            done = self.write(lines, len(swaps), undoes=undoes, before=before)
            known = self.others.known()
        # Even if these runs are undone, a run recorded in another store may not be.
        elsewhere = reasons.elsewhere(known)
        return replace(
            done,
            reason=joined(done.reason, elsewhere, said),
            changed=since.changed,
            exact=not (inexact or elsewhere or may_lack),
        )

    def _never_compressed(self) -> RestoreStats:
        reading.refuse_unless_session(self.session)
        relatives.refuse_if_marked(self.stored, self.policy)
        refuse_if_compacted(self.stored)
        return self.stats(Status.UNCHANGED, "it is not compressed: it has no markers and no store")

    def _without_the_run(self) -> RestoreStats:
        known = _has_run(self.journal, self.run)
        why = f"the run {self.run} {'was undone already' if known else 'did not change it'}"
        is_back = _put_back(self.session, self.journal) if known else ""
        return self.stats(Status.UNCHANGED, joined(why, f"{is_back}; 'restore' restores everything" if is_back else ""))

    def _refuse_if_less(self, before: WithoutCheckpoints) -> None:
        """Raise Damaged if another user's store lists lines as a checkpoint's that aren't: they would be removed."""
        if self.journal.is_ours or not before.taken:
            return
        form, going = reading.format_of(self.session), dict[str, tuple[int, bytes]]()
        reader, stays = form.reader(), {hash(raw.removesuffix(b"\n")) for _, raw, _ in before.pieces()}
        for number, raw, whole in pieces_of(self.session.reader, self.session.size):
            if not whole or hash(raw.removesuffix(b"\n")) in stays:
                continue
            line = reading.read_line(raw, reader)
            said = [each for each in reader.said(parse_any(raw) or {}) if each.text != form.thanks]
            has_ours = any(each.say is Say.SUMMARY and each.text.startswith(HEAD) for each in said)
            is_summary = has_ours and all(each.say in (Say.SUMMARY, Say.CARRIED) for each in said)
            # A branch summary isn't a SUMMARY in its format, but it isn't a prompt either. Only a user may quote one.
            if is_summary or (HEAD.encode() in raw and line.role is not Role.USER):
                continue
            # An agent marks a checkpoint with lines without text.
            is_mark = line.role is Role.CHECKPOINT or not has_words(raw, but=form.thanks)
            if said or not is_mark:
                going[line.id or str(number)] = number, raw
        for _, raw, whole in before.pieces() if going else ():
            # A line that followed the checkpoint has another parent now.
            name = reading.read_line(raw, reader).id if whole else ""
            if name in going and not lacks(raw, going[name][1], but=form.parent_key):
                del going[name]
        for number, _ in going.values():
            what = f"others made it, and by what it says a text would go that no run wrote, in line {number + 1:,}"
            remedy = f"Move it away, with {self.store.originals.name}."
            raise Damaged(what, where=self.store.journal, remedy=remedy)

    def _lines(self, before: WithoutCheckpoints, swaps: Mapping[int, LineRecord]) -> Iterator[bytes]:
        with OriginalsReader(self.store.originals) as reader:
            for number, raw, _ in before.pieces():
                record = swaps.get(number)
                yield original_of(raw, record, reader, self.journal, self.store.journal) if record else raw

    def _undoes(self, runs: frozenset[int] | None, found: RewrittenLines, *, is_exact: bool) -> Sequence[str] | None:
        """Return the runs to record as undone; None for all.

        If something stays, these are runs that were undone earlier and whose lines the user put back, since what stays
        belongs to them.
        """
        if runs is not None:
            return (self.run,)
        if is_exact:
            return None
        back = {self.journal.run_of(row) for row in found.rows.values()}.difference(self.journal.standing.numbers)
        return [self.journal.runs[each].id for each in sorted(back) if self.journal.runs[each].id][:_MOST_NAMED] or None

    def _markers(self, since: Since) -> tuple[str, bool]:
        """Report markers that stay outside the session's rewritten lines; True if a damaged store may know them."""
        session, journal = self.session, self.journal
        # In another user's journal, a line may also be listed as an original.
        if journal.is_ours and not since.is_marked:
            return "", False
        standing = relatives.strangers_of(session, relatives.believed(journal))
        own = relatives.Relative(session.path, self.store, journal)
        marked = relatives.unknown_to(standing, own)
        family = relatives.relatives_of(session, self.policy)[0] if marked else []
        left = relatives.unknown_to(marked, *family)
        # In lines that another user's journal knows, every marker counts as unknown.
        unknown = standing if journal.is_ours else relatives.strangers_of(session, journal)
        which = "in changed lines" if since.changed else "that the agent copied"
        copies = reasons.staying(sum(each.key in journal for each in unknown), which)
        copies += ", for good: copy the session first" if copies and since.changed else ""
        of_relatives = reasons.staying(len(marked) - len(left), "whose originals are in a relative's store")
        left, harm = self.unknown_to_others(left)
        return joined(copies, of_relatives, reasons.strangers(len(left)), *_notes(harm)), bool(harm)

    def _of_runs(self, runs: frozenset[int], found: RewrittenLines, since: Since) -> Mapping[int, LineRecord]:
        """Map rewritten lines to their content before these runs. Raises Refused if later runs interfere."""
        journal = self.journal
        others = frozenset(journal.standing.numbers) - runs
        newer = frozenset(number for number in others if number > min(runs))
        why = ""
        if newer and journal.checkpoints_of(runs):
            why = "later runs came after its summary"
        elif any(each.dropped or each.removed for each in journal.checkpoints_of(newer)):
            why = "a later summary moved lines out of the session"
        stood: dict[int, LineRecord | None] = {}
        numbers: dict[int, set[int]] = {}
        for number, row in found.rows.items():
            numbers.setdefault(row, set()).add(number)
        for row, equal in numbers.items():
            made = self._makers(journal.line(row).rewritten, since.last)
            mine = [each for each in made if journal.run_of(each) in runs]
            at, by, is_known = equal, made[-1], True
            if len(equal) > 1 and mine and any(journal.run_of(each) in others for each in made):
                # If a run has an edit of each, its records tell which of several identical lines it rewrote.
                blocks = (block for each in mine for block in journal.blocks_of(each))
                at = {*(block.line for block in blocks), *(journal.line(each).line for each in mine)} - {-1}
                by = mine[-1]
                each_has = len(at) == len(mine) and all(journal.line(each).edit for each in mine)
                is_known = each_has and at <= equal and (at == equal or not since.was_changed)
            record = self._stood(by, runs, others, since.last) if is_known else None
            stood |= dict.fromkeys(at if is_known else equal, record)
        if not why and (stuck := [number + 1 for number in sorted(stood) if stood[number] is None]):
            lines = f"line {stuck[0]:,}" if len(stuck) == 1 else f"lines {text.listed(stuck)}"
            why = f"other runs rewrote {lines} or equal ones, too"
        if why:
            raise Refused(
                f"the run {self.run} can't be undone alone: {why}",
                where=self.session.path,
                remedy="Undo all runs with 'restore', or the later ones first, as 'restore --last' does.",
            )
        return {number: record for number, record in stood.items() if record and record.sha256 != record.rewritten}

    def _stood(self, row: int, runs: frozenset[int], others: frozenset[int], last: int) -> LineRecord | None:
        """Return a line's content before these runs, by the record of its present content; None if unknown.

        If none of them rewrote it, this is the line itself.
        """
        journal = self.journal
        original, stands = journal.original_of(row), journal.line(row).rewritten
        before, at, is_on_top = stands, row, True
        while at >= 0:
            record, is_mine = journal.line(at), journal.run_of(at) in runs
            # The first store version didn't keep the content between two runs.
            too = () if record.edit else (each for each in journal.originals(original) if each < at)
            is_unknown = any(journal.run_of(each) in (others if is_mine else runs) for each in too)
            if is_unknown or (is_mine and not is_on_top):
                return None
            is_on_top = is_on_top and is_mine
            before = record.sha256 if is_on_top else before
            earlier = [each for each in self._makers(record.sha256, last) if each < at] if record.edit else []
            at = earlier[-1] if earlier else -1
        return LineRecord(before, journal.place(original, bytes.fromhex(before)), stands)

    def _makers(self, rewritten: str, last: int) -> list[int]:
        """Return the records of a rewritten line in order. If a run in place made it, only such runs count.

        Runs after `last`, the newest that can have changed this session, count only if there are no others.
        """
        made = self.journal.rewritings(bytes.fromhex(rewritten))
        made = [each for each in made if self.journal.run_of(each) <= last] or made
        return list(filter(self.journal.stands, made)) or made


class _FromMarkers(Restoring):
    """A restore from the session's own store and its relatives' stores, or from the store of one other session."""

    def restore(self, originals: Path | None) -> RestoreStats:
        """Restore as much as possible. Raises UsageError if the session named by `originals` has no store."""
        session, store, journal = self.session, self.store, self.journal
        form = reading.format_of(session)
        stores = _AskedStores(self.stored, self.policy, originals)
        own, failed = stores.own, stores.failed
        is_own = bool(journal.runs) and stores.first.store == store
        since = _since(self.stored) if is_own else Since(RewrittenLines(journal))
        marked = relatives.unknown_to(relatives.strangers_of(session, journal), own)
        with ExitStack() as opened:
            back = stores.restored(form, opened)
            left = relatives.unknown_to(marked, *stores.asked)
            if stores.first is own and not (is_own or failed) and marked and len(left) == len(marked):
                relatives.refuse_if_marked(self.stored, self.policy)
            failed += back.failed(own)
            told = before_all(session, journal, store.originals).told if is_own else ""
            stays = joined(_told_of_broken(journal), back.stays(), told)
            inexact = back.inexact(since)
            known = (str(store.originals), str(session.path))
            left, harm = self.unknown_to_others(left)
            notes = _notes(each for each in (*harm, *failed) if each.where not in known)
            rest = joined(reasons.not_there(since.gone), *notes, reasons.strangers(len(left)))
            is_exact = not (stays or inexact or harm)
            if back.lines:
                reason = joined(*stores.told_of(back), stays, inexact, rest)
                forms = back.forms(since.rewritten, journal)
                done = self.write(self.noting(back.written()), len(back.lines), reason, undoes=(), forms=forms)
                elsewhere = reasons.elsewhere(self.others.known(), way="")
                by_others = done.made_elsewhere or any(not each.journal.is_ours for each in back.given)
                reason, is_exact = joined(done.reason, elsewhere), is_exact and not elsewhere
                return replace(done, reason=reason, exact=is_exact, made_elsewhere=by_others)
        if failed:
            raise failed[0]
        elsewhere = reasons.elsewhere(self.others.known(pieces_of(session.reader, session.size)), way="")
        is_exact = is_exact and not elsewhere
        nothing = f"it has nothing that can be put back{': the session is not exact' if inexact else ''}"
        if is_own and is_exact:
            nothing = reasons.ALREADY_BUT if left else reasons.ALREADY
        nothing = nothing if back.sources else reasons.NONE_STORED
        reason = joined(nothing, told_of(since.changed), stays, rest, elsewhere)
        return replace(self.stats(Status.UNCHANGED, reason), exact=is_exact)


def _notes(errors: Iterable[Damaged]) -> list[str]:
    """Describe damaged stores, each once."""
    return [f"{where}: {what}" for where, what in {each.where: each.what for each in errors}.items()]


class _AskedStores:
    """The stores that a restore from markers asks. `failed` are the errors of stores that were left out.

    With `originals`, only `first`, the store of that session. Else the session's own stores, of which the active one is
    `first` and `own`, and if these lack something, also the stores of its relatives, `family`.
    """

    def __init__(self, stored: Stored, policy: Policy, originals: Path | None) -> None:
        self._stored, self._policy = stored, policy
        self.own = relatives.Relative(stored.session.path, stored.store, stored.journal)
        self.first = self.own if originals is None else _named(originals, policy)
        self.asked = [self.first, *(_in_other_stores(self.own, policy) if originals is None else ())]
        self.family: Sequence[relatives.Relative] = ()
        self._may_ask_family = originals is None
        self.failed: list[Damaged] = []

    def restored(self, form: Format, opened: ExitStack) -> Restored:
        """Ask the stores, which stay open as long as `opened`. Raises Damaged if one that was left out is met again."""
        from sessioncompress.operations.markers import Restored

        while True:
            with ExitStack() as attempt:
                back = Restored(self._stored.session, form, self._stored.journal)
                try:
                    back.ask(self.asked, attempt)
                    lacks_some = self.failed or back.lacking or back.unreadable
                    if not (lacks_some and self._ask_family()):
                        opened.enter_context(attempt.pop_all())
                        return back
                except Damaged as error:
                    if error.where in {each.where for each in self.failed}:
                        raise
                    # Other stores can still be used.
                    self.failed.append(error)
                    self.asked = [each for each in self.asked if Path(error.where or "") not in each.store]

    def _ask_family(self) -> bool:
        """Add the stores of the session's relatives, only once even if that fails; True if there are any."""
        may_ask, self._may_ask_family = self._may_ask_family, False
        if may_ask:
            self.family, damaged = relatives.relatives_of(self._stored.session, self._policy)
            self.failed += damaged
            self.asked += self.family
        return bool(may_ask and self.family)

    def told_of(self, back: Restored) -> Iterator[str]:
        """Tell how many lines came from other stores than the first."""
        for each, number in back.given.items():
            if each.of is not self.first:
                whose = each.of.session if each.of in self.family else each.of.store.journal
                yield f"{counted(number, 'line', 'lines')} from the originals of {whose}"


def _in_other_stores(own: relatives.Relative, policy: Policy) -> Iterator[relatives.Relative]:
    """Yield a session's other stores, for example from a branch or a copy."""
    for store in all_stores(own.session, backups_of(own.session, policy)):
        # An unreadable store must not prevent the restore.
        with suppress(SessionCompressError):
            if store != own.store:
                yield relatives.Relative(own.session, store, journals.load(store.journal))


def _named(originals: Path, policy: Policy) -> relatives.Relative:
    # A database session's store is next to its lines, which exist only while a command works on it.
    place = lines_of(originals) if is_database(originals.parent) else originals
    store = store_of(place.absolute(), policy)
    journal = journals.load(store.journal)
    if not journal.runs:
        raise UsageError(
            f"{originals}, whose originals are to be used, has no store: there is no journal {store.journal}",
            remedy="Name the session, or its old path if it was moved. If it had a backup folder, name that with "
            "--backup-dir (backupDir).",
        )
    return relatives.Relative(originals, store, journal)


def _since(stored: Stored) -> Since:
    with suppress(Unreadable):
        return since_runs(stored)
    # It can't be determined which lines were changed.
    rewritten, missing, _ = reading.find(stored.session, stored.journal)
    return Since(rewritten, tuple(ChangedLine(0, ()) for _ in missing))
