"""What every restore shares: the open session with its store, the record of the run, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sessioncompress.core import VERSION, text
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.summary import Status
from sessioncompress.policy.model import Policy
from sessioncompress.store.commit import DryRun, Rewrite
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Store
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.records import CheckpointRecord, Command, LineRecord, RunRecord, readable, sealed

WHOLE = "restored as a whole, with what other runs did"
ALREADY = "it has its original bytes already"
ALREADY_BUT = "every line that its journal knows has its original bytes already"
NONE_STORED = "no originals are stored"


class RestoreStats(Struct, frozen=True, rename="camel"):
    """What a restore did to one session, or with `dry_run` would do; sizes are bytes of the file, and of its store.

    `run` is the run that was to be taken back, if only one was. `exact` is false where rewritten lines stay that are
    not their originals, as only a restore by markers leaves them.
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
            size, forms = sink.finish().size, list(forms)
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
                records=(len(forms), 0),
                session_id=self.journal.session_id,
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
