"""Shared by every restore: changes to the session since its runs, the record of the restore, and its statistics."""

from __future__ import annotations

import re
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_128

from sessioncompress.core import VERSION, text
from sessioncompress.core.jsonl import document_of, is_readable, parse, pieces_of
from sessioncompress.core.marker import PREFIX_BYTES, references
from sessioncompress.errors import NOT_CHANGED, Refused
from sessioncompress.formats.base import Entry, Format
from sessioncompress.formats.values import entry_of
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.summary import Status
from sessioncompress.policy.model import Policy
from sessioncompress.store.commit import DryRun, Rewrite
from sessioncompress.store.disk import BUFFER
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Store
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import CheckpointRecord, Command, LineRecord, RunRecord, readable, sealed

WHOLE = "restored as a whole, with what other runs did"
ALREADY = "it has its original bytes already"
ALREADY_BUT = "every line that its journal knows has its original bytes already"
NONE_STORED = "no originals are stored"


class ChangedLine(Struct, frozen=True, rename="camel"):
    """A line that a run rewrote and another program changed since: its number, from 1, and what it refers to."""

    line: int
    refs: tuple[str, ...]


class Since(Struct, frozen=True):
    """Changes to a session since the runs over it.

    `changed` are the rewritten lines that were changed, `gone` how many are there in no form. `as_left`: the session
    begins with what a run left, None where no run noted that.
    """

    changed: tuple[ChangedLine, ...]
    gone: int
    as_left: bool | None

    @property
    def told(self) -> str:
        """The words for what was changed; nothing where nothing was."""
        return text.changed_lines(
            [each.line for each in self.changed], [ref for each in self.changed for ref in each.refs]
        )


def since_runs(
    session: OpenSession, journal: Journal, missing: Sequence[LineRecord], originals: Path, form: str | None
) -> Since:
    """Find out what became of a session since its runs; `missing` as reading.find() returns it.

    A line was changed if no run knows it, and it is of the same entry as one that is missing: by its id, or where
    entries have none by a marker in it, or by its time. One that nobody can read may be such a line, too. Raises
    NotASession, Refused where the store is that of another session, and Unreadable where a missing line's original
    cannot be read.
    """
    run = left_by(session, journal)
    as_left = _is_known(session, journal, run) if any(each.digest for each in journal.runs) else None
    # Somebody put an older state back, in which earlier lines of an entry may stand.
    is_older = run is not None and run is not journal.runs[-1] and run.compressed_size == session.size
    if not missing or is_older:
        return Since((), len(missing), as_left)
    known = reading.format_of(session, form)
    name = known.named(reading.head_in(session)).id
    if name and journal.session_ids and name not in journal.session_ids:
        raise Refused(
            f"the store beside it is that of another session, {text.printable(journal.session_ids[-1])}",
            where=session.path,
            state=NOT_CHANGED,
            remedy="Put each session back to its own store.",
        )
    changed = tuple(_changed(session, _Missing(journal, missing, originals, known)))[: len(missing)]
    return Since(changed, len(missing) - len(changed), as_left)


class _Missing:
    """Originals of which no line is there, by what tells that a line is one of them that was changed."""

    def __init__(self, journal: Journal, missing: Sequence[LineRecord], originals: Path, form: Format) -> None:
        self.journal, self._form = journal, form
        self._by_name: dict[Hashable, list[LineRecord]] = {}
        self._by_ref: dict[str, list[LineRecord]] = {}
        self._found: set[str] = set()
        if kept := [record for record in missing if record.place]:
            with closing(OriginalsReader(originals)) as reader:
                for record in kept:
                    assert record.place is not None
                    name, has_id = self._name(reader.line(record.place, record.sha256))
                    self._by_name.setdefault(name, []).append(record)
                    for ref in () if has_id else self.refs(record):
                        self._by_ref.setdefault(ref, []).append(record)

    def refs(self, record: LineRecord) -> Sequence[str]:
        """List what `show` prints of an original."""
        rows = self.journal.originals(bytes.fromhex(record.sha256))
        return list(dict.fromkeys(block.ref for row in rows for block in self.journal.blocks_of(row)))

    def of(self, raw: bytes) -> LineRecord | None:
        """Find the original of a line that no run knows: by its id, or else by a marker in it, or by its time."""
        name, has_id = self._name(raw)
        candidates = [self._by_name.get(name, [])] if name is not None else []
        if not has_id and PREFIX_BYTES in raw:
            candidates[:0] = [self._by_ref.get(ref, []) for ref in references(raw.decode(errors="replace"))]
        for records in candidates:
            while records:
                record = records.pop()
                if record.sha256 not in self._found:
                    self._found.add(record.sha256)
                    return record
        return None

    def _name(self, raw: bytes) -> tuple[Hashable, bool]:
        """Name the entry in a line by its id, and say so, or by its time and calls; None where there is neither."""
        entry = _entry(raw)
        if entry is None:
            return None, False
        line = self._form.reader().line(raw, entry)
        if line.id:
            return line.id, True
        times = frozenset(text for key, text in entry.items() if isinstance(text, str) and _TIME.match(text))
        calls = tuple(call.name for call in line.calls), line.answers.partition("|")[0]
        return ((times, calls), False) if times else (None, False)


_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")


def _is_known(session: OpenSession, journal: Journal, run: RunRecord | None) -> bool:
    """Tell whether a session is what a run left, the newest or an earlier one; lines may follow that of the newest.

    What the newest one met counts too: it may have been killed before the session was replaced.
    """
    newest = journal.runs[-1]
    return run is not None and (run is newest or session.size in (run.compressed_size, newest.original_size))


def left_by(session: OpenSession, journal: Journal) -> RunRecord | None:
    """Find the newest run that left what a session begins with; None without one, or where it noted nothing of it."""
    noted = sorted((run.compressed_size, number) for number, run in enumerate(journal.runs) if run.digest)
    found, position, newest = xxh3_128(), 0, -1
    with session.reader() as file:
        for size, number in noted:
            while position < size and (data := file.read(min(size - position, BUFFER))):
                found.update(data)
                position += len(data)
            if position == size and found.hexdigest() == journal.runs[number].digest:
                newest = max(newest, number)
    return journal.runs[newest] if newest >= 0 else None


def _entry(raw: bytes) -> Entry | None:
    # A message of a document has no LF.
    return parse(raw) or (entry_of(raw, ()) if is_readable(raw) else None)


def _changed(session: OpenSession, missing: _Missing) -> Iterator[ChangedLine]:
    """Find the lines that no run knows and that are of missing originals, or that nobody can read."""
    journal = missing.journal
    ours = {bytes.fromhex(line) for each in journal.checkpoints for line in each.lines}
    unread: list[ChangedLine] = []
    for number, raw, whole in pieces_of(session.reader, session.size):
        digest = sha256(raw).digest()
        row = reading.row_of(raw, digest, journal) if whole else None
        if not whole or digest in ours or reading.original_in(raw, digest, row, journal) is not None:
            continue
        if (record := missing.of(raw)) is not None:
            yield ChangedLine(number + 1, tuple(missing.refs(record)))
        elif raw.strip() and _entry(raw) is None:
            # A line that was cut off, perhaps.
            unread.append(ChangedLine(number + 1, ()))
    yield from unread


def was_changed(session: OpenSession, since: Since) -> str:
    """Write that a session was changed since its last run; nothing where only lines came, or that is not known.

    An agent writes a document anew whenever something comes.
    """
    if since.as_left is not False or document_of(session.reader, session.size) is not None:
        return ""
    return text.CHANGED_SINCE


class RestoreStats(Struct, frozen=True, rename="camel"):
    """What a restore did to one session, or with `dry_run` would do; sizes are bytes of the file, and of its store.

    `run` is the run that was to be taken back, if only one was. `changed` are the rewritten lines that another program
    changed since, which stay as they are. `exact` is false where rewritten lines stay that are not their originals.
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

    @property
    def is_restored(self) -> bool:
        """Whether the session was changed, or with `dry_run` would be."""
        return self.lines_restored > 0 or self.checkpoints_removed > 0


class Restoring:
    """One restore of one open session. `command` is what its record says, `run` the run to take back, if only one."""

    def __init__(
        self,
        session: OpenSession,
        store: Store,
        journal: Journal,
        policy: Policy,
        form: str | None,
        *,
        command: Command = Command.RESTORE,
        run: str = "",
        dry_run: bool = False,
    ) -> None:
        self.session, self.store, self.journal, self.policy, self.form = session, store, journal, policy, form
        self.command, self.run, self.dry_run = command, run, dry_run

    def rewriting(self) -> Rewrite | DryRun:
        """Open what takes the restored session."""
        if self.dry_run:
            return DryRun(self.journal.lengths)
        commit_originals = self.policy.commit_originals
        return Rewrite(self.session, self.store, self.journal.lengths, commit_originals=commit_originals)

    def commit(
        self,
        sink: Rewrite | DryRun,
        changed: int,
        reason: str = "",
        *,
        undoes: Sequence[str] | None,
        forms: Iterable[LineRecord] = (),
        taken: Sequence[CheckpointRecord] = (),
    ) -> RestoreStats:
        """Put what was written in the session's place. `undoes` are the runs that it takes back, None: all."""
        stats = self.stats(Status.RESTORED if isinstance(sink, Rewrite) else Status.WOULD_RESTORE, reason)
        if isinstance(sink, Rewrite):
            finished, forms = sink.finish(), list(forms)
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
            records = sealed(written, readable(run, self.store.journal))
            size = sink.commit(records if self.journal.runs else []).size
        else:
            size = sink.measure().size
        store = reading.size_of_store(self.store)
        return replace(stats, size_after=size, lines_restored=changed, checkpoints_removed=len(taken), store_size=store)

    def stats(self, status: Status, reason: str) -> RestoreStats:
        """Tell of the session as it is."""
        size, store = self.session.size, reading.size_of_store(self.store)
        return RestoreStats(str(self.session.path), status, reason, self.run, size, size, store_size=store)


def joined(*reasons: str) -> str:
    """Join what is to be said of a session; what is empty is left out."""
    return "; ".join(filter(None, reasons))
