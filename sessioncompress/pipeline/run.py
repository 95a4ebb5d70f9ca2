"""One run over what was read of a session: plan, rewrite, verify, commit; and the record of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.core import VERSION, text
from sessioncompress.core.lines import Survey
from sessioncompress.core.marker import References
from sessioncompress.core.model import NO_PREFIX, Change, Prefix
from sessioncompress.core.splice import CannotSplice
from sessioncompress.formats.base import Entry
from sessioncompress.pipeline import check, due
from sessioncompress.pipeline.incremental import (
    NotFinished,
    Part,
    can_follow,
    clashing,
    digest_of_prefix,
    nothing,
    prefix_of,
)
from sessioncompress.pipeline.plan import Plan, in_question, plan
from sessioncompress.pipeline.reading import parse, parse_any
from sessioncompress.pipeline.rewrite import Applied, Applier, rewrite
from sessioncompress.pipeline.summary import (
    CompressionStats,
    Status,
    advice,
    boundary_of,
    counted,
    imitated,
    too_few_tokens,
    why,
    with_changes,
)
from sessioncompress.pipeline.triage import KB
from sessioncompress.policy.file import differences
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store.commit import DryRun, Finished, Rewrite
from sessioncompress.store.journal import Journal
from sessioncompress.store.last_run import clash
from sessioncompress.store.layout import Beside
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import UNKNOWN_IN_CALLS, LineRecord, RunRecord, readable, sealed

_LITTLE = 0.25
"""A run that gains less than this share of the session says what the recent context holds."""


class Asked(NamedTuple):
    """What is asked of a run: a policy, only to rehearse, to save however little (`force`), to read as one format."""

    policy: Policy
    dry_run: bool = False
    force: bool = False
    form: str | None = None


class _Attempt:
    """One try at a session: what was planned, what was applied, and what it comes to.

    The digest of what `run` finishes is put in last; it changes no size.
    """

    def __init__(
        self, view: View, plan: Plan, applied: Applied, finished: Finished, run: RunRecord, left_alone: frozenset[int]
    ) -> None:
        self.view = view
        self.plan = plan
        self.applied = applied
        self.finished = finished
        self.run = run
        self.left_alone = left_alone

    @cached_property
    def journal_size(self) -> int:
        """Bytes that the run appends to the journal."""
        return self.applied.records.size(self.finished.places) + sum(map(len, sealed((), self.run)))

    def journal(self) -> Iterator[bytes]:
        """Yield what the run appends to the journal."""
        return sealed(self.applied.records.encode(self.finished.places), self.run)


class Run:
    """One run over a session that is open, or over what of it no earlier run finished.

    `policy` is the one to go by, where a rule made another one of that which was asked for.
    """

    def __init__(self, part: Part, beside: Beside, asked: Asked, policy: Policy) -> None:
        self._part, self._known, self._journal = part, part.known, part.journal
        self._session = part.session
        self._beside = beside
        self._asked = asked
        self._policy = policy
        self._least = 0 if asked.force else policy.min_saved_kb * KB
        self._where = str(part.session.path)
        self._begun = int(time.time() * 1000)
        self._ours = Ours((self._journal,))
        strange = not self._journal.runs and any(
            block.marked for line in self._known.survey.lines for block in line.blocks
        )
        self._strangers, self._strange_calls = self._markers() if strange else (0, 0)
        self._originals: OriginalsReader | None = None

    def _markers(self) -> tuple[int, int]:
        """Count the texts, and the arguments of calls, with markers that are older than the journal."""
        # Imported here because few sessions hold any.
        from sessioncompress.pipeline.markers import markers_of

        found = markers_of(self._session, self._asked.form)
        return found.texts, found.in_calls

    def skipped(self, reason: str) -> CompressionStats:
        """Return the statistics of a session that is let alone."""
        return replace(self._stats(self._view()), status=Status.SKIPPED, reason=reason)

    def compress(self) -> CompressionStats:
        """Rewrite the session, unless nothing of it pays. Raises NotFinished where more of it has to be read."""
        with ExitStack() as self._open:
            return self._attempt()

    def _attempt(self) -> CompressionStats:
        """Try until no line that bears no change is left in the plan; the second try is nearly always the last."""
        left_alone = {number for number, record in self._known.rewritten.items() if self._is_lost(record)}
        while True:
            view = self._view()
            planned = plan(view, self._flags(self._known.rewritten), frozenset(left_alone))
            if not planned:
                return self._unchanged(view, 0)
            with self._sink() as sink:
                part = self._part
                dry = isinstance(sink, DryRun)
                stream = part.read(self._session.reader, self._session.size) if dry else part.copied(planned)
                applied = self._applier(view, planned, sink).run(stream)
                left_alone |= applied.left_alone
                if applied.again:
                    continue
                if not applied.changed:
                    return self._unchanged(view, 0)
                if reason := too_few_tokens(view, applied):
                    return self._unchanged(view, 0, reason)
                finished = sink.measure()
                run = self._run_record(view, applied, finished)
                attempt = _Attempt(view, planned, applied, finished, run, frozenset(left_alone))
                if not self._pays(attempt):
                    return self._unchanged(view, max(self._gain(attempt), 0))
                if part.prefix.size and not can_follow(run.prefix):
                    # The next run would read all of it, and find more to do though nothing was added.
                    raise NotFinished
                if isinstance(sink, Rewrite):
                    sink.finish()
                    prefix = self._with_digest(run.prefix, view, applied, sink)
                    attempt.run = run._replace(prefix=prefix)
                if restless := self._verify(attempt, sink):
                    left_alone |= restless
                    continue
                return self._commit(attempt, sink)

    def _is_lost(self, record: LineRecord) -> bool:
        """A line whose original was not kept is not changed again where originals are kept: none could be shown."""
        return record.place is None and self._policy.keep_backup

    def _flags(self, *known: Iterable[int]) -> bytes:
        flags = bytearray(len(self._known.survey.lines))
        for number in chain.from_iterable(known):
            flags[number] = True
        return bytes(flags)

    def _view(self) -> View:
        return View(self._known.survey, self._policy, self._known.form, self._ours, self._begun)

    def _sink(self) -> Rewrite | DryRun:
        if self._asked.dry_run:
            return DryRun(self._journal.lengths, self._part.prefix.size)
        return Rewrite(
            self._session, self._beside, self._journal.lengths, commit_originals=self._policy.commit_originals
        )

    def _applier(self, view: View, planned: Plan, sink: Rewrite | DryRun) -> Applier:
        return Applier(view, planned, self._known.rewritten, self._journal, sink, self._where, self._original)

    def _original(self, record: LineRecord) -> Entry | None:
        """Return the original of a line that an earlier run rewrote."""
        if record.place is None:
            return None
        if self._originals is None:
            self._originals = self._open.enter_context(OriginalsReader(self._beside.originals))
        return parse_any(self._originals.line(record.place, record.sha256))

    def _commit(self, attempt: _Attempt, sink: Rewrite | DryRun) -> CompressionStats:
        said = self._gain(attempt) < self._session.size * _LITTLE or self._surprises()
        removable, protected = in_question(attempt.view, range(len(attempt.view.lines)))
        stats = replace(
            with_changes(self._stats(attempt.view), attempt.view, attempt.plan, attempt.applied),
            removable_bytes=removable,
            protected_bytes=protected,
            compressed_size=attempt.finished.size,
            status=Status.WOULD_COMPRESS if self._asked.dry_run else Status.COMPRESSED,
            backup_added=self._added(attempt),
            originals_size=attempt.finished.originals_size,
            reason=advice(attempt.view, protected) if said else "",
            backup_size=self._journal.size + self._journal.store_size + self._added(attempt),
        )
        if isinstance(sink, Rewrite):
            if self._part.prefix.size and clash(self._beside, attempt.journal()):
                raise NotFinished
            committed = sink.commit(attempt.journal())
            stats = replace(stats, compressed_size=committed.size)
        return stats

    def _surprises(self) -> bool:
        """Say whether more turns than usual were to stay whole, and tokens may have kept them from it."""
        more = self._policy.turn_threshold_before_compress > BALANCED.turn_threshold_before_compress
        return more and self._policy.protect_tokens is not None

    def _added(self, attempt: _Attempt) -> int:
        """Return the bytes that the run adds beside the session."""
        return attempt.finished.originals_size - self._journal.store_size + attempt.journal_size

    def _gain(self, attempt: _Attempt) -> int:
        """Return the bytes that the run frees in all."""
        return self._session.size - attempt.finished.size - self._added(attempt)

    def _pays(self, attempt: _Attempt) -> bool:
        return self._gain(attempt) > 0 and self._gain(attempt) >= self._least

    def _verify(self, attempt: _Attempt, sink: Rewrite | DryRun) -> set[int]:
        """Check the new session's structure; return the lines that a second run over it would change."""
        applied = attempt.applied
        check.check(
            self._known.survey.lines,
            applied.lines,
            attempt.view.standing,
            applied.changed,
            self._where,
            attempt.view.is_free,
            first=self._part.prefix.lines,
        )
        # Every line is still what it was, by the same id and behind the same parent: they hang together as before.
        found = Survey(applied.lines, self._known.survey.shape, attempt.finished.size, self._part.prefix)
        view = View(found, self._policy, self._known.form, applied.ours, self._begun)
        second = plan(view, self._flags(self._known.rewritten, applied.changed), attempt.left_alone)
        return self._restless(attempt, view, second, sink) if second and isinstance(sink, Rewrite) else set()

    def _restless(self, attempt: _Attempt, view: View, second: Plan, sink: Rewrite) -> set[int]:
        """A plan may offer again what turned out to bear no change; return the lines of which something would come."""
        made = Journal()
        for record in attempt.applied.records.of(frozenset(second)):
            made.add(record)
        view = replace(view, ours=Ours((self._journal, made)))
        found = set()
        for number, raw, _ in self._part.read(sink.reader, view.survey.size):
            changes = second.get(number)
            entry = parse(raw) if changes else None
            if changes and entry is not None and _changes(raw, entry, changes, view):
                found.add(number)
        return found

    def _prefix(self, view: View, applied: Applied, size: int) -> Prefix:
        """Return what the run finishes, to be noted for the next one, unless that may find another format in it.

        Its digest is still to come.
        """
        if self._asked.form is not None:
            return NO_PREFIX
        now = Survey(applied.lines, self._known.survey.shape, size, self._part.prefix)
        markers, in_calls = imitated(View(now, self._policy, self._known.form, applied.ours))
        flags = self._flags(self._known.rewritten, applied.changed)
        return prefix_of(self._part, view, applied.lines, size, flags, (markers, self._newer(in_calls)))

    def _with_digest(self, found: Prefix, view: View, applied: Applied, sink: Rewrite) -> Prefix:
        """Return what the run finishes with its digest. Raises NotFinished where what was not read clashes."""
        if not found.size:
            return found
        lines, unread = applied.lines, self._part.prefix.size
        clashes = clashing(view, lines, applied.changed) if unread else nothing
        with sink.reader() as file:
            return found._replace(digest=digest_of_prefix(file, found.size, unread, clashes))

    def _run_record(self, view: View, applied: Applied, finished: Finished) -> RunRecord:
        run = RunRecord(
            at=text.written_time(time.time()),
            version=VERSION,
            policy=differences(self._asked.policy),
            original_size=self._session.size,
            compressed_size=finished.size,
            store_size=finished.originals_size,
            boundary=self._part.prefix.lines + boundary_of(view),
            stats={
                **due.to_note(self._part),
                "linesChanged": len(applied.changed),
                "removedBytes": applied.tally.removed,
            }
            | ({UNKNOWN_IN_CALLS: self._strange_calls} if self._strange_calls else {}),
            records=(len(applied.records), applied.records.blocks),
            originals_sha256=finished.originals_sha256,
            session_id=self._known.session_id,
            modified=self._session.stat.st_mtime_ns,
            start=self._journal.size,
            prefix=self._prefix(view, applied, finished.size),
        )
        return readable(run, self._beside.journal)

    def _unchanged(self, view: View, gain: int, reason: str = "") -> CompressionStats:
        removable, protected = in_question(view, range(len(view.lines)))
        stats = replace(self._stats(view), removable_bytes=removable, protected_bytes=protected)
        reason = why(view, protected, gain, reason)
        if not self._known.seen:
            reason = f"it does not look like a session of the format {self._known.form.name}; {reason}"
        return replace(stats, reason=reason)

    def _stats(self, view: View) -> CompressionStats:
        """Return the statistics of the session as it is. Markers older than the journal are no imitations of ours."""
        stats = counted(view, self._where, self._journal.size + self._journal.store_size)
        return replace(
            stats,
            originals_size=self._journal.store_size,
            imitated_in_calls=self._newer(stats.imitated_in_calls),
            markers_without_journal=self._strangers,
        )

    def _newer(self, in_calls: int) -> int:
        """Return how many of the markers in calls came after the journal was begun."""
        return max(in_calls - (self._strange_calls or self._journal.unknown_in_calls), 0)


def _changes(raw: bytes, entry: Entry, changes: tuple[Change, ...], view: View) -> bool:
    try:
        return rewrite(raw, entry, changes, view, References().refer) is not None
    except CannotSplice:
        return False
