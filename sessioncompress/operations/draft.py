"""Shared by the commands that write a summary: the open session, and the draft with the added lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from sessioncompress.checkpoints import merge
from sessioncompress.checkpoints.cut import for_the_model, is_silent
from sessioncompress.core import VERSION, jsonl, text
from sessioncompress.core.checkpoint import Checkpoint, Cut, Summary, Written
from sessioncompress.core.documents import edits_of, undoing
from sessioncompress.core.jsonl import GAP, Document, Piece
from sessioncompress.core.lines import Survey
from sessioncompress.core.model import Kind
from sessioncompress.core.splice import CannotSplice, edited
from sessioncompress.errors import Refused
from sessioncompress.formats.base import HEAD_LINES, CannotCheckpoint, Entry
from sessioncompress.formats.table import detect, head_of
from sessioncompress.operations.checkpoints import Leaving, LineDigests
from sessioncompress.operations.compress import refuse_conflicts
from sessioncompress.pipeline import reading
from sessioncompress.pipeline.plan import broken
from sessioncompress.pipeline.reading import Known
from sessioncompress.pipeline.totals import LINES
from sessioncompress.pipeline.usage import characters_per_token
from sessioncompress.policy.model import Policy, differences
from sessioncompress.store.commit import Sink, sink_for
from sessioncompress.store.originals import InFrame
from sessioncompress.store.records import CheckpointRecord, RunKind, RunRecord, readable, sealed


@contextmanager
def opened(
    path: Path,
    policy: Policy,
    *,
    writing: bool,
    form: str | None,
    adds: bool = True,
    named: bool = True,
    run_id: str = "",
) -> Iterator[Opened]:
    """Open a session for a summary, locked if `writing`. Raises SessionCompressError with the session unchanged.

    If the summary `adds` to the session, a dry run raises what the run would.
    """
    with reading.opened_with_store(path, policy, writing=writing, adds=adds, form=form) as stored:
        known = reading.read_session(stored, named=named)
        refuse_conflicts(known)
        yield Opened(known, policy, run_id or text.run_id(time.time()))


class Opened:
    """An open session with its content."""

    def __init__(self, known: Known, policy: Policy, run_id: str) -> None:
        self.known, self.store, self.policy, self.run_id = known, known.store, policy, run_id
        self.session, self.form, self.read = known.session, known.form, known.survey
        self.where = str(known.session.path)
        self._journal = known.journal
        self.per_token = characters_per_token(known.newest.model)
        """Characters per token in reports; the policy's numbers assume four."""

    def refused(self, what: str, remedy: str, line: int | None = None) -> Refused:
        """Build the error for a session that can't have such a summary."""
        return Refused(what, where=self.where, line=line, remedy=remedy)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Convert a format's objection to such a summary to Refused."""
        try:
            yield
        except CannotCheckpoint as why:
            raise self.refused(why.what, why.remedy) from why

    def budget(self, old: Iterable[int]) -> int:
        """Return the token budget for a summary of these lines. Shortened lines count at their original size."""
        tokens = text.estimate(sum(self.read.lines[number].reads + self._shortened(number) for number in old))
        # At most a twentieth of what it replaces, but at least 1,000, or few facts would fit.
        return max(min(self.policy.compact.summary_tokens, tokens // 20), 1_000)

    def _shortened(self, number: int) -> int:
        """Return the bytes of text that a run removed from a line, if its original is kept."""
        rewritten = self.known.rewritten
        if number not in rewritten or rewritten[number].place is None:
            return 0
        blocks = self._journal.blocks_of(rewritten.rows[number])
        # A summary doesn't use other kinds of replaced text.
        return sum(block.bytes for block in blocks if block.kind in (Kind.ARGUMENT, Kind.RESULT))

    @property
    def is_ours(self) -> bool:
        """True if all runs in its store are this user's on this machine."""
        return self._journal.is_ours

    @property
    def preserved(self) -> str:
        """The JSON that the last checkpoint keeps for a user's command, or empty.

        Empty for another user's journal, since the command trusts this data.
        """
        last = self._journal.checkpoints[-1] if self._journal.checkpoints else None
        return last.preserved if last is not None and not last.ended and self._journal.maker(last).is_ours else ""

    @cached_property
    def _document(self) -> Document | None:
        return jsonl.document_of(self.session.reader, self.session.size)

    @cached_property
    def _places(self) -> Sequence[tuple[int, int]]:
        return self.known.places()

    def _raw(self, number: int) -> bytes:
        start, size = self._places[number]
        with self.session.reader(start) as file:
            return file.read(size)

    def entry(self, number: int) -> Entry:
        """Read an entry."""
        return jsonl.parse(self._raw(number)) or {}

    @property
    def written(self) -> Written:
        """The session in the form that a format needs to write a checkpoint."""

        def newest(mark: bytes, takes: Callable[[Mapping[str, Any]], bool]) -> Entry | None:
            for number in range(len(self.read.lines) - 1, -1, -1):
                raw = self._raw(number)
                if mark in raw and (entry := jsonl.parse(raw)) is not None and takes(entry):
                    return entry
            return None

        outer = None if self._document is None else self._document.outer
        return Written(self.read.lines, self.entry, newest, self._raw, outer)

    @contextmanager
    def draft(self, made: Checkpoint, cut: Cut, *, dry_run: bool) -> Iterator[EditedSession]:
        """Write and check the new session next to this one (nowhere in a dry run); delete it unless committed."""
        document = self._document
        unended = document is None and self._ends_without_lf(made)
        with sink_for(self.session, self.store, self._journal.lengths, dry_run=dry_run) as sink:
            if (document is not None or made.removed) and not self.policy.keep_backup:
                going, remedy = "messages", "Set keepBackup to true in its policy, and run again."
                if document is None:
                    going, remedy = (
                        "lines",
                        "Set keepBackup to true in its policy, or run without --drop-dead (drop_dead).",
                    )
                what = f"{going} would be removed from it, but the policy keeps no originals (keepBackup: false)"
                raise self.refused(what, remedy)
            if document is None:
                draft = EditedSession(self.known.pieces(), made, sink, unended=unended)
            else:
                draft = DocumentDraft(document, made, sink)
                if draft.too_large:
                    what = f"it would become larger than {jsonl.LINE_CAP >> 20} MiB, which is too large for us to read"
                    remedy = "Start a new session with what 'sessioncompress handoff' writes."
                    raise self.refused(what, remedy)
            draft.check(self.known, cut, self.where)
            yield draft

    def commit(
        self,
        draft: EditedSession,
        summary: Summary,
        rule: str,
        tokens: tuple[int, int],
        command: RunKind,
        goal: str = "",
        trigger: str = "",
    ) -> int:
        """Replace the session with a draft, and record the checkpoint; return the new size in bytes.

        `tokens` are what the model reads before and after. `goal` tells how the summary's goal was found, `trigger` why
        the run acts.
        """
        removed, dropped = draft.keep(), draft.leaving.finish()
        finished = draft.sink.finish()
        last = self._journal.runs[-1] if self._journal.runs else None
        run = RunRecord(
            at=text.written_time(time.time()),
            version=VERSION,
            policy=differences(self.policy),
            original_size=self.session.size,
            compressed_size=finished.size,
            store_size=finished.originals_size,
            boundary=last.boundary if last else 0,
            # No line is rewritten, so only the number of lines changes in the last run's statistics.
            stats={**(last.stats if last else {}), LINES: len(draft.read.lines)},
            restored=last is not None and last.restored,
            records=(0, 0),
            originals_sha256=finished.originals_sha256,
            session_id=self.known.session_id,
            digest=finished.digest,
            id=self.run_id,
            command=command,
        )
        record = CheckpointRecord(
            self.form.name,
            summary.by,
            rule,
            draft.lines,
            summary.refs,
            tokens,
            removed,
            unended=draft.unended and not dropped,
            drops=len(dropped),
            originals=LineDigests(self._journal, self.store.originals).originals(draft.added),
            model=summary.model,
            goal=goal,
            trigger=trigger,
            preserved=summary.preserved,
            summary=merge.identity(summary.text),
        )
        draft.record = record.encode()
        records = [*(each.encode() for each in dropped), draft.record]
        journal = self.store.journal
        return draft.sink.commit(sealed(records, readable(run, journal), journal, self._journal.size))

    def _ends_without_lf(self, made: Checkpoint) -> bool:
        """True if lines are added after a line without LF. Raises Refused if that line is cut off."""
        last = len(self.read.lines) - 1
        if all(each.before <= last for each in made.added):
            return False
        with self.session.reader(self.session.size - 1) as file:
            if file.read() == b"\n":
                return False
        if jsonl.parse(self._raw(last)) is None:
            what = "its last line is cut off: its agent may be writing it, or was stopped while doing so"
            remedy = "Resume the session once with its agent, and run again."
            raise self.refused(what, remedy, line=last + 1)
        return True


class EditedSession:
    """The new session: the pieces of the old one with lines added and removed.

    `added` are the added lines, `lines` their SHA-256, `dropped` the number of removed lines. `read` is set by check().
    `record` is the journal's record, once committed.
    """

    read: Survey
    dropped = 0
    record = b""

    def __init__(self, pieces: Iterable[Piece], made: Checkpoint, sink: Sink, *, unended: bool = False) -> None:
        self._pieces = pieces
        self._made = made
        self._added: dict[int, list[bytes]] = {}
        for each in made.added:
            self._added.setdefault(each.before, []).append(each.line)
        self.sink = sink
        self.unended = unended
        self._drops = bool(made.removed and pieces)
        self.leaving = Leaving(sink.keep if self._drops else None)
        self._first: list[bytes] = []
        self.size = 0
        self.added = [line for place in sorted(self._added) for line in self._added[place]]
        self.lines: tuple[str, ...] = tuple(sha256(line).hexdigest() for line in self.added)
        self._moved: dict[int, int] = {}
        self._ours: set[int] = set()

    def check(self, known: Known, cut: Cut, where: str) -> None:
        """Write the draft and read it as the next run will: checkpoint and kept lines are live, old lines are not."""
        lines, moved, repeated = known.survey.lines, self._moved, self._made.repeated
        self.read = reading.survey(self._noted(self._stream(len(lines))), known.form)
        if self._drops and known.seen and detect(head_of(self._first)) is not known.form:
            what = "without the old lines we could no longer tell which agent's session it is"
            raise Refused(what, where=where, remedy="Run without --drop-dead (drop_dead).")
        live = set(for_the_model(self.read))
        kept = {moved[number] for number in cut.kept if not is_silent(lines, number) and number not in repeated}
        if not kept <= live:
            raise broken("a line that is kept would not be read", where, min(kept - live))
        gone = frozenset((*cut.old, *repeated)) - self._made.stays
        old = {moved[number] for number in gone if number in moved}
        if old & live:
            raise broken("a line that the summary stands for would still be read", where, min(old & live))
        ours = sum(self.read.lines[number].reads for number in self._ours & live)
        if ours <= sum(lines[number].reads for number in repeated):
            raise broken("the summary would not be read", where)

    def _noted(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            if piece[2] and len(self._first) < HEAD_LINES:
                self._first.append(piece[1])
            yield piece

    def keep(self) -> tuple[str, InFrame] | None:
        """Store what a restore needs in addition to the SHA-256 of the checkpoint's lines."""
        return None

    def _stream(self, lines: int) -> Iterator[Piece]:
        shift = 0
        seen = -1
        for line in _by_line(self._pieces):
            numbers = [number for number, _, _ in line if number != GAP]
            for number in numbers:
                if number != seen:
                    seen = number
                    for piece in self._add(number, number + shift):
                        shift += piece[0] != GAP
                        yield piece
            if self._leaves(line):
                self.dropped += 1
                self.leaving.goes(b"".join(raw for _, raw, _ in line))
                shift -= len(numbers)
                continue
            for number, raw, whole in line:
                new = self._made.changed.get(number, raw)
                ends = b"\n" if self.unended and number == lines - 1 else b""
                if new is raw and not ends:
                    self.leaving.stays(raw)
                else:
                    self.leaving.comes(new + ends)
                    self.leaving.goes(raw)
                self._take(new + ends)
                if number == GAP:
                    yield number, new, whole
                else:
                    self._moved[number] = number + shift
                    yield number + shift, new, whole
        yield from self._add(lines, lines + shift)

    def _leaves(self, line: Sequence[Piece]) -> bool:
        """True if a line is removed. A line that sets several messages is removed only with all of them."""
        removed = self._made.removed
        return bool(removed) and all(number == GAP or (whole and number in removed) for number, _, whole in line)

    def _add(self, before: int, at: int) -> Iterator[Piece]:
        for line in self._added.get(before, ()):
            self._take(line)
            self.leaving.comes(line)
            for number, raw, whole in jsonl.with_updates([(0, line, True)]):
                if number == GAP:
                    yield number, raw, whole
                    continue
                self._ours.add(at)
                yield at, raw, whole
                at += 1

    def _take(self, raw: bytes) -> None:
        self.size += len(raw)
        self.sink.write(raw)


def _by_line(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Group the messages and gaps of each line. Each part of a line that is too long to read is its own group."""
    line: list[Piece] = []
    for piece in pieces:
        line.append(piece)
        number, raw, whole = piece
        if raw.endswith(b"\n") or not (whole or number == GAP):
            yield line
            line = []
    if line:
        yield line


class DocumentDraft(EditedSession):
    """The new session if it is one document: messages may be removed, and values around them may change."""

    def __init__(self, document: Document, made: Checkpoint, sink: Sink) -> None:
        self._document = document
        self._edits = edits_of(document, made)
        self._new = edited(document.raw, self._edits)
        super().__init__((), made, sink)
        self.too_large = len(self._new) > jsonl.LINE_CAP
        self.dropped = len(made.removed)

    def keep(self) -> tuple[str, InFrame] | None:
        """Store what the edits remove."""
        kept = undoing(self._document, self._edits).encode()
        return sha256(kept).hexdigest(), self.sink.keep(kept)

    def _stream(self, lines: int) -> Iterator[Piece]:
        self._take(self._new)
        new = jsonl.cut(self._new)
        if new is None:
            raise CannotSplice("the document holds no messages any more")
        at = 0
        for number in range(lines + 1):
            for _ in self._added.get(number, ()):
                self._ours.add(at)
                at += 1
            if number < lines and number not in self._made.removed:
                self._moved[number] = at
                at += 1
        if at != len(new.spans):
            raise CannotSplice("the document does not hold the messages that were meant")
        return new.pieces()
